// Products of some rows with a part of a panel, in registers, on a CPU.
//
// A tile of rows and columns is summed up in registers, always in the same order, in float32, levels as
// integers, while what is read next is asked for. Who asks says what becomes of a tile's sums. It knows
// no layers.

#pragma once

#include "cpu_tile_products.h"

namespace {

// So many steps before a panel's numbers are read they are asked for: most lie in the second cache. In a
// tile's last steps it is the panel's first numbers, with which the next tile begins; not where rows may lie
// in bands, since it needs one register more, which loses more there than it gains (docs/log.md).
constexpr int AHEAD = 16, LINE_BYTES = 64;

// A row's sums, of all the vectors of a panel.
template <int VECTORS, typename Number>
using Row = typename Factors<Number>::Sums[VECTORS];

// Bytes of a panel that a step reads.
template <int VECTORS>
constexpr int64_t STEP_BYTES = VECTORS * VECTOR_BYTES;

// What a tile asks for at every step, so many bytes past the panel's numbers that it reads: those of a later
// step, for the first cache; or where LINES are named so many of what follows the part, for the second. Of
// that a tile asks for a share, fewer bytes a step than it reads: so many fewer is what it asks for past.
template <int VECTORS, int LINES>
struct Ahead {
  static constexpr int64_t BYTES = LINES ? LINES * LINE_BYTES : STEP_BYTES<VECTORS>;
  int64_t past = AHEAD * STEP_BYTES<VECTORS>, fewer = 0;

  inline void ask(const void* panel) {
#pragma GCC unroll 8
    for (int64_t byte = 0; byte < BYTES; byte += LINE_BYTES)
      __builtin_prefetch(static_cast<const char*>(panel) + past + byte, 0, LINES ? 2 : 3);
    if constexpr (LINES) past -= fewer;
  }
};

// Goes on from the rows' sums, or from zero where there are none.
//
// Addresses of rows are one of two pointers and no, one or two strides, as one instruction says them. With
// more pointers, or an index, g++ 12 keeps some in vector registers, and moving one back waits for all
// products before it; the empty asm keeps it from deriving one from another. It is inlined into its caller so
// that `then` may be, with the sums in registers; a long one is better `out_of_line`.
template <int ROWS, int VECTORS, int LINES, typename Number, typename Then>
__attribute__((always_inline)) inline void multiply_tile(
    Left<Number> rows, PanelPart<Number> part, const Row<VECTORS, Number>* before, const Then& then,
    Ahead<VECTORS, LINES> ahead) {
  constexpr int STEP = Factors<Number>::STEP, HALF = ROWS / 2;
  typedef typename Factors<Number>::Sums Sums;
  Sums sums[ROWS][VECTORS];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) sums[r][v] = before ? before[r][v] : Sums{};
  constexpr int64_t LAST = AHEAD * STEP;
  const Number* panel = part.first;
  constexpr bool TURNS_BACK = !HAS_BANDS && !LINES;
  const int64_t jump = rows.is_in_bands() ? rows.band - BAND<Number> : 0;
  // Of two passes at most, unless in bands: `ahead` turns back in the last one.
  const int64_t at_once = jump ? BAND<Number> : TURNS_BACK ? std::max(part.depth - LAST, LAST) : part.depth;
  const Number *low = rows.first, *high = low + HALF * rows.row;
  if constexpr (!HAS_BANDS)
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)  // where the next tile's rows begin
      __builtin_prefetch((r < HALF ? low : high - HALF * rows.row) + (ROWS + r) * rows.row);
  for (int64_t left = part.depth; left > 0; left -= at_once, low += jump, high += jump) {
    if (TURNS_BACK && left <= LAST) ahead.past -= part.depth / STEP * STEP_BYTES<VECTORS>;
    for (int64_t here = std::min(at_once, left); here > 0; here -= STEP) {
      asm("" : "+r"(low), "+r"(high), "+r"(panel), "+r"(here));
      ahead.ask(panel);
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
template <int ROWS, int VECTORS, int LINES, typename Number, typename Then>
inline void multiply_last(
    Left<Number> rows, int count, PanelPart<Number> part, const Row<VECTORS, Number>* before,
    const Then& then, const Ahead<VECTORS, LINES>& ahead) {
  if constexpr (ROWS > 0) {
    if (count == ROWS)
      multiply_tile<ROWS, VECTORS>(rows, part, before, then, ahead);
    else
      multiply_last<ROWS - 1, VECTORS>(rows, count, part, before, then, ahead);
  }
}

// Rows by a part of a panel's depth, going on from their sums; all tiles together may ask for what follows it
// in memory, LINES at a step.
template <int VECTORS, int LINES = 0, typename Number, typename Then>
inline void multiply_part(
    Left<Number> rows, int count, PanelPart<Number> part, const Row<VECTORS, Number>* before,
    const Then& then) {
  const int64_t steps = parts(part.depth, Factors<Number>::STEP);
  const int64_t share = LINES ? parts(STEP_BYTES<VECTORS>, parts(count, TILE_ROWS)) : 0;
  Ahead<VECTORS, LINES> ahead;
  if (LINES) ahead = {steps * STEP_BYTES<VECTORS>, STEP_BYTES<VECTORS> - share};
  int first = 0;
  auto of_row = [&] { return before ? before + first : nullptr; };
  auto next = [&](int row, const auto& sums) { then(first + row, sums); };
  for (; first + TILE_ROWS <= count; first += TILE_ROWS, ahead.past += share * steps)
    multiply_tile<TILE_ROWS, VECTORS>(rows.from(first), part, of_row(), next, ahead);
  multiply_last<TILE_ROWS - 1, VECTORS>(
      rows.from(first), count - first, part, of_row(), next, ahead);
}

}  // namespace
