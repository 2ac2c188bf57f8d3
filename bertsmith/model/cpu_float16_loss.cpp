// Rows and the vocabulary's embedding -> the loss, and on the way back all its gradients, by products of
// float16, on a CPU: what cpu_whole_loss.py calls where numbers are float32 and products are not to be.
//
// It goes as cpu_whole_loss.cpp does: words become float16 a block at a time in the thread that scores
// them, gradients of logits a block at a time for the words' embeddings, and a span of them together,
// turned, for the rows. All sums are made in one order, so the number of threads changes no bit. It
// knows no Python.
//
// Legend: M rows, V words of the vocabulary, H width; W = M rounded up to vectors.

#include "cpu_float16.h"

#if MULTIPLIES_FP16

#include "cpu_loss_threads.h"

namespace {

constexpr int64_t BROAD = Float16Panels::BROAD, BLOCK = BLOCK_WORDS<float>, SPAN = SPAN_WORDS<float>;
static_assert(BLOCK == BLOCK_ROWS<Float16> && SPAN % RUN == 0);

int64_t stride_of(const Given<float>& of) { return rounded_up(of.num_rows); }

// What a thread works in alone: a block of rows of a product, at most so deep.
template <typename All>
struct Rounded : Float16Rows {
  Rounded(Cutter& cutter, const Given<float>& of) : Float16Rows(cutter, All::deepest(of), BLOCK) {}
};

// What all threads work in until the loss is known.
struct Scoring : Scores<float> {
  typedef Rounded<Scoring> Own;
  Float16* columns;  // panels of the rows, of a product by them

  static int64_t deepest(const Given<float>& of) { return of.width; }

  Scoring(Cutter& cutter, const Given<float>& of) : Scores<float>(cutter, of, stride_of(of)) {
    columns = cutter.numbers<Float16>(Float16Panels::size(of.width, of.num_rows));
  }
};

// And on the way back.
struct Gradients : Kept<float> {
  typedef Rounded<Gradients> Own;
  int64_t broad;     // H in whole panels
  Float16* pairs;    // panels of the rows, of a product over them
  Float16* words;    // of a span, panels of the embedding
  float* gradients;  // of a span, (SPAN, W), of logits
  float* sums;       // (M, H), of gradients of rows

  static int64_t deepest(const Given<float>& of) { return std::max(of.num_rows, SPAN); }

  Gradients(Cutter& cutter, const Given<float>& of)
      : Kept<float>(of, stride_of(of)), broad(parts(of.width, BROAD) * BROAD) {
    pairs = cutter.numbers<Float16>(Float16Panels::size(of.num_rows, of.width));
    words = cutter.numbers<Float16>(Float16Panels::size(SPAN, of.width));
    gradients = cutter.numbers<float>(SPAN * stride);
    sums = cutter.numbers<float>(of.num_rows * broad);
  }
};

// Scores of a block of words, and what they say of each row.
void score(const Given<float>& of, const Scoring& all, int64_t first, const Float16Rows& rounded) {
  const Float16Rows words = rounded.of(of.width);
  const int64_t count = of.words_from(first);
  for (int64_t row = 0; row < count; row++)
    round_row(of.embedding + (first + row) * of.width, of.width, words.from(row));
  const Float16Panels by{all.columns, nullptr, of.width, of.num_rows};
  for (int64_t column = 0; column < of.num_rows; column += BROAD) {
    float scores[BLOCK][BROAD];
    multiply_runs(words, int(count), by.from(column), [&](int row, const auto& sums) {
      float *to = scores[row], bias = of.bias[first + row];
      for (const Floats& each : sums) store(to, each + bias), to += LANES;
    });
    keep<float, BROAD>(of, all, first, column, scores);
  }
}

// Gradients of the logits of a block of the span, and what they are for: the bias's, the embedding's.
void differentiate(
    const Given<float>& of, const Gradients& all, int64_t span, int64_t first,
    const Float16Rows& rounded) {
  const Float16Rows rows = rounded.of(of.num_rows);
  const int64_t count = of.words_from(first);
  float* gradient = all.gradients + (first - span) * all.stride;
  put_gradient(of, all, first, gradient);
  for (int64_t row = 0; row < count; row++) {
    const float* word = gradient + row * all.stride;
    Floats total = {};
    for (int64_t m = 0; m < all.stride; m += LANES) total += load(word + m);
    of.grad_bias[first + row] = sum_of(total);
    round_row(word, of.num_rows, rows.from(row));
  }
  const Float16Panels by{all.pairs, nullptr, of.num_rows, of.width};
  for (int64_t column = 0; column < of.width; column += BROAD)
    multiply_runs(rows, int(count), by.from(column), [&](int row, const auto& sums) {
      float* to = of.grad_embedding + (first + row) * of.width + column;
      int64_t left = of.width - column;
      for (const Floats& each : sums) put(to, each, left), to += LANES, left -= LANES;
    });
}

// Adds a span's words to the sums of a block of rows.
void add_words(
    const Given<float>& of, const Gradients& all, int64_t span, int64_t first,
    const Float16Rows& rounded) {
  const int64_t num_words = std::min(SPAN, of.num_words - span);
  const int64_t count = std::min(BLOCK, of.num_rows - first);
  const Float16Rows rows = rounded.of(num_words);
  for (int64_t word = 0; word < num_words; word += RUN)
    for (int64_t m = 0; m < count; m += LANES) {
      Run run;
      take_rows(
          all.gradients + word * all.stride + first + m, all.stride, num_words - word, LANES, run);
      put_turned(run, std::min<int64_t>(LANES, count - m), rows.from(m), word / RUN);
    }
  const bool is_first = span == 0, is_last = span + num_words == of.num_words;
  const Float16Panels by{all.words, nullptr, num_words, of.width};
  for (int64_t column = 0; column < of.width; column += BROAD)
    multiply_runs(rows, int(count), by.from(column), [&](int row, const auto& each) {
      float* sums = all.sums + (first + row) * all.broad + column;
      float* to = of.grad_rows + (first + row) * of.width + column;
      int64_t left = of.width - column;
      for (Floats sum : each) {
        if (!is_first) sum += load(sums);
        if (is_last)
          put(to, sum, left);
        else
          store(sums, sum);
        sums += LANES, to += LANES, left -= LANES;
      }
    });
}

float losses(const Given<float>& of, int num_threads) {
  return in_threads<Scoring>(of, num_threads, [&](const Scoring& all, const Float16Rows& rounded) {
    lay_out<true>({of.rows, of.width, of.width, of.num_rows}, all.columns);
#pragma omp barrier
#pragma omp for schedule(static)
    for (int64_t first = 0; first < of.num_words; first += BLOCK) score(of, all, first, rounded);
#pragma omp for schedule(static)
    for (int64_t m = 0; m < all.stride; m += LANES) add_up<float>(of, all, m);
  });
}

float gradients(const Given<float>& of, int num_threads) {
  return in_threads<Gradients>(
      of, num_threads, [&](const Gradients& all, const Float16Rows& rounded) {
        lay_out<false>({of.rows, of.width, of.num_rows, of.width}, all.pairs);
#pragma omp barrier
        for (int64_t span = 0; span < of.num_words; span += SPAN) {
          const int64_t end = std::min(span + SPAN, of.num_words);
          const float* words = of.embedding + span * of.width;
          lay_out<false>({words, of.width, end - span, of.width}, all.words);
#pragma omp for schedule(static)
          for (int64_t first = span; first < end; first += BLOCK)
            differentiate(of, all, span, first, rounded);
#pragma omp for schedule(static)
          for (int64_t first = 0; first < of.num_rows; first += BLOCK)
            add_words(of, all, span, first, rounded);
        }
      });
}

}  // namespace

extern "C" float multiplies_fp32(int) { return 1.0f; }
extern "C" int64_t loss_bytes_fp32(const Given<float>* of) {
  return Kept<float>(*of, stride_of(*of)).bytes;
}
extern "C" float losses_fp32(const Given<float>* of, int num_threads) {
  return losses(*of, num_threads);
}
extern "C" float loss_gradients_fp32(const Given<float>* of, int num_threads) {
  return gradients(*of, num_threads);
}

#else

extern "C" float multiplies_fp32(int) { return 0.0f; }

#endif
