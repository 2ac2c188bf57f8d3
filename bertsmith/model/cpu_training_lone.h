// Attention of a layer that learns, there and back, where queries are lone (cpu_lone_queries.h), on a CPU.
//
// It is of one chunk, since queries are few and hidden states are read as they lie. It knows nothing of a
// layer's other parts.
//
// Legend: that of cpu_training_layer.h; A heads.

#pragma once

#include "cpu_training_chunks.h"
#include "cpu_weight_gradients.h"

namespace {

// One sequence of a lone query, by its number.
inline LoneQuery<Number> lone_query(
    const Layer& layer, const Input& input, const Kept& kept, int64_t sequence) {
  const Sequences& of = input.sequences;
  const int64_t token = of.firsts[sequence], width = layer.hidden;
  const int32_t* words = kept.words[PROBABILITIES];
  return {
      kept.attention.turned.of_sequence(sequence),
      {input.hidden + token * width, width},
      width,
      of.rows[sequence] - token,
      of.length(sequence),
      words ? words + sequence : nullptr};
}

// The part of the first map's weights that makes these, by heads: (K, H) of each, as products of what they
// made read them. In the threads around it, which do not wait; `maps` are panels of the whole map.
inline void lay_out_heads(const Layer& layer, int which, Number* maps) {
  const int64_t width = layer.hidden, size = layer.rules.head_size, first = which * width * width;
  lay_out_straight(layer.weights[QKV] + first, width, width, maps + first, size);
}

// The same part whole, as products of what these are made of read it.
inline void lay_out_map(const Layer& layer, int which, Number* maps) {
  const int64_t width = layer.hidden, first = which * width * width;
  lay_out_turned(layer.weights[QKV] + first, width, width, maps + first);
}

inline ByHeads<Number> by_heads(const Layer& layer, const Chunk& of) {
  return {of.num_asked, layer.rules.num_heads, layer.rules.head_size};
}

// The way there, in the threads around it.
struct LoneForward {
  const Layer& layer;
  const Input& input;
  const Kept& kept;
  Number* maps;  // panels

  void lay_out() const {
    lay_out_map(layer, ASKING, maps);
    lay_out_heads(layer, KEYS, maps);
    lay_out_map(layer, VALUES, maps);
  }

  void contexts(const Chunk& of, const Own& own) const {
    const int64_t num_heads = layer.rules.num_heads;
    const Attended& attended = kept.attention;
    const int64_t square = layer.hidden * layer.hidden;
    const ByHeads<Number> by = by_heads(layer, of);
    by.widen(attended.queries, maps + KEYS * square, attended.turned);
#pragma omp for schedule(dynamic)
    for (int64_t n = of.first; n < of.end; n++)
      mix(
          lone_query(layer, input, kept, n), layer.rules, own.heads,
          attended.mixed.of_sequence(n), kept.shares + n * num_heads);
    const Number* bias = layer.biases[QKV] + VALUES * layer.hidden;
    by.narrow(
        attended.mixed, maps + VALUES * square, kept.contexts,
        [=, shares = kept.shares](int64_t row, int64_t head, int64_t column, const Floats& sum) {
          return sum + load(bias + column) * shares[row * num_heads + head];
        });
  }
};

// The way back, in the threads around it.
struct LoneBackward {
  const Layer& layer;
  const Input& input;
  const Kept& kept;
  const Attended& arrived;       // of what is kept
  const Grid<Number>& contexts;  // (R, H) of these
  const Grid<float>& waiting;    // (R, H) of hidden states that have a query, but as those of queries
  Number* maps;                  // panels

  void lay_out() const {
    lay_out_map(layer, KEYS, maps);
    lay_out_heads(layer, VALUES, maps);
  }

  // Of the hidden states; what has come past attention comes to those that have a query.
  void to_tokens(
      const Chunk& of, const Own& own, const Grid<Number>& past, Number* grad_hidden) const {
    const int64_t width = layer.hidden, square = width * width, *rows = input.sequences.rows;
    const ByHeads<Number> by = by_heads(layer, of);
    const Grid<Number> to{grad_hidden, width};
    by.widen(contexts, maps + VALUES * square, arrived.mixed);
#pragma omp for schedule(dynamic)
    for (int64_t n = of.first; n < of.end; n++) attention(n, own, to);
    by.narrow(
        arrived.turned, maps + KEYS * square, arrived.queries,
        [](int64_t, int64_t, int64_t, const Floats& sum) { return sum; });
    STAGE("queries, keys and values, backward", of.num_asked * square);
    multiply_asked(
        arrived.queries, of, panels(maps, width, width),
        [&](int64_t row, int64_t column, const auto& sums) {
          put_pairs(to, rows[row], column, sums, [&](int64_t at, const Floats& sum) {
            return sum + load(past.at(row, at)) + load(waiting.at(row, at));
          });
        });
  }

 private:
  // Of one sequence.
  void attention(int64_t number, const Own& own, const Grid<Number>& to) const {
    const LoneQuery<Number> query = lone_query(layer, input, kept, number);
    const Grid<Number> of_tokens = to.from(input.sequences.firsts[number]);
    const Grid<float> of_query = waiting.from(number);
    mix_backward(
        query,
        LoneGradients<Number>{
            arrived.mixed.of_sequence(number), contexts.from(number),
            layer.biases[QKV] + VALUES * layer.hidden},
        layer.rules, own.heads, arrived.turned.of_sequence(number),
        [&](int64_t row, int64_t column, const auto& sums) {
          as_they_are(of_tokens)(row, column, sums);
          if (row != query.position) return;
          for (const Floats& each : sums) store(of_query.at(0, column), each), column += LANES;
        });
  }
};

// Where gradients of the first map's weights go, and its rows' number.
struct LoneMaps {
  Number *weights, *biases;
  float* sums;  // (3H,) to work in
  int64_t num_rows;
};

// Of the maps to keys and values, whose factors are of each head's own: a query and what came to it turned,
// what came to a context and what it was made of. The keys' bias has none.
inline float lone_gradients(
    const Layer& layer, const Kept& kept, const Attended& arrived, const Grid<Number>& contexts,
    const LoneMaps& to, int num_threads) {
  const int64_t width = layer.hidden, size = layer.rules.head_size, heads = layer.rules.num_heads;
  float status = DONE;
#pragma omp parallel for num_threads(num_threads) schedule(static) reduction(min : status)
  for (int64_t unit = 0; unit < 2 * heads; unit++) {
    const bool is_of_keys = unit < heads;
    const int64_t head = unit % heads, column = head * size;
    const int64_t output = (is_of_keys ? KEYS : VALUES) * width + column;
    const Grid<Number>& gradients = is_of_keys ? kept.attention.queries : contexts;
    const HeadRows<Number>& factors = is_of_keys ? arrived.turned : kept.attention.mixed;
    const Given<Number> given{
        gradients.from(0, column), factors.of_head(head), to.weights + output * width,
        to.sums + output, to.num_rows, width, size};
    status = std::min(status, weight_gradients(given, 1));
    for (int64_t k = 0; k < size; k += LANES) {
      Floats total = {};
      for (int64_t row = 0; row < to.num_rows && !is_of_keys; row++)
        total += load(gradients.at(row, column + k)) * kept.shares[row * heads + head];
      put(to.biases + output + k, total);
    }
  }
  return status;
}

}  // namespace
