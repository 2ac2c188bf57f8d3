// How long parts of a function in C++ take, and what they multiply: included before a source (`-include`),
// whose marks, STAGE, begin a part (native.h). What a thread does until its next mark, waiting for others
// among it, belongs to the last one; products are those of all threads of its team.

#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace timed {
namespace {

constexpr int MOST = 32;

struct Stage {
  const char* name;
  std::atomic<int64_t> nanoseconds, multiplications;  // of all threads
};

Stage stages[MOST];
std::atomic<int> count;
std::mutex naming;

// The one of that name; null past the last that there is room for.
Stage* stage_of(const char* name) {
  const std::lock_guard<std::mutex> lock(naming);
  int number = 0;
  while (number < count && std::strcmp(stages[number].name, name)) number++;
  if (number == MOST) return nullptr;
  stages[number].name = name;
  count = std::max<int>(count, number + 1);
  return &stages[number];
}

// A thread's present stage, and since when.
struct Present {
  Stage* stage;
  std::chrono::steady_clock::time_point since;
};

// A thread begins a stage, in which its team makes so many products and adds them up; null: none.
void begin(const char* name, int64_t multiplications = 0) {
  static thread_local Present present{};
  const auto now = std::chrono::steady_clock::now();
  if (present.stage) present.stage->nanoseconds += (now - present.since) / std::chrono::nanoseconds(1);
  present = {name ? stage_of(name) : nullptr, now};
  if (present.stage) present.stage->multiplications += multiplications / omp_get_num_threads();
}

}  // namespace
}  // namespace timed

#define STAGE(...) timed::begin(__VA_ARGS__)

extern "C" int stage_count() { return timed::count; }
extern "C" const char* stage_name(int number) { return timed::stages[number].name; }
extern "C" int64_t stage_nanoseconds(int number) { return timed::stages[number].nanoseconds; }
extern "C" int64_t stage_multiplications(int number) { return timed::stages[number].multiplications; }
