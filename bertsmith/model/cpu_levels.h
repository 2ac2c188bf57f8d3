// Products of rows with weights in eight bits, on a CPU: what int8_weights.py defines.
//
// Weights are quantised to 255 levels, scaled by the largest weight of each output, and rows to 255
// levels, scaled by the row's largest entry, as they come (dynamic quantisation). Sums of products of
// levels are exact. It knows no layers.
//
// Legend: R rows, D depth, C columns.

#pragma once

#include <limits>

#include "cpu_shared_products.h"
#include "cpu_rows.h"

namespace {

constexpr float LEVELS = 127.0f;  // on each side of zero
constexpr float RAISED = 128.0f;  // what stands above a row's level

// Where rows become levels: so many, of the deepest product.
struct LevelRoom {
  Grid<int8_t> levels;
  float* steps;

  LevelRoom(Cutter& cutter, int64_t depth, int64_t count)
      : levels(grid_for<int8_t>(cutter, count, rounded_up(depth), HAS_TILES)),
        steps(cutter.numbers<float>(count)) {}
};

// Levels of weights, with the size of a column's level, and what raised rows add to its sums.
struct LevelPanels : Panels<int8_t> {
  typedef LevelRoom Room;
  const float* steps;
  const int32_t* offsets;

  LevelPanels part(int64_t column, int64_t count) const {
    return {Panels<int8_t>::part(column, count), steps + column, offsets + column};
  }
};

// A row of (D,) numbers -> as many raised levels, whole vectors of them; returns the size of one, which
// is no number where one of them is none.
template <typename Number>
float to_levels(const Grid<const Number>& row, int64_t depth, const Grid<int8_t>& levels) {
  typedef int8_t Bytes __attribute__((vector_size(LANES)));
  Floats most = {}, broken = {};
  for (int64_t k = 0; k < depth; k += LANES) {
    Floats values = get(row.at(0, k), depth - k);
    most = higher(magnitude(values), most);
    broken += values - values;
  }
  float largest = 0.0f;
  for (int lane = 0; lane < LANES; lane++) largest = std::max(largest, most[lane]);
  float step = std::max(largest / LEVELS, std::numeric_limits<float>::min());
  float factor = 1.0f / step;
  for (int64_t k = 0; k < depth; k += LANES) {
    // Of a number between 2^23 and 2^24 the lowest bits are its integer, rounded to even.
    Floats raised = get(row.at(0, k), depth - k) * factor + (12582912.0f + RAISED);
    Bytes bytes = __builtin_convertvector((Words)raised & 0xFF, Bytes);
    std::memcpy(levels.at(0, k), &bytes, sizeof bytes);
  }
  return step + sum_of(broken);
}

// (R, D) rows by (D, C) weights, as `multiply_together`.
template <typename Number, typename Then>
void weigh(
    Left<Number> rows, int64_t count, const LevelPanels& by, const LevelRoom& room,
    const Then& then) {
#pragma omp for schedule(static)
  for (int64_t i = 0; i < count; i++)
    room.steps[i] = to_levels(rows.grid().from(i), by.depth, room.levels.from(i));
  multiply_together<int8_t>(
      room.levels, count, by, [&](int64_t row, int64_t column, const auto& sums) {
        constexpr int VECTORS = TILE_VECTORS<int8_t>;
        Floats values[VECTORS];
        for (int v = 0; v < VECTORS; v++) {
          int64_t at = column + v * LANES;
          Integers offsets;
          std::memcpy(&offsets, by.offsets + at, sizeof offsets);
          values[v] = __builtin_convertvector(sums[v] - offsets, Floats) * load(by.steps + at) *
                      room.steps[row];
        }
        then(row, column, values);
      });
}

}  // namespace
