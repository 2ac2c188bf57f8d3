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
// Of a long sum: so deep a panel stays in the first cache; with tiles, so many bytes.
constexpr int64_t DEEP = 256, DEEP_BYTES = 768;
// Of so many rows sums wait, and as many more are made meanwhile.
constexpr int WAITING_ROWS = 4 * TALL;
// So much of a panel stays in the first cache beside rows and sums. Shorter vectors ask for so little
// at a step that the second one keeps up with them.
constexpr int64_t NEAR_BYTES = VECTOR_BYTES == 64 ? 1 << 15 : INT32_MAX;
// Rows of so many tiles give time to ask for the next columns, and are not in the first cache still
// when these come.
constexpr int MANY_TILES = 4;
// So many steps before a panel's numbers are read they are asked for: most lie in the second cache.
constexpr int AHEAD = 16, LINE_BYTES = 64;

// The rows of a product: how far a row is from the next, and one step of depth from the next, or one
// band of it (cpu_bands.h).
template <typename Number>
struct Left {
  const Number* first;
  int64_t row, step = Factors<Number>::STEP, band = BAND<Number>;

  Left(const Number* first, int64_t row) : first(first), row(row) {}
  Left(const Number* first, int64_t row, int64_t step) : first(first), row(row), step(step) {}
  Left(const Grid<const Number>& rows) : first(rows.first), row(rows.row), band(rows.band) {}
  Left(const Grid<Number>& rows) : Left(Grid<const Number>(rows)) {}

  Left from(int64_t number) const {
    Left found = *this;
    found.first += number * row;
    return found;
  }
  // From a step of depth on; in bands, the first of one.
  Left deeper(int64_t k) const {
    Left found = *this;
    found.first += is_in_bands() ? k / BAND<Number> * band : k / Factors<Number>::STEP * step;
    return found;
  }
  Grid<const Number> grid() const { return {first, row, band}; }
  bool is_in_bands() const { return band != BAND<Number>; }
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
  Row<VECTORS, Number> kept[BLOCK_ROWS<Number>];
  auto keep = [&](int row, const auto& sums) {
    for (int v = 0; v < VECTORS; v++) kept[row][v] = sums[v];
  };
  int64_t k = 0;
  for (; k + part < depth; k += part)
    multiply_part<VECTORS>(
        rows.deeper(k), count, panel + k * VECTORS * LANES, part, k ? kept : nullptr, keep);
  multiply_part<VECTORS>(
      rows.deeper(k), count, panel + k * VECTORS * LANES, depth - k, k ? kept : nullptr, then);
}

// Asks for so many numbers to come to the second cache, which is near enough, while others are
// multiplied.
template <typename Number>
inline void ask_for(const Number* numbers, int64_t count) {
  for (int64_t at = 0; at < count; at += LINE_BYTES / int64_t(sizeof(Number)))
    __builtin_prefetch(numbers + at, 0, 2);
}

#if HAS_TILES
// Sums become something, `then`, a row after the other while tiles make the next ones: neither waits
// for the other. It is told row, column and sums.
template <int VECTORS, typename Number, typename Then>
class Waiting {
 public:
  typedef typename Factors<Number>::Sums Sums;
  typedef Sums (*Place)[VECTORS];

  explicit Waiting(const Then& then) : then(then) {}

  // Where the next sums are put; those that wait become something in so many steps.
  Place next(int64_t steps) {
    pace = (int64_t(end) << 16) / std::max<int64_t>(steps, 1);
    due = 0xFFFF;
    return sums[side ^ 1];
  }

  void operator()() {
    if (at == end) return;
    due += pace;
    until(std::min<int64_t>(due >> 16, end));
  }

  // So many rows of sums are there, whose first one's place that is.
  void take(int64_t row, int64_t column, int count) {
    finish();
    side ^= 1, first = row, of_column = column, end = count, at = 0;
  }

  void finish() { until(end); }

 private:
  // What it reads of itself is in registers: no store can have changed that.
  void until(int64_t end) {
    const Then change = then;
    const int64_t first = this->first, column = of_column;
    const Sums(*from)[VECTORS] = sums[side];
    for (int64_t row = at; row < end; row++) change(first + row, column, from[row]);
    at = end;
  }

  const Then& then;
  alignas(VECTOR_BYTES) Sums sums[2][WAITING_ROWS][VECTORS];
  int side = 0;
  int64_t at = 0, end = 0, first = 0, of_column = 0, due = 0, pace = 0;
};

// Rows by a panel of one tile or two, whose sums wait; those that do become something meanwhile. Of a
// long sum so much is made at a time as the first cache holds of the panel. Products of few rows or
// little depth are over too soon: their sums become something at once.
template <int VECTORS, typename Number, typename Then>
inline void multiply_by_tiles(
    Left<Number> rows, int64_t count, const Number* panel, int64_t depth, int64_t row, int64_t column,
    Waiting<VECTORS, Number, Then>& waiting) {
  constexpr int64_t PITCH = VECTORS * VECTOR_BYTES, BYTES = sizeof(Number);
  constexpr int64_t DEPTH = DEEP_BYTES / BYTES;
  constexpr bool IS_BROAD = VECTORS == 2;
  const bool are_many = count >= MANY_TILES * TALL, may_wait = are_many && depth >= DEPTH;
  for (int64_t start = 0; start < count; start += WAITING_ROWS) {
    const int64_t end = std::min<int64_t>(count, start + WAITING_ROWS);
    const auto sums = waiting.next(depth / TILE_DEPTH<Number> * parts(end - start, TALL));
    for (int64_t k = 0; k == 0 || k < depth; k += DEPTH)  // of no depth sums are zero
      for (int64_t first = start; first < end; first += TALL) {
        const int here = int(std::min<int64_t>(end - first, TALL));
        const Number *from = rows.from(first).deeper(k).first, *columns = panel + k * VECTORS * LANES;
        const int64_t stride = rows.row * BYTES, step = rows.band * BYTES;
        const int64_t part = std::min(DEPTH, depth - k);
        auto* to = sums[first - start];
        Tiles::are_of(here);
        if (may_wait && here > SIDE) {
          multiply_tiles<true, IS_BROAD, true>(
              from, stride, columns, PITCH, part, to, PITCH, k == 0, step, waiting);
        } else {
          auto* multiply = here <= SIDE ? multiply_tiles_alone<false, IS_BROAD, false, Number>
                           : are_many   ? multiply_tiles_alone<true, IS_BROAD, true, Number>
                                        : multiply_tiles_alone<true, IS_BROAD, false, Number>;
          multiply(from, stride, columns, PITCH, part, to, PITCH, k == 0, step);
        }
      }
    waiting.take(row + start, column, int(end - start));
    if (!may_wait) waiting.finish();
  }
}
#endif

// Whether tiles take such rows.
template <typename Number>
inline bool suit_tiles(const Left<Number>& rows, int64_t depth) {
  if constexpr (HAS_TILES_OF<Number>)
    return rows.step == Factors<Number>::STEP && depth % TILE_DEPTH<Number> == 0 && may_use_tiles();
  return false;
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
  constexpr int64_t PART = NEAR_BYTES / (VECTORS * VECTOR_BYTES) * Factors<Number>::STEP;
  const int64_t most = rows.is_in_bands() ? BAND<Number> : PART;
  if (depth <= most) {
    multiply_part<VECTORS, Number>(rows, count, panel, depth, nullptr, then);
    return;
  }
  for (int block = 0; block < count; block += BLOCK_ROWS<Number>)
    multiply_deep<VECTORS>(
        rows.from(block), std::min(count - block, BLOCK_ROWS<Number>), panel, depth, most,
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
