// Threads that meet again and again go to cores of their own. Built by compiler.py, called by cores.py.
//
// A thread that was woken may come to the core of the one that woke it, which goes on, and waits for it: neither
// gets on until the system looks again, a hundredth of a second later, and beside other work not even then.

#if defined(__linux__)

#include <omp.h>
#include <sched.h>

#include <atomic>

namespace {

constexpr int MOST_THREADS = 256;
// Looks at the others before the core is offered to one of them.
constexpr int LOOKS = 256;

inline void look_again() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Whether the thread left the core for one of those that it may run on and no thread of its team is on.
bool has_left(const std::atomic<int>* cores, int count) {
  cpu_set_t may, free;
  if (sched_getaffinity(0, sizeof may, &may) != 0) return false;
  free = may;
  for (int other = 0; other < count; ++other) CPU_CLR(cores[other].load(), &free);
  if (CPU_COUNT(&free) == 0 || sched_setaffinity(0, sizeof free, &free) != 0) return false;
  sched_setaffinity(0, sizeof may, &may);  // later it may go where it could before
  return true;
}

}  // namespace

// All threads of a team come together, and of those on one core all but one leave it. Returns how many left.
extern "C" int to_cores_of_their_own(int num_threads) {
  if (num_threads < 2 || num_threads > MOST_THREADS) return 0;
  std::atomic<int> cores[MOST_THREADS], num_here{0};
  int num_left = 0;
#pragma omp parallel num_threads(num_threads) reduction(+ : num_left)
  {
    const int own = omp_get_thread_num(), count = omp_get_num_threads();
    const int core = sched_getcpu();
    cores[own].store(core);
    num_here.fetch_add(1);
    for (int looks = 1; num_here.load() < count; ++looks) {
      look_again();
      if (looks % LOOKS == 0) sched_yield();  // one that is not here may be waiting for this core
    }
    bool is_shared = false;
    for (int other = 0; other < own; ++other) is_shared |= cores[other].load() == core;
    num_left += core >= 0 && is_shared && has_left(cores, count);
  }
  return num_left;
}

#endif
