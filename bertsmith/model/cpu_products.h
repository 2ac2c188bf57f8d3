// Products of rows with a matrix that lies in panels, on a CPU.
//
// A tile of rows and columns is summed up in registers, always in the same order, in float32, levels
// as integers: a row's results depend on no other row. Who asks says what becomes of a tile's sums. It
// knows no layers.
//
// Legend: R rows, D depth, C columns.

#pragma once

#include "cpu_tile_products.h"

namespace {

// Rows that one thread takes at a time, but of a far matrix (cpu_shared_products.h).
template <typename Number>
constexpr int BLOCK_ROWS = HAS_TILES_OF<Number> ? 8 * TALL : 8 * TILE_ROWS;
// Of a long sum: so deep a panel stays in the first cache.
constexpr int64_t DEEP = 256;
// So much of a panel stays in the first cache beside rows and sums. Shorter vectors ask for so little
// at a step that the second one keeps up with them.
constexpr int64_t NEAR_BYTES = VECTOR_BYTES == 64 ? 1 << 15 : INT32_MAX;
// Whether the second cache keeps up anyway: with bfloat16, and with all types where no instruction multiplies
// float16, by which a source knows Intel's processors that have a matrix unit, or hide it.
#if defined(__AVX512FP16__)
template <typename Number>
constexpr bool IS_SECOND_FAST = sizeof(Number) == 2;
#else
template <typename Number>
constexpr bool IS_SECOND_FAST = true;
#endif
// So many steps before a panel's numbers are read they are asked for: most lie in the second cache. In a
// tile's last steps it is the panel's first numbers, with which the next tile begins; not where rows may lie
// in bands, since it needs one register more, which loses more there than it gains (docs/log.md).
constexpr int AHEAD = 16, LINE_BYTES = 64;

// For what becomes of a row's sums where that is long: its tables and constants stay in registers, and it is
// written once, not for every row of a tile. Not of numbers that the matrix unit multiplies, whose sums wait
// and become something a row at a time beside it (cpu_tile_products.h).
template <typename Number, typename Then>
inline auto out_of_line(const Then& then) {
  if constexpr (HAS_TILES_OF<Number>)
    return then;
  else
    return [=](int64_t row, int64_t column, const auto& sums) __attribute__((noinline)) {
      then(row, column, sums);
    };
}

// A row's sums, of all the vectors of a panel.
template <int VECTORS, typename Number>
using Row = typename Factors<Number>::Sums[VECTORS];

// Goes on from the rows' sums, or from zero where there are none.
//
// Addresses of rows are one of two pointers and no, one or two strides, as one instruction says them. With
// more pointers, or an index, g++ 12 keeps some in vector registers, and moving one back waits for all
// products before it; the empty asm keeps it from deriving one from another. It is inlined into its caller so
// that `then` may be, with the sums in registers; a long one is better `out_of_line`.
template <int ROWS, int VECTORS, typename Number, typename Then>
__attribute__((always_inline)) inline void multiply_tile(
    Left<Number> rows, const Number* panel, int64_t depth, const Row<VECTORS, Number>* before,
    const Then& then) {
  constexpr int STEP = Factors<Number>::STEP, HALF = ROWS / 2;
  typedef typename Factors<Number>::Sums Sums;
  Sums sums[ROWS][VECTORS];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) sums[r][v] = before ? before[r][v] : Sums{};
  constexpr int64_t STEP_BYTES = VECTORS * VECTOR_BYTES, LAST = AHEAD * STEP;
  const int64_t jump = rows.is_in_bands() ? rows.band - BAND<Number> : 0;
  // Of two passes at most, unless in bands: `ahead` turns back in the last one.
  const int64_t at_once = jump ? BAND<Number> : HAS_BANDS ? depth : std::max(depth - LAST, LAST);
  int64_t ahead = AHEAD * STEP_BYTES;
  const Number *low = rows.first, *high = low + HALF * rows.row;
  if constexpr (!HAS_BANDS)
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)  // where the next tile's rows begin
      __builtin_prefetch((r < HALF ? low : high - HALF * rows.row) + (ROWS + r) * rows.row);
  for (int64_t left = depth; left > 0; left -= at_once, low += jump, high += jump) {
    if (!HAS_BANDS && left <= LAST) ahead -= depth / STEP * STEP_BYTES;
    for (int64_t here = std::min(at_once, left); here > 0; here -= STEP) {
      asm("" : "+r"(low), "+r"(high), "+r"(panel), "+r"(here));
#pragma GCC unroll 8
      for (int byte = 0; byte < STEP_BYTES; byte += LINE_BYTES)
        __builtin_prefetch((const char*)panel + ahead + byte);
      typename Factors<Number>::Columns columns[VECTORS];
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; v++) columns[v] = Factors<Number>::of(panel + v * LANES * STEP);
#pragma GCC unroll 8
      for (int r = 0; r < ROWS; r++) {
        const Number* row = r < HALF ? low + r * rows.row : high + (r - HALF) * rows.row;
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; v++)
          sums[r][v] = Factors<Number>::add(sums[r][v], row, columns[v]);
      }
      panel += VECTORS * LANES * STEP, low += rows.step, high += rows.step;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++) {
    Sums row[VECTORS];  // it may be looked at in memory; the sums themselves never are
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) row[v] = sums[r][v];
    then(r, row);
  }
}

// Fewer rows than a tile's.
template <int ROWS, int VECTORS, typename Number, typename Then>
inline void multiply_last(
    Left<Number> rows, int count, const Number* panel, int64_t depth,
    const Row<VECTORS, Number>* before, const Then& then) {
  if constexpr (ROWS > 0) {
    if (count == ROWS)
      multiply_tile<ROWS, VECTORS>(rows, panel, depth, before, then);
    else
      multiply_last<ROWS - 1, VECTORS>(rows, count, panel, depth, before, then);
  }
}

// Rows by a part of a panel's depth, going on from their sums.
template <int VECTORS, typename Number, typename Then>
inline void multiply_part(
    Left<Number> rows, int count, const Number* panel, int64_t depth,
    const Row<VECTORS, Number>* before, const Then& then) {
  int first = 0;
  auto of_row = [&] { return before ? before + first : nullptr; };
  auto next = [&](int row, const auto& sums) { then(first + row, sums); };
  for (; first + TILE_ROWS <= count; first += TILE_ROWS)
    multiply_tile<TILE_ROWS, VECTORS>(rows.from(first), panel, depth, of_row(), next);
  multiply_last<TILE_ROWS - 1, VECTORS>(
      rows.from(first), count - first, panel, depth, of_row(), next);
}

// Rows, at most a block of them, by a panel too deep for the first cache: a part of its depth for all
// rows after the other, so that a row's sums are added up in the same order as at once.
template <int VECTORS, typename Number, typename Then>
inline void multiply_deep(
    Left<Number> rows, int count, const Number* panel, int64_t depth, int64_t part,
    const Then& then) {
  Row<VECTORS, Number> kept[BLOCK_ROWS<Number>];
  auto keep = [&](int row, const auto& sums) {
    for (int v = 0; v < VECTORS; v++) kept[row][v] = sums[v];
  };
  int64_t k = 0;
  for (; k + part < depth; k += part)
    multiply_part<VECTORS>(
        rows.deeper(k), count, panel + k * VECTORS * LANES, part, k ? kept : nullptr, keep);
  multiply_part<VECTORS>(
      rows.deeper(k), count, panel + k * VECTORS * LANES, depth - k, kept, then);
}

// Rows by a panel of so many vectors; `then` is told a row's number and its sums.
template <int VECTORS, typename Number, typename Then>
inline void multiply_panel(
    Left<Number> rows, int count, const Number* panel, int64_t depth, const Then& then) {
#if HAS_TILES
  if constexpr (HAS_TILES_OF<Number>)
    if (suit_tiles(rows, depth)) {
      auto told = [&](int64_t row, int64_t, const auto& sums) { then(int(row), sums); };
      Waiting<VECTORS, Number, decltype(told)> waiting(told);
      multiply_by_tiles(rows, count, panel, depth, 0, 0, waiting);
      return waiting.finish();
    }
#endif
  constexpr int64_t NEAR = NEAR_BYTES / (VECTORS * VECTOR_BYTES) * Factors<Number>::STEP;
  constexpr int64_t PART = NEAR / BAND<Number> * BAND<Number>;  // rows may lie in bands
  // Of many bands few are foreseen.
  if (depth <= PART || (IS_SECOND_FAST<Number> && !rows.is_in_bands())) {
    multiply_part<VECTORS, Number>(rows, count, panel, depth, nullptr, then);
    return;
  }
  for (int block = 0; block < count; block += BLOCK_ROWS<Number>)
    multiply_deep<VECTORS>(
        rows.from(block), std::min(count - block, BLOCK_ROWS<Number>), panel, depth, PART,
        [&](int row, const auto& sums) { then(block + row, sums); });
}

// Rows by a panel that may be narrower than others.
template <int VECTORS, typename Number, typename Then>
inline void multiply_narrow(
    Left<Number> rows, int count, const Number* panel, int vectors, int64_t depth,
    const Then& then) {
  if (vectors == VECTORS)
    multiply_panel<VECTORS>(rows, count, panel, depth, then);
  else if constexpr (VECTORS > 1)
    multiply_narrow<VECTORS - 1>(rows, count, panel, vectors, depth, then);
}

// Asks for the lines of a block that will be written, or but read, which else would be waited for one
// by one.
template <int IS_WRITTEN = 1, typename Number>
inline void expect(const Number* block, int64_t stride, int64_t count, int64_t width) {
  for (int64_t row = 0; row < count; row++)
    for (int64_t line = 0; line < width; line += 64 / int64_t(sizeof(Number)))
      __builtin_prefetch(block + row * stride + line, IS_WRITTEN);
}

// Rows by a panel, DEEP steps of a long sum at a time, in this thread; what comes of it is put to, or
// added to, (count, PANEL) sums.
template <typename Number>
inline void multiply_long(
    Left<Number> rows, int count, const Number* panel, int vectors, int64_t depth, float* sums,
    bool is_first = true) {
  for (int64_t k = 0; k < depth; k += DEEP) {
    bool is_new = is_first && k == 0;
    multiply_narrow<TILE_VECTORS<Number>>(
        rows.deeper(k), count, panel + k * vectors * LANES, vectors, std::min(DEEP, depth - k),
        [=](int row, const auto& part) {
          float* to = sums + row * PANEL<Number>;
          for (const Floats& each : part) store(to, is_new ? each : load(to) + each), to += LANES;
        });
  }
}

// (R, D) rows by (D, C), C whole vectors, in this thread; `then` is told row, column and sums.
template <typename Number, typename Then>
inline void multiply(
    Left<Number> rows, int count, const Panels<Number>& by, const Then& then) {
  constexpr int BROAD = PANEL<Number>;
  int64_t column = 0;
#if HAS_TILES
  if constexpr (HAS_TILES_OF<Number>)
    if (suit_tiles(rows, by.depth)) {
      Waiting<TILE_VECTORS<Number>, Number, Then> waiting(then);
      for (; column + BROAD <= by.width; column += BROAD)
        multiply_by_tiles(rows, count, by.from(column), by.depth, 0, column, waiting);
      waiting.finish();
    }
#endif
  for (; column < by.width; column += BROAD) {
    int vectors = int(std::min<int64_t>(BROAD, by.width - column)) / LANES;
    multiply_narrow<TILE_VECTORS<Number>>(
        rows, count, by.from(column), vectors, by.depth,
        [&](int row, const auto& sums) { then(row, int(column), sums); });
  }
}

}  // namespace
