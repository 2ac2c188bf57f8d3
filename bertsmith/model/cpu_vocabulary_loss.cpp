// Logits -> loss and gradient over the vocabulary on a CPU: what cpu_vocabulary_loss.py calls.
//
//     loss = log sum e^(logit + bias) - (logit + bias of the target)
//
// A row is widened to float32 and stays in the cache from its first logit to its last; the gradient
// takes the place of its logits. The sums over rows, which are the bias's gradient, are made of
// blocks of rows in their order, so the number of threads changes no bit. It knows no Python.
//
// It works in (m / 32 + threads) W floats.
//
// Legend: m rows of a chunk, V words of the vocabulary, W = V rounded up to vectors.

#include <omp.h>

#include <cmath>
#include <limits>

#include "cpu_rows.h"

namespace {

constexpr int64_t BLOCK_ROWS = 32, BLOCK_COLUMNS = 1024;
constexpr float NOWHERE = -std::numeric_limits<float>::infinity();

// The tensors of a chunk; what it says of each row, and the gradient of the bias.
template <typename Number>
struct Chunk {
  Number* logits;          // (m, V) in; their gradients out
  const float* bias;       // (V,)
  const int64_t* targets;  // (m,) in [0, V)
  float* losses;           // (m,)
  uint8_t* is_right;       // (m,)
  float* grad_bias;        // (V,)
  int64_t num_rows, num_words;
};

// (W,) scores -> e^(score - highest), in place, and their sum; W is whole vectors.
float exponentials(float* scores, int64_t wide, float highest) {
  return sum_of(sum_over(wide, [=](int64_t v) {
    const Floats weights = exponential(load(scores + v) - highest);
    store(scores + v, weights);
    return weights;
  }));
}

// (V,) floats times a factor -> numbers, and what was rounded is added to the sums.
template <typename Number>
void scale_and_add(
    const float* weights, float factor, int64_t num_words, Number* to, float* sums) {
  int64_t v = 0;
  for (; v + LANES <= num_words; v += LANES) {
    store(to + v, load(weights + v) * factor);
    store(sums + v, load(sums + v) + load(to + v));
  }
  for (; v < num_words; v++) {
    narrow(weights[v] * factor, to + v);
    sums[v] += widened(to[v]);
  }
}

// One row; `scores` is room for W floats, `sums` the (V,) gradient of the bias so far.
template <typename Number>
void score(const Chunk<Number>& of, int64_t row, float* scores, float* sums) {
  Number* logits = of.logits + row * of.num_words;
  int64_t target = of.targets[row], wide = rounded_up(of.num_words);
  for (int64_t v = 0; v < of.num_words; v++) scores[v] = widened(logits[v]) + of.bias[v];
  std::fill(scores + of.num_words, scores + wide, NOWHERE);
  float highest = highest_of(scores, wide), right = scores[target] - highest;
  // The first of the highest is the guess.
  of.is_right[row] = right == 0.0f && std::find(scores, scores + target, highest) == scores + target;
  float sum = exponentials(scores, wide, highest), loss = std::log(sum) - right;
  of.losses[row] = loss;
  // The probability less one, before it is rounded: next to 1 little would be left of it.
  scores[target] = std::expm1(-loss) * sum;
  scale_and_add(scores, 1.0f / sum, of.num_words, logits, sums);
}

template <typename Number>
float loss_and_gradient(const Chunk<Number>& of, int num_threads) {
  int64_t num_blocks = (of.num_rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
  int64_t wide = rounded_up(of.num_words);
  num_threads = int(std::min<int64_t>(num_threads, num_blocks));
  Memory memory((num_threads + num_blocks) * wide);
  if (!memory.floats) return NO_ROOM;
  float* sums = memory.floats + num_threads * wide;  // (blocks, W)
#pragma omp parallel num_threads(num_threads)
  {
    float* scores = memory.floats + omp_get_thread_num() * wide;
#pragma omp for schedule(dynamic)
    for (int64_t block = 0; block < num_blocks; block++) {
      float* own = sums + block * wide;
      std::fill(own, own + of.num_words, 0.0f);
      int64_t end = std::min(of.num_rows, (block + 1) * BLOCK_ROWS);
      for (int64_t row = block * BLOCK_ROWS; row < end; row++) score(of, row, scores, own);
    }
#pragma omp for
    for (int64_t first = 0; first < of.num_words; first += BLOCK_COLUMNS) {
      int64_t end = std::min(of.num_words, first + BLOCK_COLUMNS);
      std::copy(sums + first, sums + end, of.grad_bias + first);
      for (int64_t block = 1; block < num_blocks; block++)
        for (int64_t v = first; v < end; v++) of.grad_bias[v] += sums[block * wide + v];
    }
  }
  return DONE;
}

}  // namespace

extern "C" float loss_and_gradient_fp32(const Chunk<float>* of, int num_threads) {
  return loss_and_gradient(*of, num_threads);
}

extern "C" float loss_and_gradient_bf16(const Chunk<uint16_t>* of, int num_threads) {
  return loss_and_gradient(*of, num_threads);
}
