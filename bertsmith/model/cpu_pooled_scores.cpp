// The rows that a pooler reads -> scores of their sequences, on a CPU, forward and backward: what
// cpu_pooled_scores.py calls.
//
// Dense and tanh, dropout, and a map to a few scores. Numbers are bfloat16, all sums and the scores
// float32. What dropout keeps is drawn anew wherever it is asked for. Sums over rows are made in their
// order, so the number of threads changes no bit. It knows no loss and no Python.
//
// Source: Devlin et al. 2018, section 4.1; google-research/bert, modeling.py, BertModel, and
// run_classifier.py, create_model.
//
// Legend: N rows, H hidden size, C scores.

#define HAS_BANDS 1

#include <omp.h>

#include "cpu_dropout.h"
#include "cpu_rows.h"
#include "cpu_shared_products.h"
#include "cpu_weight_gradients.h"

namespace {

typedef uint16_t Number;

// Scores of a row at most: so many sums are kept side by side.
constexpr int64_t MOST_SCORES = 64;

struct Head {
  const Number *dense, *dense_bias;    // (H, H), (H,)
  const Number *scores, *scores_bias;  // (C, H), (C,)
  const int32_t* keys;                 // (N,) of dropout; null without it
  uint32_t site;                       // what makes a word of dropout of a row's key
  Dropout dropout;
  int64_t count, width, num_scores;  // N, H, C

  Panels<Number> panels(const Number* laid_out) const { return {laid_out, nullptr, width, width}; }
  Grid<const Number> grid(const Number* rows) const { return {rows, width}; }
};

// What becomes of a row's columns: dropped, or as much more as makes up for it.
struct RowDropout {
  bool is_on;
  int32_t word;
  Dropout dropout;

  RowDropout(const Head& of, int64_t row)
      : is_on(of.keys), word(is_on ? word_at(of.site, of.keys[row]) : 0), dropout(of.dropout) {}

  Floats factors(int64_t column) const {
    return is_on ? keep_factors(word, uint32_t(column), dropout) : Floats{} + 1.0f;
  }
};

struct Gradients {
  const float* given;        // (N, C) of scores
  Number* rows;              // (N, H)
  Number *dense, *dense_bias;
  Number *scores, *scores_bias;
};

// What is worked in.
struct Work {
  Number *panels, *arrived;  // (H, H), (N, H) going backward
  float* of_bias;            // (H,) going backward

  Work(Cutter& cutter, const Head& of, bool is_backward)
      : panels(cutter.numbers<Number>(of.width * of.width)),
        arrived(cutter.numbers<Number>(is_backward ? of.count * of.width : 0)),
        of_bias(cutter.numbers<float>(is_backward ? of.width : 0)) {}

  static Memory memory(const Head& of, bool is_backward) {
    Cutter counter{nullptr};
    Work(counter, of, is_backward);
    return Memory(parts(counter.next - static_cast<char*>(nullptr) + 64, sizeof(float)));
  }
};

inline void score(const Head& of, int64_t row, const Number* pooled, float* scores) {
  const RowDropout dropout(of, row);
  Floats sums[MOST_SCORES] = {};
  for (int64_t h = 0; h < of.width; h += LANES) {
    const Floats dropped = load(pooled + h) * dropout.factors(h);
    for (int64_t c = 0; c < of.num_scores; c++) sums[c] += dropped * load(of.scores + c * of.width + h);
  }
  for (int64_t c = 0; c < of.num_scores; c++) scores[c] = sum_of(sums[c]) + widened(of.scores_bias[c]);
}

// (N, H) rows -> (N, H) pooled vectors and (N, C) scores.
float forward(
    const Head& of, const Number* rows, Number* pooled, float* scores, int num_threads) {
  const Memory memory = Work::memory(of, false);
  if (!memory.floats) return NO_ROOM;
  Cutter cutter{memory.lined()};
  const Work work(cutter, of, false);
#pragma omp parallel num_threads(num_threads)
  {
    [[maybe_unused]] Tiles tiles;
    lay_out_turned(of.dense, of.width, of.width, work.panels);
#pragma omp barrier
    multiply_together<Number>(
        of.grid(rows), of.count, of.panels(work.panels),
        put_into(Grid<Number>{pooled, of.width}, [&](int64_t, int64_t column, Floats sum) {
          return hyperbolic_tangent(sum + load(of.dense_bias + column));
        }));
#pragma omp for schedule(static)
    for (int64_t n = 0; n < of.count; n++)
      score(of, n, pooled + n * of.width, scores + n * of.num_scores);
  }
  return DONE;
}

// What comes to the sums of which tanh made a row's pooled vector.
inline void through_tanh(
    const Head& of, int64_t row, const Number* pooled, const float* given, Number* to) {
  const RowDropout dropout(of, row);
  for (int64_t h = 0; h < of.width; h += LANES) {
    Floats arrived = {};
    for (int64_t c = 0; c < of.num_scores; c++) arrived += given[c] * load(of.scores + c * of.width + h);
    const Floats value = load(pooled + h);
    put(to + h, arrived * dropout.factors(h) * (1.0f - value * value));
  }
}

// Gradients of some columns of the map to scores.
inline void score_gradients(
    const Head& of, const Number* pooled, const Gradients& to, int64_t column) {
  Floats sums[MOST_SCORES] = {};
  for (int64_t n = 0; n < of.count; n++) {
    const Floats factors = RowDropout(of, n).factors(column);
    const Floats dropped = load(pooled + n * of.width + column) * factors;
    for (int64_t c = 0; c < of.num_scores; c++) sums[c] += to.given[n * of.num_scores + c] * dropped;
  }
  for (int64_t c = 0; c < of.num_scores; c++) put(to.scores + c * of.width + column, sums[c]);
}

inline void score_bias_gradients(const Head& of, const Gradients& to) {
  for (int64_t c = 0; c < of.num_scores; c++) {
    float sum = 0.0f;
    for (int64_t n = 0; n < of.count; n++) sum += to.given[n * of.num_scores + c];
    narrow(sum, to.scores_bias + c);
  }
}

float backward(
    const Head& of, const Number* rows, const Number* pooled, const Gradients& to,
    int num_threads) {
  const int64_t width = of.width;
  const Memory memory = Work::memory(of, true);
  if (!memory.floats) return NO_ROOM;
  Cutter cutter{memory.lined()};
  const Work work(cutter, of, true);
#pragma omp parallel num_threads(num_threads)
  {
    [[maybe_unused]] Tiles tiles;
    lay_out_straight(of.dense, width, width, work.panels);
#pragma omp for schedule(static) nowait
    for (int64_t h = 0; h < width; h += LANES) score_gradients(of, pooled, to, h);
#pragma omp for schedule(static) nowait
    for (int64_t n = 0; n < of.count; n++)
      through_tanh(of, n, pooled + n * width, to.given + n * of.num_scores, work.arrived + n * width);
#pragma omp barrier
    multiply_together<Number>(
        of.grid(work.arrived), of.count, of.panels(work.panels),
        put_into(Grid<Number>{to.rows, width}, [](int64_t, int64_t, Floats sum) { return sum; }));
  }
  score_bias_gradients(of, to);
  const Given<Number> both{
      of.grid(work.arrived), of.grid(rows), to.dense, work.of_bias, of.count, width, width};
  const float status = weight_gradients(both, num_threads);
  for (int64_t h = 0; h < width; h++) narrow(work.of_bias[h], to.dense_bias + h);
  return status;
}

}  // namespace

extern "C" float pooled_scores_bf16(
    const Head* of, const Number* rows, Number* pooled, float* scores, int num_threads) {
  return forward(*of, rows, pooled, scores, num_threads);
}

extern "C" float pooled_scores_backward_bf16(
    const Head* of, const Number* rows, const Number* pooled, const Gradients* to,
    int num_threads) {
  return backward(*of, rows, pooled, *to, num_threads);
}

extern "C" float multiplies_bf16(int) { return way_of_products<uint16_t>(MULTIPLIES_BF16); }
