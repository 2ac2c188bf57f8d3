// The layout of a matrix in memory: row after row, or in bands.
//
// A band holds, for all rows one behind the other, as many columns as a cache line has room for. The
// result of a product, many rows of some columns, then fills consecutive lines, and whoever reads it
// finds them consecutive: the processor prefetches these, but would wait for each line of rows far
// apart. For numbers that tiles multiply (cpu_tiles.h) a line is one tile's part of a row. Without tiles rows
// lie in bands only in a source that defines HAS_BANDS as 1 before what it includes, so that products of
// all others carry no code for them; one that defines it as 0 has none beside tiles either. It knows no
// products.

#pragma once

#include <type_traits>

#include "cpu_tiles.h"
#include "native.h"

#ifndef HAS_BANDS
#define HAS_BANDS HAS_TILES
#endif

namespace {

template <typename Number>
constexpr int64_t BAND = 64 / sizeof(Number);

// How far from one row to the next one, and from one band's columns to the next one's.
template <typename Number>
struct Grid {
  Number* first = nullptr;
  int64_t row = 0, band = BAND<Number>;  // row after row, one band stands behind the other

  static int64_t across(int64_t column, int64_t band) {
    return int64_t(uint64_t(column) / BAND<Number>) * band + int64_t(uint64_t(column) % BAND<Number>);
  }
  Number* at(int64_t of_row, int64_t column) const {
    return first + of_row * row + across(column, band);
  }
  // What begins there; in bands a column that is the first of one.
  Grid from(int64_t of_row, int64_t column = 0) const { return {at(of_row, column), row, band}; }
  operator Grid<const Number>() const { return {first, row, band}; }
};

// Asks for some columns of a row to come to the first cache, to be read soon or written, or to the second.
template <int NEARNESS = 3, typename Number>
inline void ask_for_row(const Grid<Number>& rows, int64_t row, int64_t column, int64_t end) {
  for (; column < end; column += BAND<Number>)
    __builtin_prefetch(rows.at(row, column), !std::is_const_v<Number>, NEARNESS);
}

// So many rows a band has room for. Columns of a row would meet in few places of the first cache if the
// number were even, and in few of the second if it lay near a power of two.
inline int64_t rows_of_band(int64_t count) { return (parts(count, 32) | 1) * 32 + 1; }

// So many rows in bands, of whole ones.
template <typename Number>
inline Grid<Number> in_bands(Cutter& cutter, int64_t count, int64_t width) {
  static_assert(HAS_BANDS && sizeof(Number), "define HAS_BANDS as 1 before the first #include");
  const int64_t band = rows_of_band(count) * BAND<Number>;
  return {cutter.numbers<Number>(parts(width, BAND<Number>) * band), BAND<Number>, band};
}

// So many rows, in bands where there are any, or as products like them one behind the other (native.h).
template <typename Number>
inline Grid<Number> grid_for(Cutter& cutter, int64_t count, int64_t width, bool is_in_bands) {
  if constexpr (HAS_BANDS)
    if (is_in_bands) return in_bands<Number>(cutter, count, width);
  const int64_t stride = stride_for<Number>(width);
  return {cutter.numbers<Number>(count * stride), stride};
}

}  // namespace
