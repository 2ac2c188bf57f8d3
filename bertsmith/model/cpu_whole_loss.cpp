// Rows and the vocabulary's embedding -> the loss, and on the way back all its gradients, on a CPU: what
// cpu_whole_loss.py calls.
//
// Logits are made for a block of words and all rows at a time, word by word, so the embedding is
// multiplied as it lies in memory. What becomes of them is told in cpu_word_scores.h; gradients are used
// up for the words' embeddings at once, and for the rows a span of blocks together, while they are in
// the cache. All sums are made in the order of blocks, so the number of threads changes no bit. Products
// are made by vectors or in tiles. It knows no Python.
//
// Legend: M rows, V words of the vocabulary, H width.

#include "cpu_loss_gradients_by_tiles.h"
#include "cpu_loss_by_vectors.h"
#include "cpu_loss_threads.h"

namespace {

// A Loss is a way to multiply. Of its Scoring and its Gradients all threads work in one, and lay the rows
// out for it (`lay_out`). One thread makes a block of words' scores and what they say of each row
// (`Scoring::score`), or, once the loss is known, its gradients of logits, the bias's and the embedding's
// (`Gradients::differentiate`), in memory of its `Own`. All together, waiting for one another at the end, add
// a span's words to the sums of rows, their gradients after the last one (`Gradients::add_words`).
template <typename Loss, typename Number>
float losses(const Given<Number>& of, int num_threads) {
  typedef typename Loss::Scoring Scoring;
  return in_threads<Scoring>(of, num_threads, [&](const Scoring& all, const auto& own) {
    STAGE("rows laid out");
    all.lay_out();
    STAGE("scores and e^x", of.num_rows * of.width * of.num_words);
    share_out(parts(of.num_words, Loss::BLOCK), [&](int64_t block) __attribute__((noinline)) {
      all.score(block * Loss::BLOCK, own);
    });
    STAGE("losses");
#pragma omp for schedule(static)
    for (int64_t m = 0; m < all.stride; m += LANES) add_up<Number>(of, all, m);
  });
}

template <typename Loss, typename Number>
float gradients(const Given<Number>& of, int num_threads) {
  typedef typename Loss::Gradients Gradients;
  return in_threads<Gradients>(of, num_threads, [&](const Gradients& all, const auto& own) {
    STAGE("rows laid out, backward");
    all.lay_out();
    for (int64_t span = 0; span < of.num_words; span += Loss::SPAN) {
      const int64_t end = std::min(span + Loss::SPAN, of.num_words);
      [[maybe_unused]] const int64_t products = of.num_rows * of.width * (end - span);
      STAGE("gradients of scores and words, backward", products);
      // Nothing of a block is in a cache still: each goes to who has time.
#pragma omp for schedule(dynamic)
      for (int64_t first = span; first < end; first += Loss::BLOCK)
        all.differentiate(span, first, own);
      STAGE("gradients of rows, backward", products);
      all.add_words(span);
    }
  });
}

// Tells `then` this processor's way.
template <typename Number, typename Then>
auto by_way(const Then& then) {
#if HAS_TILES
  if constexpr (HAS_TILES_OF<Number>)
    if (may_use_tiles()) return then(LossByTiles());
#endif
  return then(LossByVectors<Number>());
}

}  // namespace

#define WHOLE_LOSS(TYPE, NUMBER, WAY)                                                              \
  extern "C" float multiplies_##TYPE(int) { return WAY; }                                          \
  extern "C" int64_t loss_bytes_##TYPE(const Given<NUMBER>* of) {                                   \
    return by_way<NUMBER>([&](auto way) { return Kept<NUMBER>(*of, way.stride_of(*of)).bytes; });   \
  }                                                                                                \
  extern "C" float losses_##TYPE(const Given<NUMBER>* of, int num_threads) {                        \
    return by_way<NUMBER>([&](auto way) { return losses<decltype(way)>(*of, num_threads); });       \
  }                                                                                                \
  extern "C" float loss_gradients_##TYPE(const Given<NUMBER>* of, int num_threads) {                \
    return by_way<NUMBER>([&](auto way) { return gradients<decltype(way)>(*of, num_threads); });    \
  }

// Narrower vectors of float32 took 1.03 to 1.2 times the time of torch's products.
WHOLE_LOSS(fp32, float, VECTOR_BYTES == 64)
WHOLE_LOSS(bf16, uint16_t, way_of_products<uint16_t>(MULTIPLIES_BF16))
