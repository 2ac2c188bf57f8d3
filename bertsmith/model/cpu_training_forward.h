// A Transformer layer that learns, forward, on a CPU: cpu_training_functions.h says how.
//
// Legend: that of cpu_training_layer.h.

#pragma once

#include "cpu_gelu.h"
#include "cpu_training_lone.h"

namespace {

// Words of dropout of each row asked for, in the threads around it.
inline void draw_words(const Layer& layer, const Input& input, const Kept& kept) {
  const int64_t count = input.num_asked();
  for (int site = 0; site < NUM_SITES; site++) {
    int32_t* words = kept.words[site];
    if (!words) continue;
#pragma omp for schedule(static) nowait
    for (int64_t first = 0; first < count; first += LANES) {
      Words keys = {};
      for (int64_t i = first; i < std::min<int64_t>(first + LANES, count); i++) {
        const int64_t row = input.sequences.are_all_asked() ? i : input.sequences.rows[i];
        keys[i - first] = uint32_t(input.keys[row]);
      }
      keys = mix32(keys ^ layer.sites[site]);
      std::memcpy(words + first, &keys, sizeof keys);
    }
  }
}

inline auto with_bias(const Grid<Number>& to, const Number* bias) {
  return put_into(to, [=](int64_t, int64_t column, Floats sum) { return sum + load(bias + column); });
}

// As exact as the numbers can hold it.
typedef std::conditional_t<(sizeof(Number) < sizeof(float)), Place, NormalShare> Activation;

// Sums with their bias become GELU of them, and its slope, which the way back alone reads.
inline auto activation(
    const Grid<Number>& slopes, const Grid<Number>& activated, const Number* bias) {
  return out_of_line<Number>([=](int64_t row, int64_t column, const auto& sums) {
    ask_for_next_tile(activated, row, column);
    for (int v = 0; v < PANEL<Number> / LANES; v += 2, column += 2 * LANES) {
      const Activation low(sums[v] + load(bias + column));
      const Activation high(sums[v + 1] + load(bias + column + LANES));
      put_both<true>(slopes.at(row, column), low.slope(), high.slope());
      put_both(activated.at(row, column), low.gelu(), high.gelu());
    }
  });
}

struct Forward {
  const Layer& layer;
  const Input& input;
  const Stream& stream;
  const Kept& kept;
  Number* const (&maps)[NUM_MAPS];  // panels
  Number* output;

  // In the threads around it.
  void lay_out() const {
    for (int map = kept.is_lone() ? OUTPUT : QKV; map < NUM_MAPS; map++)
      lay_out_turned(layer.weights[map], layer.depth(map), layer.width(map), maps[map]);
    if (kept.is_lone()) lone().lay_out();
    draw_words(layer, input, kept);
#pragma omp barrier
  }

  void chunk(const Chunk& of, const Own& own) const {
    const int64_t width = layer.hidden, inner = layer.inner, asked = of.asked;
    const Grid<Number> activated = kept.activated.from(asked);
    STAGE("queries, keys and values, forward", products_of_maps(layer, stream, of));
    if (kept.asked) copy_asked(of);
    const int64_t with_queries = kept.asked ? width : 3 * width;  // keys and values, or not
    const Attended& attended = kept.attention;
    multiply_asked(
        kept.residual.from(asked), of, panels(maps[QKV], width, with_queries),
        with_bias(attended.queries.from(asked), layer.biases[QKV]));
    if (kept.asked && !kept.is_lone())
      multiply_together<Number>(
          {input.hidden + of.token * width, width}, of.num_tokens,
          panels(maps[QKV] + width * width, width, 2 * width),
          with_bias(attended.keys_values.from(of.token), layer.biases[QKV] + width));
    STAGE("attention, forward", products_of_attention(layer, stream, of, 2));
    if (kept.is_lone())
      lone().contexts(of, own);
    else
      attention(of, own);
    STAGE("projection, forward", of.num_asked * width * width);
    multiply_asked(
        kept.contexts.from(asked), of, panels(maps[OUTPUT], width, width),
        with_bias(kept.projected.from(asked), layer.biases[OUTPUT]));
    STAGE("norms, forward");
    norm(of, ATTENTION, own, kept.attended);
    STAGE("up, GELU, forward", of.num_asked * width * inner);
    multiply_asked(
        kept.attended.from(asked), of, panels(maps[UP], width, inner),
        activation(kept.slopes.from(asked), activated, layer.biases[UP]));
    STAGE("down, forward", of.num_asked * width * inner);
    multiply_asked(
        activated, of, panels(maps[DOWN], inner, width),
        with_bias(kept.fed.from(asked), layer.biases[DOWN]));
    STAGE("norms, forward");
    norm(of, FEED_FORWARD, own, {output, width});
  }

 private:
  LoneForward lone() const { return {layer, input, kept, maps[QKV]}; }

  void copy_asked(const Chunk& of) const {
    const int64_t width = layer.hidden;
#pragma omp for schedule(static)
    for (int64_t i = of.asked; i < of.asked + of.num_asked; i++)
      std::copy_n(input.hidden + stream.sequences.rows[i] * width, width, kept.asked + i * width);
  }

  void attention(const Chunk& of, const Own& own) const {
    Room<Number> room = own.heads;
    const int64_t at_once = stream.sequences.heads_at_once(
        of.first, of.end, layer.rules.num_heads, omp_get_num_threads());
#pragma omp for schedule(dynamic, at_once)
    for (int64_t number = 0; number < (of.end - of.first) * layer.rules.num_heads; number++) {
      const Head head(layer, stream, of, number);
      attend(
          head.task(layer, stream, kept), layer.rules, room,
          kept.contexts.from(head.asked, head.column));
    }
  }

  void norm(const Chunk& of, int which, const Own& own, const Grid<Number>& to) const {
    const NormRows<Number> rows = kept.end(layer, which, input.num_asked());
    const NormRules rules = norm_rules(layer, which);
#pragma omp for schedule(static)
    for (int64_t i = of.asked; i < of.asked + of.num_asked; i++)
      norm_row(rows, i, rules, own.of(which), to, kept.statistics[which]);
  }
};

inline float forward(const Layer& layer, const Input& input, Number* output, int num_threads) {
  const Stream stream(layer, input, num_threads);
  Cutter keeper{input.kept}, counter{nullptr};
  const Kept kept(keeper, layer, input);
  auto cut = [&](Cutter& cutter, int map) {
    return cutter.numbers<Number>(layer.depth(map) * layer.width(map));
  };
  for (int map = 0; map < NUM_MAPS; map++) cut(counter, map);
  const int64_t shared = counter.next - static_cast<char*>(nullptr);
  const int64_t own_bytes = Own::bytes(layer, stream, false);
  Memory memory((shared + num_threads * own_bytes + 64) / sizeof(float) + 1);
  if (!memory.floats) return NO_ROOM;
  Cutter cutter{memory.lined()};
  Number* maps[NUM_MAPS];
  for (int map = 0; map < NUM_MAPS; map++) maps[map] = cut(cutter, map);
  const Forward pass{layer, input, stream, kept, maps, output};
  over_chunks(pass, false, cutter.next, num_threads);
  return DONE;
}

}  // namespace
