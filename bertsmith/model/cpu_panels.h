// A matrix laid out in panels for products on a CPU, and how numbers of each type are multiplied.
//
// A panel is some columns of the matrix from its first row to its last, in the order in which a
// product reads them: for one row after another (in bfloat16 for two of them side by side, of levels
// of eight bits for four) the numbers of all its columns. It knows no products.
//
// Legend: D depth, C columns.

#pragma once

#include "cpu_bands.h"
#include "cpu_squares.h"
#include "cpu_tiles.h"
#include "native.h"

namespace {

// There are 32 registers of 64 bytes, 16 of fewer; tiles are two by two.
constexpr int TILE_ROWS = 6;
template <typename Number>
constexpr int TILE_VECTORS = VECTOR_BYTES == 64 && !HAS_TILES_OF<Number> ? 4 : 2;
template <typename Number>
constexpr int PANEL = TILE_VECTORS<Number> * LANES;

template <typename Number>
inline int64_t whole_panels(int64_t width) {
  return (width + PANEL<Number> - 1) / PANEL<Number> * PANEL<Number>;
}

// How numbers of a type are multiplied: STEP rows of the matrix at a time, four bytes of a column.
template <typename Number>
struct Factors;

template <>
struct Factors<float> {
  static constexpr int STEP = 1;
  typedef Floats Sums;
  typedef Floats Columns;
  static Columns of(const float* panel) { return load(panel); }
  static Floats add(Floats sums, const float* row, Columns columns) { return sums + *row * columns; }
};

template <>
struct Factors<uint16_t> {
  static constexpr int STEP = 2;
  typedef Floats Sums;
#if MULTIPLIES_BF16
  typedef __m512bh Columns;
  static Columns of(const uint16_t* panel) { return (__m512bh)_mm512_loadu_si512(panel); }
  static Floats add(Floats sums, const uint16_t* row, Columns columns) {
    int32_t pair;
    std::memcpy(&pair, row, sizeof pair);
    return (Floats)_mm512_dpbf16_ps((__m512)sums, (__m512bh)_mm512_set1_epi32(pair), columns);
  }
#else
  typedef Words Columns;
  static Columns of(const uint16_t* panel) {
    Words pairs;
    std::memcpy(&pairs, panel, sizeof pairs);
    return pairs;
  }
  static Floats add(Floats sums, const uint16_t* row, Columns columns) {
    sums += widened(row[0]) * (Floats)(columns << 16);
    return sums + widened(row[1]) * (Floats)(columns & 0xFFFF0000u);
  }
#endif
};

// Levels: of the matrix from -127 to 127, of the rows RAISED above that, so that none has a sign.
template <>
struct Factors<int8_t> {
  static constexpr int STEP = 4;
  typedef Integers Sums;
#if MULTIPLIES_INT8
  typedef __m512i Columns;
  static Columns of(const int8_t* panel) { return _mm512_loadu_si512(panel); }
  static Integers add(Integers sums, const int8_t* row, Columns columns) {
    int32_t quad;
    std::memcpy(&quad, row, sizeof quad);
    return (Integers)_mm512_dpbusd_epi32((__m512i)sums, _mm512_set1_epi32(quad), columns);
  }
#else
  typedef Words Columns;
  static Columns of(const int8_t* panel) {
    Words quads;
    std::memcpy(&quads, panel, sizeof quads);
    return quads;
  }
  static Integers add(Integers sums, const int8_t* row, Columns columns) {
    for (int byte = 0; byte < STEP; byte++)
      sums += int32_t(uint8_t(row[byte])) * ((Integers)(columns << (24 - 8 * byte)) >> 24);
    return sums;
  }
#endif
};

// Depth that products like best: whole steps, or whole tiles where there are tiles.
template <typename Number>
inline int64_t whole_depth(int64_t depth) {
  constexpr int64_t STEP = HAS_TILES_OF<Number> ? TILE_DEPTH<Number> : Factors<Number>::STEP;
  return (depth + STEP - 1) / STEP * STEP;
}

// What products of rows as they are need to work in.
struct NoRoom {
  NoRoom(Cutter&, int64_t, int64_t) {}
};

// A matrix as products read it; where it is one of weights, with what is added to each column.
template <typename Number>
struct Panels {
  typedef Number Laid;
  typedef NoRoom Room;
  const Number* numbers;
  const float* bias;
  int64_t depth, width;  // D, C

  static constexpr int STEP = Factors<Number>::STEP;
  static constexpr int64_t BROAD = PANEL<Number>;
  static constexpr bool IS_ROUGH = false;  // beside what float32 can hold of its products
  // Numbers of a matrix, whole panels of them.
  static int64_t size(int64_t depth, int64_t width) {
    return whole_panels<Number>(width) * ((depth + STEP - 1) / STEP * STEP);
  }
  int64_t deep() const { return (depth + STEP - 1) / STEP * STEP; }
  const Number* from(int64_t column) const { return numbers + column * deep(); }
  // So many columns from there, where a panel begins.
  Panels part(int64_t column, int64_t count) const {
    return {from(column), bias + column, depth, count};
  }
};

// (C, D) weights -> panels; zeros fill the last one.
template <typename Number>
void lay_out_weights(const Number* weights, int64_t depth, int64_t width, Number* panels) {
  constexpr int STEP = Factors<Number>::STEP, BROAD = PANEL<Number>;
  for (int64_t first = 0; first < width; first += BROAD)
    for (int64_t k = 0; k < depth; k += STEP)
      for (int64_t c = first; c < first + BROAD; c++)
        for (int step = 0; step < STEP; step++)
          *panels++ = c < width && k + step < depth ? weights[c * depth + k + step] : 0;
}

// So many words of four bytes from there; those past them stay.
inline void take(Words& words, const void* from, int64_t count) {
  if (count == LANES)
    std::memcpy(&words, from, sizeof words);  // of a size known to the compiler: no call
  else
    std::memcpy(&words, from, count * 4);
}

// (C, D) rows -> panels of whole vectors; of more than C columns nothing is said. D is a multiple of
// STEP. Rows that are far, such as those of weights, are asked for LANES rows before, to the second
// cache: of so many streams, each as short as a row, few are foreseen.
template <bool ARE_FAR = false, typename Number>
void lay_out_columns(Grid<const Number> rows, int64_t depth, int64_t width, Number* panels) {
  constexpr int STEP = Factors<Number>::STEP, BROAD = PANEL<Number>;
  int64_t num_words = depth / STEP, wide = rounded_up(width);
  for (int64_t column = 0; column < wide; column += LANES) {
    int64_t panel = column / BROAD * BROAD, broad = std::min<int64_t>(BROAD, wide - panel);
    int64_t count = std::min<int64_t>(LANES, width - column);
    Number* to = panels + panel * depth + (column - panel) * STEP;
    for (int64_t word = 0; word < num_words; word += LANES) {
      int64_t words = std::min<int64_t>(LANES, num_words - word);
      Square square{};
      for (int64_t c = 0; c < count; c++) {
        if constexpr (ARE_FAR) __builtin_prefetch(rows.at(column + LANES + c, word * STEP), 0, 2);
        take(square[c], rows.at(column + c, word * STEP), words);
      }
      turn(square);
      for (int64_t w = 0; w < words; w++, to += broad * STEP)
        std::memcpy(to, &square[w], sizeof(Words));
    }
  }
}

// (D, C) rows -> panels of whole vectors, `broad` columns each; zeros fill the last step, or as much
// depth as is named, and the last vector.
template <typename Number>
void lay_out_rows(
    Grid<const Number> rows, int64_t depth, int64_t width, Number* panels,
    int64_t broad = PANEL<Number>, int64_t deep = 0) {
  constexpr int STEP = Factors<Number>::STEP;
  int64_t wide = rounded_up(width), there = (depth + STEP - 1) / STEP * STEP;
  int64_t past = std::max<int64_t>(deep - there, 0);
  for (int64_t panel = 0; panel < wide; panel += broad) {
    int64_t end = std::min(panel + broad, wide);
    for (int64_t k = 0; k < depth; k += STEP)
      for (int64_t c = panel; c < end; c += LANES) {
        const Number *first = rows.at(k, c), *second = k + 1 < depth ? first + rows.row : nullptr;
        Words words = side_by_side(first, second, width - c);
        std::memcpy(panels, &words, sizeof words), panels += LANES * STEP;
      }
    panels = std::fill_n(panels, past * (end - panel), Number{});
  }
}

}  // namespace
