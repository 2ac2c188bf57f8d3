// Products of float32 rows with float32 weights on a CPU that multiplies numbers of 16 bits, float16,
// 32 at a time (AVX512_FP16): in little more than half the time of float32's.
//
// Numbers are rounded to float16 a run at a time along the depth, divided by the power of two that
// leaves the run's largest between 8 and 16: so neither large nor small ones leave what float16 holds,
// and the sum of a run's products cannot. A run is summed up in float16, runs in float32, always in
// the same order; a row's results depend on no other row. It knows no layers.
//
// Legend: R rows, D depth, C columns.

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

inline int64_t num_runs(int64_t depth) { return (depth + RUN - 1) / RUN; }

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
  typedef Float16Rows Room;
  const Float16* numbers;
  const float* bias;
  int64_t depth, width;  // D, C

  static constexpr bool IS_ROUGH = true;
  static constexpr int64_t BROAD = 8 * LANES, RUN_NUMBERS = RUN * BROAD + 2 * BROAD;
  static int64_t size(int64_t depth) { return num_runs(depth) * RUN_NUMBERS; }
  static int64_t size(int64_t depth, int64_t width) {
    return (width + BROAD - 1) / BROAD * size(depth);
  }
  const Float16* from(int64_t column) const { return numbers + column / BROAD * size(depth); }
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

// What runs are multiplied by, and divided by in the end, of whose largest numbers these are the bits
// but the sign's. Where one is no number, neither is what they are divided by.
struct Scales {
  Floats factor, size;

  explicit Scales(Words largest) {
    Integers power = 257 - (Integers)(largest >> 23);
    power = power < 1 ? Integers{} + 1 : power > 250 ? Integers{} + 250 : power;
    factor = (Floats)(power << 23);
    size = (Floats)(largest < 0x7F800000u ? (254 - power) << 23 : Integers{} + 0x7FC00000);
  }
};

inline Words bits_of_size(Floats values) { return (Words)values & 0x7FFFFFFFu; }

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

// One run of one panel, of (D, C) rows or, turned, (C, D) columns, `stride` numbers from one to the
// next; zeros fill it up.
template <bool IS_TURNED>
inline void lay_out_run(
    const float* matrix, int64_t stride, int64_t depth, int64_t width, int64_t column, int64_t k,
    Float16* panels) {
  constexpr int64_t BROAD = Float16Panels::BROAD;
  Float16* to = panels + column / BROAD * Float16Panels::size(depth) +
                k / RUN * Float16Panels::RUN_NUMBERS;
  float* sizes = reinterpret_cast<float*>(to + RUN * BROAD);
  const float* first = matrix + (IS_TURNED ? column * stride + k : k * stride + column);
  const int64_t rows = IS_TURNED ? std::min(BROAD, width - column) : std::min(RUN, depth - k);
  expect<0>(first, stride, rows, IS_TURNED ? std::min(RUN, depth - k) : std::min(BROAD, width - column));
  for (int64_t lane = 0; lane < BROAD; lane += LANES) {
    Run run;
    const int64_t left = width - column - lane;
    if (IS_TURNED)
      take_turned(first + lane * stride, stride, depth - k, left, run);
    else
      take_rows(first + lane, stride, depth - k, left, run);
    put_columns(run, to + lane, sizes + lane);
  }
}

// (C, D) weights -> panels.
inline void lay_out_weights(const float* weights, int64_t depth, int64_t width, Float16* panels) {
  for (int64_t column = 0; column < width; column += Float16Panels::BROAD)
    for (int64_t k = 0; k < depth; k += RUN)
      lay_out_run<true>(weights, depth, depth, width, column, k, panels);
}

// ---- products -------------------------------------------------------------------------------------

// Rows, at most a block of them, by one panel; `then` is told a row's number and its sums.
template <typename Then>
inline void multiply_runs(
    const Float16Rows& rows, int count, const Float16* panel, const Then& then) {
  constexpr int VECTORS = Float16Panels::BROAD / LANES;
  Floats sums[BLOCK_ROWS<Float16>][VECTORS];
  for (int64_t run = 0; run < rows.runs; run++, panel += Float16Panels::RUN_NUMBERS) {
    const float* sizes = reinterpret_cast<const float*>(panel + RUN * Float16Panels::BROAD);
    const bool is_first = run == 0;
    multiply_part<VECTORS / 2, Float16>(
        Left<Float16>{rows.numbers + 2 * RUN * run, rows.stride}, count, panel, 2 * RUN, nullptr,
        [&](int row, const auto& part) {
          const float size = rows.sizes[row * rows.runs + run];
#pragma GCC unroll 8
          for (int v = 0; v < VECTORS; v++) {
            const __m512i halves = (__m512i)part[v / 2];
            const __m256i those = v % 2 ? _mm512_extracti64x4_epi64(halves, 1)
                                        : _mm512_castsi512_si256(halves);
            Floats each = (Floats)_mm512_cvtxph_ps((__m256h)those) * (load(sizes + v * LANES) * size);
            sums[row][v] = is_first ? each : sums[row][v] + each;
          }
        });
  }
  for (int row = 0; row < count; row++) then(row, sums[row]);
}

// (R, D) rows by (D, C) weights, as `multiply_together`.
template <typename Then>
void weigh(
    Left<float> rows, int64_t count, const Float16Panels& by, const Float16Rows& room,
    const Then& then) {
  constexpr int TALLEST = BLOCK_ROWS<Float16>;
  const Float16Rows all = room.of(by.depth);
  int64_t num_panels = (by.width + by.BROAD - 1) / by.BROAD;
  int64_t num_blocks = (count + TALLEST - 1) / TALLEST;
#pragma omp for schedule(static)
  for (int64_t i = 0; i < count; i++)
    round_row(rows.first + i * rows.row, by.depth, all.from(i));
#pragma omp for schedule(static)
  for (int64_t unit = 0; unit < num_panels * num_blocks; unit++) {
    int64_t column = unit / num_blocks * by.BROAD, first = unit % num_blocks * TALLEST;
    multiply_runs(
        all.from(first), int(std::min<int64_t>(TALLEST, count - first)), by.from(column),
        [&](int row, const auto& sums) { then(first + row, column, sums); });
  }
}

#endif

}  // namespace
