// Rows and the vocabulary's embedding -> the loss with all its gradients, on a CPU: what
// cpu_whole_loss.py calls.
//
//     loss = log sum e^(logit + bias) - (logit + bias of the target)
//
// Logits are made for a block of words and all rows at a time, word by word, so the embedding is
// multiplied as it lies in memory, and sums over words are made for a vector of rows at once. Of a
// block e^(score - the block's highest) is kept for every word, and for every row the block's highest
// and sum. When those of all blocks are known, these become gradients, block by block: they are used
// up for the words' embeddings at once, and for the rows a span of blocks together, while they are in
// the cache. All sums are made in the order of blocks, so the number of threads changes no bit. It
// knows no Python.
//
// Legend: M rows, V words of the vocabulary, H width; W = M rounded up to vectors.

#include <omp.h>

#include <cmath>
#include <limits>

#include "cpu_products.h"
#include "cpu_rows.h"

namespace {

// Words whose scores are made at a time: a block; and those whose gradients are in the cache: a span.
constexpr int64_t BLOCK = 8 * TILE_ROWS, SPAN = 16 * BLOCK;
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
  int64_t num_rows, num_words, width;  // M, V, H

  int64_t words_from(int64_t first) const {
    return std::min<int64_t>(BLOCK, num_words - first);
  }
};

int64_t parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

// What all threads work in.
template <typename Number>
struct Room {
  int64_t stride, deep, broad;  // W; M and H in whole steps and vectors
  Number *columns, *pairs;      // the rows as a product by them, and one over them, reads them
  Number* weights;              // (V, W) e^(score - the block's highest)
  float *highest, *totals;      // (blocks, W); then highest makes probabilities of the weights
  float *scores, *at_target;    // (W,) of the targets, and their gradients
  uint8_t* is_first;            // (W,) whether the target is the first of its block's highest
  Number *turned, *words;       // of a span, gradients and embeddings as the rows' sums read them
  float* sums;                  // of rows, block by block

  Room(Cutter& cutter, const Given<Number>& of)
      : stride(rounded_up(of.num_rows)),
        deep(parts(of.num_rows, Factors<Number>::STEP) * Factors<Number>::STEP),
        broad(rounded_up(of.width)) {
    int64_t blocks = parts(of.num_words, BLOCK), row_blocks = parts(of.num_rows, BLOCK);
    columns = cutter.numbers<Number>(of.width * stride);
    pairs = cutter.numbers<Number>(deep * broad);
    weights = cutter.numbers<Number>(of.num_words * stride);
    for (float** each : {&highest, &totals}) *each = cutter.numbers<float>(blocks * stride);
    for (float** each : {&scores, &at_target}) *each = cutter.numbers<float>(stride);
    is_first = cutter.numbers<uint8_t>(stride);
    turned = cutter.numbers<Number>(SPAN * row_blocks * BLOCK);
    words = cutter.numbers<Number>(SPAN * broad);
    sums = cutter.numbers<float>(row_blocks * BLOCK * parts(of.width, PANEL<Number>) * PANEL<Number>);
  }
};

// Scores of a block of words, PANEL rows at a time, and what they say of each row.
template <typename Number>
void score(const Given<Number>& of, const Room<Number>& room, int64_t first) {
  int64_t stride = room.stride, count = of.words_from(first), block = first / BLOCK * stride;
  for (int64_t column = 0; column < of.num_rows; column += PANEL<Number>) {
    float scores[BLOCK][PANEL<Number>];
    int64_t broad = std::min<int64_t>(PANEL<Number>, stride - column);
    Number* weights = room.weights + first * stride + column;
    multiply_narrow<TILE_VECTORS<Number>>(
        Left<Number>{of.embedding + first * of.width, of.width}, int(count),
        room.columns + column * of.width, int(broad) / LANES, of.width,
        [&](int row, const auto& sums) {
          float *to = scores[row], bias = of.bias[first + row];
          for (const Floats& each : sums) store(to, each + bias), to += LANES;
        });
    float* highest = room.highest + block + column;
    for (int64_t m = 0; m < broad; m += LANES) {
      Floats most = Floats{} + LOWEST, total = {};
      for (int64_t row = 0; row < count; row++) {
        Floats each = load(scores[row] + m);
        most = each > most ? each : most;
      }
      for (int64_t row = 0; row < count; row++) {
        Floats weight = exponential(load(scores[row] + m) - most);
        put(weights + row * stride + m, weight);
        total += weight;
      }
      store(highest + m, most);
      store(room.totals + block + column + m, total);
    }
    for (int64_t m = 0; m < std::min<int64_t>(PANEL<Number>, of.num_rows - column); m++) {
      int64_t target = of.targets[column + m] - first, row = 0;
      if (target < 0 || target >= count) continue;
      while (row < target && scores[row][m] != highest[m]) row++;
      room.scores[column + m] = scores[target][m];
      room.is_first[column + m] = row == target && scores[row][m] == highest[m];
    }
  }
}

// A row's loss, and whether its guess, the first of the highest, is right.
template <typename Number>
void judge(const Given<Number>& of, const Room<Number>& room, int64_t m, float highest, float total) {
  int64_t block = 0, own = of.targets[m] / BLOCK;
  float loss = std::log(total) - (room.scores[m] - highest);
  while (block < own && room.highest[block * room.stride + m] != highest) block++;
  bool is_highest = block == own && room.highest[own * room.stride + m] == highest;
  of.losses[m] = loss;
  of.is_right[m] = is_highest && room.is_first[m];
  // The probability less one, before it is rounded: next to 1 little would be left of it.
  room.at_target[m] = std::expm1(-loss);
}

// All blocks together, for a vector of rows; the block's highest becomes the factor that makes
// probabilities of its weights.
template <typename Number>
void add_up(const Given<Number>& of, const Room<Number>& room, int64_t m) {
  int64_t blocks = parts(of.num_words, BLOCK);
  Floats highest = Floats{} + LOWEST, total = {}, factor;
  for (int64_t block = 0; block < blocks; block++) {
    Floats each = load(room.highest + block * room.stride + m);
    highest = each > highest ? each : highest;
  }
  for (int64_t block = 0; block < blocks; block++) {
    Floats each = load(room.highest + block * room.stride + m);
    total += load(room.totals + block * room.stride + m) * exponential(each - highest);
  }
  for (int lane = 0; lane < LANES; lane++) {
    bool is_there = m + lane < of.num_rows;
    factor[lane] = is_there ? 1.0f / total[lane] : 0.0f;
    if (is_there) judge(of, room, m + lane, highest[lane], total[lane]);
  }
  for (int64_t block = 0; block < blocks; block++) {
    float* at = room.highest + block * room.stride + m;
    store(at, exponential(load(at) - highest) * factor);
  }
}

// A block's gradients of logits, (count, W): lays them out for the sums of rows, and adds them up for
// the bias.
template <typename Number>
void turn_gradient(
    const Given<Number>& of, const Room<Number>& room, const Number* gradient, int64_t span,
    int64_t first) {
  constexpr int STEP = Factors<Number>::STEP;
  int64_t stride = room.stride, count = of.words_from(first), from = first - span;
  for (int64_t row = 0; row < count; row += STEP) {
    Floats totals[2] = {};
    for (int64_t m = 0; m < stride; m += LANES) {
      const Number* word = gradient + row * stride + m;
      const Number* second = row + 1 < count ? word + stride : nullptr;
      totals[0] += load(word);
      if (STEP > 1 && second) totals[1] += load(second);
      Words words = side_by_side(word, second);
      Number* panel = room.turned + m / BLOCK * SPAN * BLOCK;
      std::memcpy(
          panel + (from + row) * BLOCK + m % BLOCK * STEP, &words, sizeof words);
    }
    for (int step = 0; step < STEP && row + step < count; step++)
      of.grad_bias[first + row + step] = sum_of(totals[step]);
  }
}

// Gradients of the logits of a block, and what they are for: the bias's and the embedding's, and
// those of rows once the span from `span` on is whole.
template <typename Number>
void differentiate(
    const Given<Number>& of, const Room<Number>& room, Number* gradient, int64_t span,
    int64_t first) {
  int64_t stride = room.stride, count = of.words_from(first), from = first - span;
  const float* factors = room.highest + first / BLOCK * stride;
  for (int64_t row = 0; row < count; row++)
    for (int64_t m = 0; m < stride; m += LANES)
      put(gradient + row * stride + m,
          load(room.weights + (first + row) * stride + m) * load(factors + m));
  for (int64_t m = 0; m < of.num_rows; m++) {
    int64_t row = of.targets[m] - first;
    if (row >= 0 && row < count) narrow(room.at_target[m], gradient + row * stride + m);
  }
  turn_gradient(of, room, gradient, span, first);
  for (int64_t column = 0; column < of.width; column += PANEL<Number>) {
    int64_t broad = std::min<int64_t>(PANEL<Number>, room.broad - column), left = of.width - column;
    lay_out_rows(
        of.embedding + first * of.width + column, of.width, count, std::min<int64_t>(PANEL<Number>, left),
        room.words + column * SPAN + from * broad);
    float sums[BLOCK * PANEL<Number>];
    Number* to = of.grad_embedding + first * of.width + column;
    expect(to, of.width, count, broad);
    multiply_long(
        Left<Number>{gradient, stride}, int(count), room.pairs + column * room.deep,
        int(broad) / LANES, room.deep, sums);
    for (int64_t row = 0; row < count; row++)
      put_row(sums + row * PANEL<Number>, broad, to + row * of.width, left);
  }
}

// Adds a span's words to the sums of rows, in the threads around it, which wait for one another at
// its end.
template <typename Number>
void add_words(const Given<Number>& of, const Room<Number>& room, int64_t span) {
  constexpr int STEP = Factors<Number>::STEP;
  int64_t panels = parts(of.width, PANEL<Number>), row_blocks = parts(of.num_rows, BLOCK);
  int64_t num_words = std::min(SPAN, of.num_words - span);
  bool is_last = span + num_words == of.num_words;
#pragma omp for schedule(static)
  for (int64_t unit = 0; unit < panels * row_blocks; unit++) {
    int64_t column = unit % panels * PANEL<Number>, first = unit / panels * BLOCK;
    int64_t broad = std::min<int64_t>(PANEL<Number>, room.broad - column);
    int count = int(std::min<int64_t>(BLOCK, of.num_rows - first));
    float* sums = room.sums + unit * BLOCK * PANEL<Number>;
    multiply_long(
        Left<Number>{room.turned + first * SPAN, STEP, BLOCK * STEP}, count,
        room.words + column * SPAN, int(broad) / LANES, parts(num_words, STEP) * STEP, sums,
        span == 0);
    for (int row = 0; row < (is_last ? count : 0); row++)
      put_row(
          sums + row * PANEL<Number>, broad, of.grad_rows + (first + row) * of.width + column,
          of.width - column);
  }
}

template <typename Number>
float loss_and_gradients(const Given<Number>& of, int num_threads) {
  Cutter counter{nullptr};
  Room<Number>(counter, of);
  int64_t size = BLOCK * rounded_up(of.num_rows);
  counter.numbers<Number>(num_threads * size);
  Memory memory((counter.next - static_cast<char*>(nullptr)) / sizeof(float) + 16);
  if (!memory.floats) return NO_ROOM;
  Cutter cutter{memory.lined()};
  const Room<Number> room(cutter, of);
  Number* gradients = cutter.numbers<Number>(num_threads * size);
#pragma omp parallel num_threads(num_threads)
  {
    [[maybe_unused]] Tiles tiles;
    Number* gradient = gradients + omp_get_thread_num() * size;  // (BLOCK, W)
#pragma omp for schedule(static) nowait
    for (int64_t row = 0; row < of.num_rows; row += PANEL<Number>)
      lay_out_columns(
          of.rows + row * of.width, of.width, of.width,
          std::min<int64_t>(PANEL<Number>, of.num_rows - row), room.columns + row * of.width);
#pragma omp for schedule(static)
    for (int64_t column = 0; column < of.width; column += PANEL<Number>)
      lay_out_rows(
          of.rows + column, of.width, of.num_rows, std::min<int64_t>(PANEL<Number>, of.width - column),
          room.pairs + column * room.deep);
#pragma omp for schedule(static)
    for (int64_t first = 0; first < of.num_words; first += BLOCK)
      score(of, room, first);
#pragma omp for schedule(static)
    for (int64_t m = 0; m < room.stride; m += LANES) add_up(of, room, m);
    for (int64_t span = 0; span < of.num_words; span += SPAN) {
#pragma omp for schedule(static)
      for (int64_t first = span; first < std::min(span + SPAN, of.num_words); first += BLOCK)
        differentiate(of, room, gradient, span, first);
      add_words(of, room, span);
    }
  }
  return DONE;
}

}  // namespace

#define WHOLE_LOSS(TYPE, NUMBER, IS_FAST)                                                          \
  extern "C" float multiplies_##TYPE(int) { return IS_FAST; }                                      \
  extern "C" float loss_and_gradients_##TYPE(const Given<NUMBER>* of, int num_threads) {            \
    return loss_and_gradients(*of, num_threads);                                                   \
  }

// Narrower vectors of float32 took 1.03 to 1.2 times the time of torch's products, tiles of bfloat16
// 1.1 to 1.3 times.
WHOLE_LOSS(fp32, float, VECTOR_BYTES == 64)
WHOLE_LOSS(bf16, uint16_t, MULTIPLIES_BF16)
