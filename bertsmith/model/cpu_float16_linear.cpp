// A linear map whose products are made of float16, and its gradients, on a CPU: what float16.py calls.
//
// One factor of a product is laid out as panels by all threads together; the other becomes float16 a
// block of rows at a time in the thread that multiplies it, while it is in the second cache. Every sum
// is made in one order, so the number of threads changes no bit. It knows no layers and no Python.
//
// Legend: T rows, I width of a row, O outputs; R rows, D depth, C columns of any product.

#include <omp.h>

#include "cpu_float16.h"

#if MULTIPLIES_FP16

namespace {

constexpr int64_t BROAD = Float16Panels::BROAD, TALLEST = BLOCK_ROWS<Float16>;
// Rows of a block at most; and, of a long sum, runs that are added up at a time.
constexpr int64_t MOST_ROWS = 4 * TALLEST, MOST_RUNS = 16;

// Of so many rows, at most MOST_ROWS, so that all threads have equally many.
inline int64_t rows_of_a_block(int64_t count, int num_threads) {
  int64_t blocks = parts(parts(count, MOST_ROWS), num_threads) * num_threads;
  return parts(parts(count, blocks), TILE_ROWS) * TILE_ROWS;
}

// So many numbers nobody reads before the cache has forgotten them: they are written past it, a line at
// a time, so that the lines need not be read first.
constexpr int64_t FORGOTTEN = 1 << 20;

// (count, D) rows of a block by panels, with biases: (count, C).
template <bool IS_PAST>
void multiply_block(
    const Float16Rows& rows, int64_t count, const Float16Panels& by, float* output) {
  auto write = [](float* to, Floats values, int64_t room) {
    if (room < LANES)
      put(to, values, room);
    else if (IS_PAST)
      _mm512_stream_ps(to, (__m512)values);
    else
      store(to, values);
  };
  for (int64_t column = 0; column < by.width; column += BROAD)
    for (int64_t first = 0; first < count; first += TALLEST)
      multiply_runs(
          rows.from(first), int(std::min(TALLEST, count - first)), by.from(column),
          [&](int row, const auto& sums) {
            float* to = output + (first + row) * by.width + column;
            const float* added = by.bias + column;
            int64_t left = by.width - column;
            for (const Floats& each : sums)
              write(to, each + load(added), left), to += LANES, added += LANES, left -= LANES;
          });
}

// (T, D) rows by a matrix, with (C,) biases where there are any: (T, C).
template <bool IS_TURNED>
float multiply_rows(
    const float* rows, const Matrix& matrix, const float* bias, float* output, int64_t num_rows,
    int num_threads) {
  const int64_t depth = matrix.depth, width = matrix.width, wide = parts(width, BROAD) * BROAD;
  const int64_t block = rows_of_a_block(num_rows, num_threads);
  Cutter counter{nullptr};
  Float16Rows(counter, depth, block);
  const int64_t bytes = counter.next - static_cast<char*>(nullptr);
  counter.numbers<Float16>(Float16Panels::size(depth, width));
  counter.numbers<float>(wide);
  counter.next += num_threads * bytes;
  Memory memory((counter.next - static_cast<char*>(nullptr)) / sizeof(float) + 16);
  if (!memory.floats) return NO_ROOM;
  Cutter cutter{memory.lined()};
  Float16* panels = cutter.numbers<Float16>(Float16Panels::size(depth, width));
  float* biases = cutter.numbers<float>(wide);
  std::fill_n(biases, wide, 0.0f);
  if (bias) std::copy_n(bias, width, biases);
  const Float16Panels by{panels, biases, depth, width};
  const bool is_lined = width % LANES == 0 && reinterpret_cast<uintptr_t>(output) % 64 == 0;
  const auto multiply = is_lined && num_rows * width >= FORGOTTEN ? multiply_block<true>
                                                                  : multiply_block<false>;
#pragma omp parallel num_threads(num_threads)
  {
    Cutter own{cutter.next + omp_get_thread_num() * bytes};
    const Float16Rows rounded(own, depth, block);
    lay_out<IS_TURNED>(matrix, panels);
#pragma omp barrier
#pragma omp for schedule(static)
    for (int64_t start = 0; start < num_rows; start += block) {
      const int64_t count = std::min(block, num_rows - start);
      for (int64_t row = 0; row < count; row++)
        round_row(rows + (start + row) * depth, depth, rounded.from(row));
      multiply(rounded, count, by, output + start * width);
    }
    _mm_sfence();  // before others read what went past the cache
  }
  return DONE;
}

struct Given {
  const float *gradients, *rows;      // (T, O), (T, I)
  float *grad_weight, *grad_bias;     // (O, I), (O,)
  int64_t num_rows, width, outputs;  // T, I, O
};

// A block's gradients of so many runs of rows, as rows of a product over them; adds them up.
void turn_gradients(
    const Given& of, int64_t first, int64_t count, int64_t start, int64_t runs,
    const Float16Rows& turned, float* totals) {
  for (int64_t number = 0; number < runs; number++)
    for (int64_t o = 0; o < count; o += LANES) {
      const int64_t row = start + number * RUN, here = std::min(RUN, of.num_rows - row);
      const int64_t outputs = std::min<int64_t>(LANES, count - o);
      Run run;
      take_rows(of.gradients + row * of.outputs + first + o, of.outputs, here, outputs, run);
      Floats total = load(totals + o);
      for (int64_t k = 0; k < here; k++) total += run.values[k];
      store(totals + o, total);
      put_turned(run, outputs, turned.from(o), number);
    }
}

// Gradients of the weights of a block of outputs, so many runs of rows after the other.
void differentiate(
    const Given& of, const Float16Panels& by, int64_t first, int64_t count,
    const Float16Rows& room, float* totals) {
  for (int64_t start = 0; start < of.num_rows; start += MOST_RUNS * RUN) {
    const int64_t runs = std::min(MOST_RUNS, num_runs(of.num_rows - start));
    const Float16Rows turned = room.of(runs * RUN);
    turn_gradients(of, first, count, start, runs, turned, totals);
    for (int64_t column = 0; column < of.width; column += BROAD) {
      const Float16* panel = by.from(column) + start / RUN * Float16Panels::RUN_NUMBERS;
      for (int64_t row = 0; row < count; row += TALLEST)
        multiply_runs(
            turned.from(row), int(std::min(TALLEST, count - row)), panel,
            [&](int r, const auto& sums) {
              float* to = of.grad_weight + (first + row + r) * of.width + column;
              int64_t left = of.width - column;
              for (const Floats& each : sums) {
                put(to, start ? each + get(to, left) : each, left);
                to += LANES, left -= LANES;
              }
            });
    }
  }
}

float weight_gradients(const Given& of, int num_threads) {
  const int64_t block = rows_of_a_block(of.outputs, num_threads);
  const int64_t depth = std::min(of.num_rows, MOST_RUNS * RUN), wide = rounded_up(block);
  Cutter counter{nullptr};
  Float16Rows(counter, depth, block);
  counter.numbers<float>(wide);
  const int64_t bytes = counter.next - static_cast<char*>(nullptr);
  counter.numbers<Float16>(Float16Panels::size(of.num_rows, of.width));
  counter.next += num_threads * bytes;
  Memory memory((counter.next - static_cast<char*>(nullptr)) / sizeof(float) + 16);
  if (!memory.floats) return NO_ROOM;
  Cutter cutter{memory.lined()};
  Float16* panels = cutter.numbers<Float16>(Float16Panels::size(of.num_rows, of.width));
  const Float16Panels by{panels, nullptr, of.num_rows, of.width};
#pragma omp parallel num_threads(num_threads)
  {
    Cutter own{cutter.next + omp_get_thread_num() * bytes};
    const Float16Rows room(own, depth, block);
    float* totals = own.numbers<float>(wide);
    lay_out<false>({of.rows, of.width, of.num_rows, of.width}, panels);
#pragma omp barrier
#pragma omp for schedule(static)
    for (int64_t first = 0; first < of.outputs; first += block) {
      const int64_t count = std::min(block, of.outputs - first);
      std::fill_n(totals, wide, 0.0f);
      differentiate(of, by, first, count, room, totals);
      std::copy_n(totals, count, of.grad_bias + first);
    }
  }
  return DONE;
}

}  // namespace

extern "C" float multiplies_fp32(int) { return 1.0f; }

// (T, I) rows, (O, I) weights, (O,) biases -> (T, O).
extern "C" float product_fp32(
    const float* rows, const float* weight, const float* bias, float* output, int64_t num_rows,
    int64_t width, int64_t outputs, int num_threads) {
  return multiply_rows<true>(rows, {weight, width, width, outputs}, bias, output, num_rows, num_threads);
}

// (T, O) gradients, (O, I) weights -> (T, I).
extern "C" float row_gradients_fp32(
    const float* gradients, const float* weight, float* output, int64_t num_rows, int64_t width,
    int64_t outputs, int num_threads) {
  return multiply_rows<false>(
      gradients, {weight, width, outputs, width}, nullptr, output, num_rows, num_threads);
}

extern "C" float weight_gradients_fp32(const Given* of, int num_threads) {
  return weight_gradients(*of, num_threads);
}

#else

extern "C" float multiplies_fp32(int) { return 0.0f; }

#endif
