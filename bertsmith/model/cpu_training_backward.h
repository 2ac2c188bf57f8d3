// A Transformer layer that learns, backward, on a CPU: cpu_training_functions.h says how.
//
// Legend: that of cpu_training_layer.h; Q rows asked for of a chunk, C its tokens, W = H rounded up to
// vectors.

#pragma once

#include "cpu_training_lone.h"
#include "cpu_weight_gradients.h"

namespace {

// Gradients of the layer's weights, which lie as these do.
struct Gradients {
  Number *weights[NUM_MAPS], *biases[NUM_MAPS];
  float* norms[NUM_NORMS];  // (2, H): weights, biases
};

// Gradients of what is kept, and what they are made with.
struct Arrived {
  Grid<Number> fed, inner, projected;  // of all rows: the weights' want them
  Attended attention;                  // and these
  Grid<Number> past_output, attended, past_attention, contexts;  // (Q, H), of a chunk
  Grid<float> of_queries, of_tokens;  // (Q, H), (C, H): of hidden states, where not all are asked for; the
                                      // latter not of lone queries
  float* sums[NUM_NORMS];             // (spans, 2, W)
  float* biases;                      // of one map
  Number* maps[NUM_MAPS];             // panels; QKV's, where not all are asked for, those of queries first

  Arrived(Cutter& cutter, const Layer& layer, const Input& input, const Stream& stream) {
    const int64_t rows = input.num_asked(), width = layer.hidden;
    for (Grid<Number>* each : {&fed, &projected}) *each = rows_for(cutter, rows, width);
    attention = {cutter, layer, input};
    inner = rows_for(cutter, rows, layer.inner);
    for (Grid<Number>* each : {&past_output, &attended, &past_attention, &contexts})
      *each = rows_for(cutter, stream.most_asked, width);
    if (!input.sequences.are_all_asked()) {
      of_queries = grid_for<float>(cutter, stream.most_asked, width, true);
      if (!stream.is_lone) of_tokens = grid_for<float>(cutter, stream.most_tokens, width, true);
    }
    for (float*& each : sums)
      each = cutter.numbers<float>(stream.spans.size() * 2 * rounded_up(width));
    biases = cutter.numbers<float>(std::max(3 * width, layer.inner));
    for (int map = 0; map < NUM_MAPS; map++)
      maps[map] = cutter.numbers<Number>(layer.depth(map) * layer.width(map));
  }
};

// Gradients of what GELU was made of.
inline auto through_activation(const Grid<const Number>& slopes, const Grid<Number>& to) {
  const auto multiplied = put_into(to, [=](int64_t row, int64_t column, Floats sum) {
    return sum * load(slopes.at(row, column));
  });
  return [=](int64_t row, int64_t column, const auto& sums) {
    ask_for_next_tile(slopes, row, column), ask_for_next_tile(to, row, column);
    multiplied(row, column, sums);
  };
}

inline auto added_to(const Grid<Number>& residual, const Grid<Number>& to) {
  return put_into(to, [=](int64_t row, int64_t column, Floats sum) {
    return sum + load(residual.at(row, column));
  });
}

// With those past attention, in float32.
inline auto with_past(const Grid<Number>& past, const Grid<float>& to) {
  return [=](int64_t row, int64_t column, const auto& sums) {
    for (const Floats& each : sums) {
      store(to.at(row, column), each + load(past.at(row, column)));
      column += LANES;
    }
  };
}

// With those of the tokens' queries.
inline auto with_queries(const Grid<float>& of_queries, const Grid<Number>& to) {
  return put_into(to, [=](int64_t row, int64_t column, Floats sum) {
    return sum + load(of_queries.at(row, column));
  });
}

struct Backward {
  const Layer& layer;
  const Input& input;
  const Stream& stream;
  const Kept& kept;
  const Arrived& arrived;
  const Number* grad_output;
  Number* grad_hidden;

  // In the threads around it.
  void lay_out() const {
    const int64_t width = layer.hidden, inner = layer.inner;
    const int64_t square = width * width, with_queries = kept.asked ? width : 3 * width;
    lay_out_straight(layer.weights[QKV], with_queries, width, arrived.maps[QKV]);
    if (kept.is_lone())
      lone().lay_out();
    else if (kept.asked)
      lay_out_straight(layer.weights[QKV] + square, 2 * width, width, arrived.maps[QKV] + square);
    lay_out_straight(layer.weights[OUTPUT], width, width, arrived.maps[OUTPUT]);
    lay_out_straight(layer.weights[UP], inner, width, arrived.maps[UP]);
    lay_out_straight(layer.weights[DOWN], width, inner, arrived.maps[DOWN]);
#pragma omp barrier
  }

  void chunk(const Chunk& of, const Own& own) const {
    const int64_t width = layer.hidden, inner = layer.inner, asked = of.asked;
    const Grid<const Number> given{grad_output + asked * width, width};
    const Grid<Number> to{grad_hidden + of.token * width, width};
    const Grid<Number> to_inner = arrived.inner.from(asked), projected = arrived.projected.from(asked);
    STAGE("norms, backward");
    norm(of, FEED_FORWARD, own, given, arrived.fed.from(asked), arrived.past_output);
    STAGE("down, slope of GELU, backward", of.num_asked * width * inner);
    multiply_asked(
        arrived.fed.from(asked), of, panels(arrived.maps[DOWN], width, inner),
        through_activation(kept.slopes.from(asked), to_inner));
    STAGE("up, backward", of.num_asked * width * inner);
    multiply_asked(
        to_inner, of, panels(arrived.maps[UP], inner, width),
        added_to(arrived.past_output, arrived.attended));
    STAGE("norms, backward");
    norm(of, ATTENTION, own, arrived.attended, projected, arrived.past_attention);
    STAGE("projection, backward", of.num_asked * width * width);
    multiply_asked(
        projected, of, panels(arrived.maps[OUTPUT], width, width),
        as_they_are(arrived.contexts));
    STAGE("attention, backward", products_of_attention(layer, stream, of, 5));
    if (kept.is_lone()) return lone().to_tokens(of, own, arrived.past_attention, grad_hidden);
    attention(of, own);
    STAGE("queries, keys and values, backward", products_of_maps(layer, stream, of));
    if (kept.asked)
      to_tokens(of, to);
    else
      multiply_asked(
          arrived.attention.queries.from(asked), of, panels(arrived.maps[QKV], 3 * width, width),
          added_to(arrived.past_attention, to));
  }

 private:
  LoneBackward lone() const {
    return {layer, input, kept, arrived.attention, arrived.contexts, arrived.of_queries,
            arrived.maps[QKV]};
  }

  // What comes from queries and past attention to tokens asked for, then from keys and values to all.
  void to_tokens(const Chunk& of, const Grid<Number>& to) const {
    const int64_t width = layer.hidden;
    const Number *queries = arrived.maps[QKV], *keys_values = queries + width * width;
    multiply_asked(
        arrived.attention.queries.from(of.asked), of, panels(queries, width, width),
        with_past(arrived.past_attention, arrived.of_queries));
    spread(of);
    multiply_together<Number>(
        arrived.attention.keys_values.from(of.token), of.num_tokens, panels(keys_values, 2 * width, width),
        with_queries(arrived.of_tokens, to));
  }

  // Of a chunk's rows.
  void norm(
      const Chunk& of, int which, const Own& own, const Grid<const Number>& gradients,
      const Grid<Number>& rows, const Grid<Number>& residual) const {
    const int64_t size = 2 * rounded_up(layer.hidden);
    NormRows<Number> end = kept.end(layer, which, of.num_asked);
    end.rows = end.rows.from(of.asked), end.residual = end.residual.from(of.asked);
    if (end.before) end.before += of.asked;
    const NormRules rules = norm_rules(layer, which);
    const float* statistics = kept.statistics[which] + 2 * of.asked;
#pragma omp for schedule(static)
    for (int64_t span = stream.first_spans[of.first]; span < stream.first_spans[of.end]; span++) {
      float* sums = arrived.sums[which] + span * size;
      std::fill_n(sums, size, 0.0f);
      for (int64_t row = stream.spans[span].first; row < stream.spans[span].end; row++)
        norm_row_backward(
            end, row - of.asked, rules, own.of(which), statistics, gradients, rows, residual, sums);
    }
  }

  void attention(const Chunk& of, const Own& own) const {
    Room<Number> room = own.heads;
    const int64_t at_once = stream.sequences.heads_at_once(
        of.first, of.end, layer.rules.num_heads, omp_get_num_threads());
#pragma omp for schedule(dynamic, at_once)
    for (int64_t number = 0; number < (of.end - of.first) * layer.rules.num_heads; number++) {
      const Head head(layer, stream, of, number);
      attend_backward<Number>(
          head.task(layer, stream, kept), layer.rules, room,
          arrived.contexts.from(head.asked - of.asked, head.column),
          arrived.attention.queries.from(head.asked, head.column),
          arrived.attention.keys_values.from(head.token, head.column),
          arrived.attention.keys_values.from(head.token, layer.hidden + head.column));
    }
  }

  // To each token what came to every query that it was asked for as.
  void spread(const Chunk& of) const {
    const int64_t width = layer.hidden, *rows = stream.sequences.rows, end = of.asked + of.num_asked;
#pragma omp for schedule(static)
    for (int64_t t = of.token; t < of.token + of.num_tokens; t++) {
      const Grid<float> total = arrived.of_tokens.from(t - of.token);
      for (int64_t h = 0; h < width; h += LANES) store(total.at(0, h), Floats{});
      int64_t i = std::lower_bound(rows + of.asked, rows + end, t) - rows;
      for (; i < end && rows[i] == t; i++)
        for (int64_t h = 0; h < width; h += LANES)
          store(total.at(0, h), load(total.at(0, h)) + load(arrived.of_queries.at(i - of.asked, h)));
    }
  }
};

// Of all maps, one after the other.
inline float map_gradients(
    const Layer& layer, const Input& input, const Kept& kept, const Arrived& arrived,
    const Gradients& to, int num_threads) {
  const int64_t tokens = input.num_tokens(), rows = input.num_asked(), width = layer.hidden;
  float status = DONE;
  auto make = [&](const Grid<const Number>& gradients, const Grid<const Number>& factors,
                  int64_t count, int map, int64_t first, int64_t outputs) {
    const int64_t depth = layer.depth(map);
    status = std::min(
        status, weight_gradients(
                    Given<Number>{
                        gradients, factors, to.weights[map] + first * depth, arrived.biases, count,
                        depth, outputs},
                    num_threads));
    if (status != DONE) return;
    for (int64_t o = 0; o < outputs; o++) narrow(arrived.biases[o], to.biases[map] + first + o);
  };
  make(arrived.fed, kept.activated, rows, DOWN, 0, width);
  make(arrived.inner, kept.attended, rows, UP, 0, layer.inner);
  make(arrived.projected, kept.contexts, rows, OUTPUT, 0, width);
  make(arrived.attention.queries, kept.residual, rows, QKV, 0, kept.asked ? width : 3 * width);
  if (kept.is_lone())
    return std::min(
        status, lone_gradients(
                    layer, kept, arrived.attention, arrived.contexts,
                    {to.weights[QKV], to.biases[QKV], arrived.biases, rows}, num_threads));
  if (kept.asked)
    make(arrived.attention.keys_values, {input.hidden, width}, tokens, QKV, width, 2 * width);
  return status;
}

inline float backward(
    const Layer& layer, const Input& input, const Number* grad_output, Number* grad_hidden,
    const Gradients& gradients, int num_threads) {
  const Stream stream(layer, input, num_threads);
  Cutter keeper{input.kept}, counter{nullptr};
  const Kept kept(keeper, layer, input);
  Arrived(counter, layer, input, stream);
  const int64_t shared = counter.next - static_cast<char*>(nullptr);
  const int64_t own_bytes = Own::bytes(layer, stream, true);
  Memory memory((shared + num_threads * own_bytes + 64) / sizeof(float) + 1);
  if (!memory.floats) return NO_ROOM;
  Cutter cutter{memory.lined()};
  const Arrived arrived(cutter, layer, input, stream);
  const Backward pass{layer, input, stream, kept, arrived, grad_output, grad_hidden};
  over_chunks(pass, true, cutter.next, num_threads);
  for (int norm = 0; norm < NUM_NORMS; norm++)
    add_spans(arrived.sums[norm], stream.spans.size(), layer.hidden, gradients.norms[norm]);
  return map_gradients(layer, input, kept, arrived, gradients, num_threads);
}

}  // namespace
