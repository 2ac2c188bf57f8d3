// The products of cpu_whole_loss.cpp in a processor's matrix unit, until the loss is known.
//
// What becomes of a block's scores is made beside the next products, and kept in bands. It knows neither how
// scores become losses nor how threads meet.
//
// Legend: M rows, V words of the vocabulary, H width; W = M rounded up to panels.

#pragma once

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

}  // namespace

#endif
