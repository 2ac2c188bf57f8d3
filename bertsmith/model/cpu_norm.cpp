// A sub-layer's end on a CPU, forward and backward: what cpu_norm.py calls.
//
//     drop after(LayerNorm(residual + drop before(rows)))
//
// in one pass over memory: a row is widened to float32 and stays in the cache from its first
// number to its last. The backward pass makes sums and masks again from what the forward pass read,
// and keeps two numbers a row. The sums over rows, for the gradients of the norm's own weights, are
// made of blocks of rows in their order, so the number of threads changes no bit. It knows no
// layers and no Python.
//
// Source: Ba et al. 2016 (layer normalization), section 3; Devlin et al. 2018, section 3.
//
// Legend: T rows, H columns, W = H rounded up to vectors.

#include <omp.h>

#include <cmath>

#include "native.h"

namespace {

constexpr int64_t BLOCK_ROWS = 32;

struct Rules {
  int width;  // H
  float epsilon;
  Dropout before, after;
};

// The tensors of a pass; a null pointer is a part that is not there.
template <typename Number>
struct Rows {
  const Number *rows, *residual;  // (T, H)
  const int32_t *before, *after;  // (T,) words of dropout
  const float *weight, *bias;     // (H,)
  int64_t count;                  // T
};

void drop(float* row, int32_t word, int wide, const Dropout& dropout) {
  for (int h = 0; h < wide; h += LANES)
    store(row + h, load(row + h) * keep_factors(word, h, dropout));
}

float sum_of(const float* row, int wide) {
  Floats total = {};
  for (int h = 0; h < wide; h += LANES) total += load(row + h);
  return sum_of(total);
}

// What a thread works in: rows of W floats; the norm's weights are zero past H.
struct Room {
  static constexpr int ROWS = 4;
  int wide;
  float *sums, *other, *weight, *bias;

  Room(float* floats, const Rules& rules, const float* weights, const float* biases)
      : wide(rounded_up(rules.width)) {
    sums = floats;
    other = sums + wide;
    weight = other + wide;
    bias = weight + wide;
    std::fill(floats, floats + ROWS * wide, 0.0f);
    std::copy(weights, weights + rules.width, weight);
    std::copy(biases, biases + rules.width, bias);
  }
};

// Row t before its norm: the residual and what was added to it.
template <typename Number>
void add_up(const Rows<Number>& of, int64_t t, const Rules& rules, Room& room) {
  read(of.rows + t * rules.width, rules.width, room.sums);
  if (of.before) drop(room.sums, of.before[t], room.wide, rules.before);
  if (of.residual) {
    read(of.residual + t * rules.width, rules.width, room.other);
    for (int h = 0; h < room.wide; h += LANES)
      store(room.sums + h, load(room.sums + h) + load(room.other + h));
  }
  std::fill(room.sums + rules.width, room.sums + room.wide, 0.0f);
}

// x -> (x - mean) * factor, in place.
void standardise(Room& room, int width, float mean, float factor) {
  for (int h = 0; h < room.wide; h += LANES)
    store(room.sums + h, (load(room.sums + h) - mean) * factor);
  std::fill(room.sums + width, room.sums + room.wide, 0.0f);
}

template <typename Number>
void forward(
    const Rows<Number>& of, int64_t t, const Rules& rules, Room& room, Number* normed,
    float* statistics) {
  add_up(of, t, rules, room);
  float mean = sum_of(room.sums, room.wide) / rules.width;
  standardise(room, rules.width, mean, 1.0f);
  Floats squares = {};
  for (int h = 0; h < room.wide; h += LANES) squares += load(room.sums + h) * load(room.sums + h);
  float factor = 1.0f / std::sqrt(sum_of(squares) / rules.width + rules.epsilon);
  for (int h = 0; h < room.wide; h += LANES)
    store(room.sums + h, load(room.sums + h) * factor * load(room.weight + h) + load(room.bias + h));
  if (of.after) drop(room.sums, of.after[t], room.wide, rules.after);
  write(room.sums, rules.width, normed + t * rules.width);
  statistics[2 * t] = mean;
  statistics[2 * t + 1] = factor;
}

// Row t's part of both gradients, and what it adds to the weight's and the bias's, (2, W).
template <typename Number>
void backward(
    const Rows<Number>& of, int64_t t, const Rules& rules, Room& room, const float* statistics,
    const Number* grad_normed, Number* grad_rows, Number* grad_residual, float* grad_weights) {
  int width = rules.width, wide = room.wide;
  float mean = statistics[2 * t], factor = statistics[2 * t + 1];
  add_up(of, t, rules, room);
  standardise(room, width, mean, factor);
  float *normal = room.sums, *gradient = room.other;
  read(grad_normed + t * width, width, gradient);
  std::fill(gradient + width, gradient + wide, 0.0f);
  if (of.after) drop(gradient, of.after[t], wide, rules.after);
  Floats total = {}, inner = {};
  for (int h = 0; h < wide; h += LANES) {
    Floats arrived = load(gradient + h), there = load(normal + h);
    store(grad_weights + h, load(grad_weights + h) + arrived * there);
    store(grad_weights + wide + h, load(grad_weights + wide + h) + arrived);
    Floats scaled = arrived * load(room.weight + h);
    store(gradient + h, scaled);
    total += scaled;
    inner += scaled * there;
  }
  float mean_gradient = sum_of(total) / width, mean_inner = sum_of(inner) / width;
  for (int h = 0; h < wide; h += LANES) {
    Floats centred = load(gradient + h) - mean_gradient - load(normal + h) * mean_inner;
    store(gradient + h, centred * factor);
  }
  if (of.residual) write(gradient, width, grad_residual + t * width);
  if (of.before) drop(gradient, of.before[t], wide, rules.before);
  write(gradient, width, grad_rows + t * width);
}

// Every row, in blocks.
template <typename Number, typename Each>
float over_rows(const Rows<Number>& of, const Rules& rules, int num_threads, Each each) {
  int64_t num_blocks = (of.count + BLOCK_ROWS - 1) / BLOCK_ROWS;
  num_threads = int(std::min<int64_t>(num_threads, num_blocks));
  int room_size = Room::ROWS * rounded_up(rules.width);
  Memory memory(int64_t(num_threads) * room_size);
  if (!memory.floats) return NO_ROOM;
#pragma omp parallel num_threads(num_threads)
  {
    float* floats = memory.floats + int64_t(omp_get_thread_num()) * room_size;
    Room room(floats, rules, of.weight, of.bias);
#pragma omp for
    for (int64_t block = 0; block < num_blocks; block++) {
      int64_t end = std::min(of.count, (block + 1) * BLOCK_ROWS);
      for (int64_t t = block * BLOCK_ROWS; t < end; t++) each(t, block, room);
    }
  }
  return DONE;
}

template <typename Number>
float all_backward(
    const Rows<Number>& of, const Rules& rules, int num_threads, const float* statistics,
    const Number* grad_normed, Number* grad_rows, Number* grad_residual, float* grad_weights) {
  int wide = rounded_up(rules.width);
  int64_t num_blocks = (of.count + BLOCK_ROWS - 1) / BLOCK_ROWS, size = num_blocks * 2 * wide;
  Memory memory(size);
  float* sums = memory.floats;
  if (!sums) return NO_ROOM;
  std::fill(sums, sums + size, 0.0f);
  float status = over_rows(of, rules, num_threads, [=](int64_t t, int64_t block, Room& room) {
    backward(of, t, rules, room, statistics, grad_normed, grad_rows, grad_residual,
             sums + block * 2 * wide);
  });
  for (int which = 0; which < 2; which++)
    for (int64_t block = 0; block < num_blocks; block++)
      for (int h = 0; h < rules.width; h++)
        grad_weights[which * rules.width + h] += sums[(2 * block + which) * wide + h];
  return status;
}

}  // namespace

#define NORM(TYPE, NUMBER)                                                                         \
  extern "C" float norm_forward_##TYPE(                                                            \
      const Rows<NUMBER>* of, const Rules* rules, NUMBER* normed, float* statistics,               \
      int num_threads) {                                                                           \
    return over_rows(*of, *rules, num_threads, [=](int64_t t, int64_t, Room& room) {               \
      forward(*of, t, *rules, room, normed, statistics);                                           \
    });                                                                                            \
  }                                                                                                \
  extern "C" float norm_backward_##TYPE(                                                           \
      const Rows<NUMBER>* of, const Rules* rules, const float* statistics,                         \
      const NUMBER* grad_normed, NUMBER* grad_rows, NUMBER* grad_residual, float* grad_weights,    \
      int num_threads) {                                                                           \
    return all_backward(*of, *rules, num_threads, statistics, grad_normed, grad_rows,              \
                        grad_residual, grad_weights);                                              \
  }

NORM(fp32, float)
NORM(bf16, uint16_t)
