// Self-attention of a packed stream on a CPU, forward and backward: what cpu_attention.py calls.
//
// A task is one head of one sequence: its queries, keys and values are read where the projection
// wrote them. Nothing is padded but the last vector of a row, no scores are kept (the backward pass
// makes them again), and no task sees another: a result depends neither on its neighbours nor on the
// number of threads. It knows no blocks and no Python.
//
// Legend: A heads, K head size, H = A K. Matrices lie row by row.

#include <omp.h>

#include "cpu_heads.h"

namespace {

// A stream's sequences: the rows of their first and last tokens.
struct Sequences {
  const int64_t *firsts, *lasts;
  int64_t count;

  int length(int64_t number) const { return int(lasts[number] - firsts[number] + 1); }
};

// `each` is told a task, the place of its first token's numbers of this head in (T, H) rows, and where
// to work.
template <typename Number, typename Each>
float over_tasks(
    const Number* qkv, const int32_t* words, const Sequences& sequences, const Rules& rules,
    bool is_backward, int num_threads, Each each) {
  int64_t longest = 0, hidden = int64_t(rules.num_heads) * rules.head_size;
  for (int64_t n = 0; n < sequences.count; n++) longest = std::max<int64_t>(longest, sequences.length(n));
  int64_t num_tasks = sequences.count * rules.num_heads;
  num_threads = int(std::min<int64_t>(num_threads, num_tasks));
  Cutter counter{nullptr};
  Room<Number>(counter, rules.head_size, longest, is_backward);
  int64_t bytes = counter.next - static_cast<char*>(nullptr);
  Memory memory((num_threads * bytes + 64) / sizeof(float));
  if (!memory.floats) return NO_ROOM;
#pragma omp parallel num_threads(num_threads)
  {
    Cutter cutter{memory.lined() + omp_get_thread_num() * bytes};
    Room<Number> room(cutter, rules.head_size, longest, is_backward);
#pragma omp for schedule(dynamic, 1)
    for (int64_t number = 0; number < num_tasks; number++) {
      int64_t sequence = number / rules.num_heads, start = sequences.firsts[sequence];
      int head = int(number % rules.num_heads);
      int64_t length = sequences.length(sequence);
      const Number* queries = qkv + start * 3 * hidden + head * rules.head_size;
      each(
          Task<Number>{
              queries, queries + hidden, queries + 2 * hidden, 3 * hidden, 3 * hidden, nullptr,
              start, length, length, words ? words + start : nullptr, head},
          start * hidden + head * rules.head_size, room);
    }
  }
  return DONE;
}

}  // namespace

#define ATTENTION(TYPE, NUMBER)                                                                    \
  extern "C" float attention_forward_##TYPE(                                                       \
      const NUMBER* qkv, const int32_t* words, const int64_t* firsts, const int64_t* lasts,        \
      int64_t count, const Rules* rules, NUMBER* contexts, int num_threads) {                      \
    int64_t stride = int64_t(rules->num_heads) * rules->head_size;                                 \
    return over_tasks(                                                                             \
        qkv, words, {firsts, lasts, count}, *rules, false, num_threads,                            \
        [=](const Task<NUMBER>& task, int64_t place, Room<NUMBER>& room) {                         \
          attend(task, *rules, room, contexts + place, stride);                                    \
        });                                                                                        \
  }                                                                                                \
  extern "C" float attention_backward_##TYPE(                                                      \
      const NUMBER* qkv, const int32_t* words, const int64_t* firsts, const int64_t* lasts,        \
      int64_t count, const Rules* rules, const NUMBER* grad_contexts, NUMBER* grad_qkv,            \
      int num_threads) {                                                                           \
    int64_t stride = int64_t(rules->num_heads) * rules->head_size;                                 \
    return over_tasks(                                                                             \
        qkv, words, {firsts, lasts, count}, *rules, true, num_threads,                             \
        [=](const Task<NUMBER>& task, int64_t place, Room<NUMBER>& room) {                         \
          NUMBER* to = grad_qkv + (task.queries - qkv);                                            \
          attend_backward(                                                                         \
              task, *rules, room, grad_contexts + place, stride, to, to + stride, to + 2 * stride); \
        });                                                                                        \
  }

extern "C" float multiplies_bf16(int) { return MULTIPLIES_BF16; }

ATTENTION(fp32, float)
ATTENTION(bf16, uint16_t)
