// Hidden states of sequences -> the mean of each, on a CPU: what cpu_pooling.py calls.
//
// Sums are made in float32, of every fourth row by itself, whose additions do not wait for each other, and
// of blocks of rows, so that few roundings follow each other. A sequence's mean depends on nothing beside it.
// It knows no Python.
//
// Legend: T tokens, N sequences, H hidden size.

#include <omp.h>

#include <algorithm>

#include "cpu_rows.h"

namespace {

constexpr int SUMS = 4;
constexpr int64_t BLOCK = 128;  // rows

// Of (n, H) rows: a vector of columns from `h` on.
template <typename Number>
Floats sum_of_rows(const Number* rows, int64_t count, int64_t width, int64_t h) {
  Floats sums[SUMS] = {};
  int64_t i = 0;
  for (; i + SUMS <= count; i += SUMS)
    for (int s = 0; s < SUMS; s++) sums[s] += get(rows + (i + s) * width + h, width - h);
  for (; i < count; i++) sums[i % SUMS] += get(rows + i * width + h, width - h);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <typename Number>
Floats mean(const Number* rows, int64_t count, int64_t width, int64_t h) {
  Floats sum = {};
  for (int64_t first = 0; first < count; first += BLOCK)
    sum += sum_of_rows(rows + first * width, std::min(BLOCK, count - first), width, h);
  return sum / float(count);
}

template <typename Number>
float means(
    const Number* hidden, const int64_t* firsts, const int64_t* lasts, int64_t num_sequences,
    int64_t width, float* to, int num_threads) {
  const bool are_few = lasts[num_sequences - 1] + 1 - firsts[0] < FEW_TOKENS;
#pragma omp parallel for schedule(static) num_threads(are_few ? 1 : num_threads)
  for (int64_t n = 0; n < num_sequences; n++) {
    const Number* rows = hidden + firsts[n] * width;
    const int64_t count = lasts[n] + 1 - firsts[n];
    for (int64_t h = 0; h < width; h += LANES)
      put(to + n * width + h, mean(rows, count, width, h), width - h);
  }
  return DONE;
}

}  // namespace

#define MEANS(TYPE, NUMBER)                                                                        \
  extern "C" float means_##TYPE(                                                                   \
      const NUMBER* hidden, const int64_t* firsts, const int64_t* lasts, int64_t num_sequences,    \
      int64_t width, float* to, int num_threads) {                                                 \
    return means(hidden, firsts, lasts, num_sequences, width, to, num_threads);                    \
  }

MEANS(fp32, float)
MEANS(bf16, uint16_t)
