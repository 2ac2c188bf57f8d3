// What a Transformer layer that learns reads, keeps and is cut into, on a CPU (cpu_training_layer.cpp).
//
// Numbers are bfloat16. It knows nothing of the order of a layer's parts.
//
// Legend: T tokens, R rows asked for (all T where none are named), H hidden size, F feed-forward size,
// O width of a result, I width of a row.

#pragma once

#include <omp.h>

#include <vector>

#include "cpu_heads.h"
#include "cpu_norm.h"
#include "cpu_sequences.h"
#include "cpu_shared_products.h"

namespace {

typedef uint16_t Number;

// The maps to queries, keys and values, from contexts, up and down; and both norms.
enum { QKV, OUTPUT, UP, DOWN, NUM_MAPS };
enum { ATTENTION, FEED_FORWARD, NUM_NORMS };
// Where something is dropped: probabilities, and what either sub-layer adds.
enum { PROBABILITIES, ATTENTION_OUTPUT, FEED_FORWARD_OUTPUT, NUM_SITES };

struct Layer {
  const Number *weights[NUM_MAPS], *biases[NUM_MAPS];  // (O, I), (O,)
  Norm norms[NUM_NORMS];
  Rules rules;                // of attention
  Dropout dropout;            // of what both sub-layers add
  uint32_t sites[NUM_SITES];  // what makes a word of dropout of a row's key
  int64_t hidden, inner;      // H, F

  int64_t depth(int map) const { return map == DOWN ? inner : hidden; }
  int64_t width(int map) const { return map == QKV ? 3 * hidden : map == UP ? inner : hidden; }
};

// The layer's input, and where what the way back needs is kept.
struct Input {
  const Number* hidden;  // (T, H)
  Sequences sequences;
  const int32_t* keys;  // (T,) of dropout; null without it
  char* kept;

  int64_t num_tokens() const { return sequences.lasts[sequences.count - 1] + 1; }
  int64_t num_asked() const {
    return sequences.are_all_asked() ? num_tokens() : sequences.num_rows;
  }
};

// What is of queries, (R, H), and of keys and values, (T, 2H); where all are asked for it is of one grid,
// (T, 3H), which begins with the queries.
inline void cut_attended(
    Cutter& cutter, const Layer& layer, const Input& input, Grid<Number>& queries,
    Grid<Number>& keys_values) {
  const int64_t width = layer.hidden, tokens = input.num_tokens();
  if (input.sequences.are_all_asked()) {
    queries = in_bands<Number>(cutter, tokens, 3 * width);
    keys_values = queries.from(0, width);
  } else {
    queries = in_bands<Number>(cutter, input.num_asked(), width);
    keys_values = in_bands<Number>(cutter, tokens, 2 * width);
  }
}

// What the way there leaves for the way back; what products make lies in bands.
struct Kept {
  Grid<const Number> residual;                    // (R, H) hidden states, of which these are
  Number* asked;                                  // or a copy; null where all are asked for
  Grid<Number> queries, keys_values, contexts;    // (R, H), (T, 2H), (R, H)
  Grid<Number> projected, attended;               // (R, H) before dropout and norm, and after
  Grid<Number> slopes, activated;                 // (R, F): of GELU, and after it
  Grid<Number> fed;                               // (R, H) before dropout and norm
  float* statistics[NUM_NORMS];                   // (R, 2)
  int32_t* words[NUM_SITES];                      // (R,) of dropout; null without it

  Kept(Cutter& cutter, const Layer& layer, const Input& input) {
    const int64_t rows = input.num_asked(), width = layer.hidden;
    asked = input.sequences.are_all_asked() ? nullptr : cutter.numbers<Number>(rows * width);
    residual = {asked ? asked : input.hidden, width};
    cut_attended(cutter, layer, input, queries, keys_values);
    for (Grid<Number>* each : {&contexts, &projected, &attended, &fed})
      *each = in_bands<Number>(cutter, rows, width);
    for (Grid<Number>* each : {&slopes, &activated})
      *each = in_bands<Number>(cutter, rows, layer.inner);
    for (float*& each : statistics) each = cutter.numbers<float>(2 * rows);
    for (int site = 0; site < NUM_SITES; site++) {
      const Dropout& dropout = site == PROBABILITIES ? layer.rules.dropout : layer.dropout;
      const bool is_dropped = input.keys && dropout.bar;
      words[site] = is_dropped ? cutter.numbers<int32_t>(rounded_up(rows)) : nullptr;
    }
  }

  // The end of a sub-layer.
  NormRows<Number> end(const Layer& layer, int norm, int64_t count) const {
    const Norm& of = layer.norms[norm];
    if (norm == ATTENTION)
      return {projected, residual, words[ATTENTION_OUTPUT], nullptr, of.weight, of.bias, count};
    return {fed, attended, words[FEED_FORWARD_OUTPUT], nullptr, of.weight, of.bias, count};
  }
};

// Some whole sequences, whose rows stay in the cache from one product to the next.
struct Chunk {
  int64_t first, end;         // sequences
  int64_t token, num_tokens;  // of them
  int64_t asked, num_asked;   // rows of them asked for
};

// Rows asked for that follow each other in one sequence: their part of a sum over rows is made by
// itself, so that it depends neither on chunks nor on threads.
struct Span {
  int64_t first, end;
};

// A stream's sequences in chunks, and the rows asked for in spans.
struct Stream {
  static constexpr int64_t CHUNK_ROWS = 256, SPAN_ROWS = 32;  // the former for each thread
  Sequences sequences;
  std::vector<int64_t> starts, first_spans;  // of each sequence, and the end
  std::vector<Chunk> chunks;
  std::vector<Span> spans;
  int64_t longest = 0, most_tokens = 0, most_asked = 0, most_queries = 0;

  Stream(const Sequences& of, int num_threads) : sequences(of), starts(of.asked_starts()) {
    for (int64_t n = 0; n < of.count; n++) {
      longest = std::max(longest, of.length(n));
      most_queries = std::max(most_queries, starts[n + 1] - starts[n]);
      first_spans.push_back(spans.size());
      for (int64_t row = starts[n]; row < starts[n + 1]; row += SPAN_ROWS)
        spans.push_back({row, std::min(row + SPAN_ROWS, starts[n + 1])});
    }
    first_spans.push_back(spans.size());
    const std::vector<int64_t> borders = of.chunks(CHUNK_ROWS * num_threads);
    for (size_t c = 1; c < borders.size(); c++) add(borders[c - 1], borders[c]);
  }

 private:
  void add(int64_t first, int64_t end) {
    const int64_t token = sequences.firsts[first], num_tokens = sequences.lasts[end - 1] + 1 - token;
    chunks.push_back({first, end, token, num_tokens, starts[first], starts[end] - starts[first]});
    most_tokens = std::max(most_tokens, num_tokens);
    most_asked = std::max(most_asked, chunks.back().num_asked);
  }
};

// What a thread works in; going backward it needs more.
struct Own {
  Room<Number> heads;
  NormRoom attention, feed_forward;

  Own(Cutter& cutter, const Layer& layer, const Stream& stream, bool is_backward)
      : heads(
            cutter, layer.rules.head_size, stream.longest, is_backward ? stream.most_queries : 0),
        attention(norm_room(cutter, layer, ATTENTION)),
        feed_forward(norm_room(cutter, layer, FEED_FORWARD)) {}

  static int64_t bytes(const Layer& layer, const Stream& stream, bool is_backward) {
    Cutter counter{nullptr};
    Room<Number>(
        counter, layer.rules.head_size, stream.longest, is_backward ? stream.most_queries : 0);
    for (int norm = 0; norm < NUM_NORMS; norm++) counter.numbers<float>(norm_floats(layer));
    return counter.next - static_cast<char*>(nullptr);
  }

  const NormRoom& of(int norm) const { return norm == ATTENTION ? attention : feed_forward; }

 private:
  static int64_t norm_floats(const Layer& layer) {
    return NormRoom::ROWS * rounded_up(layer.hidden);
  }
  static NormRoom norm_room(Cutter& cutter, const Layer& layer, int norm) {
    const Norm& of = layer.norms[norm];
    return {cutter.numbers<float>(norm_floats(layer)), int(layer.hidden), of.weight, of.bias};
  }
};

// A pass over all chunks, one after the other, by all threads together; each works where its own part of
// the memory begins, `Own::bytes` of it.
template <typename Pass>
void over_chunks(const Pass& pass, bool is_backward, char* memory, int num_threads) {
  const int64_t bytes = Own::bytes(pass.layer, pass.stream, is_backward);
#pragma omp parallel num_threads(num_threads)
  {
    [[maybe_unused]] Tiles tiles;
    Cutter cutter{memory + omp_get_thread_num() * bytes};
    const Own own(cutter, pass.layer, pass.stream, is_backward);
    pass.lay_out();
    for (const Chunk& each : pass.stream.chunks) pass.chunk(each, own);
    publish_far();
  }
}

inline NormRules norm_rules(const Layer& layer, int norm) {
  return {int(layer.hidden), layer.norms[norm].epsilon, layer.dropout, layer.dropout};
}

// One head of one sequence of a chunk, by its number among all such: where its tokens, the rows of
// them asked for and its columns begin.
struct Head {
  int64_t sequence, token, asked, column;
  int number;

  Head(const Layer& layer, const Stream& stream, const Chunk& chunk, int64_t number)
      : sequence(chunk.first + number / layer.rules.num_heads),
        token(stream.sequences.firsts[sequence]),
        asked(stream.starts[sequence]),
        column(number % layer.rules.num_heads * layer.rules.head_size),
        number(int(number % layer.rules.num_heads)) {}

  Task<Number> task(const Layer& layer, const Stream& stream, const Kept& kept) const {
    const int32_t* words = kept.words[PROBABILITIES];
    const int64_t* rows = stream.sequences.are_all_asked() ? nullptr : stream.sequences.rows + asked;
    return {
        kept.queries.from(asked, column), kept.keys_values.from(token, column),
        kept.keys_values.from(token, layer.hidden + column), rows, token,
        stream.sequences.length(sequence), stream.starts[sequence + 1] - asked,
        words ? words + asked : nullptr, number};
  }
};

inline Panels<Number> panels(const Number* numbers, int64_t depth, int64_t width) {
  return {numbers, nullptr, depth, width};
}

// A chunk's rows asked for, the first of which is given, by a map, in the threads around it.
template <typename Then>
inline void multiply_asked(
    const Grid<const Number>& rows, const Chunk& of, const Panels<Number>& by, const Then& then) {
  multiply_together<Number>(rows, of.num_asked, by, then);
}

}  // namespace
