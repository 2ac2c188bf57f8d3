// One head of one sequence, backward, on a CPU: gradients of contexts -> of queries, keys and values.
//
// Scores are made again. It knows no streams and no layers.
//
// Legend: that of cpu_heads.h; Q queries.

#pragma once

#include "cpu_heads.h"

namespace {

// The block's row `row`: a query's (W,) scores and gradients of its dropped probabilities -> its
// probabilities and what is left of them, times the sum that they are divided by, and their gradients.
template <typename Number>
void through_dropout(
    const Draws& draws, int64_t length, int row, const Rules& rules, const Room<Number>& room,
    Folded& of) {
  const int64_t wide = rounded_up(length), at = row * wide;
  float *scores = room.scores + at, *arrived = room.arrived + at, *dropped = room.dropped + at;
  const float highest = of.highest[row], scale = rules.scale;
  Floats total = {}, products = {};
  for (int64_t j = 0; j < wide; j += LANES) {
    Floats weight = exponential_for<Number>(load(scores + j) - highest, scale);
    Floats gradient = load(arrived + j), left = weight;
    if (draws.are_there) {
      const Floats kept = draws.kept(j);
      gradient *= kept, left *= kept;
      store(arrived + j, gradient);
    }
    total += weight;
    products += weight * gradient;
    store(scores + j, weight);
    store(dropped + j, left);
  }
  of.totals[row] = total, of.products[row] = products;
}

// Of that -> dropped probabilities and gradients of scores.
template <typename Number>
void through_softmax(
    int64_t length, int64_t query, int row, const Rules& rules, const Room<Number>& room,
    const Folded& of) {
  const int64_t wide = rounded_up(length), depth = whole_depth<Number>(length);
  const int64_t at = row * wide, to = query * std::max(wide, depth);
  const float *scores = room.scores + at, *arrived = room.arrived + at, *dropped = room.dropped + at;
  Number *weights = room.weights + to, *gradients = room.gradients + to;
  const float factor = 1.0f / sum_of(of.totals[row]), scale = rules.scale;
  const float inner = sum_of(of.products[row]) * factor;
  for (int64_t j = 0; j < wide; j += LANES) {
    const Floats weight = load(scores + j) * factor;
    put(gradients + j, weight * (load(arrived + j) - inner) * scale);
    put(weights + j, load(dropped + j) * factor);
  }
  fill_up(gradients, wide, depth);
}

// (Q, W) rows, so far apart, as the rows of a product over queries: their columns.
inline Left<uint16_t> turned(
    const uint16_t* rows, int64_t apart, int64_t num_queries, int64_t wide, uint16_t* room) {
  if constexpr (HAS_TILES) {
    int64_t depth = whole_depth<uint16_t>(num_queries);
    turn_rows(rows, apart, num_queries, wide, room, depth);
    return {room, depth};
  }
  lay_out_rows({rows, apart}, num_queries, wide, room, wide);
  return {room, 2, wide * 2};
}

inline Left<float> turned(
    const float* rows, int64_t apart, int64_t, int64_t, float*) {
  return {rows, 1, apart};
}

// Gradients of the queries' contexts -> of queries, keys and values.
template <typename Number>
void attend_backward(
    const Task<Number>& task, const Rules& rules, Room<Number>& room, const Grid<const Number>& arrived,
    const Grid<Number>& grad_queries, const Grid<Number>& grad_keys, const Grid<Number>& grad_values) {
  int64_t size = rules.head_size, length = task.length, wide = rounded_up(length);
  int64_t num_queries = task.num_queries, query_depth = whole_depth<Number>(num_queries);
  int64_t depth = whole_depth<Number>(length), apart = std::max(wide, depth);
  constexpr int BROAD = PANEL<Number>;
  lay_out_columns(task.keys, size, length, room.keys);
  lay_out_columns(task.values, size, length, room.values);
  lay_out_rows(task.keys, length, size, room.key_rows, BROAD, depth);
  lay_out_rows(task.queries, num_queries, size, room.query_rows, BROAD, query_depth);
  lay_out_rows(arrived, num_queries, size, room.gradient_rows, BROAD, query_depth);
  Folded of;
  for (int64_t first = 0; first < num_queries; first += QUERIES) {
    int count = int(std::min<int64_t>(QUERIES, num_queries - first));
    const Left<Number> queries(task.queries), contexts(arrived);
    compare(queries.from(first), count, room.keys, size, wide, room.scores);
    compare(contexts.from(first), count, room.values, size, wide, room.arrived);
    hide_block(task, first, count, rules, room.scores, of.highest);
    for (int64_t row = first; row < first + count; row++) {
      ask_for_row(grad_queries, row, 0, size);
      if (row < length) {
        ask_for_row(grad_keys, row, 0, size);
        ask_for_row(grad_values, row, 0, size);
      }
      task.ask_for_next(row, rules);
      if (task.head + 1 < rules.num_heads) ask_for_row(arrived, row, size, 2 * size);
      through_dropout(
          task.draws(row, rules.dropout), length, int(row - first), rules, room, of);
    }
    for (int row = 0; row < count; row++)
      through_softmax(length, first + row, row, rules, room, of);
    gather(
        {room.gradients + first * apart, apart}, count, room.key_rows, depth, size, nullptr,
        grad_queries.from(first));
  }
  gather(
      turned(room.gradients, apart, num_queries, wide, room.turned), int(length), room.query_rows,
      query_depth, size, nullptr, grad_keys);
  gather(
      turned(room.weights, apart, num_queries, wide, room.turned), int(length), room.gradient_rows,
      query_depth, size, nullptr, grad_values);
}

}  // namespace
