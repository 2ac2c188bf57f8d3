// A sub-layer's end on a CPU, forward and backward, in one pass over memory (cpu_norm.h): what
// cpu_norm.py calls. The sums over rows, for the gradients of the norm's own weights, are made of
// blocks of rows in their order, so the number of threads changes no bit. It knows no layers and no
// Python.

#include <omp.h>

#include "cpu_norm.h"

namespace {

constexpr int64_t NORM_BLOCK = 32;

// Every row, in blocks.
template <typename Number, typename Each>
float over_rows(const NormRows<Number>& of, const NormRules& rules, int num_threads, Each each) {
  int64_t num_blocks = (of.count + NORM_BLOCK - 1) / NORM_BLOCK;
  num_threads = int(std::min<int64_t>(num_threads, num_blocks));
  int room_size = NormRoom::ROWS * rounded_up(rules.width);
  Memory memory(int64_t(num_threads) * room_size);
  if (!memory.floats) return NO_ROOM;
#pragma omp parallel num_threads(num_threads)
  {
    float* floats = memory.floats + int64_t(omp_get_thread_num()) * room_size;
    NormRoom room(floats, rules.width, of.weight, of.bias);
#pragma omp for
    for (int64_t block = 0; block < num_blocks; block++) {
      int64_t end = std::min(of.count, (block + 1) * NORM_BLOCK);
      for (int64_t t = block * NORM_BLOCK; t < end; t++) each(t, block, room);
    }
  }
  return DONE;
}

template <typename Number>
float all_backward(
    const NormRows<Number>& of, const NormRules& rules, int num_threads, const float* statistics,
    const Grid<const Number>& grad_normed, const Grid<Number>& grad_rows,
    const Grid<Number>& grad_residual, float* grad_weights) {
  int wide = rounded_up(rules.width);
  int64_t num_blocks = (of.count + NORM_BLOCK - 1) / NORM_BLOCK, size = num_blocks * 2 * wide;
  Memory memory(size);
  float* sums = memory.floats;
  if (!sums) return NO_ROOM;
  std::fill(sums, sums + size, 0.0f);
  float status = over_rows(of, rules, num_threads, [=](int64_t t, int64_t block, NormRoom& room) {
    norm_row_backward(
        of, t, rules, room, statistics, grad_normed, grad_rows, grad_residual,
        sums + block * 2 * wide);
  });
  add_spans(sums, num_blocks, rules.width, grad_weights);
  return status;
}

// What cpu_norm.py gives: rows one behind the other.
template <typename Number>
struct PlainRows {
  const Number *rows, *residual;
  const int32_t *before, *after;
  const float *weight, *bias;
  int64_t count;

  NormRows<Number> grids(int64_t width) const {
    return {{rows, width}, {residual, width}, before, after, weight, bias, count};
  }
};

}  // namespace

#define NORM(TYPE, NUMBER)                                                                         \
  extern "C" float norm_forward_##TYPE(                                                            \
      const PlainRows<NUMBER>* of, const NormRules* rules, NUMBER* normed, float* statistics,      \
      int num_threads) {                                                                           \
    const NormRows<NUMBER> rows = of->grids(rules->width);                                         \
    const Grid<NUMBER> to{normed, rules->width};                                                   \
    return over_rows(rows, *rules, num_threads, [=](int64_t t, int64_t, NormRoom& room) {          \
      norm_row(rows, t, *rules, room, to, statistics);                                             \
    });                                                                                            \
  }                                                                                                \
  extern "C" float norm_backward_##TYPE(                                                           \
      const PlainRows<NUMBER>* of, const NormRules* rules, const float* statistics,                \
      const NUMBER* grad_normed, NUMBER* grad_rows, NUMBER* grad_residual, float* grad_weights,    \
      int num_threads) {                                                                           \
    const int64_t width = rules->width;                                                            \
    return all_backward<NUMBER>(                                                                   \
        of->grids(width), *rules, num_threads, statistics, {grad_normed, width},                   \
        {grad_rows, width}, {grad_residual, width}, grad_weights);                                 \
  }

NORM(fp32, float)
NORM(bf16, uint16_t)
