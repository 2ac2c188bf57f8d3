// A pass of cpu_whole_loss.cpp or cpu_float16_loss.cpp in all its threads, with memory to work in.

#pragma once

#include <omp.h>

#include "cpu_tiles.h"
#include "cpu_word_scores.h"

namespace {

// `make` in every thread, with what all of them work in, and what one works in alone. The return value is
// that of a function (native.h).
template <typename All, typename Number, typename Make>
float in_threads(const Given<Number>& of, int num_threads, const Make& make) {
  typedef typename All::Own Own;
  Cutter counter{nullptr};
  Own(counter, of);
  const int64_t bytes = counter.next - static_cast<char*>(nullptr);
  All(counter, of);
  counter.next += num_threads * bytes;
  Memory memory((counter.next - static_cast<char*>(nullptr)) / sizeof(float) + 16);
  if (!memory.floats) return NO_ROOM;
  Cutter cutter{memory.lined()};
  const All all(cutter, of);
#pragma omp parallel num_threads(num_threads)
  {
    [[maybe_unused]] Tiles tiles;
    Cutter apart{cutter.next + omp_get_thread_num() * bytes};
    const Own own(apart, of);
    make(all, own);
    STAGE(nullptr);
  }
  return DONE;
}

}  // namespace
