// The products of cpu_whole_loss.cpp in a processor's matrix unit, on the way back.
//
// Gradients of logits are made in bands, from which they are multiplied. Sums over words are made turned,
// (H, M): gradients of logits need but stand in pairs then, which is done from registers, and the embedding
// changes rows for columns. It does not know how threads meet.
//
// Legend: M rows, V words of the vocabulary, H width; W = M rounded up to panels.

#pragma once

#include "cpu_block_products.h"
#include "cpu_loss_by_tiles.h"

#if HAS_TILES

namespace {

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
      for (int64_t row = word + BROAD; row < word + 2 * BROAD; row++)
        ask_for_row<2>(words.rows, row, 0, of.width);  // the next ones
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
          multiply_blocks<false>(
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
