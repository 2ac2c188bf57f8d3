// Ids -> the first hidden states on a CPU, forward and backward: what cpu_embeddings.py calls.
//
// The rows of three tables are added in float32 and normed before anything is rounded. On the way back
// these sums are made again: kept in float32 they would save a tenth of the time, and take more memory
// than the states. It knows no Python.
//
// Source: Devlin et al. 2018, Figure 2; google-research/bert, modeling.py, embedding_postprocessor.
//
// Legend: T tokens, H hidden size, R rows of a table, W = H rounded up to vectors.

#include <omp.h>

#include "cpu_norm.h"
#include "cpu_sums_by_id.h"

namespace {

constexpr int64_t BLOCK = 32;

struct Embeddings : TokenTables {
  const int32_t* keys;  // (T,) of dropout; null without it
  uint32_t site;        // what makes a word of dropout of a row's key
  Dropout dropout;

  int threads(int num_threads) const { return count < FEW_TOKENS ? 1 : num_threads; }
};

// Of one token: what is added up before the norm, and what is dropped behind it.
template <typename Number>
struct Row : TokenRows<Number> {
  int32_t word;
  bool is_dropped;
  Dropout dropout;

  Row(const Embeddings& of, int64_t t)
      : TokenRows<Number>(of, t),
        word(of.keys ? word_at(of.site, of.keys[t]) : 0),
        is_dropped(of.keys),
        dropout(of.dropout) {}

  Floats dropped(Floats value, int64_t h) const {
    return is_dropped ? value * keep_factors(word, uint32_t(h), dropout) : value;
  }
};

// Without room for (T, 2) statistics, for answers, none are kept.
template <typename Number>
float embed(const Embeddings& of, Number* states, float* statistics, int num_threads) {
  if (!of.have_all()) return NOT_THERE;
  const int64_t wide = rounded_up(of.width);
  Memory memory(num_threads * wide);
  if (!memory.floats) return NO_ROOM;
#pragma omp parallel num_threads(of.threads(num_threads))
  {
    float* sums = memory.floats + omp_get_thread_num() * wide;
#pragma omp for schedule(static)
    for (int64_t t = 0; t < of.count; t++) {
      const Row<Number> row(of, t);
      if (t + 1 < of.count) Row<Number>(of, t + 1).ask();
      const Grid<Number> to{states + t * of.width, of.width};
      auto added_up = [&](int64_t h) { return row.added_up(h); };
      auto dropped = [&](int64_t h, Floats value) { return row.dropped(value, h); };
      const Statistics found = of.keys ? normalise(sums, of.width, of.norm, to, added_up, dropped)
                                       : normalise(sums, of.width, of.norm, to, added_up);
      if (statistics) statistics[2 * t] = found.mean, statistics[2 * t + 1] = found.factor;
    }
  }
  return DONE;
}

struct Gradients {
  const void* states;       // (T, H) what arrives
  const float* statistics;  // (T, 2)
  IdSums tables[TABLES];
  float* norm;  // (2, H): weights, biases
};

// What comes to the tokens' sums, and of it to each table's rows.
template <typename Number>
struct Backward {
  const Embeddings& of;
  Gradients& to;
  const int64_t wide, num_blocks;
  const Grid<float> rows;  // (T, W)
  float* of_norm;          // (blocks, 2, W)
  SumsById<Number> tables[TABLES];

  Backward(Cutter& cutter, const Embeddings& of, Gradients& to)
      : of(of),
        to(to),
        wide(rounded_up(of.width)),
        num_blocks(parts(of.count, BLOCK)),
        rows(grid_for<float>(cutter, of.count, of.width, false)),
        of_norm(cutter.numbers<float>(num_blocks * 2 * wide)),
        tables{sums_of(cutter, 0), sums_of(cutter, 1), sums_of(cutter, 2)} {}

  // Back through the norms of a block of tokens.
  void through_norms(int64_t block, const NormRoom& room) const {
    const Grid<const Number> states{static_cast<const Number*>(to.states), of.width};
    float* sums = of_norm + block * 2 * wide;
    std::fill_n(sums, 2 * wide, 0.0f);
    for (int64_t t = block * BLOCK; t < std::min((block + 1) * BLOCK, of.count); t++) {
      const Row<Number> row(of, t);
      if (t + 1 < of.count) Row<Number>(of, t + 1).ask();
      float* past = rows.at(t, 0);
      back_through_norm(
          row, room, to.statistics + 2 * t, states.from(t), sums,
          [=](int h, Floats value) { store(past + h, value); });
    }
  }

 private:
  SumsById<Number> sums_of(Cutter& cutter, int table) const {
    return {cutter, rows, of.width, of.ids(table), to.tables[table]};
  }
};

// In the threads around it.
template <typename Number>
void go_back(Backward<Number>& pass, const NormRoom& room) {
  const int64_t num_blocks = pass.tables[0].num_blocks();
#pragma omp for schedule(dynamic)
  for (int64_t i = 0; i < TABLES + pass.num_blocks; i++) {
    if (i < TABLES)
      pass.tables[i].sort();
    else
      pass.through_norms(i - TABLES, room);
  }
#pragma omp for schedule(static)
  for (int64_t i = 0; i < TABLES * num_blocks; i++) pass.tables[i / num_blocks].add_up(i % num_blocks);
#pragma omp single nowait
  add_spans(pass.of_norm, pass.num_blocks, pass.of.width, pass.to.norm);
#pragma omp for schedule(dynamic)
  for (int64_t i = 0; i < TABLES * num_blocks; i++) pass.tables[i / num_blocks].join(i % num_blocks);
}

template <typename Number>
float embed_backward(const Embeddings& of, Gradients& to, int num_threads) {
  if (!of.have_all()) return NOT_THERE;
  num_threads = of.threads(num_threads);
  const int64_t room_size = NormRoom::ROWS * rounded_up(of.width);
  Cutter counter{nullptr};
  counter.numbers<float>(num_threads * room_size);
  Backward<Number>(counter, of, to);
  Memory memory(parts(counter.next - static_cast<char*>(nullptr) + 64, sizeof(float)));
  if (!memory.floats) return NO_ROOM;
  Cutter cutter{memory.lined()};
  float* rooms = cutter.numbers<float>(num_threads * room_size);
  Backward<Number> pass(cutter, of, to);
#pragma omp parallel num_threads(num_threads)
  {
    float* floats = rooms + omp_get_thread_num() * room_size;
    go_back(pass, NormRoom(floats, int(of.width), of.norm.weight, of.norm.bias));
  }
  return DONE;
}

}  // namespace

#define EMBEDDINGS(TYPE, NUMBER)                                                                     \
  extern "C" float embed_##TYPE(                                                                     \
      const Embeddings* of, NUMBER* states, float* statistics, int num_threads) {                    \
    return embed(*of, states, statistics, num_threads);                                              \
  }                                                                                                  \
  extern "C" float embed_backward_##TYPE(const Embeddings* of, Gradients* to, int num_threads) {     \
    return embed_backward<NUMBER>(*of, *to, num_threads);                                            \
  }

EMBEDDINGS(fp32, float)
EMBEDDINGS(bf16, uint16_t)
