// Rows and the vocabulary's embedding -> the loss with all its gradients, on a CPU: what
// cpu_whole_loss.py calls.
//
// Logits are made for a block of words and all rows at a time, word by word, so the embedding is
// multiplied as it lies in memory. What becomes of them is told in cpu_word_scores.h; gradients are used
// up for the words' embeddings at once, and for the rows a span of blocks together, while they are in
// the cache. All sums are made in the order of blocks, so the number of threads changes no bit. Products
// are made by vectors or in tiles. It knows no Python.
//
// Legend: M rows, V words of the vocabulary, H width.

#include <omp.h>

#include "cpu_loss_by_tiles.h"
#include "cpu_loss_by_vectors.h"

namespace {

// A Loss is what all threads work in, and how they multiply. In the threads around it, which wait for one
// another at the end, it lays the rows out (`lay_out`), and adds a span's words to the sums of rows, their
// gradients after the last one (`add_words`). One thread makes a block of words' scores and what they say of
// each row (`score`), and, once all are known, its gradients of logits, the bias's and the embedding's
// (`differentiate`), in memory of its `Own`.
template <typename Loss, typename Number>
float loss_and_gradients(const Given<Number>& of, int num_threads) {
  Cutter counter{nullptr};
  typename Loss::Own(counter, of);
  const int64_t bytes = counter.next - static_cast<char*>(nullptr);
  Loss(counter, of);
  counter.next += num_threads * bytes;
  Memory memory((counter.next - static_cast<char*>(nullptr)) / sizeof(float) + 16);
  if (!memory.floats) return NO_ROOM;
  Cutter cutter{memory.lined()};
  const Loss loss(cutter, of);
#pragma omp parallel num_threads(num_threads)
  {
    [[maybe_unused]] Tiles tiles;
    Cutter apart{cutter.next + omp_get_thread_num() * bytes};
    const typename Loss::Own own(apart, of);
    [[maybe_unused]] const int64_t row_products = of.num_rows * of.width;  // by a word each
    STAGE("rows laid out");
    loss.lay_out();
    STAGE("scores and e^x", row_products * of.num_words);
    share_out(parts(of.num_words, Loss::BLOCK), [&](int64_t block) __attribute__((noinline)) {
      loss.score(block * Loss::BLOCK, own);
    });
    STAGE("losses");
#pragma omp for schedule(static)
    for (int64_t m = 0; m < loss.stride; m += LANES) add_up<Number>(of, loss, m);
    for (int64_t span = 0; span < of.num_words; span += Loss::SPAN) {
      const int64_t end = std::min(span + Loss::SPAN, of.num_words);
      [[maybe_unused]] const int64_t products = row_products * (end - span);
      STAGE("gradients of scores and words", products);
      // Nothing of a block is in a cache still: each goes to who has time.
#pragma omp for schedule(dynamic)
      for (int64_t first = span; first < end; first += Loss::BLOCK)
        loss.differentiate(span, first, own);
      STAGE("gradients of rows", products);
      loss.add_words(span);
    }
    STAGE(nullptr);
  }
  return DONE;
}

template <typename Number>
float loss_and_gradients(const Given<Number>& of, int num_threads) {
#if HAS_TILES
  if constexpr (HAS_TILES_OF<Number>)
    if (may_use_tiles()) return loss_and_gradients<LossByTiles>(of, num_threads);
#endif
  return loss_and_gradients<LossByVectors<Number>>(of, num_threads);
}

}  // namespace

#define WHOLE_LOSS(TYPE, NUMBER, WAY)                                                              \
  extern "C" float multiplies_##TYPE(int) { return WAY; }                                          \
  extern "C" float loss_and_gradients_##TYPE(const Given<NUMBER>* of, int num_threads) {            \
    return loss_and_gradients(*of, num_threads);                                                   \
  }

// Narrower vectors of float32 took 1.03 to 1.2 times the time of torch's products.
WHOLE_LOSS(fp32, float, VECTOR_BYTES == 64)
WHOLE_LOSS(bf16, uint16_t, way_of_products<uint16_t>(MULTIPLIES_BF16))
