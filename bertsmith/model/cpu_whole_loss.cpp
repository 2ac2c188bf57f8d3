// Rows and the vocabulary's embedding -> the loss with all its gradients, on a CPU: what
// cpu_whole_loss.py calls.
//
// Logits are made for a block of words and all rows at a time, word by word, so the embedding is
// multiplied as it lies in memory. What becomes of them is told in cpu_word_scores.h; gradients are used
// up for the words' embeddings at once, and for the rows a span of blocks together, while they are in
// the cache. All sums are made in the order of blocks, so the number of threads changes no bit. It
// knows no Python.
//
// Legend: M rows, V words of the vocabulary, H width; W = M rounded up to vectors.

#include <omp.h>

#include "cpu_products.h"
#include "cpu_shares.h"
#include "cpu_word_scores.h"

namespace {

// What all threads work in.
template <typename Number>
struct Room : Scores<Number> {
  int64_t deep, broad;      // M and H in whole steps and vectors
  Number *columns, *pairs;  // the rows as a product by them, and one over them, reads them
  Number *turned, *words;   // of a span, gradients and embeddings as the rows' sums read them
  float* sums;              // of rows, block by block

  Room(Cutter& cutter, const Given<Number>& of)
      : Scores<Number>(cutter, of),
        deep(parts(of.num_rows, Factors<Number>::STEP) * Factors<Number>::STEP),
        broad(rounded_up(of.width)) {
    int64_t row_blocks = parts(of.num_rows, BLOCK);
    columns = cutter.numbers<Number>(of.width * this->stride);
    pairs = cutter.numbers<Number>(deep * broad);
    turned = cutter.numbers<Number>(SPAN * row_blocks * BLOCK);
    words = cutter.numbers<Number>(SPAN * broad);
    sums = cutter.numbers<float>(row_blocks * BLOCK * parts(of.width, PANEL<Number>) * PANEL<Number>);
  }
};

// Scores of a block of words, PANEL rows at a time, and what they say of each row.
template <typename Number>
void score(const Given<Number>& of, const Room<Number>& room, int64_t first) {
  for (int64_t column = 0; column < of.num_rows; column += PANEL<Number>) {
    float scores[BLOCK][PANEL<Number>];
    int64_t broad = std::min<int64_t>(PANEL<Number>, room.stride - column);
    multiply_narrow<TILE_VECTORS<Number>>(
        Left<Number>{of.embedding + first * of.width, of.width}, int(of.words_from(first)),
        room.columns + column * of.width, int(broad) / LANES, of.width,
        [&](int row, const auto& sums) {
          float *to = scores[row], bias = of.bias[first + row];
          for (const Floats& each : sums) store(to, each + bias), to += LANES;
        });
    keep<Number, PANEL<Number>>(of, room, first, column, scores);
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
  put_gradient(of, room, first, gradient);
  turn_gradient(of, room, gradient, span, first);
  for (int64_t column = 0; column < of.width; column += PANEL<Number>) {
    int64_t broad = std::min<int64_t>(PANEL<Number>, room.broad - column), left = of.width - column;
    lay_out_rows(
        {of.embedding + first * of.width + column, of.width}, count,
        std::min<int64_t>(PANEL<Number>, left), room.words + column * SPAN + from * broad);
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
  share_out(panels * row_blocks, [&](int64_t unit) __attribute__((noinline)) {
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
  });
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
    [[maybe_unused]] const int64_t row_products = of.num_rows * of.width;  // by a word each
    STAGE("rows laid out");
#pragma omp for schedule(static) nowait
    for (int64_t row = 0; row < of.num_rows; row += PANEL<Number>)
      lay_out_columns(
          {of.rows + row * of.width, of.width}, of.width,
          std::min<int64_t>(PANEL<Number>, of.num_rows - row), room.columns + row * of.width);
#pragma omp for schedule(static)
    for (int64_t column = 0; column < of.width; column += PANEL<Number>)
      lay_out_rows(
          {of.rows + column, of.width}, of.num_rows,
          std::min<int64_t>(PANEL<Number>, of.width - column), room.pairs + column * room.deep);
    STAGE("scores and e^x", row_products * of.num_words);
    share_out(parts(of.num_words, BLOCK), [&](int64_t block) __attribute__((noinline)) {
      score(of, room, block * BLOCK);
    });
    STAGE("losses");
#pragma omp for schedule(static)
    for (int64_t m = 0; m < room.stride; m += LANES) add_up<Number>(of, room, m);
    for (int64_t span = 0; span < of.num_words; span += SPAN) {
      [[maybe_unused]] const int64_t products = row_products * std::min(SPAN, of.num_words - span);
      STAGE("gradients of scores and words", products);
      // Nothing of a block is in a cache still: each goes to who has time.
#pragma omp for schedule(dynamic)
      for (int64_t first = span; first < std::min(span + SPAN, of.num_words); first += BLOCK)
        differentiate(of, room, gradient, span, first);
      STAGE("gradients of rows", products);
      add_words(of, room, span);
    }
    STAGE(nullptr);
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
