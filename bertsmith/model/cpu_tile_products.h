// Rows by panels in a processor's matrix unit (AMX), overlapped with what follows a product.
//
// The unit computes a tile of sums in a fixed number of cycles, whatever else the processor does, and
// the epilogue takes about as many: a bias, an activation, rounding, and cache lines to wait for. So
// the epilogue of one tile runs while the unit computes the next. It knows no layers.
//
// Legend: R rows, D depth, C columns.

#pragma once

#include "cpu_panels.h"

namespace {

// So much of a panel's depth stays in the first cache.
template <typename Number>
constexpr int64_t DEEP_PART = 768 / sizeof(Number);
// Of so many rows sums wait, and as many more are made meanwhile, of so much depth at least.
constexpr int WAITING_ROWS = 4 * TALL;
template <typename Number>
constexpr int64_t WAITING_DEPTH = 512 / sizeof(Number);
// Rows of so many tiles are not in the first cache still when the next columns come, and their products
// leave time for what becomes of others.
constexpr int MANY_TILES = 4;

// The rows of a product: how far a row is from the next, and one step of depth from the next, or one
// band of it (cpu_bands.h).
template <typename Number>
struct Left {
  const Number* first;
  int64_t row, step = Factors<Number>::STEP, band = BAND<Number>;

  Left(const Number* first, int64_t row) : first(first), row(row) {}
  Left(const Number* first, int64_t row, int64_t step) : first(first), row(row), step(step) {}
  Left(const Grid<const Number>& rows) : first(rows.first), row(rows.row), band(rows.band) {
    if (!HAS_BANDS && band != BAND<Number>) __builtin_trap();  // the source did not define it
  }
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
  bool is_in_bands() const { return HAS_BANDS && band != BAND<Number>; }
};

// A part of a panel's depth.
template <typename Number>
struct PanelPart {
  const Number* first;
  int64_t depth;
};

#if HAS_TILES
// Whether rows are so many that they pass, and whether sums wait beside their products. Those of few rows
// or little depth are over too soon: their sums become something at once.
struct Manner {
  bool rows_pass, sums_wait;

  template <typename Number>
  static Manner of(int64_t count, int64_t depth) {
    const bool are_many = count >= MANY_TILES * TALL;
    return {are_many, are_many && depth >= WAITING_DEPTH<Number>};
  }
};

// What one thread makes: rows from one on, and columns.
struct Piece {
  int64_t row, column, end;
};

// Sums become something, `then`, a row after the other while tiles make the next ones: neither waits
// for the other. It is told row, column and sums; where it has a `begin`, that is told of all rows first.
template <int VECTORS, typename Number, typename Then>
class Waiting {
  template <typename Each>
  static constexpr bool begins(decltype(&Each::begin)) {
    return true;
  }
  template <typename Each>
  static constexpr bool begins(...) {
    return false;
  }

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
    if constexpr (begins<Then>(0)) then.begin(row, column, count, sums[side]);
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

// Rows, as many as wait at most, by a part of a panel of one tile or two: added to what was there before,
// where anything was, -> sums.
template <int VECTORS, typename Number, typename Then>
inline void add_by_tiles(
    Left<Number> rows, int64_t count, const PanelPart<Number>& by,
    typename Waiting<VECTORS, Number, Then>::Place before,
    typename Waiting<VECTORS, Number, Then>::Place sums, const Manner& manner,
    Waiting<VECTORS, Number, Then>& waiting) {
  constexpr int64_t PITCH = VECTORS * VECTOR_BYTES, BYTES = sizeof(Number);
  constexpr bool IS_BROAD = VECTORS == 2;
  const int64_t stride = rows.row * BYTES, step = rows.band * BYTES;
  for (int64_t first = 0; first < count; first += TALL) {
    const int here = int(std::min<int64_t>(count - first, TALL));
    const Number* from = rows.from(first).first;
    const auto* there = before ? before + first : nullptr;
    auto* to = sums + first;
    Tiles::are_of(here);
    if (manner.sums_wait && here > SIDE) {
      multiply_tiles<true, IS_BROAD, true>(
          from, stride, by.first, PITCH, by.depth, there, to, PITCH, step, waiting);
    } else {
      auto* multiply = here <= SIDE       ? multiply_tiles_alone<false, IS_BROAD, false, Number>
                       : manner.rows_pass ? multiply_tiles_alone<true, IS_BROAD, true, Number>
                                          : multiply_tiles_alone<true, IS_BROAD, false, Number>;
      multiply(from, stride, by.first, PITCH, by.depth, there, to, PITCH, step);
    }
  }
}

// Rows by a panel of one tile or two, whose sums wait; those that do become something meanwhile. Of a
// long sum so much is made at a time as the first cache holds of the panel.
template <int VECTORS, typename Number, typename Then>
inline void multiply_by_tiles(
    Left<Number> rows, int64_t count, const Number* panel, int64_t depth, int64_t row, int64_t column,
    Waiting<VECTORS, Number, Then>& waiting) {
  constexpr int64_t PART = DEEP_PART<Number>;
  const Manner manner = Manner::of<Number>(count, depth);
  for (int64_t start = 0; start < count; start += WAITING_ROWS) {
    const int64_t here = std::min<int64_t>(count - start, WAITING_ROWS);
    const auto sums = waiting.next(depth / TILE_DEPTH<Number> * parts(here, TALL));
    for (int64_t k = 0; k == 0 || k < depth; k += PART)  // of no depth sums are zero
      add_by_tiles(
          rows.from(start).deeper(k), here,
          PanelPart<Number>{panel + k * VECTORS * LANES, std::min(PART, depth - k)},
          k ? sums : nullptr, sums, manner, waiting);
    waiting.take(row + start, column, int(here));
    if (!manner.sums_wait) waiting.finish();
  }
}

// Many rows by some panels of a matrix so deep that the second cache does not hold the rows: a part of
// their depth by all these panels, whose sums it `kept`, after the other. The same bits.
template <int VECTORS, typename Number, typename Then>
inline void multiply_parts_by_tiles(
    Left<Number> rows, int64_t count, const Panels<Number>& by, const Piece& of,
    typename Waiting<VECTORS, Number, Then>::Place kept, Waiting<VECTORS, Number, Then>& waiting) {
  constexpr int64_t BROAD = PANEL<Number>, PART = DEEP_PART<Number>;
  for (int64_t k = 0; k < by.depth; k += PART)
    for (int64_t column = of.column; column < of.end; column += BROAD)
      for (int64_t start = 0; start < count; start += WAITING_ROWS) {
        const int64_t here = std::min<int64_t>(count - start, WAITING_ROWS);
        const PanelPart<Number> part{by.from(column) + k * BROAD, std::min(PART, by.depth - k)};
        const bool is_last = k + part.depth == by.depth;
        const auto before = kept + (column - of.column) / BROAD * count + start;
        const int64_t steps = part.depth / TILE_DEPTH<Number> * parts(here, TALL);
        const auto sums = is_last ? waiting.next(steps) : before;
        add_by_tiles(
            rows.from(start).deeper(k), here, part, k ? before : nullptr, sums, Manner{true, true},
            waiting);
        if (is_last) waiting.take(of.row + start, column, int(here));
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

}  // namespace
