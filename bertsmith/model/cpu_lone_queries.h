// Attention of tokens that are the only ones of their sequences asked for, as a pooler does, on a CPU.
//
// With the key projection K, a query q and a hidden state h, the score q . (K h) equals (K^T q) . h. So
// each head's query is multiplied by K^T once, scores and weighted sums are taken of the hidden states
// themselves, and the value projection is applied to the sum: neither keys nor values are ever computed.
// The keys' bias adds the same to all scores of a query, and softmax cancels it, so that bias has no
// gradient. It knows no layers.
//
// Source: our own; of the products in Vaswani et al. 2017, section 3.2, the order.
//
// Legend: N sequences, R rows, A heads, L tokens of one sequence, H hidden size, K head size.

#pragma once

#include "cpu_heads_backward.h"
#include "cpu_sequences.h"
#include "cpu_shared_products.h"

namespace {

// (N * A, H): a row for every head of every sequence.
template <typename Number>
struct HeadRows {
  // Two vectors are put at once.
  static constexpr bool IS_IN_BANDS = BAND<Number> >= 2 * LANES;
  Grid<Number> rows;
  int64_t num_heads = 0;

  HeadRows() = default;
  HeadRows(Cutter& cutter, int64_t count, int64_t num_heads, int64_t width)
      : rows(grid_for<Number>(cutter, count * num_heads, width, IS_IN_BANDS)),
        num_heads(num_heads) {}

  Grid<Number> of_head(int64_t head) const {
    return {rows.at(head, 0), rows.row * num_heads, rows.band};
  }
  Grid<Number> of_sequence(int64_t number) const { return rows.from(number * num_heads); }
};

// What the size of heads is a multiple of: the widest panel.
constexpr int64_t WIDEST = 64;

// Whether neither keys nor values are made. It is so for a model's pooled tokens alone, not wherever a
// sequence happens to be asked for one row: so a sequence becomes what it becomes beside any others.
inline bool are_lone(const Sequences& sequences, const Rules& rules) {
  static_assert(WIDEST % PANEL<float> == 0 && WIDEST % PANEL<uint16_t> == 0);
  return rules.head_size % WIDEST == 0 && sequences.are_asked_at_an_end();
}

// A product of each head's own, in the threads around it, which wait for one another at its end: `rows`,
// told its number, says of what rows, and `then` is told it before the rest. Its (depth, width) matrix, of
// whole panels, follows the one before.
template <typename Number, typename Rows, typename Then>
inline void multiply_by_heads(
    const Rows& rows, int64_t count, int64_t num_heads, const Panels<Number>& first,
    const Then& then) {
  constexpr int64_t BROAD = PANEL<Number>;
  const int64_t num_panels = first.width / BROAD;
#pragma omp for schedule(static)
  for (int64_t unit = 0; unit < num_heads * num_panels; unit++) {
    const int64_t head = unit / num_panels, column = unit % num_panels * BROAD;
    multiply_panel<TILE_VECTORS<Number>>(
        Left<Number>(rows(head)), int(count), first.numbers + unit * BROAD * first.depth, first.depth,
        [&](int row, const auto& sums) { then(head, row, column, sums); });
  }
}

// Of so many rows, their (R, K) columns of each head -> (R * A, H), or the other way round, by a map: that of
// one head behind the other's, in panels. In the threads around it.
template <typename Number>
struct ByHeads {
  int64_t count, num_heads, size;  // R, A, K

  void widen(const Grid<Number>& from, const Number* maps, const HeadRows<Number>& to) const {
    multiply_by_heads<Number>(
        [&](int64_t head) { return from.from(0, head * size); }, count, num_heads,
        Panels<Number>{maps, nullptr, size, num_heads * size},
        [&](int64_t head, int64_t row, int64_t column, const auto& sums) {
          as_they_are(to.of_head(head))(row, column, sums);
        });
  }

  // `change` is told row, head, column and a sum.
  template <typename Change>
  void narrow(
      const HeadRows<Number>& from, const Number* maps, const Grid<Number>& to,
      const Change& change) const {
    multiply_by_heads<Number>(
        [&](int64_t head) { return from.of_head(head); }, count, num_heads,
        Panels<Number>{maps, nullptr, num_heads * size, size},
        [&](int64_t head, int64_t row, int64_t column, const auto& sums) {
          put_pairs(to, row, head * size + column, sums, [&](int64_t at, const Floats& sum) {
            return change(row, head, at, sum);
          });
        });
  }
};

// One sequence and what its query became: (A, H) turned queries, and (L, H) hidden states.
template <typename Number>
struct LoneQuery {
  Grid<const Number> turned, hidden;
  int64_t width, position, length;  // H
  const int32_t* word;              // of dropout; null without it

  Draws draws(int64_t head, const Dropout& dropout) const {
    if (!word) return {};
    return {true, *word, uint32_t(head) << 16, dropout};
  }
};

// -> (A, H) weighted sums of hidden states, and what their weights add up to, (A,), where that is asked for:
// without dropout it is one.
template <typename Number>
void mix(
    const LoneQuery<Number>& of, const Rules& rules, const Room<Number>& room,
    const Grid<Number>& mixed, float* shares) {
  const int64_t length = of.length, wide = rounded_up(length), depth = whole_depth<Number>(length);
  const int64_t apart = std::max(wide, depth);
  lay_out_columns(of.hidden, of.width, length, room.keys);
  lay_out_rows(of.hidden, length, of.width, room.values, PANEL<Number>, depth);
  for (int64_t first = 0; first < rules.num_heads; first += QUERIES) {
    const int count = int(std::min<int64_t>(QUERIES, rules.num_heads - first));
    compare(Left<Number>(of.turned.from(first)), count, room.keys, of.width, wide, room.scores);
    for (int row = 0; row < count; row++) {
      float* scores = room.scores + row * wide;
      const float highest = hide(scores, of.position, length, rules.direction);
      const Draws draws = of.draws(first + row, rules.dropout);
      const Totals totals = weigh_scores(
          scores, highest, length, rules.scale, draws, room.weights + row * apart);
      room.factors[row] = 1.0f / sum_of(totals.all);
      if (shares) shares[first + row] = sum_of(totals.kept) * room.factors[row];
    }
    gather(
        {room.weights, apart}, count, room.values, depth, of.width, room.factors,
        mixed.from(first));
  }
}

// So many rows have all heads' queries where their rows are taken by two.
inline int64_t in_pairs(int64_t num_heads) { return (num_heads + 1) / 2 * 2; }

// Gradients that come to one sequence's sums.
template <typename Number>
struct LoneGradients {
  Grid<const Number> mixed, context;  // (A, H) of the sums, and (1, H) of what values make of them
  const Number* bias;                 // (H,) of the map to values

  // What comes to all weights of a head alike, by the bias.
  float of_share(int64_t head, int64_t size) const {
    Floats total = {};
    for (int64_t k = head * size; k < (head + 1) * size; k += LANES)
      total += load(context.at(0, k)) * load(bias + k);
    return sum_of(total);
  }
};

// -> of (A, H) turned queries, and of hidden states: each head's by its weights and by its scores, both
// in one product; `then` is told row, column and sums. The room is that of twice as many queries as
// `in_pairs` says.
template <typename Number, typename Then>
void mix_backward(
    const LoneQuery<Number>& of, const LoneGradients<Number>& arrived, const Rules& rules,
    Room<Number> room, const Grid<Number>& grad_turned, const Then& then) {
  constexpr int64_t BROAD = PANEL<Number>;
  const int64_t length = of.length, wide = rounded_up(length), depth = whole_depth<Number>(length);
  const int64_t apart = std::max(wide, depth), num_heads = rules.num_heads;
  const int64_t half = in_pairs(num_heads), deep = whole_depth<Number>(2 * half);
  room.weights = room.gradients + half * apart;  // behind gradients of scores
  for (Number* each : {room.gradients, room.weights})
    std::fill(each + num_heads * apart, each + half * apart, Number{});
  lay_out_columns(of.hidden, of.width, length, room.keys);
  lay_out_rows(of.hidden, length, of.width, room.key_rows, BROAD, depth);
  Folded folded;
  for (int64_t first = 0; first < num_heads; first += QUERIES) {
    const int count = int(std::min<int64_t>(QUERIES, num_heads - first));
    compare(Left<Number>(of.turned.from(first)), count, room.keys, of.width, wide, room.scores);
    compare(Left<Number>(arrived.mixed.from(first)), count, room.keys, of.width, wide, room.arrived);
    for (int row = 0; row < count; row++) {
      const float share = arrived.of_share(first + row, rules.head_size);
      float* gradients = room.arrived + row * wide;
      for (int64_t j = 0; j < wide; j += LANES) store(gradients + j, load(gradients + j) + share);
      folded.highest[row] =
          hide(room.scores + row * wide, of.position, length, rules.direction);
      through_dropout(of.draws(first + row, rules.dropout), length, row, rules, room, folded);
    }
    for (int row = 0; row < count; row++)
      through_softmax(length, first + row, row, rules, room, folded);
    gather(
        {room.gradients + first * apart, apart}, count, room.key_rows, depth, of.width, nullptr,
        grad_turned.from(first));
  }
  const Left<Number> factors = turned(room.gradients, apart, 2 * half, wide, room.turned);
  for (int64_t column = 0; column < of.width; column += BROAD) {
    Number* panel = room.query_rows;
    lay_out_rows(of.turned.from(0, column), num_heads, BROAD, panel, BROAD, half);
    lay_out_rows(
        arrived.mixed.from(0, column), num_heads, BROAD, panel + half * BROAD, BROAD, deep - half);
    multiply_panel<TILE_VECTORS<Number>>(
        factors, int(length), panel, deep,
        [&](int row, const auto& sums) { then(row, column, sums); });
  }
}

}  // namespace
