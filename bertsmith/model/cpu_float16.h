// Products of float32 rows with float32 weights, both rounded to float16 as cpu_float16_panels.h does,
// on a CPU: in little more than half of the time of float32's.
//
// A run of 64 products is summed up in float16, runs in float32, always in the same order; a row's
// results depend on no other row. It knows no layers.
//
// Legend: R rows, D depth, C columns.

#pragma once

#include "cpu_float16_panels.h"

#if MULTIPLIES_FP16

namespace {

// Rows, at most a block of them, by one panel; `then` is told a row's number and its sums.
template <typename Then>
inline void multiply_runs(
    const Float16Rows& rows, int count, const Float16* panel, const Then& then) {
  constexpr int VECTORS = Float16Panels::BROAD / LANES;
  Floats sums[BLOCK_ROWS<Float16>][VECTORS];
  for (int64_t run = 0; run < rows.runs; run++, panel += Float16Panels::RUN_NUMBERS) {
    const float* sizes = reinterpret_cast<const float*>(panel + RUN * Float16Panels::BROAD);
    const bool is_first = run == 0;
    multiply_part<VECTORS / 2>(
        Left<Float16>{rows.numbers + 2 * RUN * run, rows.stride}, count, {panel, 2 * RUN}, nullptr,
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
  int64_t num_panels = parts(by.width, by.BROAD), num_blocks = parts(count, TALLEST);
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

}  // namespace

#endif
