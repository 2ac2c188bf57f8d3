// What ids bring to the first layer's queries, keys and values, on a CPU: made once an id, not once a token.
//
// The first hidden states are a norm of what a token, a segment and a position add up to, and queries, keys
// and values a map of these. All of that is linear, but for the norm's factor, one number a token:
//
//     map(norm(t + s + p)) = factor (P t + P s + P p) + map(the norm's bias)
//     P a = the map, without its bias, of the norm's weight times (a - mean of a)
//
// So the map of all rows of the three tables, made beforehand, is in the place of the layer's own product, and
// hidden states are made beside. A row's depend on nothing but its ids. Where no such map was made, hidden
// states alone are put there, and the layer multiplies them. It knows no layers but the map.
//
// Source: Devlin et al. 2018, Figure 2; compare Graef 2024, Transformer tricks: Precomputing the first layer.
//
// Legend: T tokens of a stream, R rows of a table, H hidden size, W columns of the map up to WIDEST_PANEL.

#pragma once

#include <omp.h>

#include "cpu_shared_products.h"
#include "cpu_token_rows.h"

namespace {

// A stream's ids, what they bring, and where their hidden states are put.
template <typename Number>
struct Projected : TokenTables {
  const Number* of_tokens;                  // (R, W); null where the layer multiplies
  const float *of_segments, *of_positions;  // (R, W)
  const float* of_bias;                     // (W,) of the norm's bias, the map's added
  int64_t wide;                             // W
  Number* hidden;                           // (T, H)

  // A token's hidden state, and the norm's factor; it works in H floats, up to whole vectors.
  float put_state(int64_t t, float* room) const {
    const TokenRows<Number> row(*this, t);
    if (t + 1 < count) TokenRows<Number>(*this, t + 1).ask();
    const Grid<Number> state{hidden + t * width, width};
    return normalise(room, width, norm, state, [&](int64_t h) { return row.added_up(h); }).factor;
  }

  // The hidden states of all tokens alone.
  float put_states(int num_threads) const {
    const int64_t room = rounded_up(width);
    const Memory memory(num_threads * room);
    if (!memory.floats) return NO_ROOM;
#pragma omp parallel num_threads(count < FEW_TOKENS ? 1 : num_threads)
    {
      STAGE("embeddings");
#pragma omp for schedule(static)
      for (int64_t t = 0; t < count; t++)
        put_state(t, memory.floats + omp_get_thread_num() * room);
      STAGE(nullptr);
    }
    return DONE;
  }

  // Beside a token's hidden state the map's columns of it.
  void put_row(int64_t t, int64_t columns, float* room, const Grid<Number>& to) const {
    const Number *of_token = brought(t), *next = brought(t + 1 < count ? t + 1 : t);
    const float factor = put_state(t, room);
    const float* of_segment = of_segments + tables[1].ids[t] * wide;
    const float* of_position = of_positions + tables[2].ids[t] * wide;
    put_made(to, columns, [=, of_bias = of_bias](int64_t c) {
      __builtin_prefetch(next + c);
      return (load(of_token + c) + load(of_segment + c) + load(of_position + c)) * factor +
             load(of_bias + c);
    });
  }

 private:
  const Number* brought(int64_t t) const { return of_tokens + tables[0].ids[t] * wide; }
};

// (R, H) rows of a table, centred and weighted as the norm does it, through the map -> (R, W).
template <typename Number, typename Matrix, typename To>
float project(
    const Number* table, int64_t count, const float* weight, const Matrix& map,
    const Grid<To>& to, int num_threads) {
  constexpr int64_t AT_ONCE = 256;
  const int64_t width = map.depth;
  const auto of_threads = [=](Cutter& cutter) {
    return std::pair<Grid<Number>, typename Matrix::Room>(
        grid_for<Number>(cutter, AT_ONCE, width, false), {cutter, width, AT_ONCE});
  };
  Cutter counter{nullptr};
  of_threads(counter);
  const Memory memory((counter.next - static_cast<char*>(nullptr) + 64) / sizeof(float));
  if (!memory.floats) return NO_ROOM;
#pragma omp parallel num_threads(num_threads)
  {
    [[maybe_unused]] Tiles tiles;
    Cutter cutter{memory.lined()};
    const auto [centred, rounded] = of_threads(cutter);
    for (int64_t first = 0; first < count; first += AT_ONCE) {
      const int64_t num_rows = std::min(AT_ONCE, count - first);
#pragma omp for schedule(static)
      for (int64_t i = 0; i < num_rows; i++) {
        const Number* row = table + (first + i) * width;
        const auto value = [=](int64_t h) { return get(row + h, width - h); };
        const float mean = sum_of(sum_over(rounded_up(width), value)) / width;
        put_made(centred.from(i), width, [=](int64_t h) {
          return (value(h) - mean) * get(weight + h, width - h);
        });
      }
      weigh(Left<Number>(centred), num_rows, map, rounded, as_they_are(to.from(first)));
    }
  }
  return DONE;
}

}  // namespace
