// A Transformer layer that learns, backward, on a CPU: cpu_training_layer.cpp says how.
//
// Legend: that of cpu_training_layer.h; Q rows asked for of a chunk, C its tokens, W = H rounded up to
// vectors.

#pragma once

#include "cpu_heads_backward.h"
#include "cpu_training_layer.h"
#include "cpu_weight_gradients.h"

namespace {

// Gradients of the layer's weights, which lie as these do.
struct Gradients {
  Number *weights[NUM_MAPS], *biases[NUM_MAPS];
  float* norms[NUM_NORMS];  // (2, H): weights, biases
};

// Gradients of what is kept, and what they are made with.
struct Arrived {
  Number *fed, *inner, *projected, *queries, *keys_values;     // of all rows: the weights' want them
  Number *past_output, *attended, *past_attention, *contexts;  // (Q, H), of a chunk
  float *of_queries, *of_tokens;  // (Q, H), (C, H): of hidden states
  float* sums[NUM_NORMS];         // (spans, 2, W)
  float* biases;                  // of one map
  Number *maps[NUM_MAPS], *keys_values_map;  // panels; QKV's are those of queries

  Arrived(Cutter& cutter, const Layer& layer, const Input& input, const Stream& stream) {
    const int64_t rows = input.num_asked(), width = layer.hidden, square = width * width;
    for (Number** each : {&fed, &projected, &queries}) *each = cutter.numbers<Number>(rows * width);
    inner = cutter.numbers<Number>(rows * layer.inner);
    keys_values = cutter.numbers<Number>(input.num_tokens() * 2 * width);
    for (Number** each : {&past_output, &attended, &past_attention, &contexts})
      *each = cutter.numbers<Number>(stream.most_asked * width);
    of_queries = cutter.numbers<float>(stream.most_asked * width);
    of_tokens = cutter.numbers<float>(stream.most_tokens * width);
    for (float*& each : sums)
      each = cutter.numbers<float>(stream.spans.size() * 2 * rounded_up(width));
    biases = cutter.numbers<float>(std::max(2 * width, layer.inner));
    for (int map : {QKV, OUTPUT}) maps[map] = cutter.numbers<Number>(square);
    for (int map : {UP, DOWN}) maps[map] = cutter.numbers<Number>(layer.inner * width);
    keys_values_map = cutter.numbers<Number>(2 * square);
  }
};

// (O, I) weights as products of gradients with them read them, in the threads around it.
inline void lay_out(const Number* weights, int64_t depth, int64_t width, Number* panels) {
  constexpr int64_t BROAD = PANEL<Number>;
#pragma omp for schedule(static) nowait
  for (int64_t c = 0; c < width; c += BROAD)
    lay_out_rows(weights + c, width, depth, BROAD, panels + c * depth);
}

// Gradients of what GELU made of so many numbers a row.
inline auto through_activation(const Number* slopes, Number* to, int64_t stride) {
  return put_into(to, stride, [=](int64_t row, int64_t column, Floats sum) {
    return sum * load(slopes + row * stride + column);
  });
}

inline auto added_to(const Number* residual, Number* to, int64_t stride) {
  return put_into(to, stride, [=](int64_t row, int64_t column, Floats sum) {
    return sum + load(residual + row * stride + column);
  });
}

inline auto as_they_are(Number* to, int64_t stride) {
  return put_into(to, stride, [](int64_t, int64_t, Floats sum) { return sum; });
}

inline auto as_they_are(float* to, int64_t stride) {
  return [=](int64_t row, int64_t column, const auto& sums) {
    for (const Floats& each : sums) store(to + row * stride + column, each), column += LANES;
  };
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
    ::lay_out(layer.weights[QKV], width, width, arrived.maps[QKV]);
    ::lay_out(layer.weights[QKV] + width * width, 2 * width, width, arrived.keys_values_map);
    ::lay_out(layer.weights[OUTPUT], width, width, arrived.maps[OUTPUT]);
    ::lay_out(layer.weights[UP], inner, width, arrived.maps[UP]);
    ::lay_out(layer.weights[DOWN], width, inner, arrived.maps[DOWN]);
#pragma omp barrier
  }

  void chunk(const Chunk& of, const Own& own) const {
    const int64_t width = layer.hidden, inner = layer.inner, from = of.asked * width;
    const Number* slopes = kept.slopes + of.asked * inner;
    Number* to_inner = arrived.inner + of.asked * inner;
    norm(of, FEED_FORWARD, own, grad_output + from, arrived.fed + from, arrived.past_output);
    multiply_together(
        {arrived.fed + from, width}, of.num_asked, panels(arrived.maps[DOWN], width, inner),
        through_activation(slopes, to_inner, inner),
        [=](int64_t row, int rows, int64_t column) {
          expect<0>(slopes + row * inner + column, inner, rows, PANEL<Number>);
        });
    multiply_together(
        {to_inner, inner}, of.num_asked, panels(arrived.maps[UP], inner, width),
        added_to(arrived.past_output, arrived.attended, width));
    norm(of, ATTENTION, own, arrived.attended, arrived.projected + from, arrived.past_attention);
    multiply_together(
        {arrived.projected + from, width}, of.num_asked,
        panels(arrived.maps[OUTPUT], width, width),
        as_they_are(arrived.contexts, width));
    attention(of, own);
    multiply_together(
        {arrived.queries + from, width}, of.num_asked, panels(arrived.maps[QKV], width, width),
        as_they_are(arrived.of_queries, width));
    multiply_together(
        {arrived.keys_values + of.token * 2 * width, 2 * width}, of.num_tokens,
        panels(arrived.keys_values_map, 2 * width, width), as_they_are(arrived.of_tokens, width));
    join(of);
  }

 private:
  // Pointers begin at the chunk's first row.
  void norm(
      const Chunk& of, int which, const Own& own, const Number* gradients, Number* rows,
      Number* residual) const {
    const int64_t from = of.asked * layer.hidden, size = 2 * rounded_up(layer.hidden);
    NormRows<Number> end = kept.end(layer, which, of.num_asked);
    end.rows += from, end.residual += from;
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
    const int64_t width = layer.hidden;
    Room<Number> room = own.heads;
    const int64_t at_once = stream.sequences.heads_at_once(
        of.first, of.end, layer.rules.num_heads, omp_get_num_threads());
#pragma omp for schedule(dynamic, at_once)
    for (int64_t number = 0; number < (of.end - of.first) * layer.rules.num_heads; number++) {
      const Task<Number> task = task_of(layer, stream, kept, of, number);
      const int64_t at = task.queries - kept.queries;
      Number* keys = arrived.keys_values + (task.keys - kept.keys_values);
      attend_backward(
          task, layer.rules, room, arrived.contexts + at - of.asked * width, width,
          arrived.queries + at, keys, keys + width);
    }
  }

  // What came to each hidden state as key and value, as every query that it was asked for as, and past
  // attention.
  void join(const Chunk& of) const {
    const int64_t width = layer.hidden, *rows = stream.sequences.rows, end = of.asked + of.num_asked;
    const bool are_all = stream.sequences.are_all_asked();
#pragma omp for schedule(static)
    for (int64_t t = of.token; t < of.token + of.num_tokens; t++) {
      float* total = arrived.of_tokens + (t - of.token) * width;
      int64_t i = are_all ? t : std::lower_bound(rows + of.asked, rows + end, t) - rows;
      for (; i < end && (are_all ? i : rows[i]) == t; i++) {
        const int64_t at = (i - of.asked) * width;
        for (int64_t h = 0; h < width; h += LANES) {
          const Floats more = load(arrived.of_queries + at + h) + load(arrived.past_attention + at + h);
          store(total + h, load(total + h) + more);
        }
      }
      for (int64_t h = 0; h < width; h += LANES) put(grad_hidden + t * width + h, load(total + h));
    }
  }
};

// Sums over spans -> gradients of a norm's weights and biases.
inline void add_spans(const float* sums, size_t num_spans, int64_t width, float* gradients) {
  const int64_t wide = rounded_up(width);
  std::fill_n(gradients, 2 * width, 0.0f);
  for (size_t span = 0; span < num_spans; span++)
    for (int which = 0; which < 2; which++)
      for (int64_t h = 0; h < width; h++)
        gradients[which * width + h] += sums[(2 * span + which) * wide + h];
}

// Of all maps, one after the other.
inline float map_gradients(
    const Layer& layer, const Input& input, const Kept& kept, const Arrived& arrived,
    const Gradients& to, int num_threads) {
  const int64_t tokens = input.num_tokens(), rows = input.num_asked(), width = layer.hidden;
  float status = DONE;
  auto make = [&](const Number* gradients, const Number* factors, int64_t count, int map,
                  int64_t first, int64_t outputs) {
    const int64_t depth = layer.depth(map);
    status = std::min(
        status, weight_gradients(
                    Given<Number>{
                        gradients, factors, to.weights[map] + first * depth, arrived.biases, count,
                        depth, outputs},
                    num_threads));
    for (int64_t o = 0; o < outputs; o++) narrow(arrived.biases[o], to.biases[map] + first + o);
  };
  make(arrived.fed, kept.activated, rows, DOWN, 0, width);
  make(arrived.inner, kept.attended, rows, UP, 0, layer.inner);
  make(arrived.projected, kept.contexts, rows, OUTPUT, 0, width);
  make(arrived.queries, kept.residual, rows, QKV, 0, width);
  make(arrived.keys_values, input.hidden, tokens, QKV, width, 2 * width);
  return status;
}

inline float backward(
    const Layer& layer, const Input& input, const Number* grad_output, Number* grad_hidden,
    const Gradients& gradients, int num_threads) {
  const Stream stream(input.sequences, num_threads);
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
