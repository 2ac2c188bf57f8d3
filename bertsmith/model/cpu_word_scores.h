// Scores of the vocabulary's words -> losses and gradients of logits, on a CPU: what is not products of
// cpu_whole_loss.cpp and cpu_float16_loss.cpp.
//
//     loss = log sum e^(logit + bias) - (logit + bias of the target)
//
// Scores come for a block of words at a time, word by word, so sums over words are made for a vector of
// rows at once. Of a block e^(score - the block's highest) is kept for every word, and for every row the
// block's highest and sum. When those of all blocks are known, there is the loss, and on the way back, when
// its scale is known too, what was kept becomes gradients, block by block. All sums are made in the order of
// blocks. It knows no products.
//
// Legend: M rows, V words of the vocabulary, H width; W = M rounded up to vectors, or to panels of tiles.

#pragma once

#include <cmath>
#include <limits>

#include "cpu_panels.h"
#include "cpu_rows.h"

namespace {

// Words whose scores are made at a time: a block; and those whose gradients are in the cache: a span.
template <typename Number>
constexpr int64_t BLOCK_WORDS = HAS_TILES_OF<Number> ? 4 * TALL : 8 * TILE_ROWS;
template <typename Number>
constexpr int64_t SPAN_WORDS = 16 * BLOCK_WORDS<Number>;
constexpr float LOWEST = std::numeric_limits<float>::lowest();

template <typename Number>
struct Given {
  const Number *rows, *embedding;      // (M, H), (V, H)
  const float* bias;                   // (V,)
  const int64_t* targets;              // (M,) in [0, V)
  float* losses;                       // (M,)
  uint8_t* is_right;                   // (M,)
  Number *grad_rows, *grad_embedding;  // (M, H), (V, H)
  float* grad_bias;                    // (V,)
  char* kept;                          // from a line of the cache on: what the way back needs
  int64_t num_rows, num_words, width;  // M, V, H
  float scale;                         // of the loss, on the way back

  int64_t words_from(int64_t first) const {
    return std::min<int64_t>(BLOCK_WORDS<Number>, num_words - first);
  }
};

// What the way back needs to know of all scores.
template <typename Number>
struct Kept {
  int64_t stride;    // W
  Number* weights;   // (V, W) e^(score - the block's highest); tiles: each block in bands
  float* highest;    // (blocks, W); then what makes probabilities of the weights
  float* at_target;  // (W,) gradients of the targets' scores

  int64_t bytes;

  // Where it lies; from null on, how much it is.
  Kept(const Given<Number>& of, int64_t stride) : stride(stride) {
    Cutter cutter{of.kept};
    int64_t blocks = parts(of.num_words, BLOCK_WORDS<Number>);
    weights = cutter.numbers<Number>(blocks * BLOCK_WORDS<Number> * stride);
    highest = cutter.numbers<float>(blocks * stride);
    at_target = cutter.numbers<float>(stride);
    bytes = cutter.next - of.kept;
  }
};

// What is known of them until the loss is.
template <typename Number>
struct Scores : Kept<Number> {
  float *totals, *scores;  // (blocks, W) sums of a block's weights; (W,) of the targets
  uint8_t* is_first;       // (W,) whether the target is the first of its block's highest

  Scores(Cutter& cutter, const Given<Number>& of, int64_t stride) : Kept<Number>(of, stride) {
    totals = cutter.numbers<float>(parts(of.num_words, BLOCK_WORDS<Number>) * stride);
    scores = cutter.numbers<float>(stride);
    is_first = cutter.numbers<uint8_t>(stride);
  }
};

// Of `broad` rows from `column` on, those whose targets a block has: their scores, and whether they are the
// first of the block's highest. `score` is told a word of the block and a row of these.
template <typename Number, typename Score>
void look_up(
    const Given<Number>& of, const Scores<Number>& all, int64_t first, int64_t column, int64_t broad,
    const Score& score) {
  const float* highest = all.highest + first / BLOCK_WORDS<Number> * all.stride + column;
  for (int64_t m = 0; m < std::min(broad, of.num_rows - column); m++) {
    int64_t target = of.targets[column + m] - first, word = 0;
    if (target < 0 || target >= of.words_from(first)) continue;
    while (word < target && score(word, m) != highest[m]) word++;
    all.scores[column + m] = score(target, m);
    all.is_first[column + m] = word == target && score(word, m) == highest[m];
  }
}

// A block's scores of so many rows from `column` on -> its weights, and what they say of each row.
template <typename Number, int64_t BROAD>
void keep(
    const Given<Number>& of, const Scores<Number>& all, int64_t first, int64_t column,
    const float (&scores)[BLOCK_WORDS<Number>][BROAD]) {
  int64_t stride = all.stride, count = of.words_from(first);
  int64_t block = first / BLOCK_WORDS<Number> * stride, broad = std::min(BROAD, stride - column);
  Number* weights = all.weights + first * stride + column;
  for (int64_t m = 0; m < broad; m += LANES) {
    Floats most = Floats{} + LOWEST, total = {};
    for (int64_t row = 0; row < count; row++) most = higher(load(scores[row] + m), most);
    for (int64_t row = 0; row < count; row++) {
      Floats weight = exponential_for<Number>(load(scores[row] + m) - most, 1.0f);
      put(weights + row * stride + m, weight);
      total += weight;
    }
    store(all.highest + block + column + m, most);
    store(all.totals + block + column + m, total);
  }
  look_up(of, all, first, column, broad, [&](int64_t row, int64_t m) { return scores[row][m]; });
}

// A row's loss, and whether its guess, the first of the highest, is right.
template <typename Number>
void judge(const Given<Number>& of, const Scores<Number>& all, int64_t m, float highest, float total) {
  int64_t block = 0, own = of.targets[m] / BLOCK_WORDS<Number>;
  float loss = std::log(total) - (all.scores[m] - highest);
  while (block < own && all.highest[block * all.stride + m] != highest) block++;
  bool is_highest = block == own && all.highest[own * all.stride + m] == highest;
  of.losses[m] = loss;
  of.is_right[m] = is_highest && all.is_first[m];
  // The probability less one, before it is rounded: next to 1 little would be left of it.
  all.at_target[m] = std::expm1(-loss);
}

// All blocks together, for a vector of rows; the block's highest becomes the factor that makes
// probabilities of its weights.
template <typename Number>
void add_up(const Given<Number>& of, const Scores<Number>& all, int64_t m) {
  int64_t blocks = parts(of.num_words, BLOCK_WORDS<Number>);
  Floats highest = Floats{} + LOWEST, total = {}, factor;
  for (int64_t block = 0; block < blocks; block++)
    highest = higher(load(all.highest + block * all.stride + m), highest);
  for (int64_t block = 0; block < blocks; block++) {
    Floats each = load(all.highest + block * all.stride + m);
    total += load(all.totals + block * all.stride + m) * exponential(each - highest);
  }
  for (int lane = 0; lane < LANES; lane++) {
    bool is_there = m + lane < of.num_rows;
    factor[lane] = is_there ? 1.0f / total[lane] : 0.0f;
    if (is_there) judge(of, all, m + lane, highest[lane], total[lane]);
  }
  for (int64_t block = 0; block < blocks; block++) {
    float* at = all.highest + block * all.stride + m;
    store(at, exponential(load(at) - highest) * factor);
  }
}

// A block's gradients of logits, (count, W).
template <typename Number>
void put_gradient(
    const Given<Number>& of, const Kept<Number>& all, int64_t first, Number* gradient) {
  int64_t stride = all.stride, count = of.words_from(first);
  const float* factors = all.highest + first / BLOCK_WORDS<Number> * stride;
  for (int64_t row = 0; row < count; row++)
    for (int64_t m = 0; m < stride; m += LANES)
      put(gradient + row * stride + m,
          load(all.weights + (first + row) * stride + m) * (load(factors + m) * of.scale));
  for (int64_t m = 0; m < of.num_rows; m++) {
    int64_t row = of.targets[m] - first;
    if (row >= 0 && row < count) narrow(all.at_target[m] * of.scale, gradient + row * stride + m);
  }
}

}  // namespace
