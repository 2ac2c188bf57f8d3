// Self-attention of a packed stream on a CPU, forward and backward: what cpu_attention.py calls.
//
// A task is one head of one sequence: its queries, keys and values are read where the projections
// wrote them. Where only some rows are asked for, queries are those rows alone. Nothing is padded but
// the last vector of a row, no scores are kept (the backward pass makes them again), and no task sees
// another: a result depends neither on its neighbours nor on the number of threads. It knows no blocks
// and no Python.
//
// Legend: T rows, R rows asked for, A heads, K head size, H = A K. Matrices lie row by row.

#include <omp.h>

#include <vector>

#include "cpu_heads_backward.h"
#include "cpu_sequences.h"

namespace {

// (R, H) queries, (T, H) keys and values, and how far a row is from the next; or their gradients.
template <typename Number>
struct Heads {
  Number *queries, *keys, *values;
  int64_t query_stride, key_stride;
};

// `each` is told a task, the numbers of its first query and of its first token, and where to work.
template <typename Number, typename Each>
float over_tasks(
    const Heads<const Number>& heads, const int32_t* words, const Sequences& sequences,
    const Rules& rules, bool is_backward, int num_threads, Each each) {
  std::vector<int64_t> starts = sequences.asked_starts();
  int64_t longest = 0, most_queries = is_backward;
  for (int64_t n = 0; n < sequences.count; n++) {
    longest = std::max(longest, sequences.length(n));
    if (is_backward) most_queries = std::max(most_queries, starts[n + 1] - starts[n]);
  }
  int64_t num_tasks = sequences.count * rules.num_heads;
  num_threads = int(std::min<int64_t>(num_threads, num_tasks));
  Cutter counter{nullptr};
  Room<Number>(counter, rules.head_size, longest, most_queries);
  int64_t bytes = counter.next - static_cast<char*>(nullptr);
  Memory memory((num_threads * bytes + 64) / sizeof(float));
  if (!memory.floats) return NO_ROOM;
#pragma omp parallel num_threads(num_threads)
  {
    [[maybe_unused]] Tiles tiles;
    Cutter cutter{memory.lined() + omp_get_thread_num() * bytes};
    Room<Number> room(cutter, rules.head_size, longest, most_queries);
    const int64_t at_once =
        sequences.heads_at_once(0, sequences.count, rules.num_heads, num_threads);
#pragma omp for schedule(dynamic, at_once)
    for (int64_t number = 0; number < num_tasks; number++) {
      int64_t sequence = number / rules.num_heads, first = sequences.firsts[sequence];
      int64_t asked = starts[sequence], num_queries = starts[sequence + 1] - asked;
      int head = int(number % rules.num_heads), column = head * rules.head_size;
      each(
          Task<Number>{
              {heads.queries + asked * heads.query_stride + column, heads.query_stride},
              {heads.keys + first * heads.key_stride + column, heads.key_stride},
              {heads.values + first * heads.key_stride + column, heads.key_stride},
              sequences.are_all_asked() ? nullptr : sequences.rows + asked, first,
              sequences.length(sequence), num_queries, words ? words + asked : nullptr, head},
          asked, first, room);
    }
  }
  return DONE;
}

}  // namespace

#define ATTENTION(TYPE, NUMBER)                                                                    \
  extern "C" float attention_forward_##TYPE(                                                       \
      const Heads<const NUMBER>* heads, const int32_t* words, const Sequences* sequences,          \
      const Rules* rules, NUMBER* contexts, int num_threads) {                                     \
    int64_t stride = int64_t(rules->num_heads) * rules->head_size;                                 \
    return over_tasks<NUMBER>(                                                                     \
        *heads, words, *sequences, *rules, false, num_threads,                                     \
        [=](const Task<NUMBER>& task, int64_t asked, int64_t, Room<NUMBER>& room) {                \
          int64_t column = int64_t(task.head) * rules->head_size;                                  \
          attend(task, *rules, room, Grid<NUMBER>{contexts + asked * stride + column, stride});    \
        });                                                                                        \
  }                                                                                                \
  extern "C" float attention_backward_##TYPE(                                                      \
      const Heads<const NUMBER>* heads, const int32_t* words, const Sequences* sequences,          \
      const Rules* rules, const NUMBER* grad_contexts, const Heads<NUMBER>* to, int num_threads) { \
    int64_t stride = int64_t(rules->num_heads) * rules->head_size;                                 \
    return over_tasks<NUMBER>(                                                                     \
        *heads, words, *sequences, *rules, true, num_threads,                                      \
        [=](const Task<NUMBER>& task, int64_t asked, int64_t first, Room<NUMBER>& room) {          \
          int64_t column = int64_t(task.head) * rules->head_size;                                  \
          attend_backward<NUMBER>(                                                                 \
              task, *rules, room, {grad_contexts + asked * stride + column, stride},               \
              {to->queries + asked * to->query_stride + column, to->query_stride},                 \
              {to->keys + first * to->key_stride + column, to->key_stride},                        \
              {to->values + first * to->key_stride + column, to->key_stride});                     \
        });                                                                                        \
  }

extern "C" float multiplies_bf16(int) { return way_of_products<uint16_t>(MULTIPLIES_BF16); }

ATTENTION(fp32, float)
ATTENTION(bf16, uint16_t)
