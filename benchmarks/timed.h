// What stages of a function in C++ take: included before a source (`-include`), whose STAGE (native.h) begins
// one. What a thread does until it begins the next, waiting for others among it, belongs to it.

#pragma once

#include <omp.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace timed {
namespace {

constexpr int MOST = 32;

struct Stage {
  const char* name;
  std::atomic<int64_t> nanoseconds;  // of all threads
  std::atomic<int64_t> products;     // of numbers, of all threads together
};

Stage stages[MOST];
std::atomic<int> count;
std::mutex naming;

Stage* stage_of(const char* name) {
  const std::lock_guard<std::mutex> lock(naming);
  for (int number = 0; number < count; number++)
    if (!std::strcmp(stages[number].name, name)) return &stages[number];
  if (count == MOST) std::abort();
  stages[count].name = name;
  return &stages[count++];
}

// A thread's present stage, and since when.
struct Present {
  Stage* stage;
  std::chrono::steady_clock::time_point since;
};

// The products are those of all threads of its team, each of which tells them.
void begin(const char* name, int64_t products = 0) {
  static thread_local Present present{};
  const auto now = std::chrono::steady_clock::now();
  if (present.stage) present.stage->nanoseconds += (now - present.since) / std::chrono::nanoseconds(1);
  present = {name ? stage_of(name) : nullptr, now};
  if (present.stage && omp_get_thread_num() == 0) present.stage->products += products;
}

}  // namespace
}  // namespace timed

#define STAGE(...) timed::begin(__VA_ARGS__)

extern "C" int stage_count() { return timed::count; }
extern "C" const char* stage_name(int number) { return timed::stages[number].name; }
extern "C" int64_t stage_nanoseconds(int number) { return timed::stages[number].nanoseconds; }
extern "C" int64_t stage_products(int number) { return timed::stages[number].products; }
