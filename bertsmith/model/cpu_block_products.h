// A block of what changed rows for columns by a panel, over a part of all rows, on a CPU: a piece of a
// product whose sums are over rows.
//
// It knows neither what is multiplied nor in which order pieces come.
//
// Legend: HIGH columns of a block.

#pragma once

#include "cpu_factors.h"
#include "cpu_products.h"

namespace {

// Rows of a part, of which a block and, with tiles, a panel stay in the first cache.
constexpr int64_t PART = 256;

// A block of so many columns, of which that many are there, over a part of all rows.
template <typename Number>
struct Blocks {
  const Number* first;
  int64_t columns, depth;
};

// A block by a panel of so many vectors: put to, or added to, (HIGH, PANEL) sums. Blocks that pass do not
// take a panel's place in the first cache.
template <bool BLOCKS_PASS, typename Number, typename Beside>
void multiply_blocks(
    const Blocks<Number>& blocks, const Number* panel, int vectors, float* sums, bool is_first,
    [[maybe_unused]] const Beside& beside) {
  constexpr int64_t DEPTH = TILE_DEPTH<Number>;
#if HAS_TILES
  if constexpr (HAS_TILES_OF<Number>)
    if (may_use_tiles()) {
      Tiles::are_of(TALL);
      auto multiply = [&](auto is_broad) {
        multiply_tiles<true, is_broad(), BLOCKS_PASS>(
            blocks.first, 64, panel, vectors * VECTOR_BYTES, blocks.depth, is_first ? nullptr : sums,
            sums, PANEL<Number> * sizeof(float), BLOCK<Number> * sizeof(Number), beside);
      };
      return vectors == 2 ? multiply(std::true_type()) : multiply(std::false_type());
    }
#endif
  const Grid<const Number> rows =
      HAS_BANDS ? Grid<const Number>{blocks.first, DEPTH, BLOCK<Number>}
                : Grid<const Number>{blocks.first, apart_in_blocks<Number>(blocks.depth)};
  multiply_long(
      Left<Number>(rows), int(blocks.columns), panel, vectors, blocks.depth, sums, is_first);
}

// (HIGH, PANEL) sums to numbers whose rows are so far apart: (rows, columns), or turned.
template <bool IS_TURNED, typename Number>
void write(const float* sums, int64_t rows, int64_t columns, Number* to, int64_t stride) {
  for (int64_t row = 0; row < rows; row += LANES)
    for (int64_t column = 0; column < columns; column += LANES) {
      Square square;
      for (int r = 0; r < LANES; r++)
        square[r] = (Words)load(sums + (row + r) * PANEL<Number> + column);
      if (IS_TURNED) turn(square);
      int64_t down = row, across = column, bottom = rows, side = columns;
      if (IS_TURNED) std::swap(down, across), std::swap(bottom, side);
      for (int64_t r = 0; r < std::min<int64_t>(LANES, bottom - down); r++)
        put(to + (down + r) * stride + across, (Floats)square[r], side - across);
    }
}

}  // namespace
