// The factors of a product over all rows, laid out for it, on a CPU: what cpu_block_products.h
// multiplies.
//
// One changes rows for columns in blocks as the matrix unit takes them, or in whole columns where rows lie
// one behind the other. The other becomes panels, as many rows at a step as products multiply, of which a
// processor makes some beside every step of a product. What either adds up to is made on the way. It knows
// no products.
//
// Legend: T rows, W width of a factor.

#pragma once

#include "cpu_panels.h"
#include "cpu_rows.h"

namespace {

// Columns of a block of what changed rows for columns: whole tiles of the matrix unit, or of registers.
template <typename Number>
constexpr int64_t BLOCK_COLUMNS = HAS_TILES_OF<Number> ? TALL : 8 * TILE_ROWS;
// Such a block of so many rows, a column behind the other.
template <typename Number>
constexpr int64_t BLOCK = BLOCK_COLUMNS<Number> * TILE_DEPTH<Number>;

// How far one column of a block of so many rows lies from the next: in bands TILE_DEPTH rows of all columns
// come first, and then as many more; elsewhere a column has all of its rows.
template <typename Number>
inline int64_t apart_in_blocks(int64_t depth) {
  return HAS_BANDS ? TILE_DEPTH<Number> : stride_for<Number>(depth);
}

// Numbers of such a block.
template <typename Number>
inline int64_t block_size(int64_t depth) {
  return (HAS_BANDS ? depth : apart_in_blocks<Number>(depth)) * BLOCK_COLUMNS<Number>;
}

// So many rows before they are laid out they are asked for.
constexpr int64_t ROWS_AHEAD = 32;

// (T, W) numbers; where they are gradients, what they add up to for the bias: (W,), or as much of every
// TILE_DEPTH rows, so far apart.
template <typename Number>
struct Factor {
  Grid<const Number> rows;
  int64_t num_rows, width;
  float* totals = nullptr;
  int64_t totals_apart = 0;

  int64_t rows_from(int64_t row) const { return std::min(TILE_DEPTH<Number>, num_rows - row); }

  void add_up(int64_t row, int64_t column, int64_t count) const {
    if (!totals) return;
    float* to = totals + row / TILE_DEPTH<Number> * totals_apart + column;
    for (int64_t c = 0; c < count; c += LANES) {
      Floats total = load(to + c);
      for (int64_t k = 0; k < rows_from(row); k++)
        total += get(rows.at(row + k, column + c), count - c);
      store(to + c, total);
    }
  }
};

// TILE_DEPTH rows of all columns become that part of blocks so deep, from one of their rows on; zeros past
// the last row and column.
template <typename Number>
void turn_depth(
    const Factor<Number>& narrow, int64_t row, Number* blocks, int64_t from, int64_t depth) {
  constexpr int64_t DEPTH = TILE_DEPTH<Number>, HIGH = BLOCK_COLUMNS<Number>;
  const int64_t here = narrow.rows_from(row), apart = apart_in_blocks<Number>(depth);
  blocks += HAS_BANDS ? from * HIGH : from;
  for (int64_t n = 0; n < narrow.width; n += HIGH, blocks += block_size<Number>(depth)) {
    const int64_t count = std::min<int64_t>(HIGH, narrow.width - n);
    if (here < DEPTH || count < HIGH)
      for (int64_t c = 0; c < HIGH; c++) std::fill_n(blocks + c * apart, DEPTH, Number{});
    for (int64_t c = 0; c < count; c += LANES)  // a band may end between two vectors
      turn_rows(
          narrow.rows.at(row, n + c), narrow.rows.row, here, std::min<int64_t>(LANES, count - c),
          blocks + c * apart, apart);
    narrow.add_up(row, n, count);
  }
}

// Lays out so many rows of a panel's columns, as many rows as products multiply at a step, zeros past the
// last ones; some steps at a time, beside a product.
template <typename Number>
class Laying {
 public:
  static constexpr int64_t STEP = Factors<Number>::STEP;

  Laying(
      const Factor<Number>& broad, int64_t start, int64_t depth, int64_t first, int64_t columns,
      Number* panel)
      : broad(broad), start(start), depth(depth), first(first), columns(columns), panel(panel) {}

  void go_on(int64_t steps) { until(std::min(depth, k + steps * STEP)); }
  void finish() { until(depth); }

 private:
  void until(int64_t end) {
    for (; k < end; k += STEP) step();
  }

  void step() {
    const int64_t row = start + k, there = broad.num_rows - row, wide = rounded_up(columns);
    Number* to = panel + k * wide;
    if (row + ROWS_AHEAD + 1 < broad.num_rows)
      for (int64_t ahead = ROWS_AHEAD; ahead < ROWS_AHEAD + STEP; ahead++)
        ask_for_row<2>(broad.rows, row + ahead, first, first + columns);  // long before
    for (int64_t at = 0; at < wide; at += LANES, to += LANES * STEP) {
      const Number* above = broad.rows.at(row, first + at);
      Words words = {};
      const Number* below = there > 1 ? above + broad.rows.row : nullptr;
      if (there > 0) words = side_by_side(above, below, columns - at);
      std::memcpy(to, &words, sizeof words);
      if (broad.totals) {
        float* totals = broad.totals + first + at;
        store(totals, Factors<Number>::add(load(totals), ONES, Factors<Number>::of(to)));
      }
    }
  }

  static constexpr Number ONE = sizeof(Number) < sizeof(float) ? 0x3F80 : 1;  // as bfloat16 has it
  static constexpr Number ONES[2] = {ONE, ONE};
  const Factor<Number>& broad;
  int64_t start, depth, first, columns;
  Number* panel;
  int64_t k = 0;
};

}  // namespace
