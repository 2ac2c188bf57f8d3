// A sub-layer's end, row by row, forward and backward, on a CPU:
//
//     drop after(LayerNorm(residual + drop before(rows)))
//
// A row is widened to float32 and stays in the cache from its first number to its last. The backward
// pass makes sums and masks again from what the forward pass read, and keeps two numbers a row. It
// knows no threads and no layers.
//
// Source: Ba et al. 2016 (layer normalization), section 3; Devlin et al. 2018, section 3.
//
// Legend: T rows, H columns, W = H rounded up to vectors.

#pragma once

#include "cpu_bands.h"
#include "cpu_dropout.h"
#include "cpu_rows.h"

namespace {

struct NormRules {
  int width;  // H
  float epsilon;
  Dropout before, after;
};

// The tensors of a pass; without a first number it is a part that is not there.
template <typename Number>
struct NormRows {
  Grid<const Number> rows, residual;  // (T, H)
  const int32_t *before, *after;  // (T,) words of dropout
  const float *weight, *bias;     // (H,)
  int64_t count;                  // T
};

// What a thread works in: rows of W floats; the norm's weights are zero past H.
struct NormRoom {
  static constexpr int ROWS = 5;
  int wide;
  float *sums, *other, *kept, *weight, *bias;

  NormRoom(float* floats, int width, const float* weights, const float* biases)
      : wide(rounded_up(width)) {
    sums = floats;
    other = sums + wide;
    kept = other + wide;
    weight = kept + wide;
    bias = weight + wide;
    std::fill(floats, floats + ROWS * wide, 0.0f);
    std::copy(weights, weights + width, weight);
    std::copy(biases, biases + width, bias);
  }
};

// One row: what stands in it before its norm, the residual and what was added to it. It has pointers
// of its own, which no store can have changed.
template <typename Number>
struct NormRow {
  Grid<const Number> row, residual;
  int32_t before, after;
  bool is_dropped_before, is_dropped_after;
  int width;
  Dropout before_rules, after_rules;
  float* kept;

  NormRow(const NormRows<Number>& of, int64_t t, const NormRules& rules, const NormRoom& room)
      : row(of.rows.from(t)),
        residual(of.residual.first ? of.residual.from(t) : of.residual),
        before(of.before ? of.before[t] : 0),
        after(of.after ? of.after[t] : 0),
        is_dropped_before(of.before),
        is_dropped_after(of.after),
        width(rules.width),
        before_rules(rules.before),
        after_rules(rules.after),
        kept(room.kept) {}

  // Asks for the next row.
  void ask_for_next() const {
    ask_for_row(row, 1, 0, width);
    if (residual.first) ask_for_row(residual, 1, 0, width);
  }

  // What is kept of it, where it is dropped, is remembered.
  Floats added_up(int h) const {
    Floats value = get(row.at(0, h), width - h);
    if (is_dropped_before) {
      Floats factors = keep_factors(before, h, before_rules);
      store(kept + h, factors);
      value *= factors;
    }
    return residual.first ? value + get(residual.at(0, h), width - h) : value;
  }

  Floats dropped(Floats value, int h) const {
    return is_dropped_after ? value * keep_factors(after, h, after_rules) : value;
  }
};

template <typename Number>
void norm_row(
    const NormRows<Number>& of, int64_t t, const NormRules& rules, const NormRoom& room,
    const Grid<Number>& normed, float* statistics) {
  const NormRow<Number> row(of, t, rules, room);
  const float *weight = room.weight, *bias = room.bias;
  float* sums = room.sums;
  int width = rules.width, wide = room.wide;
  const Grid<Number> to = normed.from(t);
  if (t + 1 < of.count) row.ask_for_next(), ask_for_row(to, 1, 0, width);
  const Floats total = sum_over(wide, [&](int h) {
    const Floats value = row.added_up(h);
    store(sums + h, value);
    return value;
  });
  const float mean = sum_of(total) / width;
  for (int h = width; h < wide; h++) sums[h] = mean;  // no part of the variance
  const float factor = 1.0f / std::sqrt(squares_around(sums, wide, mean) / width + rules.epsilon);
  put_made(to, width, [&](int h) {
    const Floats value = (load(sums + h) - mean) * factor * load(weight + h) + load(bias + h);
    return row.dropped(value, h);
  });
  statistics[2 * t] = mean;
  statistics[2 * t + 1] = factor;
}

// A row's way back through its norm, of which two numbers were kept: what comes to the numbers before it
// is `put`, by column; what it adds to the weight's and the bias's gradients, (2, W), is added.
template <typename Row, typename Number, typename Put>
inline void back_through_norm(
    const Row& row, const NormRoom& room, const float* statistics, const Grid<const Number>& from,
    float* grad_weights, const Put& put) {
  const float* weight = room.weight;
  float *normal = room.sums, *gradient = room.other, *grad_biases = grad_weights + room.wide;
  int width = row.width, wide = room.wide;
  float mean = statistics[0], factor = statistics[1];
  Floats total = {}, inner = {};
  for (int h = 0; h < wide; h += LANES) {
    Floats there = (row.added_up(h) - mean) * factor;
    Floats arrived = row.dropped(get(from.at(0, h), width - h), h);  // zero past H
    store(grad_weights + h, load(grad_weights + h) + arrived * there);
    store(grad_biases + h, load(grad_biases + h) + arrived);
    Floats scaled = arrived * load(weight + h);
    store(normal + h, there);
    store(gradient + h, scaled);
    total += scaled;
    inner += scaled * there;
  }
  float mean_gradient = sum_of(total) / width, mean_inner = sum_of(inner) / width;
  for (int h = 0; h < wide; h += LANES)
    put(h, (load(gradient + h) - mean_gradient - load(normal + h) * mean_inner) * factor);
}

// Row t's part of both gradients, and what it adds to the weight's and the bias's, (2, W).
template <typename Number>
void norm_row_backward(
    const NormRows<Number>& of, int64_t t, const NormRules& rules, const NormRoom& room,
    const float* statistics, const Grid<const Number>& grad_normed, const Grid<Number>& grad_rows,
    const Grid<Number>& grad_residual, float* grad_weights) {
  const NormRow<Number> row(of, t, rules, room);
  int width = rules.width;
  const Grid<const Number> from = grad_normed.from(t);
  const Grid<Number> to = grad_rows.from(t), past = grad_residual.from(t);
  if (t + 1 < of.count) {
    row.ask_for_next();
    ask_for_row(from, 1, 0, width), ask_for_row(to, 1, 0, width);
    if (row.residual.first) ask_for_row(past, 1, 0, width);
  }
  back_through_norm(row, room, statistics + 2 * t, from, grad_weights, [=](int h, Floats value) {
    if (row.residual.first) put(past.at(0, h), value, width - h);
    if (row.is_dropped_before) value *= load(row.kept + h);
    put(to.at(0, h), value, width - h);
  });
}

// Sums over parts of the rows, each (2, W), in their order -> gradients of a norm's weights and biases.
inline void add_spans(const float* sums, size_t num_spans, int64_t width, float* gradients) {
  const int64_t wide = rounded_up(width);
  std::fill_n(gradients, 2 * width, 0.0f);
  for (size_t span = 0; span < num_spans; span++)
    for (int which = 0; which < 2; which++)
      for (int64_t h = 0; h < width; h++)
        gradients[which * width + h] += sums[(2 * span + which) * wide + h];
}

}  // namespace
