// Products of rows with a matrix that lies in panels, which all threads of a region share.
//
// A thread takes a block of rows and a panel at a time; of deep rows a block and some panels, a part of
// their depth after the other; few rows all at once. It knows no layers.
//
// Legend: R rows, D depth, C columns; O outputs of a map, I its inputs.

#pragma once

#include <omp.h>

#include "cpu_products.h"
#include "cpu_shares.h"

namespace {

// A matrix of so many bytes comes from the third cache sooner than asking for it takes.
constexpr int64_t SMALL_MATRIX = 1 << 19;
// A matrix of so many bytes stays in the second cache beside what is made with it.
constexpr int64_t NEAR_MATRIX = 1 << 20;
// A matrix of more bytes fits into no second cache.
constexpr int64_t FAR_MATRIX = 2 << 20;
// So many bytes of a block's rows, or of their sums, the second cache keeps while a matrix that it cannot
// hold passes.
constexpr int64_t BLOCK_BYTES = 1 << 20;

// How many rows a thread takes at a time, with tiles all about as many. Of many rows and a matrix that
// is near, few: they stay in the first cache, and what becomes of them is written side by side. Of a
// matrix that is not, as many as stay in the second: where it is far, all that do, by which a panel comes
// once for them all; else no more than a thread's own, which it finds there again.
template <typename Number>
inline int64_t block_of(int64_t count, int64_t depth, int64_t matrix_bytes) {
  constexpr int64_t MOST = BLOCK_ROWS<Number>, SIZE = sizeof(Number);
  if (!HAS_TILES_OF<Number>) return MOST;
  int64_t most = MOST;
  if (matrix_bytes > FAR_MATRIX)
    most = std::max<int64_t>(BLOCK_BYTES / (depth * SIZE), TALL);
  else if (matrix_bytes > NEAR_MATRIX)
    most = std::clamp<int64_t>(BLOCK_BYTES / (depth * SIZE), TALL, MOST);
  else if (count > MOST)
    most = TALL;
  const int64_t num_blocks = std::max<int64_t>(parts(count, most), 1);
  return std::max<int64_t>(parts(parts(count, num_blocks), SIDE), 1) * SIDE;
}

#if HAS_TILES
// Whether a block's rows take more than half of what the second cache keeps, beside which panels pass, and
// there are enough for every thread.
template <typename Number>
inline bool are_deep(int64_t count, int64_t depth, int64_t matrix_bytes) {
  constexpr int64_t ROW_BYTES = BLOCK_BYTES / 2 / BLOCK_ROWS<Number>;
  return matrix_bytes > NEAR_MATRIX && depth * int64_t(sizeof(Number)) > ROW_BYTES &&
         count >= omp_get_num_threads() * WAITING_ROWS;
}

// Such rows: each thread takes a block, and of that as many columns as the cache keeps the sums of; where
// there is no memory for them, one panel's.
template <int VECTORS, typename Number, typename Then>
inline void multiply_deep_together(
    Left<Number> rows, int64_t count, const Panels<Number>& by,
    Waiting<VECTORS, Number, Then>& waiting) {
  typedef typename Waiting<VECTORS, Number, Then>::Place Place;
  constexpr int64_t BROAD = PANEL<Number>, MOST = BLOCK_ROWS<Number>;
  const int64_t num_threads = omp_get_num_threads();
  const int64_t num_blocks = parts(parts(count, MOST), num_threads) * num_threads;
  const int64_t tallest = parts(parts(count, num_blocks), SIDE) * SIDE;
  const int64_t num_sums = BLOCK_BYTES / int64_t(sizeof(float));
  const int64_t panels = std::min(parts(by.width, BROAD), num_sums / tallest / BROAD);
  alignas(VECTOR_BYTES) typename Factors<Number>::Sums of_one[MOST][VECTORS];
  const Memory memory(tallest * panels * BROAD + 16);
  const Place kept = memory.floats ? reinterpret_cast<Place>(memory.lined()) : of_one;
  const int64_t columns = memory.floats ? panels * BROAD : BROAD;
#pragma omp for schedule(static) nowait
  for (int64_t first = 0; first < count; first += tallest)
    for (int64_t column = 0; column < by.width; column += columns)
      multiply_parts_by_tiles(
          rows.from(first), std::min(tallest, count - first), by,
          Piece{first, column, std::min(column + columns, by.width)}, kept, waiting);
}
#endif

// (O, I) weights as products of rows with them read them, in the threads around it, which do not wait for
// one another at its end.
template <typename Number>
inline void lay_out_turned(const Number* weights, int64_t depth, int64_t width, Number* panels) {
  constexpr int64_t BROAD = PANEL<Number>;
#pragma omp for schedule(static) nowait
  for (int64_t c = 0; c < width; c += BROAD)
    lay_out_columns<true>({weights + c * depth, depth}, depth, BROAD, panels + c * depth);
}

// (O, I) weights as products of gradients with them read them, in the threads around it, which do not wait
// either: some rows at a time, whose lines lie behind each other. Where `part` rows, a multiple of these, are
// a matrix of its own, one follows the other.
template <typename Number>
inline void lay_out_straight(
    const Number* weights, int64_t depth, int64_t width, Number* panels, int64_t part = 0) {
  constexpr int64_t BROAD = PANEL<Number>, ROWS = 32;
  const int64_t deep = part ? part : depth;
#pragma omp for schedule(static) nowait
  for (int64_t k = 0; k < depth; k += ROWS) {
    Number* to = panels + k / deep * deep * width + k % deep * BROAD;
    for (int64_t c = 0; c < width; c += BROAD)
      lay_out_rows(
          {weights + k * width + c, width}, std::min(ROWS, depth - k), BROAD, to + c * deep);
  }
}

// (R, D) rows by (D, C) weights, in the threads of the parallel region around it, which wait for
// one another at its end; `then` is told row, column and sums, of whole panels.
template <typename Number, typename Then>
inline void multiply_together(
    Left<Number> rows, int64_t count, const Panels<Number>& by, const Then& then) {
  constexpr int BROAD = PANEL<Number>, VECTORS = TILE_VECTORS<Number>;
  const int64_t num_panels = parts(by.width, BROAD);
  const int64_t matrix_bytes = by.width * by.deep() * int64_t(sizeof(Number));
  const int64_t tallest = block_of<Number>(count, by.depth, matrix_bytes);
  const int64_t num_blocks = parts(count, tallest);
#if HAS_TILES
  if constexpr (HAS_TILES_OF<Number>)
    if (suit_tiles(rows, by.depth)) {
      Waiting<VECTORS, Number, Then> waiting(then);
      if (are_deep<Number>(count, by.depth, matrix_bytes)) {
        multiply_deep_together(rows, count, by, waiting);
      } else {
#pragma omp for schedule(static) nowait
        for (int64_t unit = 0; unit < num_panels * num_blocks; unit++) {
          // A block of rows stays in the second cache.
          const int64_t column = unit % num_panels * BROAD, first = unit / num_panels * tallest;
          multiply_by_tiles(
              rows.from(first), std::min(tallest, count - first), by.from(column), by.depth, first,
              column, waiting);
        }
      }
      waiting.finish();
#pragma omp barrier
      return;
    }
#endif
  // One tile alone waits for its panel either way; and no thread is to be without one.
  if (TILE_ROWS < count && count <= FEW_ROWS && matrix_bytes > SMALL_MATRIX &&
      (num_blocks == 1 || num_panels >= omp_get_num_threads())) {
    Row<VECTORS, Number> sums[FEW_ROWS];
#pragma omp for schedule(static)
    for (int64_t column = 0; column < by.width; column += BROAD) {
      multiply_few<VECTORS>(rows, int(count), by.from(column), by.depth, sums);
      for (int64_t row = 0; row < count; row++) then(row, column, sums[row]);
    }
    return;
  }
  share_out(num_panels * num_blocks, [&](int64_t unit) __attribute__((noinline)) {
    // A panel stays in the first cache, or in the second where that keeps up, or passes by parts.
    const int64_t column = unit / num_blocks * BROAD, first = unit % num_blocks * tallest;
    multiply_panel<VECTORS>(
        rows.from(first), int(std::min(tallest, count - first)), by.from(column), by.depth,
        [&](int row, const auto& sums) { then(first + row, column, sums); });
  });
}

// The same, for whom rows may have to become other numbers first: these need not.
template <typename Number, typename Then>
inline void weigh(
    Left<Number> rows, int64_t count, const Panels<Number>& by, const NoRoom&, const Then& then) {
  multiply_together(rows, count, by, then);
}

}  // namespace
