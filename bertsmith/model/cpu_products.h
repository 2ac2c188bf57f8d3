// Products of rows with a matrix that lies in panels, on a CPU.
//
// A panel is some columns of the matrix from its first row to its last, in the order in which a
// product reads them: for one row after another (in bfloat16 for two of them side by side, of levels
// of eight bits for four) the numbers of all its columns. A tile of rows and columns is summed up in
// registers over the whole depth, always in the same order, in float32, levels as integers: a row's
// results depend on no other row. Who asks says what becomes of a tile's sums. It knows no layers.
//
// Legend: R rows, D depth, C columns.

#pragma once

#include "native.h"

namespace {

// There are 32 registers of 64 bytes, 16 of fewer.
constexpr int TILE_ROWS = 6, TILE_VECTORS = VECTOR_BYTES == 64 ? 4 : 2;
constexpr int PANEL = TILE_VECTORS * LANES;
// Rows that one thread takes at a time.
constexpr int BLOCK_ROWS = 8 * TILE_ROWS;
// Of a long sum: so deep a panel stays in the first cache.
constexpr int64_t DEEP = 256;

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

// A matrix as products read it; where it is one of weights, with what is added to each column.
template <typename Number>
struct Panels {
  const Number* numbers;
  const float* bias;
  int64_t depth, width;  // D, C

  static constexpr int STEP = Factors<Number>::STEP;
  int64_t deep() const { return (depth + STEP - 1) / STEP * STEP; }
  const Number* from(int64_t column) const { return numbers + column * deep(); }
};

// The rows of a product: how far a row is from the next, and one step of depth from the next.
template <typename Number>
struct Left {
  const Number* first;
  int64_t row, step = Factors<Number>::STEP;

  Left from(int64_t number) const { return {first + number * row, row, step}; }
};

// (C, D) weights -> panels; zeros fill the last one.
template <typename Number>
void lay_out_weights(const Number* weights, int64_t depth, int64_t width, Number* panels) {
  constexpr int STEP = Factors<Number>::STEP;
  for (int64_t first = 0; first < width; first += PANEL)
    for (int64_t k = 0; k < depth; k += STEP)
      for (int64_t c = first; c < first + PANEL; c++)
        for (int step = 0; step < STEP; step++)
          *panels++ = c < width && k + step < depth ? weights[c * depth + k + step] : 0;
}

// Square blocks of words, numbers of four bytes in all, change rows for columns.
typedef Words Square[LANES];

#if defined(__GNUC__) && !defined(__clang__)
template <int... LANE>
inline void swap_halves(
    Words& low, Words& high, int size, std::integer_sequence<int, LANE...>) {
  const Words lows = {uint32_t(LANE & size ? LANES + (LANE ^ size) : LANE)...};
  const Words highs = {uint32_t(LANE & size ? LANES + LANE : LANE + size)...};
  Words first = __builtin_shuffle(low, high, lows);
  high = __builtin_shuffle(low, high, highs);
  low = first;
}

inline void turn(Square& square) {
#pragma GCC unroll 4
  for (int size = 1; size < LANES; size *= 2)
#pragma GCC unroll 16
    for (int row = 0; row < LANES; row++)
      if (!(row & size))
        swap_halves(
            square[row], square[row | size], size, std::make_integer_sequence<int, LANES>());
}
#else
inline void turn(Square& square) {
  for (int row = 0; row < LANES; row++)
    for (int column = 0; column < row; column++) {
      uint32_t word = square[row][column];
      square[row][column] = square[column][row];
      square[column][row] = word;
    }
}
#endif

// So many words of four bytes from there; those past them stay.
inline void take(Words& words, const void* from, int64_t count) {
  if (count == LANES)
    std::memcpy(&words, from, sizeof words);  // of a size known to the compiler: no call
  else
    std::memcpy(&words, from, count * 4);
}

// (C, D) rows, `stride` numbers from one to the next, -> panels of whole vectors; of more than C
// columns nothing is said. D is a multiple of STEP.
template <typename Number>
void lay_out_columns(
    const Number* rows, int64_t stride, int64_t depth, int64_t width, Number* panels) {
  constexpr int STEP = Factors<Number>::STEP;
  int64_t num_words = depth / STEP, wide = rounded_up(width);
  for (int64_t column = 0; column < wide; column += LANES) {
    int64_t panel = column / PANEL * PANEL, broad = std::min<int64_t>(PANEL, wide - panel);
    int64_t count = std::min<int64_t>(LANES, width - column);
    Number* to = panels + panel * depth + (column - panel) * STEP;
    for (int64_t word = 0; word < num_words; word += LANES) {
      int64_t words = std::min<int64_t>(LANES, num_words - word);
      Square square{};
      for (int64_t c = 0; c < count; c++)
        take(square[c], rows + (column + c) * stride + word * STEP, words);
      turn(square);
      for (int64_t w = 0; w < words; w++, to += broad * STEP)
        std::memcpy(to, &square[w], sizeof(Words));
    }
  }
}

inline Words side_by_side(const uint16_t* first, const uint16_t* second) {
  Halves low, high = {};
  std::memcpy(&low, first, sizeof low);
  if (second) std::memcpy(&high, second, sizeof high);
  return __builtin_convertvector(low, Words) | __builtin_convertvector(high, Words) << 16;
}

inline Words side_by_side(const float* first, const float*) {
  Words words;
  std::memcpy(&words, first, sizeof words);
  return words;
}

// Of so many columns; zeros past them.
template <typename Number>
inline Words side_by_side(const Number* first, const Number* second, int64_t count) {
  if (count >= LANES) return side_by_side(first, second);
  Number ends[2][LANES] = {};
  std::copy(first, first + count, ends[0]);
  if (second) std::copy(second, second + count, ends[1]);
  return side_by_side(ends[0], ends[1]);
}

// (D, C) rows, `stride` numbers from one to the next, -> panels of whole vectors, `broad` columns
// each; zeros fill the last step and the last vector.
template <typename Number>
void lay_out_rows(
    const Number* rows, int64_t stride, int64_t depth, int64_t width, Number* panels,
    int64_t broad = PANEL) {
  constexpr int STEP = Factors<Number>::STEP;
  int64_t wide = rounded_up(width);
  for (int64_t panel = 0; panel < wide; panel += broad)
    for (int64_t k = 0; k < depth; k += STEP)
      for (int64_t c = panel; c < std::min(panel + broad, wide); c += LANES) {
        const Number *first = rows + k * stride + c, *second = k + 1 < depth ? first + stride : nullptr;
        Words words = side_by_side(first, second, width - c);
        std::memcpy(panels, &words, sizeof words), panels += LANES * STEP;
      }
}

template <int ROWS, int VECTORS, typename Number, typename Then>
inline void multiply_tile(
    Left<Number> rows, const Number* panel, int64_t depth, const Then& then) {
  constexpr int STEP = Factors<Number>::STEP;
  typedef typename Factors<Number>::Sums Sums;
  Sums sums[ROWS][VECTORS];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) sums[r][v] = Sums{};
  int64_t at = 0;
  for (int64_t k = 0; k < depth; k += STEP, at += rows.step, panel += VECTORS * LANES * STEP) {
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
    Left<Number> rows, int count, const Number* panel, int64_t depth, const Then& then) {
  if constexpr (ROWS > 0) {
    if (count == ROWS)
      multiply_tile<ROWS, VECTORS>(rows, panel, depth, then);
    else
      multiply_last<ROWS - 1, VECTORS>(rows, count, panel, depth, then);
  }
}

// Rows by a panel of so many vectors; `then` is told a row's number and its sums.
template <int VECTORS, typename Number, typename Then>
inline void multiply_panel(
    Left<Number> rows, int count, const Number* panel, int64_t depth, const Then& then) {
  int first = 0;
  auto next = [&](int row, const auto& sums) { then(first + row, sums); };
  for (; first + TILE_ROWS <= count; first += TILE_ROWS)
    multiply_tile<TILE_ROWS, VECTORS>(rows.from(first), panel, depth, next);
  multiply_last<TILE_ROWS - 1, VECTORS>(rows.from(first), count - first, panel, depth, next);
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

// Asks for the lines of a block that will be written, which else would be waited for one by one.
template <typename Number>
inline void expect(Number* block, int64_t stride, int64_t count, int64_t width) {
  for (int64_t row = 0; row < count; row++)
    for (int64_t line = 0; line < width; line += 64 / int64_t(sizeof(Number)))
      __builtin_prefetch(block + row * stride + line, 1);
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
    multiply_narrow<TILE_VECTORS>(
        Left<Number>{rows.first + k / STEP * rows.step, rows.row, rows.step}, count,
        panel + k * vectors * LANES, vectors, std::min(DEEP, depth - k),
        [=](int row, const auto& part) {
          float* to = sums + row * PANEL;
          for (const Floats& each : part) store(to, is_new ? each : load(to) + each), to += LANES;
        });
  }
}

// (R, D) rows by (D, C), C whole vectors, in this thread; `then` is told row, column and sums.
template <typename Number, typename Then>
inline void multiply(
    Left<Number> rows, int count, const Panels<Number>& by, const Then& then) {
  for (int64_t column = 0; column < by.width; column += PANEL) {
    int vectors = int(std::min<int64_t>(PANEL, by.width - column)) / LANES;
    multiply_narrow<TILE_VECTORS>(
        rows, count, by.from(column), vectors, by.depth,
        [&](int row, const auto& sums) { then(row, int(column), sums); });
  }
}

// (R, D) rows by (D, C) weights, in the threads of the parallel region around it, which wait for
// one another at its end; `then` is told row, column and sums, of whole panels.
template <typename Number, typename Then>
inline void multiply_together(
    Left<Number> rows, int64_t count, const Panels<Number>& by, const Then& then) {
  int64_t num_panels = (by.width + PANEL - 1) / PANEL;
  int64_t num_blocks = (count + BLOCK_ROWS - 1) / BLOCK_ROWS;
#pragma omp for schedule(static)
  for (int64_t unit = 0; unit < num_panels * num_blocks; unit++) {
    int64_t column = unit / num_blocks * PANEL, first = unit % num_blocks * BLOCK_ROWS;
    int here = int(std::min<int64_t>(BLOCK_ROWS, count - first));
    multiply_panel<TILE_VECTORS>(
        rows.from(first), here, by.from(column), by.depth,
        [&](int row, const auto& sums) { then(first + row, column, sums); });
  }
}

}  // namespace
