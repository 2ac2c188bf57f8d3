// Rows and the gradients of what a linear map made of them -> gradients of its weights and bias, on a
// CPU.
//
// Both are factors of one product over all rows. The narrower one is transposed once, in blocks
// (cpu_factors.h). Of the broader one a thread takes as many columns as have room for their sums in its
// L2 cache, some of the rows at a time, and of these a panel after the other, which stays near while all
// blocks pass, with tiles in the L1 cache: the next one is laid out beside the products of this one. Sums
// of the bias are made on the way. Every sum is made in the order of rows, or of pairs of them, in
// float32, so the number of threads changes no bit. It knows no layers and no Python.
//
// Legend: T rows, I width of a row, O outputs; N and B widths of the narrower and the broader factor;
// HIGH columns of a block.

#pragma once

#include <omp.h>

#include "cpu_block_products.h"

namespace {

// Columns of the broader factor that a thread takes at a time, at most.
constexpr int64_t MOST_COLUMNS = 256;

template <typename Number>
struct Given {
  Grid<const Number> gradients, rows;  // (T, O), (T, I)
  Number* grad_weight;                 // (O, I)
  float* grad_bias;                    // (O,)
  int64_t num_rows, width, outputs;    // T, I, O
};

// What a thread works in, for so many columns: two panels of a part of the rows, and all sums.
template <typename Number>
struct ShareRoom {
  Number* panels[2];
  float* sums;  // (panels, N in whole blocks, PANEL)

  ShareRoom(Cutter& cutter, int64_t columns, int64_t high) {
    for (Number*& each : panels) each = cutter.numbers<Number>(PART * PANEL<Number>);
    sums = cutter.numbers<float>(high * columns);
  }
};

// (T, N) and (T, B) -> gradients of the weights: (N, B), or turned.
template <typename Number>
struct Product {
  Factor<Number> narrow, broad;
  int64_t high, deep;    // N in whole blocks, T in whole steps of depth
  const Number* blocks;  // (parts, N / HIGH, block)
  Number* output;

  // Where the part that begins with a row lies.
  int64_t part(int64_t start) const {
    return start / PART * (high / BLOCK_COLUMNS<Number>) * block_size<Number>(PART);
  }
};

// What one thread makes at a time: all that so many columns of the broader factor lead to.
template <bool IS_TURNED, typename Number>
struct Share {
  static constexpr int64_t BROAD = PANEL<Number>, HIGH = BLOCK_COLUMNS<Number>;
  const Product<Number>& of;
  int64_t first, columns;
  const ShareRoom<Number>& room;

  void make() const {
    int side = 0;
    laying(0, 0, side).finish();
    for (int64_t start = 0; start < of.deep; start += PART)
      for (int64_t c = 0; c < columns; c += BROAD, side ^= 1) {
        const bool is_last = c + BROAD >= columns;
        Laying<Number> next =
            is_last ? laying(start + PART, 0, side ^ 1) : laying(start, c + BROAD, side ^ 1);
        multiply(start, c, room.panels[side], next);
        next.finish();
      }
  }

 private:
  int64_t depth_from(int64_t start) const {
    return std::clamp<int64_t>(of.deep - start, 0, PART);
  }
  int64_t count_from(int64_t c) const { return std::min(BROAD, columns - c); }
  Laying<Number> laying(int64_t start, int64_t c, int side) const {
    return {of.broad, start, depth_from(start), first + c, count_from(c), room.panels[side]};
  }

  // All blocks of a part by a panel, beside which the next one is laid out: where blocks are few, several
  // steps of it at one of theirs.
  void multiply(int64_t start, int64_t c, const Number* panel, Laying<Number>& laying) const {
    const int64_t depth = depth_from(start), count = count_from(c), size = block_size<Number>(depth);
    const int64_t at_once = parts(TILE_DEPTH<Number> / Factors<Number>::STEP, of.high / HIGH);
    const bool is_last = start + depth == of.deep;
    const Number* from = of.blocks + of.part(start);
    float* sums = room.sums + c * of.high;
    for (int64_t n = 0; n < of.high; n += HIGH, from += size, sums += HIGH * BROAD) {
      const int64_t rows = std::min<int64_t>(HIGH, of.narrow.width - n);
      if (is_last)
        expect(place(n, c), stride(), IS_TURNED ? count : rows, IS_TURNED ? rows : count);
      // The next sums lie behind these, in the second cache; lines of as many steps are asked for.
      const float* soon = sums + HIGH * BROAD;
      multiply_blocks<true>(
          Blocks<Number>{from, rows, depth}, panel, int(rounded_up(count) / LANES), sums, start == 0, [&] {
            for (int64_t at = 0; at < HIGH * BROAD * TILE_DEPTH<Number> / PART; at += LANES)
              __builtin_prefetch(soon + at, 1);
            soon += HIGH * BROAD * TILE_DEPTH<Number> / PART;
            laying.go_on(at_once);
          });
      if (is_last) write<IS_TURNED>(sums, rows, count, place(n, c), stride());
    }
  }

  int64_t stride() const { return IS_TURNED ? of.narrow.width : of.broad.width; }
  Number* place(int64_t n, int64_t c) const {
    return of.output + (IS_TURNED ? (first + c) * stride() + n : n * stride() + first + c);
  }
};

template <bool IS_TURNED, typename Number>
float weight_gradients(const Given<Number>& of, int num_threads) {
  constexpr int64_t DEPTH = TILE_DEPTH<Number>, HIGH = BLOCK_COLUMNS<Number>;
  Factor<Number> narrow{of.rows, of.num_rows, of.width};
  Factor<Number> broad{of.gradients, of.num_rows, of.outputs};
  if (!IS_TURNED) std::swap(narrow, broad);
  const int64_t shares = parts(parts(broad.width, MOST_COLUMNS), num_threads) * num_threads;
  const int64_t columns = parts(parts(broad.width, shares), PANEL<Number>) * PANEL<Number>;
  // Shares end between panels and differ by one at most; where there are more than panels, some are empty.
  auto border = [&](int64_t share) {
    return std::min(parts(broad.width, PANEL<Number>) * share / shares * PANEL<Number>, broad.width);
  };
  const int64_t high = parts(narrow.width, HIGH) * HIGH, deep = parts(of.num_rows, DEPTH) * DEPTH;
  const int64_t wide = rounded_up(of.outputs), num_totals = IS_TURNED ? 1 : deep / DEPTH;
  Cutter counter{nullptr};
  ShareRoom<Number>(counter, columns, high);
  const int64_t bytes = counter.next - static_cast<char*>(nullptr);
  const int64_t whole = deep / PART * PART;  // rows in whole parts
  const int64_t size =
      high / HIGH * (whole / PART * block_size<Number>(PART) + block_size<Number>(deep - whole));
  counter.numbers<Number>(size);
  counter.numbers<float>(num_totals * wide);
  counter.next += num_threads * bytes;
  Memory memory((counter.next - static_cast<char*>(nullptr)) / sizeof(float) + 16);
  if (!memory.floats) return NO_ROOM;
  Cutter cutter{memory.lined()};
  Number* blocks = cutter.numbers<Number>(size);
  float* totals = cutter.numbers<float>(num_totals * wide);
  std::fill_n(totals, num_totals * wide, 0.0f);
  (IS_TURNED ? broad : narrow).totals = totals;
  narrow.totals_apart = wide;
  const Product<Number> product{narrow, broad, high, deep, blocks, of.grad_weight};
#pragma omp parallel num_threads(num_threads)
  {
    [[maybe_unused]] Tiles tiles;
    Cutter own{cutter.next + omp_get_thread_num() * bytes};
    const ShareRoom<Number> room(own, columns, high);
    STAGE("gradients of weights: a factor turned, backward");
#pragma omp for schedule(static)
    for (int64_t row = 0; row < deep; row += DEPTH) {
      const int64_t start = row / PART * PART;
      turn_depth(
          narrow, row, blocks + product.part(start), row - start, std::min(PART, deep - start));
    }
    STAGE("gradients of weights: products, backward", of.num_rows * of.width * of.outputs);
    // Shares are few, and of the broader factor each reads what no other does: they go to who has time.
#pragma omp for schedule(dynamic)
    for (int64_t number = 0; number < shares; number++) {
      const int64_t first = border(number), end = border(number + 1);
      if (first < end) Share<IS_TURNED, Number>{product, first, end - first, room}.make();
    }
    STAGE(nullptr);
  }
  for (int64_t number = 1; number < num_totals; number++)
    for (int64_t o = 0; o < of.outputs; o++) totals[o] += totals[number * wide + o];
  std::copy_n(totals, of.outputs, of.grad_bias);
  return DONE;
}

// The narrower factor changes rows for columns.
template <typename Number>
float weight_gradients(const Given<Number>& of, int num_threads) {
  const auto make = of.outputs > of.width ? weight_gradients<true, Number>
                                          : weight_gradients<false, Number>;
  return make(of, num_threads);
}

}  // namespace
