// Ids -> the first hidden states of a model that only answers, on a CPU: what cpu_embeddings.py calls.
//
// The rows of three tables are added in float32 and normed before anything is rounded. It knows no
// Python.
//
// Source: Devlin et al. 2018, Figure 2; google-research/bert, modeling.py, embedding_postprocessor.
//
// Legend: T tokens, H hidden size, R rows of a table.

#include <omp.h>

#include "cpu_rows.h"

namespace {

// Below so many tokens threads would take longer to meet than to work.
constexpr int64_t FEW_TOKENS = 128;
constexpr float NOT_THERE = 1.0f;

struct Table {
  const void* rows;    // (R, H)
  const int64_t* ids;  // (T,)
  int64_t num_rows;    // R

  bool has_all(int64_t count) const {
    for (int64_t t = 0; t < count; t++)
      if (ids[t] < 0 || ids[t] >= num_rows) return false;
    return true;
  }
};

struct Embeddings {
  Table tables[3];
  Norm norm;
  int64_t width;  // H
  int64_t count;  // T
};

template <typename Number>
float embed(const Embeddings& of, Number* states, int num_threads) {
  for (const Table& table : of.tables)
    if (!table.has_all(of.count)) return NOT_THERE;
  const int64_t wide = rounded_up(of.width);
  Memory memory(num_threads * wide);
  if (!memory.floats) return NO_ROOM;
#pragma omp parallel num_threads(of.count < FEW_TOKENS ? 1 : num_threads)
  {
    float* sums = memory.floats + omp_get_thread_num() * wide;
#pragma omp for schedule(static)
    for (int64_t t = 0; t < of.count; t++) {
      for (int64_t h = 0; h < wide; h += LANES) {
        Floats sum = {};
        for (const Table& table : of.tables) {
          const Number* row = static_cast<const Number*>(table.rows) + table.ids[t] * of.width;
          sum += get(row + h, of.width - h);
        }
        store(sums + h, sum);
      }
      normalise<Number>(sums, of.width, of.norm, {states + t * of.width, of.width});
    }
  }
  return DONE;
}

}  // namespace

extern "C" float embed_fp32(const Embeddings* of, float* states, int num_threads) {
  return embed(*of, states, num_threads);
}

extern "C" float embed_bf16(const Embeddings* of, uint16_t* states, int num_threads) {
  return embed(*of, states, num_threads);
}
