// Work that the threads of a parallel region share out among themselves, on a CPU.

#pragma once

#include <cstdint>

namespace {

// So many units of work, in the threads of the parallel region around it, which wait for one another at its
// end. Cores are not equally fast, and other programs take a part of them: three quarters are shared out
// beforehand, so that a thread finds what it had before in its own caches, and of the rest each takes as many
// as it has time for. `make` is there twice, so a long one is better a function of its own.
template <typename Make>
inline void share_out(int64_t count, const Make& make) {
  const int64_t settled = count - count / 4;
#pragma omp for schedule(static) nowait
  for (int64_t unit = 0; unit < settled; unit++) make(unit);
#pragma omp for schedule(dynamic)
  for (int64_t unit = settled; unit < count; unit++) make(unit);
}

}  // namespace
