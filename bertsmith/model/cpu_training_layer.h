// What a Transformer layer that learns reads and keeps, on a CPU (cpu_training_functions.h).
//
// A source says of what type numbers are, LEARNING_NUMBER, before what it includes. It knows nothing of the
// order of a layer's parts.
//
// Legend: T tokens, R rows asked for (all T where none are named), H hidden size, F feed-forward size,
// O width of a result, I width of a row.

#pragma once

#include "cpu_lone_queries.h"
#include "cpu_norm.h"
#include "cpu_sequences.h"
#include "cpu_shared_products.h"

namespace {

typedef LEARNING_NUMBER Number;

// The maps to queries, keys and values, from contexts, up and down; and both norms.
enum { QKV, OUTPUT, UP, DOWN, NUM_MAPS };
enum { ATTENTION, FEED_FORWARD, NUM_NORMS };
// What the first map makes.
enum { ASKING, KEYS, VALUES };
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
  // Whether neither keys nor values need be made (cpu_lone_queries.h).
  bool is_of_lone_queries(const Layer& layer) const {
    return are_lone(sequences, layer.rules);
  }
};

// Where rows are kept that products make: in bands where there are any.
inline Grid<Number> rows_for(Cutter& cutter, int64_t count, int64_t width) {
  return grid_for<Number>(cutter, count, width, true);
}

// Attention's part of what is kept, or of its gradients: of queries, (R, H), and of keys and values,
// (T, 2H); where all are asked for it is of one grid, (T, 3H), which begins with the queries. Lone queries
// have, in place of keys and values, queries turned and sums of hidden states.
struct Attended {
  Grid<Number> queries, keys_values;
  HeadRows<Number> turned, mixed;

  Attended() = default;
  Attended(Cutter& cutter, const Layer& layer, const Input& input) {
    const int64_t width = layer.hidden, tokens = input.num_tokens(), rows = input.num_asked();
    if (input.sequences.are_all_asked()) {
      queries = rows_for(cutter, tokens, 3 * width);
      keys_values = queries.from(0, width);
      return;
    }
    queries = rows_for(cutter, rows, width);
    if (input.is_of_lone_queries(layer)) {
      for (HeadRows<Number>* each : {&turned, &mixed})
        *each = {cutter, rows, layer.rules.num_heads, width};
    } else {
      keys_values = rows_for(cutter, tokens, 2 * width);
    }
  }
};

// What the way there leaves for the way back.
struct Kept {
  Grid<const Number> residual;                    // (R, H) hidden states, of which these are
  Number* asked;                                  // or a copy; null where all are asked for
  Attended attention;
  float* shares;                                  // (R, A) what a lone query's weights add up to
  Grid<Number> contexts;                          // (R, H)
  Grid<Number> projected, attended;               // (R, H) before dropout and norm, and after
  Grid<Number> slopes, activated;                 // (R, F): of GELU, and after it
  Grid<Number> fed;                               // (R, H) before dropout and norm
  float* statistics[NUM_NORMS];                   // (R, 2)
  int32_t* words[NUM_SITES];                      // (R,) of dropout; null without it

  Kept(Cutter& cutter, const Layer& layer, const Input& input) {
    const int64_t rows = input.num_asked(), width = layer.hidden;
    asked = input.sequences.are_all_asked() ? nullptr : cutter.numbers<Number>(rows * width);
    residual = {asked ? asked : input.hidden, width};
    attention = {cutter, layer, input};
    shares = is_lone() ? cutter.numbers<float>(rows * layer.rules.num_heads) : nullptr;
    for (Grid<Number>* each : {&contexts, &projected, &attended, &fed})
      *each = rows_for(cutter, rows, width);
    for (Grid<Number>* each : {&slopes, &activated})
      *each = rows_for(cutter, rows, layer.inner);
    for (float*& each : statistics) each = cutter.numbers<float>(2 * rows);
    for (int site = 0; site < NUM_SITES; site++) {
      const Dropout& dropout = site == PROBABILITIES ? layer.rules.dropout : layer.dropout;
      const bool is_dropped = input.keys && dropout.bar;
      words[site] = is_dropped ? cutter.numbers<int32_t>(rounded_up(rows)) : nullptr;
    }
  }

  bool is_lone() const { return attention.turned.num_heads > 0; }

  // The end of a sub-layer.
  NormRows<Number> end(const Layer& layer, int norm, int64_t count) const {
    const Norm& of = layer.norms[norm];
    if (norm == ATTENTION)
      return {projected, residual, words[ATTENTION_OUTPUT], nullptr, of.weight, of.bias, count};
    return {fed, attended, words[FEED_FORWARD_OUTPUT], nullptr, of.weight, of.bias, count};
  }
};

inline NormRules norm_rules(const Layer& layer, int norm) {
  return {int(layer.hidden), layer.norms[norm].epsilon, layer.dropout, layer.dropout};
}

inline Panels<Number> panels(const Number* numbers, int64_t depth, int64_t width) {
  return {numbers, nullptr, depth, width};
}

}  // namespace
