// Products of rows with a matrix that lies in panels, on a CPU.
//
// A tile of rows and columns is summed up in registers, always in the same order, in float32, levels
// as integers: a row's results depend on no other row. Who asks says what becomes of a tile's sums. It
// knows no layers.
//
// Legend: R rows, D depth, C columns.

#pragma once

#include "cpu_panels.h"

namespace {

// Rows that one thread takes at a time.
template <typename Number>
constexpr int BLOCK_ROWS = HAS_TILES_OF<Number> ? 8 * TALL : 8 * TILE_ROWS;
// Of a long sum: so deep a panel stays in the first cache.
constexpr int64_t DEEP = 256;
// So much of a panel stays in the first cache beside rows and sums. Shorter vectors ask for so little
// at a step that the second one keeps up with them.
constexpr int64_t NEAR_BYTES = VECTOR_BYTES == 64 ? 1 << 15 : INT32_MAX;
// Rows of so many tiles give time to ask for the next columns, and are not in the first cache still
// when these come.
constexpr int MANY_TILES = 4;
// So many steps before a panel's numbers are read they are asked for: most lie in the second cache.
constexpr int AHEAD = 16, LINE_BYTES = 64;

// The rows of a product: how far a row is from the next, and one step of depth from the next.
template <typename Number>
struct Left {
  const Number* first;
  int64_t row, step = Factors<Number>::STEP;

  Left from(int64_t number) const { return {first + number * row, row, step}; }
};

// A row's sums, of all the vectors of a panel.
template <int VECTORS, typename Number>
using Row = typename Factors<Number>::Sums[VECTORS];

// Goes on from the rows' sums, or from zero where there are none.
template <int ROWS, int VECTORS, typename Number, typename Then>
inline void multiply_tile(
    Left<Number> rows, const Number* panel, int64_t depth, const Row<VECTORS, Number>* before,
    const Then& then) {
  constexpr int STEP = Factors<Number>::STEP;
  typedef typename Factors<Number>::Sums Sums;
  Sums sums[ROWS][VECTORS];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) sums[r][v] = before ? before[r][v] : Sums{};
  int64_t at = 0;
  for (int64_t k = 0; k < depth; k += STEP, at += rows.step, panel += VECTORS * LANES * STEP) {
#pragma GCC unroll 8
    for (int byte = 0; byte < VECTORS * VECTOR_BYTES; byte += LINE_BYTES)
      __builtin_prefetch((const char*)panel + AHEAD * VECTORS * VECTOR_BYTES + byte);
    typename Factors<Number>::Columns columns[VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) columns[v] = Factors<Number>::of(panel + v * LANES * STEP);
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; v++)
        sums[r][v] = Factors<Number>::add(sums[r][v], rows.first + r * rows.row + at, columns[v]);
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
  constexpr int STEP = Factors<Number>::STEP;
  Row<VECTORS, Number> kept[BLOCK_ROWS<Number>];
  auto keep = [&](int row, const auto& sums) {
    for (int v = 0; v < VECTORS; v++) kept[row][v] = sums[v];
  };
  int64_t k = 0;
  auto from = [&] {
    return Left<Number>{rows.first + k / STEP * rows.step, rows.row, rows.step};
  };
  for (; k + part < depth; k += part)
    multiply_part<VECTORS>(from(), count, panel + k * VECTORS * LANES, part, k ? kept : nullptr, keep);
  multiply_part<VECTORS>(from(), count, panel + k * VECTORS * LANES, depth - k, kept, then);
}

// Asks for so many numbers to come to the second cache, which is near enough, while others are
// multiplied.
template <typename Number>
inline void ask_for(const Number* numbers, int64_t count) {
  for (int64_t at = 0; at < count; at += LINE_BYTES / int64_t(sizeof(Number)))
    __builtin_prefetch(numbers + at, 0, 2);
}

// Who asks may be told of rows before they are multiplied: nobody is.
struct Untold {
  template <typename... Where>
  void operator()(Where...) const {}
};

#if HAS_TILES
// Rows, at most a block of them, by a panel of one tile or two. Of a long sum so much is made at a
// time as the first cache holds of the panel.
template <int VECTORS, typename Number, typename Then, typename Before>
inline void multiply_by_tiles(
    Left<Number> rows, int count, const Number* panel, int64_t depth, const Then& then,
    const Before& before) {
  constexpr int64_t PITCH = VECTORS * VECTOR_BYTES, BYTES = sizeof(Number);
  constexpr bool IS_BROAD = VECTORS == 2;
  alignas(VECTOR_BYTES) typename Factors<Number>::Sums sums[BLOCK_ROWS<Number>][VECTORS];
  const bool are_many = count >= MANY_TILES * TALL;
  auto* tall = are_many ? multiply_tiles<true, IS_BROAD, true, Number>
                        : multiply_tiles<true, IS_BROAD, false, Number>;
  for (int64_t k = 0; k == 0 || k < depth; k += DEEP)  // of no depth sums are zero
    for (int first = 0; first < count; first += TALL) {
      const int here = std::min(count - first, TALL);
      const int64_t stride = rows.row * BYTES, part = std::min(DEEP, depth - k);
      const Number* from = rows.first + first * rows.row + k;
      const Number* columns = panel + k * VECTORS * LANES;
      if (are_many) {  // the next ones lie behind these
        const int64_t size = part * VECTORS * LANES, piece = parts(size, parts(count, TALL));
        ask_for(columns + size + first / TALL * piece, piece);
      }
      if (k + part == depth) before(first, here);
      Tiles::are_of(here);
      auto* multiply = here > SIDE ? tall : multiply_tiles<false, IS_BROAD, false, Number>;
      multiply(from, stride, columns, PITCH, part, sums[first], PITCH, k == 0, 64);
      if (k + part == depth)
        for (int row = first; row < first + here; row++) then(row, sums[row]);
    }
}
#endif

// Rows by a panel of so many vectors; `then` is told a row's number and its sums, and, where there are
// tiles, `before` of so many rows from one on.
template <int VECTORS, typename Number, typename Then, typename Before = Untold>
inline void multiply_panel(
    Left<Number> rows, int count, const Number* panel, int64_t depth, const Then& then,
    const Before& before = {}) {
#if HAS_TILES
  if constexpr (HAS_TILES_OF<Number>) {
    bool is_whole = rows.step == Factors<Number>::STEP && depth % TILE_DEPTH<Number> == 0;
    if (is_whole && may_use_tiles()) {
      for (int block = 0; block < count; block += BLOCK_ROWS<Number>)
        multiply_by_tiles<VECTORS>(
            rows.from(block), std::min(count - block, BLOCK_ROWS<Number>), panel, depth,
            [&](int row, const auto& sums) { then(block + row, sums); },
            [&](int row, int rows) { before(block + row, rows); });
      return;
    }
  }
#endif
  constexpr int64_t PART = NEAR_BYTES / (VECTORS * VECTOR_BYTES) * Factors<Number>::STEP;
  if (depth <= PART) {
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
  constexpr int STEP = Factors<Number>::STEP;
  for (int64_t k = 0; k < depth; k += DEEP) {
    bool is_new = is_first && k == 0;
    multiply_narrow<TILE_VECTORS<Number>>(
        Left<Number>{rows.first + k / STEP * rows.step, rows.row, rows.step}, count,
        panel + k * vectors * LANES, vectors, std::min(DEEP, depth - k),
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
  for (int64_t column = 0; column < by.width; column += BROAD) {
    int vectors = int(std::min<int64_t>(BROAD, by.width - column)) / LANES;
    multiply_narrow<TILE_VECTORS<Number>>(
        rows, count, by.from(column), vectors, by.depth,
        [&](int row, const auto& sums) { then(row, int(column), sums); });
  }
}

}  // namespace
