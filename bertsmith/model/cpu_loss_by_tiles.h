// The products of cpu_whole_loss.cpp in a processor's matrix unit.
//
// What becomes of a block's scores is made beside the next products, and kept in bands, from which they are
// multiplied again. Sums over words are made turned, (H, M): gradients of logits need but stand in pairs
// then, which is done from registers, and the embedding changes rows for columns. It knows neither how
// scores become losses nor how threads meet.
//
// Legend: M rows, V words of the vocabulary, H width; W = M rounded up to panels.

#pragma once

#include "cpu_block_products.h"
#include "cpu_shares.h"
#include "cpu_word_scores.h"

#if HAS_TILES

namespace {

struct LossByTiles {
  typedef uint16_t Number;
  static constexpr int64_t BLOCK = BLOCK_WORDS<Number>, SPAN = SPAN_WORDS<Number>;
  static constexpr int VECTORS = TILE_VECTORS<Number>;
  static constexpr int64_t BROAD = PANEL<Number>;
  static_assert(BROAD == BAND<Number> && BROAD == TILE_DEPTH<Number> && VECTORS == 2);
  static_assert(BLOCK == WAITING_ROWS);

  typedef Floats Row[VECTORS];

  static int64_t whole(int64_t count) { return parts(count, BROAD) * BROAD; }

  static int64_t stride_of(const Given<Number>& of) { return whole(of.num_rows); }

  // The rows in whole panels, zeros past the last ones.
  static void fill_up(const Given<Number>& of, Number* rows) {
    const int64_t wide = whole(of.width);
#pragma omp for schedule(static)
    for (int64_t row = 0; row < stride_of(of); row++) {
      const int64_t there = row < of.num_rows ? of.width : 0;
      std::copy_n(of.rows + row * of.width, there, rows + row * wide);
      std::fill_n(rows + row * wide + there, wide - there, Number{});
    }
  }

  class Scoring;
  class Gradients;
};

class LossByTiles::Scoring : public Scores<Number> {
 public:
  // A block's embeddings, where they cannot be read as they lie, in bands.
  struct Own {
    Grid<Number> words;  // (BLOCK, H)
    Own(Cutter& cutter, const Given<Number>& of)
        : words(in_bands<Number>(cutter, BLOCK, of.width % BROAD ? whole(of.width) : 0)) {}
  };

  Scoring(Cutter& cutter, const Given<Number>& of)
      : Scores<Number>(cutter, of, stride_of(of)), of(of), wide(whole(of.width)) {
    rows = cutter.numbers<Number>(stride * wide);
    columns = cutter.numbers<Number>(wide * stride);
  }

  void lay_out() const {
    fill_up(of, rows);
#pragma omp for schedule(static)
    for (int64_t row = 0; row < stride; row += BROAD)
      lay_out_columns({rows + row * wide, wide}, wide, BROAD, columns + row * wide);
  }

  void score(int64_t first, const Own& own) const {
    const int64_t count = of.words_from(first);
    const Left<Number> words = words_of(first, own);
    const Keeping keeping{of, *this, first};
    Waiting<VECTORS, Number, Keeping> waiting(keeping);
    for (int64_t column = 0; column < stride; column += BROAD)
      multiply_by_tiles(words, count, columns + column * wide, wide, 0, column, waiting);
    waiting.finish();
    publish_far();
  }

 private:
  // What becomes of a block's scores: as `keep` of cpu_word_scores.h says.
  struct Keeping {
    const Given<Number>& of;
    const Scores<Number>& all;
    int64_t first;

    float* highest(int64_t column) const { return all.highest + first / BLOCK * all.stride + column; }
    float* totals(int64_t column) const { return all.totals + first / BLOCK * all.stride + column; }

    void begin(int64_t, int64_t column, int64_t count, const Row* sums) const {
      const float* bias = of.bias + first;
      Floats most[VECTORS];
      for (Floats& each : most) each = Floats{} + LOWEST;
      for (int64_t row = 0; row < count; row++)
        for (int v = 0; v < VECTORS; v++) most[v] = higher(sums[row][v] + bias[row], most[v]);
      for (int v = 0; v < VECTORS; v++) {
        store(highest(column) + v * LANES, most[v]);
        store(totals(column) + v * LANES, Floats{});
      }
      look_up(of, all, first, column, BROAD, [&](int64_t row, int64_t m) {
        return sums[row][m / LANES][m % LANES] + bias[row];
      });
    }

    void operator()(int64_t row, int64_t column, const Row& sums) const {
      const float *most = highest(column), bias = of.bias[first + row];
      float* total = totals(column);
      Floats weights[VECTORS];
      for (int v = 0; v < VECTORS; v++) {
        weights[v] = exponential_for<Number>(sums[v] + bias - load(most + v * LANES), 1.0f);
        store(total + v * LANES, load(total + v * LANES) + weights[v]);
      }
      put_both<true>(
          all.weights + first * all.stride + column * BLOCK + row * BROAD, weights[0], weights[1]);
    }
  };

  // A block's embeddings as they lie, or, where these are no whole tiles, in bands with zeros past them.
  Left<Number> words_of(int64_t first, const Own& own) const {
    const Number* from = of.embedding + first * of.width;
    if (of.width == wide) return {from, of.width};
    for (int64_t word = 0; word < of.words_from(first); word++, from += of.width)
      for (int64_t h = 0; h < wide; h += BROAD) {
        Number* to = own.words.at(word, h);
        std::fill_n(to, BROAD, Number{});
        std::copy_n(from + h, std::min(BROAD, of.width - h), to);
      }
    return own.words;
  }

  const Given<Number>& of;
  int64_t wide;            // H in whole panels
  Number *rows, *columns;  // (W, wide) rows; as a product by them reads them
};

class LossByTiles::Gradients : public Kept<Number> {
 public:
  // A block's gradients of logits, in bands.
  struct Own {
    Grid<Number> gradient;  // (BLOCK, W)
    Own(Cutter& cutter, const Given<Number>& of)
        : gradient(in_bands<Number>(cutter, BLOCK, stride_of(of))) {}
  };

  Gradients(Cutter& cutter, const Given<Number>& of)
      : Kept<Number>(of, stride_of(of)),
        of(of),
        wide(whole(of.width)),
        deepest(std::min(SPAN, whole(of.num_words))) {
    rows = cutter.numbers<Number>(stride * wide);
    pairs = cutter.numbers<Number>(stride * wide);
    turned = cutter.numbers<Number>(deepest * wide);
    gradients = cutter.numbers<Number>(deepest * stride);
    sums = cutter.numbers<float>(wide * stride);
  }

  void lay_out() const {
    fill_up(of, rows);
#pragma omp for schedule(static)
    for (int64_t column = 0; column < wide; column += BROAD)
      lay_out_rows({rows + column, wide}, stride, BROAD, pairs + column * stride);
  }

  void differentiate(int64_t span, int64_t first, const Own& own) const {
    const int64_t count = of.words_from(first), from = first - span;
    put_gradient(first, from, own.gradient);
    const int64_t num_words = std::min(SPAN, of.num_words - span);
    const Factor<Number> words{{of.embedding + span * of.width, of.width}, num_words, of.width};
    for (int64_t word = from; word < from + count; word += BROAD) {
      ask_for(of.embedding + (span + word + BROAD) * of.width, BROAD * of.width);  // the next rows
      turn_depth(words, word, turned, word, deepest);
    }
    const Putting putting{of.grad_embedding + first * of.width, of.width, has_whole_lines()};
    Waiting<VECTORS, Number, Putting> waiting(putting);
    for (int64_t column = 0; column < wide; column += BROAD)
      multiply_by_tiles(
          Left<Number>(own.gradient), count, pairs + column * stride, stride, 0, column, waiting);
    waiting.finish();
    publish_far();
  }

  void add_words(int64_t span) const {
    constexpr int64_t SIZE = TALL * BROAD;
    const int64_t num_words = std::min(SPAN, of.num_words - span), deep = whole(num_words);
    const bool is_last = span + num_words == of.num_words;
    const int64_t panels = stride / BROAD, groups = parts(panels, GROUP);
    share_out(wide / TALL * groups, [&](int64_t unit) __attribute__((noinline)) {
      const int64_t column = unit % (wide / TALL) * TALL, begin = unit / (wide / TALL) * GROUP;
      const int64_t end = std::min(begin + GROUP, panels);
      float* found = sums + column * stride + begin * SIZE;
      for (int64_t start = 0; start < deep; start += PART) {
        const int64_t depth = std::min(PART, deep - start);
        const Blocks<Number> block{turned + column * deepest + start * TALL, TALL, depth};
        for (int64_t panel = begin; panel < end; panel++) {
          float* to = found + (panel - begin) * SIZE;
          const float* soon = panel + 1 < end ? to + SIZE : found;
          multiply_blocks(
              block, gradients + (panel * deepest + start) * BROAD, VECTORS, to,
              span == 0 && start == 0, [&] {
                for (int64_t at = 0; at < SIZE * BROAD / PART; at += LANES)
                  __builtin_prefetch(soon + at, 1);
                soon += SIZE * BROAD / PART;
              });
        }
      }
      for (int64_t panel = begin; panel < (is_last ? end : 0); panel++)
        write<true>(
            found + (panel - begin) * SIZE, std::min<int64_t>(TALL, of.width - column),
            std::min(BROAD, of.num_rows - panel * BROAD),
            of.grad_rows + panel * BROAD * of.width + column, of.width);
    });
  }

 private:
  // Panels by which a block is multiplied while it stays in the first cache.
  static constexpr int64_t GROUP = 5;

  // Rows of the embedding's gradient, past the caches where every line is whole: who reads them comes later.
  struct Putting {
    Number* first;
    int64_t width;
    bool is_far;

    void operator()(int64_t row, int64_t column, const Row& sums) const {
      Number* to = first + row * width + column;
      if (is_far) return put_both<true>(to, sums[0], sums[1]);
      put(to, sums[0], width - column), put(to + LANES, sums[1], width - column - LANES);
    }
  };

  bool has_whole_lines() const {
    return of.width == wide && reinterpret_cast<uintptr_t>(of.grad_embedding) % 64 == 0;
  }

  // A block's gradients of logits, in bands and, two words side by side, for the sums over words; what they
  // add up to is the bias's.
  void put_gradient(int64_t first, int64_t from, const Grid<Number>& gradient) const {
    const int64_t count = of.words_from(first);
    Floats by_bias[BLOCK] = {};
    for (int64_t column = 0; column < stride; column += BROAD) {
      const Number* kept = weights + first * stride + column * BLOCK;
      Number *to = gradient.at(0, column), *panel = gradients + column * deepest + from * BROAD;
      const float* factors = highest + first / BLOCK * stride + column;
      const Floats factor[] = {load(factors) * of.scale, load(factors + LANES) * of.scale};
      for (int64_t row = 0; row < whole(count); row += 2) {
        Floats both[2][VECTORS] = {};
        for (int64_t r = 0; r < 2 && row + r < count; r++)
          for (int v = 0; v < VECTORS; v++) {
            both[r][v] = load(kept + (row + r) * BROAD + v * LANES) * factor[v];
            by_bias[row + r] += both[r][v];
          }
        for (int r = 0; r < 2; r++) put_both(to + (row + r) * BROAD, both[r][0], both[r][1]);
        for (int v = 0; v < VECTORS; v++) {
          const Words words = in_pairs(both[0][v], both[1][v]);
          std::memcpy(panel + row * BROAD + v * 2 * LANES, &words, sizeof words);
        }
      }
      for (int64_t m = 0; m < std::min(BROAD, of.num_rows - column); m++) {
        const int64_t row = of.targets[column + m] - first;
        if (row < 0 || row >= count) continue;
        const float own = at_target[column + m] * of.scale;
        by_bias[row][m % LANES] += own - widened(kept[row * BROAD + m]) * (factors[m] * of.scale);
        narrow(own, to + row * BROAD + m);
        narrow(own, panel + row / 2 * 2 * BROAD + 2 * m + row % 2);
      }
    }
    for (int64_t row = 0; row < count; row++) of.grad_bias[first + row] = sum_of(by_bias[row]);
  }

  const Given<Number>& of;
  int64_t wide, deepest;       // H in whole panels; words of a span
  Number *rows, *pairs;        // (W, wide) rows; as a product over them reads them
  Number *turned, *gradients;  // of a span, embeddings and gradients as the rows' sums read them
  float* sums;                 // (wide / TALL, W / PANEL, TALL, PANEL) of rows, turned
};

}  // namespace

#endif
