// One head of one sequence: attention, on a CPU; cpu_heads_backward.h has the way back.
//
// Scores are made for some queries at a time and never leave the cache of one core. A head reads and
// writes a cache line or two of each row, and these lie far apart, except in bands: so they are
// prefetched beside each query's softmax, one row that this head will write and one that the next head
// will read. Scores and what becomes of them are float32 as long as they are in registers;
// probabilities and gradients of scores have the numbers' type where they are factors of a product. No
// task sees another. It knows no streams and no layers.
//
// Source: Vaswani et al. 2017, section 3.2.
//
// Legend: L tokens of the sequence, W = L rounded up to vectors, D = L as deep as products like it, K
// head size.

#pragma once

#include <cmath>
#include <limits>

#include "cpu_dropout.h"
#include "cpu_products.h"
#include "cpu_rows.h"

namespace {

constexpr int LEFT_TO_RIGHT = 1, RIGHT_TO_LEFT = 2;
constexpr float HIDDEN = -std::numeric_limits<float>::infinity();
// Queries whose scores are in the cache at a time.
constexpr int QUERIES = HAS_TILES ? TALL : 4 * TILE_ROWS;

struct Rules {
  int num_heads, head_size, direction;
  float scale;  // of scores
  Dropout dropout;
};

// What is kept of a query's probabilities. Attention's columns are (head, key): the head's number stands
// above the key's position.
struct Draws {
  bool are_there = false;
  int32_t word = 0;
  uint32_t first = 0;
  Dropout dropout{};

  Floats kept(int64_t key) const { return keep_factors(word, first | uint32_t(key), dropout); }
};

// Where the head's numbers lie, and which queries are asked for.
template <typename Number>
struct Task {
  Grid<const Number> queries, keys, values;
  const int64_t* rows;  // of the queries; null: all, from the sequence's first
  int64_t first_row, length, num_queries;
  const int32_t* words = nullptr;  // of dropout, of every query; null without it
  int head = 0;                    // its number

  int64_t position(int64_t query) const { return rows ? rows[query] - first_row : query; }

  // A row of what the next head reads, which lies behind what this one does. Behind a call the loop
  // around it would read all of the task again.
  __attribute__((always_inline)) void ask_for_next(int64_t row, const Rules& rules) const {
    if (head + 1 == rules.num_heads) return;
    const int64_t size = rules.head_size;
    ask_for_row(queries, row, size, 2 * size);
    if (row >= length) return;
    ask_for_row(keys, row, size, 2 * size);
    ask_for_row(values, row, size, 2 * size);
  }

  Draws draws(int64_t query, const Dropout& dropout) const {
    if (!words) return {};
    return {true, words[query], uint32_t(head) << 16, dropout};
  }
};

// What a thread works in, for so many tokens and, going backward, so many queries; going forward it
// has no use for what stands last.
template <typename Number>
struct Room {
  Number *keys, *values, *weights;
  float *scores, *factors, *arrived, *dropped;
  Number *key_rows, *query_rows, *gradient_rows, *gradients, *turned;

  Room(Cutter& cutter, int64_t head_size, int64_t longest, int64_t most_queries = 0) {
    int64_t step = Factors<Number>::STEP, wide = rounded_up(longest);
    int64_t depth = whole_depth<Number>(wide), query_depth = whole_depth<Number>(most_queries);
    int64_t columns = (head_size + step) * wide, rows = (depth + step) * rounded_up(head_size);
    keys = cutter.numbers<Number>(columns);
    values = cutter.numbers<Number>(std::max(rows, columns));
    weights = cutter.numbers<Number>(std::max<int64_t>(QUERIES, most_queries) * depth);
    scores = cutter.numbers<float>(QUERIES * wide);
    factors = cutter.numbers<float>(QUERIES);
    if (!most_queries) return;
    arrived = cutter.numbers<float>(QUERIES * wide);
    dropped = cutter.numbers<float>(QUERIES * wide);
    key_rows = cutter.numbers<Number>(rows);
    for (Number** each : {&query_rows, &gradient_rows})
      *each = cutter.numbers<Number>((query_depth + step) * rounded_up(head_size));
    gradients = cutter.numbers<Number>(most_queries * depth);
    turned = cutter.numbers<Number>((query_depth + step) * wide);
  }
};

#if HAS_TILES
// As `compare`: at most TALL rows, of whole tiles, whose sums are written where they belong at once.
template <typename Number>
void compare_tiles(
    Left<Number> rows, int count, const Number* columns, int64_t size, int64_t wide, float* to) {
  constexpr int64_t BYTES = sizeof(Number);
  Tiles::are_of(count);
  for (int64_t column = 0; column < wide; column += PANEL<Number>) {
    const bool is_tall = count > SIDE, is_broad = wide - column > LANES;
    auto* multiply = is_tall ? is_broad ? multiply_tiles_alone<true, true, false, Number>
                                        : multiply_tiles_alone<true, false, false, Number>
                   : is_broad ? multiply_tiles_alone<false, true, false, Number>
                              : multiply_tiles_alone<false, false, false, Number>;
    multiply(
        rows.first, rows.row * BYTES, columns + column * size, (1 + is_broad) * VECTOR_BYTES, size,
        nullptr, to + column, wide * sizeof(float), rows.band * BYTES);
  }
}
#endif

// Queries by keys (or gradients of contexts by values), (count, W).
template <typename Number>
void compare(
    Left<Number> rows, int count, const Number* columns, int64_t size, int64_t wide, float* to) {
#if HAS_TILES
  if constexpr (HAS_TILES_OF<Number>)
    if (size % TILE_DEPTH<Number> == 0 && may_use_tiles())
      return compare_tiles(rows, count, columns, size, wide, to);
#endif
  multiply<Number>(
      rows, count, {columns, nullptr, size, wide}, [=](int row, int column, const auto& sums) {
        float* at = to + row * wide + column;
        for (const Floats& each : sums) store(at, each), at += LANES;
      });
}

// Weighted sums of rows, (count, K), each times its factor.
template <typename Number>
void gather(
    Left<Number> weights, int count, const Number* rows, int64_t depth, int64_t size,
    const float* factors, const Grid<Number>& to) {
  multiply<Number>(
      weights, count, {rows, nullptr, depth, rounded_up(size)},
      [=](int64_t row, int64_t column, const auto& sums) {
        float factor = factors ? factors[row] : 1.0f;
        for (const Floats& each : sums) {
          put(to.at(row, column), each * factor, size - column);
          column += LANES;
        }
      });
}

// What is folded of a block's queries, one after the other: by itself each would wait for its lanes.
struct Folded {
  float highest[QUERIES];
  Floats totals[QUERIES], products[QUERIES];
};

// (W,) scores -> where a query may look; returns the highest, which a NaN may hide. What is hidden in the
// middle of a vector is put as a whole one: whoever loads it would wait for parts.
inline float hide(float* scores, int64_t position, int64_t length, int direction) {
  const int64_t first = direction == RIGHT_TO_LEFT ? position : 0;
  const int64_t end = direction == LEFT_TO_RIGHT ? position + 1 : length;
  Integers places;
  for (int lane = 0; lane < LANES; lane++) places[lane] = lane;
  Floats most = Floats{} + HIDDEN;
  for (int64_t j = 0; j < length; j += LANES) {
    Floats values = load(scores + j);
    if (j < first || j + LANES > end) {
      values = places >= int32_t(first - j) ? values : Floats{} + HIDDEN;
      values = places < int32_t(end - j) ? values : Floats{} + HIDDEN;
      store(scores + j, values);
    }
    most = higher(values, most);
  }
  return highest_in(most);
}

// (count, W) scores of a block's queries, likewise.
template <typename Number>
void hide_block(
    const Task<Number>& task, int64_t first, int count, const Rules& rules, float* scores,
    float* highest) {
  for (int row = 0; row < count; row++, scores += rounded_up(task.length))
    highest[row] = hide(scores, task.position(first + row), task.length, rules.direction);
}

// (W,) numbers -> (D,), with zeros behind them.
template <typename Number>
inline void fill_up(Number* numbers, int64_t wide, int64_t depth) {
  if (depth > wide) std::fill(numbers + wide, numbers + depth, Number{});
}

// What a query's weights add up to, before dropout and after it.
struct Totals {
  Floats all = {}, kept = {};
};

// (W,) scores, the highest of which is given -> (D,) weights after dropout, not yet divided by their sum.
template <typename Number>
__attribute__((always_inline)) inline Totals weigh_scores(
    const float* scores, float highest, int64_t length, float scale, const Draws& draws, Number* to) {
  const int64_t wide = rounded_up(length);
  Totals totals;
  for (int64_t j = 0; j < wide; j += LANES) {
    Floats weights = exponential_for<Number>(load(scores + j) - highest, scale);
    totals.all += weights;
    if (draws.are_there) weights *= draws.kept(j);
    totals.kept += weights;
    put(to + j, weights);
  }
  fill_up(to, wide, whole_depth<Number>(length));
  return totals;
}

template <typename Number>
void attend(
    const Task<Number>& task, const Rules& rules, Room<Number>& room,
    const Grid<Number>& contexts) {
  if (!task.num_queries) return;
  int64_t size = rules.head_size, length = task.length, wide = rounded_up(length);
  int64_t depth = whole_depth<Number>(length), apart = std::max(wide, depth);
  lay_out_columns(task.keys, size, length, room.keys);
  lay_out_rows(task.values, length, size, room.values, PANEL<Number>, depth);
  Folded of;
  for (int64_t first = 0; first < task.num_queries; first += QUERIES) {
    int count = int(std::min<int64_t>(QUERIES, task.num_queries - first));
    compare(Left<Number>(task.queries.from(first)), count, room.keys, size, wide, room.scores);
    hide_block(task, first, count, rules, room.scores, of.highest);
    for (int row = 0; row < count; row++) {
      ask_for_row(contexts, first + row, 0, size);
      task.ask_for_next(first + row, rules);
      const Draws draws = task.draws(first + row, rules.dropout);
      of.totals[row] = weigh_scores(
          room.scores + row * wide, of.highest[row], length, rules.scale, draws,
          room.weights + row * apart).all;
    }
    for (int row = 0; row < count; row++) room.factors[row] = 1.0f / sum_of(of.totals[row]);
    gather(
        {room.weights, apart}, count, room.values, depth, size, room.factors, contexts.from(first));
  }
}

}  // namespace
