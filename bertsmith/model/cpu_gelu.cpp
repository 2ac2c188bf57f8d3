// GELU of bfloat16 numbers and its gradient, on a CPU: what cpu_gelu.py calls. Each is one pass over
// memory. It knows no rows and no Python.

#include <omp.h>

#include "cpu_gelu.h"
#include "cpu_rows.h"

namespace {

// Numbers that a thread takes at a time, and how far ahead they are asked for.
constexpr int64_t RUN = 4096, AHEAD = 1024;

// Tells `then` where the next vector lies; past the last whole one, how many numbers are left.
template <typename Then>
float for_all(int64_t count, int num_threads, const Then& then) {
  const int64_t whole = count / LANES * LANES;
#pragma omp parallel for schedule(static) num_threads(num_threads)
  for (int64_t start = 0; start < whole; start += RUN) {
    const int64_t end = std::min(start + RUN, whole);
#pragma GCC unroll 2
    for (int64_t at = start; at < end; at += LANES) then(at, LANES);
  }
  if (whole < count) then(whole, count - whole);
  return DONE;
}

}  // namespace

extern "C" float gelu_bf16(
    const uint16_t* inner, uint16_t* output, int64_t count, int num_threads) {
  return for_all(count, num_threads, [=](int64_t at, int64_t left) __attribute__((always_inline)) {
    __builtin_prefetch(inner + at + AHEAD);
    put(output + at, Place(get(inner + at, left)).gelu(), left);
  });
}

extern "C" float gelu_gradients_bf16(
    const uint16_t* gradients, const uint16_t* inner, uint16_t* output, int64_t count,
    int num_threads) {
  return for_all(count, num_threads, [=](int64_t at, int64_t left) __attribute__((always_inline)) {
    __builtin_prefetch(inner + at + AHEAD);
    __builtin_prefetch(gradients + at + AHEAD);
    put(output + at, get(gradients + at, left) * Place(get(inner + at, left)).slope(), left);
  });
}
