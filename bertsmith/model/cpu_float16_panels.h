// Rows and matrices as float16, for products on a CPU that multiplies such numbers, 32 at a time
// (AVX512_FP16).
//
// Numbers are rounded a run at a time along the depth, divided by the power of two that leaves the run's
// largest between 8 and 16 (of what is smaller than 2^-120, below): so neither large nor small ones
// leave what float16 holds, and the sum of a run's products cannot. What runs were divided by is
// multiplied in the end, two by two, which float32 holds up to 2^127. It knows no products.
//
// Legend: D depth, C columns.

#pragma once

#include "cpu_products.h"
#include "cpu_rows.h"

#if defined(__AVX512FP16__) && VECTOR_BYTES == 64
#define MULTIPLIES_FP16 1
#include <immintrin.h>
#else
#define MULTIPLIES_FP16 0
#endif

namespace {

struct Float16 {
  uint16_t bits;
};

// Numbers of a run. Sums of so many in float16 are about as exact as products of bfloat16.
constexpr int64_t RUN = 64;

inline int64_t num_runs(int64_t depth) { return parts(depth, RUN); }

// Rows as products take them: every number twice, side by side, for a word is copied to all lanes
// faster than half of one; and what each run was divided by.
struct Float16Rows {
  int64_t runs, stride;  // float16 numbers from a row to the next; a line of the cache more
  Float16* numbers;
  float* sizes;

  Float16Rows(Cutter& cutter, int64_t depth, int64_t count) : Float16Rows(depth) {
    numbers = cutter.numbers<Float16>(count * stride);
    sizes = cutter.numbers<float>(count * runs);
  }
  explicit Float16Rows(int64_t depth)
      : runs(num_runs(depth)), stride(2 * RUN * runs + 2 * LANES), numbers(nullptr), sizes(nullptr) {}

  // The same room, for rows of another depth, from one of them on.
  Float16Rows of(int64_t depth) const {
    Float16Rows found(depth);
    found.numbers = numbers, found.sizes = sizes;
    return found;
  }
  Float16Rows from(int64_t row) const {
    Float16Rows found = *this;
    found.numbers += row * stride, found.sizes += row * runs;
    return found;
  }
};

// Weights in panels: run after run its numbers, row by row, and what each column was divided by.
struct Float16Panels {
  typedef Float16 Laid;
  typedef Float16Rows Room;
  const Float16* numbers;
  const float* bias;
  int64_t depth, width;  // D, C

  static constexpr bool IS_ROUGH = true;
  static constexpr int64_t BROAD = 8 * LANES, RUN_NUMBERS = RUN * BROAD + 2 * BROAD;
  static int64_t size(int64_t depth) { return num_runs(depth) * RUN_NUMBERS; }
  static int64_t size(int64_t depth, int64_t width) {
    return parts(width, BROAD) * size(depth);
  }
  const Float16* from(int64_t column) const { return numbers + column / BROAD * size(depth); }
  Float16Panels part(int64_t column, int64_t count) const {
    return {from(column), bias + column, depth, count};
  }
};

#if MULTIPLIES_FP16

template <>
constexpr bool HAS_TILES_OF<Float16> = false;

// One row of the matrix at a time; of a row both copies of a number.
template <>
struct Factors<Float16> {
  static constexpr int STEP = 2;
  typedef __m512h Sums;
  typedef __m512h Columns;
  static __m512h of(const Float16* panel) { return _mm512_loadu_ph(panel); }
  static __m512h add(__m512h sums, const Float16* row, __m512h columns) {
    int32_t pair;
    std::memcpy(&pair, row, sizeof pair);
    return _mm512_fmadd_ph((__m512h)_mm512_set1_epi32(pair), columns, sums);
  }
};

// ---- rounding -------------------------------------------------------------------------------------

// The power of two that a run is multiplied by when it is rounded, and the one that its sums are
// multiplied by in the end. They follow from the bits of its largest number without the sign's; where
// that is no number, the second is none.
struct Scales {
  Floats factor, size;

  explicit Scales(Words largest) {
    Integers power = 257 - (Integers)(largest >> 23);
    power = power < 1 ? Integers{} + 1 : power > 250 ? Integers{} + 250 : power;
    factor = (Floats)(power << 23);
    size = (Floats)(largest < 0x7F800000u ? (254 - power) << 23 : Integers{} + 0x7FC00000);
  }
};

inline Words bits_of_size(Floats values) { return (Words)magnitude(values); }

inline Words higher(Words a, Words b) { return (Words)_mm512_max_epu32((__m512i)a, (__m512i)b); }

inline __m256i rounded(Floats values) {
  return (__m256i)_mm512_cvtxps_ph((__m512)values);
}

// Of each lane a run's numbers, and the largest of them.
struct Run {
  Floats values[RUN];
  Words largest;
};

// A run of LANES columns -> its place in a panel.
inline void put_columns(const Run& run, Float16* to, float* sizes) {
  const Scales scales(run.largest);
  for (int64_t k = 0; k < RUN; k++) {
    __m256i halves = rounded(run.values[k] * scales.factor);
    std::memcpy(to + k * Float16Panels::BROAD, &halves, sizeof halves);
  }
  store(sizes, scales.size);
}

// Each of LANES numbers twice.
inline void put_twice(Floats values, Float16* to) {
  Words words = (Words)_mm512_cvtepu16_epi32(rounded(values));
  words |= words << 16;
  std::memcpy(to, &words, sizeof words);
}

// (D,) numbers -> the first of the rows.
inline void round_row(const float* row, int64_t depth, const Float16Rows& to) {
  for (int64_t run = 0; run < to.runs; run++) {
    Floats values[RUN / LANES];
    Words largest = {};
    for (int64_t v = 0; v < RUN / LANES; v++) {
      int64_t at = run * RUN + v * LANES;
      values[v] = at < depth ? get(row + at, depth - at) : Floats{};
      largest = higher(largest, bits_of_size(values[v]));
    }
    const Scales scales(Words{} + _mm512_reduce_max_epu32((__m512i)largest));
    for (int64_t v = 0; v < RUN / LANES; v++)
      put_twice(values[v] * scales.factor, to.numbers + 2 * (run * RUN + v * LANES));
    to.sizes[run] = scales.size[0];
  }
}

// Of LANES columns from the first on, one below the other, a run of rows; those past the last column
// or row are zeros.
inline void take_rows(
    const float* rows, int64_t stride, int64_t depth, int64_t width, Run& run) {
  Words largest = {};
  for (int64_t k = 0; k < RUN; k++) {
    run.values[k] = k < depth ? get(rows + k * stride, width) : Floats{};
    largest = higher(largest, bits_of_size(run.values[k]));
  }
  run.largest = largest;
}

// A run of LANES columns -> the same of as many rows, of which so many are there.
inline void put_turned(const Run& run, int64_t count, const Float16Rows& to, int64_t number) {
  const Scales scales(run.largest);
  for (int64_t k = 0; k < RUN; k += LANES) {
    Square square;
    for (int64_t lane = 0; lane < LANES; lane++)
      square[lane] = (Words)(run.values[k + lane] * scales.factor);
    turn(square);
    for (int64_t row = 0; row < count; row++)
      put_twice((Floats)square[row], to.from(row).numbers + 2 * (number * RUN + k));
  }
  for (int64_t row = 0; row < count; row++) to.from(row).sizes[number] = scales.size[row];
}

// A square of columns that lie as rows.
inline void take_square(
    const float* columns, int64_t stride, int64_t depth, int64_t width, Square& square) {
  if (depth >= LANES && width >= LANES) {
#pragma GCC unroll 16
    for (int c = 0; c < LANES; c++) square[c] = (Words)load(columns + c * stride);
  } else {
    for (int64_t c = 0; c < LANES; c++)
      square[c] = c < width && depth > 0 ? (Words)get(columns + c * stride, depth) : Words{};
  }
}

// As take_rows, of columns that lie as rows.
inline void take_turned(
    const float* columns, int64_t stride, int64_t depth, int64_t width, Run& run) {
  Words largest = {};
  for (int64_t k = 0; k < RUN; k += LANES) {
    Square square;
    take_square(columns + k, stride, depth - k, width, square);
    turn(square);
#pragma GCC unroll 16
    for (int lane = 0; lane < LANES; lane++) {
      largest = higher(largest, square[lane] & 0x7FFFFFFFu);
      run.values[k + lane] = (Floats)square[lane];
    }
  }
  run.largest = largest;
}

// (D, C) numbers, or turned the columns as (C, D) rows, `stride` numbers from one to the next.
struct Matrix {
  const float* numbers;
  int64_t stride, depth, width;
};

// One run of one panel; zeros fill it up.
template <bool IS_TURNED>
inline void lay_out_run(const Matrix& of, int64_t column, int64_t k, Float16* panels) {
  constexpr int64_t BROAD = Float16Panels::BROAD;
  Float16* to = panels + column / BROAD * Float16Panels::size(of.depth) +
                k / RUN * Float16Panels::RUN_NUMBERS;
  float* sizes = reinterpret_cast<float*>(to + RUN * BROAD);
  const float* first = of.numbers + (IS_TURNED ? column * of.stride + k : k * of.stride + column);
  const int64_t deep = std::min(RUN, of.depth - k), wide = std::min(BROAD, of.width - column);
  expect<0>(first, of.stride, IS_TURNED ? wide : deep, IS_TURNED ? deep : wide);
  for (int64_t lane = 0; lane < BROAD; lane += LANES) {
    Run run;
    const int64_t left = of.width - column - lane;
    if (IS_TURNED)
      take_turned(first + lane * of.stride, of.stride, of.depth - k, left, run);
    else
      take_rows(first + lane, of.stride, of.depth - k, left, run);
    put_columns(run, to + lane, sizes + lane);
  }
}

// In the threads around it, which do not wait for one another.
template <bool IS_TURNED>
void lay_out(const Matrix& of, Float16* panels) {
  const int64_t num_panels = parts(of.width, Float16Panels::BROAD);
#pragma omp for schedule(static) nowait
  for (int64_t unit = 0; unit < num_panels * num_runs(of.depth); unit++)
    lay_out_run<IS_TURNED>(
        of, unit % num_panels * Float16Panels::BROAD, unit / num_panels * RUN, panels);
}

// (C, D) weights -> panels.
inline void lay_out_weights(const float* weights, int64_t depth, int64_t width, Float16* panels) {
  lay_out<true>({weights, depth, depth, width}, panels);
}

#endif

}  // namespace
