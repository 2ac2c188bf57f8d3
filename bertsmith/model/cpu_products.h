// Products of rows with a matrix that lies in panels, on a CPU.
//
// Sums are made in the matrix unit or in registers (cpu_register_products.h), always in the same order: a
// row's results depend on no other row. Who asks says what becomes of them. It knows no layers.
//
// Legend: R rows, D depth, C columns.

#pragma once

#include "cpu_register_products.h"

namespace {

// Rows that one thread takes at a time, but of a far matrix (cpu_shared_products.h).
template <typename Number>
constexpr int BLOCK_ROWS = HAS_TILES_OF<Number> ? 8 * TALL : 8 * TILE_ROWS;
// Of a long sum: so deep a panel stays in the first cache.
constexpr int64_t DEEP = 256;
// So much of a panel stays in the first cache beside rows and sums. Shorter vectors ask for so little
// at a step that the second one keeps up with them.
constexpr int64_t NEAR_BYTES = VECTOR_BYTES == 64 ? 1 << 15 : INT32_MAX;
// So much of a panel and of a block's rows stays in the second cache, as smaller ones have it; of deeper ones
// a fourth of it, of the panel alone, is multiplied at a time.
constexpr int64_t SECOND_BYTES = 1 << 20;
// Whether the second cache keeps up anyway: with bfloat16, and with all types where no instruction multiplies
// float16, by which a source knows Intel's processors that have a matrix unit, or hide it.
#if defined(__AVX512FP16__)
template <typename Number>
constexpr bool IS_SECOND_FAST = sizeof(Number) == 2;
#else
template <typename Number>
constexpr bool IS_SECOND_FAST = true;
#endif

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

// So much of a panel's depth as takes so many bytes; rows may lie in bands.
template <int VECTORS, typename Number>
constexpr int64_t depth_of(int64_t bytes) {
  return bytes / STEP_BYTES<VECTORS> * Factors<Number>::STEP / BAND<Number> * BAND<Number>;
}

// Of so few rows multiplying does not hide that their matrix comes from memory, or from the third cache: all
// are multiplied by so much of a panel before the next as much, which comes meanwhile.
constexpr int FEW_ROWS = (VECTOR_BYTES == 64 ? 24 : 4) * TILE_ROWS;
constexpr int64_t FEW_BYTES = 1 << 14;

// Few rows by a panel, a part of its depth after the other -> their sums, made in the same order as at once.
// Up to three tiles ask for two lines at a step, more tiles for one.
template <int VECTORS, typename Number>
__attribute__((noinline)) void multiply_few(
    Left<Number> rows, int count, const Number* panel, int64_t depth, Row<VECTORS, Number>* sums) {
  constexpr int64_t PART = depth_of<VECTORS, Number>(FEW_BYTES);
  const auto asking_for = [&](auto lines) {
    for (int64_t k = 0; k < depth; k += PART)
      multiply_part<VECTORS, lines>(
          rows.deeper(k), count, {panel + k * VECTORS * LANES, std::min(PART, depth - k)},
          k ? sums : nullptr, [=](int row, const auto& found) {
            for (int v = 0; v < VECTORS; v++) sums[row][v] = found[v];
          });
  };
  if (count > 3 * TILE_ROWS || STEP_BYTES<VECTORS> <= 2 * LINE_BYTES)
    asking_for(std::integral_constant<int, 1>());
  else
    asking_for(std::integral_constant<int, 2>());
}

// Rows, at most a block of them, by a panel too deep for the cache that it is to stay in: a part of its depth
// for all rows after the other, so that a row's sums are added up in the same order as at once.
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
        rows.deeper(k), count, {panel + k * VECTORS * LANES, part}, k ? kept : nullptr, keep);
  multiply_part<VECTORS>(
      rows.deeper(k), count, {panel + k * VECTORS * LANES, depth - k}, k ? kept : nullptr, then);
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
  // Of many bands few are foreseen.
  const bool is_second_fast = IS_SECOND_FAST<Number> && !rows.is_in_bands();
  constexpr int64_t OF_A_STEP = (VECTORS * LANES + BLOCK_ROWS<Number>) * sizeof(Number);
  const int64_t part = depth_of<VECTORS, Number>(is_second_fast ? SECOND_BYTES / 4 : NEAR_BYTES);
  if (depth <= (is_second_fast ? std::max(part, SECOND_BYTES / OF_A_STEP) : part)) {
    multiply_part<VECTORS>(rows, count, {panel, depth}, nullptr, then);
    return;
  }
  for (int block = 0; block < count; block += BLOCK_ROWS<Number>)
    multiply_deep<VECTORS>(
        rows.from(block), std::min(count - block, BLOCK_ROWS<Number>), panel, depth, part,
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
