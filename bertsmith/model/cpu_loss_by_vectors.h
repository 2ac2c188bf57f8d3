// The products of cpu_whole_loss.cpp by a processor's vectors.
//
// Words are rows of a product, as they lie in memory, and what they are multiplied by lies in panels. It
// knows neither how scores become losses nor how threads meet.
//
// Legend: M rows, V words of the vocabulary, H width; W = M rounded up to vectors.

#pragma once

#include "cpu_products.h"
#include "cpu_shares.h"
#include "cpu_word_scores.h"

namespace {

template <typename Number>
struct LossByVectors {
  static constexpr int64_t BLOCK = BLOCK_WORDS<Number>, SPAN = SPAN_WORDS<Number>;
  static constexpr int64_t BROAD = PANEL<Number>, STEP = Factors<Number>::STEP;

  static int64_t stride_of(const Given<Number>& of) { return rounded_up(of.num_rows); }

  class Scoring;
  class Gradients;
};

template <typename Number>
class LossByVectors<Number>::Scoring : public Scores<Number> {
 public:
  struct Own {
    Own(Cutter&, const Given<Number>&) {}
  };

  Scoring(Cutter& cutter, const Given<Number>& of)
      : Scores<Number>(cutter, of, stride_of(of)),
        of(of),
        columns(cutter.numbers<Number>(of.width * this->stride)) {}

  void lay_out() const {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < of.num_rows; row += BROAD)
      lay_out_columns(
          {of.rows + row * of.width, of.width}, of.width, std::min(BROAD, of.num_rows - row),
          columns + row * of.width);
  }

  // By PANEL rows at a time.
  void score(int64_t first, const Own&) const {
    for (int64_t column = 0; column < of.num_rows; column += BROAD) {
      float scores[BLOCK][BROAD];
      int64_t wide = std::min(BROAD, this->stride - column);
      multiply_narrow<TILE_VECTORS<Number>>(
          Left<Number>{of.embedding + first * of.width, of.width}, int(of.words_from(first)),
          columns + column * of.width, int(wide) / LANES, of.width,
          [&](int row, const auto& sums) {
            float *to = scores[row], bias = of.bias[first + row];
            for (const Floats& each : sums) store(to, each + bias), to += LANES;
          });
      keep<Number, BROAD>(of, *this, first, column, scores);
    }
  }

 private:
  const Given<Number>& of;
  Number* columns;  // the rows as a product by them reads them
};

template <typename Number>
class LossByVectors<Number>::Gradients : public Kept<Number> {
 public:
  // (BLOCK, W) gradients of logits.
  struct Own {
    Number* gradient;
    Own(Cutter& cutter, const Given<Number>& of)
        : gradient(cutter.numbers<Number>(BLOCK * rounded_up(of.num_rows))) {}
  };

  Gradients(Cutter& cutter, const Given<Number>& of)
      : Kept<Number>(of, stride_of(of)),
        of(of),
        deep(parts(of.num_rows, STEP) * STEP),
        broad(rounded_up(of.width)) {
    int64_t row_blocks = parts(of.num_rows, BLOCK);
    pairs = cutter.numbers<Number>(deep * broad);
    turned = cutter.numbers<Number>(SPAN * row_blocks * BLOCK);
    words = cutter.numbers<Number>(SPAN * broad);
    sums = cutter.numbers<float>(row_blocks * BLOCK * parts(of.width, BROAD) * BROAD);
  }

  void lay_out() const {
#pragma omp for schedule(static)
    for (int64_t column = 0; column < of.width; column += BROAD)
      lay_out_rows(
          {of.rows + column, of.width}, of.num_rows, std::min(BROAD, of.width - column),
          pairs + column * deep);
  }

  void differentiate(int64_t span, int64_t first, const Own& own) const {
    int64_t count = of.words_from(first), from = first - span;
    put_gradient(of, *this, first, own.gradient);
    turn_gradient(own.gradient, span, first);
    for (int64_t column = 0; column < of.width; column += BROAD) {
      int64_t wide = std::min(BROAD, broad - column), left = of.width - column;
      lay_out_rows(
          {of.embedding + first * of.width + column, of.width}, count, std::min(BROAD, left),
          words + column * SPAN + from * wide);
      float found[BLOCK * BROAD];
      Number* to = of.grad_embedding + first * of.width + column;
      expect(to, of.width, count, wide);
      multiply_long(
          Left<Number>{own.gradient, this->stride}, int(count), pairs + column * deep,
          int(wide) / LANES, deep, found);
      for (int64_t row = 0; row < count; row++)
        put_row(found + row * BROAD, wide, to + row * of.width, left);
    }
  }

  void add_words(int64_t span) const {
    int64_t panels = parts(of.width, BROAD), row_blocks = parts(of.num_rows, BLOCK);
    int64_t num_words = std::min(SPAN, of.num_words - span);
    bool is_last = span + num_words == of.num_words;
    share_out(panels * row_blocks, [&](int64_t unit) __attribute__((noinline)) {
      int64_t column = unit % panels * BROAD, first = unit / panels * BLOCK;
      int64_t wide = std::min(BROAD, broad - column);
      int count = int(std::min(BLOCK, of.num_rows - first));
      float* found = sums + unit * BLOCK * BROAD;
      multiply_long(
          Left<Number>{turned + first * SPAN, STEP, BLOCK * STEP}, count, words + column * SPAN,
          int(wide) / LANES, parts(num_words, STEP) * STEP, found, span == 0);
      for (int row = 0; row < (is_last ? count : 0); row++)
        put_row(
            found + row * BROAD, wide, of.grad_rows + (first + row) * of.width + column,
            of.width - column);
    });
  }

 private:
  // A block's gradients of logits, (count, W): lays them out for the sums of rows, and adds them up for
  // the bias.
  void turn_gradient(const Number* gradient, int64_t span, int64_t first) const {
    int64_t stride = this->stride, count = of.words_from(first), from = first - span;
    for (int64_t row = 0; row < count; row += STEP) {
      Floats totals[2] = {};
      for (int64_t m = 0; m < stride; m += LANES) {
        const Number* word = gradient + row * stride + m;
        const Number* second = row + 1 < count ? word + stride : nullptr;
        totals[0] += load(word);
        if (STEP > 1 && second) totals[1] += load(second);
        Words both = side_by_side(word, second);
        Number* panel = turned + m / BLOCK * SPAN * BLOCK;
        std::memcpy(panel + (from + row) * BLOCK + m % BLOCK * STEP, &both, sizeof both);
      }
      for (int step = 0; step < STEP && row + step < count; step++)
        of.grad_bias[first + row + step] = sum_of(totals[step]);
    }
  }

  const Given<Number>& of;
  int64_t deep, broad;     // M and H in whole steps and vectors
  Number* pairs;           // the rows as a product over them reads them
  Number *turned, *words;  // of a span, gradients and embeddings as the rows' sums read them
  float* sums;             // of rows, block by block
};

}  // namespace
