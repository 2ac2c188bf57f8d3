// What a Transformer layer of a model that only answers reads and works in, and its attention, on a CPU:
// the first half of cpu_layer.h.
//
// Legend: that of cpu_layer.h.

#pragma once

#include <omp.h>

#include <vector>

#include "cpu_float16.h"
#include "cpu_levels.h"
#include "cpu_lone_queries.h"
#include "cpu_token_projections.h"

namespace {

// No matrix has a wider panel.
constexpr int64_t WIDEST_PANEL = 128;

template <typename Number, typename Matrix = Panels<Number>>
struct Layer {
  Matrix qkv, output, up, down;  // of the first, columns of zeros behind those of queries
  Norm attention_norm, output_norm;
  Rules rules;
  int activation;
  Matrix keys_by_heads;  // (K, H) of each; none before a layer is asked for lone queries

  int64_t hidden() const { return output.width; }
  // The column of the first key: it begins a panel, whatever the type of the weights.
  int64_t first_key() const {
    static_assert(WIDEST_PANEL % Matrix::BROAD == 0);
    return parts(hidden(), WIDEST_PANEL) * WIDEST_PANEL;
  }
  Matrix queries() const { return qkv.part(0, hidden()); }
  Matrix keys_values() const { return qkv.part(first_key(), 2 * hidden()); }
  bool has_lone_queries(const Sequences& sequences) const {
    if constexpr (std::is_same_v<Matrix, Panels<Number>>)
      return keys_by_heads.numbers && are_lone(sequences, rules);
    return false;
  }
};

// The sequences' hidden states, and where the rows asked for of each begin among all such.
template <typename Number>
struct Stream : Sequences {
  Left<Number> hidden;
  bool is_lone;  // and then one chunk
  const Projected<Number>* projected;  // null where hidden states are there
  std::vector<int64_t> starts;

  Stream(
      const Sequences& sequences, const Left<Number>& hidden, bool is_lone,
      const Projected<Number>* projected = nullptr)
      : Sequences(sequences),
        hidden(hidden),
        is_lone(is_lone),
        projected(projected),
        starts(asked_starts()) {}
  int64_t num_asked(int64_t first, int64_t end) const { return starts[end] - starts[first]; }
};

// For STAGE, products of attention of some sequences; of lone queries every head reads the whole width, and
// two maps stand around it.
template <typename Number, typename Matrix>
int64_t products_of_attention(
    const Layer<Number, Matrix>& layer, const Stream<Number>& stream, int64_t first, int64_t end) {
  const int64_t width = layer.hidden();
  int64_t meetings = 0;
  for (int64_t n = first; n < end; n++) meetings += stream.num_asked(n, n + 1) * stream.length(n);
  if (!stream.is_lone) return 2 * meetings * width;
  return 2 * (meetings * layer.rules.num_heads + stream.num_asked(first, end) * width) * width;
}

// What a chunk's rows become on their way; each has room for whole panels. They lie in bands where
// tiles make them, and a head's columns are whole ones.
template <typename Number, typename Matrix>
struct Rows {
  // Queries and keys_values are columns of the same rows where all are asked for.
  Grid<Number> asked, queries, keys_values, contexts, attended, inner;
  Grid<float> totals;
  HeadRows<Number> turned, mixed;  // of lone queries, which have neither keys nor values
  typename Matrix::Room rounded;

  // Of so many rows, so many of them asked for; a row may be asked for several times.
  Rows(
      Cutter& cutter, const Layer<Number, Matrix>& layer, const Stream<Number>& stream,
      int64_t num_rows, int64_t num_asked)
      : rounded(cutter, std::max(layer.hidden(), layer.up.width), std::max(num_rows, num_asked)) {
    const bool is_in_bands = HAS_TILES_OF<Number> && layer.rules.head_size % BAND<Number> == 0;
    for (Grid<Number>* each : {&asked, &contexts, &attended})
      *each = room<Number>(cutter, num_asked, layer.hidden(), is_in_bands);
    const bool are_all = stream.are_all_asked();
    queries = room<Number>(
        cutter, num_asked, are_all ? layer.qkv.width : layer.hidden(), is_in_bands);
    if (are_all)
      keys_values = queries.from(0, layer.first_key());
    else if (stream.is_lone)
      for (HeadRows<Number>* each : {&turned, &mixed})
        *each = {cutter, num_asked, layer.rules.num_heads, layer.hidden()};
    else
      keys_values = room<Number>(cutter, num_rows, 2 * layer.hidden(), is_in_bands);
    inner = room<Number>(cutter, num_asked, layer.up.width, is_in_bands);
    totals = room<float>(cutter, num_asked, layer.hidden(), false);
  }

 private:
  template <typename Other>
  static Grid<Other> room(Cutter& cutter, int64_t count, int64_t width, bool is_in_bands) {
    constexpr int64_t BROAD = std::max<int64_t>(PANEL<Number>, Matrix::BROAD);
    return grid_for<Other>(cutter, count, parts(width, BROAD) * BROAD, is_in_bands);
  }
};

// Contexts of lone queries, in the threads of the parallel region around it.
template <typename Number>
void lone_contexts(
    const Stream<Number>& stream, const Layer<Number>& layer,
    const Rows<Number, Panels<Number>>& rows, const Room<Number>& room) {
  const int64_t width = layer.hidden(), num_heads = layer.rules.num_heads;
  const Panels<Number> values = layer.keys_values().part(width, width);
  const ByHeads<Number> by{stream.count, num_heads, layer.rules.head_size};
  by.widen(rows.queries, layer.keys_by_heads.numbers, rows.turned);
#pragma omp for schedule(dynamic)
  for (int64_t n = 0; n < stream.count; n++) {
    const int64_t first = stream.firsts[n];
    const LoneQuery<Number> query{
        rows.turned.of_sequence(n), stream.hidden.from(first).grid(), width,
        stream.rows[n] - first, stream.length(n), nullptr};
    mix(query, layer.rules, room, rows.mixed.of_sequence(n), nullptr);
  }
  by.narrow(
      rows.mixed, values.numbers, rows.contexts,
      [bias = values.bias](int64_t, int64_t, int64_t column, const Floats& sum) {
        return sum + load(bias + column);
      });
}

// Contexts of a chunk's sequences, from `first` to before `end`, in the threads around it.
template <typename Number, typename Matrix>
void contexts(
    const Stream<Number>& stream, int64_t first, int64_t end, const Layer<Number, Matrix>& layer,
    const Rows<Number, Matrix>& rows, Room<Number>& room) {
  const int64_t size = layer.rules.head_size, num_heads = layer.rules.num_heads;
  const int64_t start = stream.firsts[first], asked_start = stream.starts[first];
  const int64_t at_once = stream.heads_at_once(first, end, num_heads, omp_get_num_threads());
#pragma omp for schedule(dynamic, at_once)
  for (int64_t number = 0; number < (end - first) * num_heads; number++) {
    int64_t sequence = first + number / num_heads, column = number % num_heads * size;
    int64_t row = stream.firsts[sequence], asked = stream.starts[sequence] - asked_start;
    const int64_t* these = stream.are_all_asked() ? nullptr : stream.rows + asked_start + asked;
    attend(
        Task<Number>{
            rows.queries.from(asked, column), rows.keys_values.from(row - start, column),
            rows.keys_values.from(row - start, layer.hidden() + column), these, row,
            stream.length(sequence), stream.num_asked(sequence, sequence + 1), nullptr,
            int(number % num_heads)},
        layer.rules, room, rows.contexts.from(asked, column));
  }
}

}  // namespace
