// Transformer layers of a model that only answers, on a CPU, in one call: what stands behind
// cpu_layer.cpp and those named after other types.
//
// The stream is read in chunks of whole sequences, small enough that all between a chunk's hidden
// states and the next ones stays in the cache: queries, keys and values, contexts, the inner rows of
// the feed-forward part. Threads share a chunk's products by panels and blocks of rows. Where only
// some rows are asked for, queries and all that follows attention are made for these alone; where they
// are a pooler's, which are few, of one chunk and without keys and values (cpu_lone_queries.h). Sums are
// made in float32; what is kept between two products has the type of the hidden states, of whose
// weights the matrices may be in eight bits, or in float16 as rows become then. A row's result depends
// neither on the sequences beside its own nor on the number of threads. It knows no Python.
//
// Source: Devlin et al. 2018, section 3; google-research/bert, modeling.py, transformer_model.
//
// Legend: T rows, R rows asked for, H hidden size, F feed-forward size, A heads, K = H/A; L tokens of
// a sequence.

#pragma once

#include <omp.h>

#include <numeric>
#include <vector>

#include "cpu_layer_contexts.h"

namespace {

// Rows of a chunk: so many for each thread; by vectors, for two at least, since matrices pass once a chunk.
template <typename Number>
int64_t chunk_rows(int num_threads) {
  if (HAS_TILES_OF<Number>) return 256 * num_threads;
  return 4 * BLOCK_ROWS<Number> * std::max(num_threads, 2);
}

template <typename To>
auto with_bias(const Grid<To>& to, const float* bias) {
  return put_into(to, [=](int64_t, int64_t column, Floats sum) { return sum + load(bias + column); });
}

// GELU has code of its own, or it would be looked up, and its tables loaded, for every pair of vectors.
template <typename Matrix, typename Number>
auto activation(const Grid<Number>& to, const Layer<Number, Matrix>& layer) {
  constexpr bool IS_ROUGH = sizeof(Number) < sizeof(float) || Matrix::IS_ROUGH;
  return out_of_line<typename Matrix::Laid>(
      [to, bias = layer.up.bias, activation = layer.activation](
          int64_t row, int64_t column, const auto& sums) {
        const auto put_by = [&](auto chosen) {
          put_pairs(to, row, column, sums, [=](int64_t at, const Floats& sum) {
            return activated<IS_ROUGH>(sum + load(bias + at), chosen);
          });
        };
        if (activation == GELU)
          put_by(std::integral_constant<int, GELU>());
        else
          put_by(activation);
      });
}

// LayerNorm of a row and what was made of it, which is changed.
template <typename Number>
void normalise_sum(
    const Grid<const Number>& residual, float* row, int64_t width, const Norm& norm,
    const Grid<Number>& to) {
  normalise(row, width, norm, to, [=](int64_t h) {
    return load(row + h) + get(residual.at(0, h), width - h);
  });
}

// Makes queries of the rows asked for, and keys and values of all, but of none for lone queries, in the
// threads around it, which wait for each other at its end -> the hidden states of the rows asked for.
template <typename Number, typename Matrix>
Grid<const Number> make_queries_keys_values(
    const Stream<Number>& stream, int64_t first, int64_t end, const Layer<Number, Matrix>& layer,
    Rows<Number, Matrix>& rows) {
  const int64_t width = layer.hidden(), start = stream.firsts[first];
  const int64_t num_rows = stream.lasts[end - 1] + 1 - start;
  const int64_t asked_start = stream.starts[first], num_asked = stream.num_asked(first, end);
  const Left<Number> hidden = stream.hidden.from(start);
  if (stream.projected) {
    STAGE("embeddings");
#pragma omp for schedule(static)
    for (int64_t i = 0; i < num_rows; i++)
      stream.projected->put_row(
          start + i, layer.qkv.width, rows.totals.at(i, 0), rows.queries.from(i));
    return hidden.grid();
  }
  if (stream.are_all_asked()) {
    STAGE("queries, keys and values", 3 * num_rows * width * width);
    weigh(hidden, num_rows, layer.qkv, rows.rounded, with_bias(rows.queries, layer.qkv.bias));
    return hidden.grid();
  }
  STAGE("queries, keys and values", num_asked * width * width);
#pragma omp for schedule(static)
  for (int64_t i = 0; i < num_asked; i++)
    for (int64_t h = 0; h < width; h += BAND<Number>)
      std::copy_n(
          stream.hidden.from(stream.rows[asked_start + i]).first + h,
          std::min(BAND<Number>, width - h), rows.asked.at(i, h));
  const Left<Number> asked = rows.asked;
  const Matrix queries = layer.queries(), keys_values = layer.keys_values();
  weigh(asked, num_asked, queries, rows.rounded, with_bias(rows.queries, queries.bias));
  if (!stream.is_lone) {
    STAGE("queries, keys and values", 2 * num_rows * width * width);
    weigh(
        hidden, num_rows, keys_values, rows.rounded, with_bias(rows.keys_values, keys_values.bias));
  }
  return rows.asked;
}

// Sequences from `first` to before `end`, in the threads of the parallel region around it.
template <typename Number, typename Matrix>
void transform(
    const Stream<Number>& stream, int64_t first, int64_t end, const Layer<Number, Matrix>& layer,
    Rows<Number, Matrix>& rows, Room<Number>& room, Number* output, int64_t output_stride,
    const int64_t* places) {
  const int64_t width = layer.hidden(), inner = layer.up.width;
  const int64_t asked_start = stream.starts[first], num_asked = stream.num_asked(first, end);
  auto weighed = [&](const Left<Number>& from, const Matrix& by, const auto& then) {
    weigh(from, num_asked, by, rows.rounded, then);
  };
  auto added_up = [&](const Matrix& by) { return with_bias(rows.totals, by.bias); };

  const Grid<const Number> residual = make_queries_keys_values(stream, first, end, layer, rows);
  STAGE("attention", products_of_attention(layer, stream, first, end));
  if constexpr (std::is_same_v<Matrix, Panels<Number>>)
    if (stream.is_lone) lone_contexts(stream, layer, rows, room);
  if (!stream.is_lone) contexts(stream, first, end, layer, rows, room);
  STAGE("projection", num_asked * width * width);
  weighed(rows.contexts, layer.output, added_up(layer.output));
  STAGE("norms");
#pragma omp for schedule(static)
  for (int64_t i = 0; i < num_asked; i++)
    normalise_sum(
        residual.from(i), rows.totals.at(i, 0), width, layer.attention_norm, rows.attended.from(i));
  STAGE("up", num_asked * width * inner);
  weighed(rows.attended, layer.up, activation<Matrix>(rows.inner, layer));
  STAGE("down", num_asked * width * inner);
  weighed(rows.inner, layer.down, added_up(layer.down));
  STAGE("norms");
#pragma omp for schedule(static)
  for (int64_t i = 0; i < num_asked; i++) {
    int64_t place = places ? places[asked_start + i] : asked_start + i;
    normalise_sum<Number>(
        rows.attended.from(i), rows.totals.at(i, 0), width, layer.output_norm,
        {output + place * output_stride, output_stride});
  }
}

template <typename Number, typename Matrix>
float forward(
    const Stream<Number>& stream, const Layer<Number, Matrix>& layer, Number* output,
    int64_t output_stride, const int64_t* places, int num_threads) {
  const int64_t whole = stream.lasts[stream.count - 1] + 1;
  std::vector<int64_t> borders =
      stream.chunks(stream.is_lone ? whole : chunk_rows<Number>(num_threads));
  const int64_t wide = stream.is_lone ? layer.hidden() : layer.rules.head_size;
  int64_t most = 0, most_asked = 0, longest = 0;
  for (size_t c = 1; c < borders.size(); c++) {
    most = std::max(most, stream.lasts[borders[c] - 1] + 1 - stream.firsts[borders[c - 1]]);
    most_asked = std::max(most_asked, stream.num_asked(borders[c - 1], borders[c]));
  }
  for (int64_t n = 0; n < stream.count; n++) longest = std::max(longest, stream.length(n));
  Cutter counter{nullptr};
  Rows<Number, Matrix>(counter, layer, stream, most, most_asked);
  Cutter shared = counter;
  Room<Number>(counter, wide, longest);
  int64_t shared_bytes = shared.next - static_cast<char*>(nullptr);
  int64_t bytes = counter.next - shared.next;
  Memory memory((shared_bytes + num_threads * bytes + 64) / sizeof(float));
  if (!memory.floats) return NO_ROOM;
#pragma omp parallel num_threads(num_threads)
  {
    [[maybe_unused]] Tiles tiles;
    Cutter cutter{memory.lined()}, own{memory.lined() + shared_bytes + omp_get_thread_num() * bytes};
    Rows<Number, Matrix> rows(cutter, layer, stream, most, most_asked);
    Room<Number> room(own, wide, longest);
    for (size_t c = 1; c < borders.size(); c++)
      transform(
          stream, borders[c - 1], borders[c], layer, rows, room, output, output_stride, places);
    STAGE(nullptr);
  }
  return DONE;
}

// Through layers in turn: all rows, but of the last one those asked for. Puts these into rising
// order, and finds those of each sequence. With `projected` the first states are made of its ids, and put
// where `hidden` is; then there are several layers, or all rows are asked for.
template <typename Number, typename Matrix>
float forward_through(
    const Layer<Number, Matrix>* const* layers, int64_t num_layers, const Number* hidden,
    const int64_t* firsts, const int64_t* lasts, int64_t num_sequences, const int64_t* rows,
    int64_t num_rows, const Projected<Number>* projected, Number* output, int num_threads) {
  if (projected && !projected->have_all()) return NOT_THERE;
  if (projected && !projected->of_tokens) {
    if (projected->put_states(num_threads) != DONE) return NO_ROOM;
    projected = nullptr;
  }
  const int64_t width = layers[0]->hidden(), stride = stride_for<Number>(width);
  const int64_t size = (lasts[num_sequences - 1] + 1) * stride;
  Memory between(std::min<int64_t>(num_layers - 1, 2) * size * sizeof(Number) / sizeof(float) + 16);
  if (!between.floats) return NO_ROOM;
  const Sequences whole{firsts, lasts, num_sequences, nullptr, -1};
  Left<Number> states{hidden, width};
  for (int64_t i = 0; i + 1 < num_layers; i++) {
    Number* next = reinterpret_cast<Number*>(between.lined()) + i % 2 * size;
    const Stream<Number> stream(whole, states, false, i == 0 ? projected : nullptr);
    if (forward(stream, *layers[i], next, stride, nullptr, num_threads) != DONE) return NO_ROOM;
    states = {next, stride};
  }
  std::vector<int64_t> places(rows ? num_rows : 0), sorted(places.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(
      places.begin(), places.end(), [=](int64_t a, int64_t b) { return rows[a] < rows[b]; });
  for (size_t i = 0; i < places.size(); i++) sorted[i] = rows[places[i]];
  const Sequences asked{firsts, lasts, num_sequences, sorted.data(), rows ? num_rows : -1};
  const Layer<Number, Matrix>& last = *layers[num_layers - 1];
  const Stream<Number> stream(
      asked, states, last.has_lone_queries(asked), num_layers == 1 ? projected : nullptr);
  return forward(stream, last, output, width, rows ? places.data() : nullptr, num_threads);
}

}  // namespace

#define LAYER(TYPE, NUMBER, MATRIX, WEIGHT, LAID_OUT, IS_FAST)                                     \
  extern "C" int64_t laid_out_bytes_##TYPE(int64_t depth, int64_t width) {                         \
    return MATRIX::size(depth, width) * sizeof(LAID_OUT);                                          \
  }                                                                                                \
  extern "C" float lay_out_##TYPE(                                                                 \
      const WEIGHT* weight, int64_t depth, int64_t width, LAID_OUT* panels, int) {                 \
    lay_out_weights(weight, depth, width, panels);                                                 \
    return DONE;                                                                                   \
  }                                                                                                \
  extern "C" float multiplies_##TYPE(int) { return way_of_products<LAID_OUT>(IS_FAST); }           \
  extern "C" float layers_##TYPE(                                                                  \
      const Layer<NUMBER, MATRIX>* const* layers, int64_t num_layers, const NUMBER* hidden,        \
      const int64_t* firsts, const int64_t* lasts, int64_t num_sequences, const int64_t* rows,     \
      int64_t num_rows, const Projected<NUMBER>* projected, NUMBER* output, int num_threads) {     \
    return forward_through(                                                                        \
        layers, num_layers, hidden, firsts, lasts, num_sequences, rows, num_rows, projected,       \
        output, num_threads);                                                                      \
  }                                                                                                \
  extern "C" float project_##TYPE(                                                                 \
      const Layer<NUMBER, MATRIX>* layer, const NUMBER* table, int64_t count, const float* weight, \
      int64_t wide, float* to, int num_threads) {                                                  \
    return project(table, count, weight, layer->qkv, Grid<float>{to, wide}, num_threads);          \
  }                                                                                                \
  extern "C" float project_tokens_##TYPE(                                                          \
      const Layer<NUMBER, MATRIX>* layer, const NUMBER* table, int64_t count, const float* weight, \
      int64_t wide, NUMBER* to, int num_threads) {                                                 \
    return project(table, count, weight, layer->qkv, Grid<NUMBER>{to, wide}, num_threads);         \
  }
