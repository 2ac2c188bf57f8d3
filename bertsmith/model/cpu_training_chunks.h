// What the stream of a layer that learns is cut into, and what its threads work in, on a CPU
// (cpu_training_functions.h).
//
// It knows nothing of the order of a layer's parts.
//
// Legend: that of cpu_training_layer.h.

#pragma once

#include <omp.h>

#include <vector>

#include "cpu_training_layer.h"

namespace {

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

// A stream's sequences in chunks, and the rows asked for in spans. Lone queries, which are few rows, are one
// chunk.
struct Stream {
  static constexpr int64_t CHUNK_ROWS = 256, SPAN_ROWS = 32;  // the former for each thread
  Sequences sequences;
  bool is_lone;
  std::vector<int64_t> starts, first_spans;  // of each sequence, and the end
  std::vector<Chunk> chunks;
  std::vector<Span> spans;
  int64_t longest = 0, most_tokens = 0, most_asked = 0, most_queries = 0;

  Stream(const Layer& layer, const Input& input, int num_threads)
      : sequences(input.sequences), is_lone(input.is_of_lone_queries(layer)),
        starts(sequences.asked_starts()) {
    const Sequences& of = sequences;
    for (int64_t n = 0; n < of.count; n++) {
      longest = std::max(longest, of.length(n));
      most_queries = std::max(most_queries, starts[n + 1] - starts[n]);
      first_spans.push_back(spans.size());
      for (int64_t row = starts[n]; row < starts[n + 1]; row += SPAN_ROWS)
        spans.push_back({row, std::min(row + SPAN_ROWS, starts[n + 1])});
    }
    first_spans.push_back(spans.size());
    const std::vector<int64_t> borders =
        of.chunks(is_lone ? input.num_tokens() : CHUNK_ROWS * num_threads);
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
      : heads(heads_room(cutter, layer, stream, is_backward)),
        attention(norm_room(cutter, layer, ATTENTION)),
        feed_forward(norm_room(cutter, layer, FEED_FORWARD)) {}

  static int64_t bytes(const Layer& layer, const Stream& stream, bool is_backward) {
    Cutter counter{nullptr};
    heads_room(counter, layer, stream, is_backward);
    for (int norm = 0; norm < NUM_NORMS; norm++) counter.numbers<float>(norm_floats(layer));
    return counter.next - static_cast<char*>(nullptr);
  }

  const NormRoom& of(int norm) const { return norm == ATTENTION ? attention : feed_forward; }

 private:
  static Room<Number> heads_room(
      Cutter& cutter, const Layer& layer, const Stream& stream, bool is_backward) {
    if (!stream.is_lone)
      return {
          cutter, layer.rules.head_size, stream.longest, is_backward ? stream.most_queries : 0};
    return {
        cutter, layer.hidden, stream.longest,
        is_backward ? 2 * in_pairs(layer.rules.num_heads) : 0};
  }
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
    STAGE(is_backward ? "weights laid out, backward" : "weights laid out, forward");
    pass.lay_out();
    for (const Chunk& each : pass.stream.chunks) pass.chunk(each, own);
    publish_far();
    STAGE(nullptr);
  }
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
    const Attended& of = kept.attention;
    const int32_t* words = kept.words[PROBABILITIES];
    const int64_t* rows = stream.sequences.are_all_asked() ? nullptr : stream.sequences.rows + asked;
    return {
        of.queries.from(asked, column), of.keys_values.from(token, column),
        of.keys_values.from(token, layer.hidden + column), rows, token,
        stream.sequences.length(sequence), stream.starts[sequence + 1] - asked,
        words ? words + asked : nullptr, number};
  }
};

// For STAGE, products of a chunk, one way: of the maps to queries, keys and values, but those of lone
// queries to the latter two, which are attention's.
inline int64_t products_of_maps(const Layer& layer, const Stream& stream, const Chunk& of) {
  return layer.hidden * layer.hidden * (of.num_asked + (stream.is_lone ? 0 : 2 * of.num_tokens));
}

// Of attention so many times each query by each key, in either of the sizes in which they meet.
inline int64_t products_of_attention(
    const Layer& layer, const Stream& stream, const Chunk& of, int times) {
  const int64_t width = layer.hidden, num_heads = stream.is_lone ? layer.rules.num_heads : 1;
  int64_t meetings = 0;
  for (int64_t n = of.first; n < of.end; n++)
    meetings += (stream.starts[n + 1] - stream.starts[n]) * stream.sequences.length(n);
  return times * meetings * width * num_heads + (stream.is_lone ? 2 * of.num_asked * width * width : 0);
}

// Asks for what the next tile of a product reads or writes beside a row's columns, a panel of them, where
// rows lie one behind the other: its lines are far apart, and no processor foresees them.
template <typename Any>
inline void ask_for_next_tile(const Grid<Any>& rows, int64_t row, int64_t column) {
  if constexpr (!HAS_BANDS)
    ask_for_row(rows, row + TILE_ROWS, column, column + PANEL<Number>);
}

// A chunk's rows asked for, the first of which is given, by a map, in the threads around it.
template <typename Then>
inline void multiply_asked(
    const Grid<const Number>& rows, const Chunk& of, const Panels<Number>& by, const Then& then) {
  multiply_together<Number>(rows, of.num_asked, by, then);
}

}  // namespace
