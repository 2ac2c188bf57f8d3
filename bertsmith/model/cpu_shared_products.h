// Products of many rows with a matrix that lies in panels, which all threads of a region share.
//
// A thread takes a block of rows and a panel at a time. It knows no layers.
//
// Legend: R rows, D depth, C columns.

#pragma once

#include "cpu_products.h"

namespace {

// A matrix of so many bytes stays in the second cache beside what is made with it.
constexpr int64_t NEAR_MATRIX = 1 << 20;
// So many bytes of a block's rows the second cache keeps while a matrix that it cannot hold passes.
constexpr int64_t BLOCK_BYTES = 3 << 18;

// How many rows a thread takes at a time, with tiles all about as many. Of many rows and a matrix that
// is near, few: they stay in the first cache, and what becomes of them is written side by side. Of a
// matrix that is not, as many as stay in the second.
template <typename Number>
inline int64_t block_of(int64_t count, int64_t depth, int64_t matrix_bytes) {
  constexpr int64_t MOST = BLOCK_ROWS<Number>, SIZE = sizeof(Number);
  if (!HAS_TILES_OF<Number>) return MOST;
  int64_t most = MOST;
  if (matrix_bytes > NEAR_MATRIX)
    most = std::clamp<int64_t>(BLOCK_BYTES / (depth * SIZE), TALL, MOST);
  else if (count > MOST)
    most = TALL;
  const int64_t num_blocks = std::max<int64_t>(parts(count, most), 1);
  return std::max<int64_t>(parts(parts(count, num_blocks), SIDE), 1) * SIDE;
}

// (R, D) rows by (D, C) weights, in the threads of the parallel region around it, which wait for
// one another at its end; `then` is told row, column and sums, of whole panels, `before` rows and
// column.
template <typename Number, typename Then, typename Before = Untold>
inline void multiply_together(
    Left<Number> rows, int64_t count, const Panels<Number>& by, const Then& then,
    const Before& before = {}) {
  constexpr int BROAD = PANEL<Number>;
  int64_t num_panels = (by.width + BROAD - 1) / BROAD;
  const int64_t matrix_bytes = by.width * by.deep() * int64_t(sizeof(Number));
  const int64_t tallest = block_of<Number>(count, by.depth, matrix_bytes);
  const int64_t num_blocks = parts(count, tallest);
#pragma omp for schedule(static)
  for (int64_t unit = 0; unit < num_panels * num_blocks; unit++) {
    // Of tiles a block of rows stays in the second cache, else a panel in the first.
    int64_t panel = HAS_TILES_OF<Number> ? unit % num_panels : unit / num_blocks;
    int64_t block = HAS_TILES_OF<Number> ? unit / num_panels : unit % num_blocks;
    int64_t column = panel * BROAD, first = block * tallest;
    int here = int(std::min(tallest, count - first));
    multiply_panel<TILE_VECTORS<Number>>(
        rows.from(first), here, by.from(column), by.depth,
        [&](int row, const auto& sums) { then(first + row, column, sums); },
        [&](int row, int rows) { before(first + row, rows, column); });
  }
}

// The same, for whom rows may have to become other numbers first: these need not.
template <typename Number, typename Then>
inline void weigh(
    Left<Number> rows, int64_t count, const Panels<Number>& by, const NoRoom&, const Then& then) {
  multiply_together(rows, count, by, then);
}

}  // namespace
