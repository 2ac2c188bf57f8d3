// Dropout of rows, on a CPU: what cpu_dropout.py calls. It is one pass over memory, and the way back is the
// same pass over gradients. It knows no Python.

#include <omp.h>

#include "cpu_dropout.h"
#include "cpu_rows.h"

namespace {

// Numbers of which a thread has a share at least: of fewer they would wait for one another longer.
constexpr int64_t SHARE = 1 << 14;

template <typename Number>
float drop(
    const Number* rows, const int32_t* words, const Dropout& dropout, int64_t count, int64_t width,
    Number* to, int num_threads) {
  num_threads = int(std::min<int64_t>(num_threads, parts(count * width, SHARE)));
#pragma omp parallel for schedule(static) num_threads(num_threads)
  for (int64_t row = 0; row < count; row++)
    for (int64_t h = 0, at = row * width; h < width; h += LANES, at += LANES)
      put(to + at, get(rows + at, width - h) * keep_factors(words[row], uint32_t(h), dropout), width - h);
  return DONE;
}

}  // namespace

#define DROP(TYPE, NUMBER)                                                                         \
  extern "C" float drop_##TYPE(                                                                    \
      const NUMBER* rows, const int32_t* words, const Dropout* dropout, int64_t count,             \
      int64_t width, NUMBER* to, int num_threads) {                                                \
    return drop(rows, words, *dropout, count, width, to, num_threads);                             \
  }

DROP(fp32, float)
DROP(bf16, uint16_t)
