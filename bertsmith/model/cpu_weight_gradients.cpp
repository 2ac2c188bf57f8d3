// Rows and the gradients of what a linear map made of them -> gradients of its weights and bias, on a
// CPU: what cpu_linear.py calls.
//
// Rows are laid out as panels once. Gradients change rows for columns while they are read, a block of
// outputs at a time, and the sums of the bias are made on the way. Of many rows so many are taken at a
// time, a part, as leave a block and its sums in the second cache. Every sum is made in the order of
// rows, in float32, so the number of threads changes no bit. It knows no layers and no Python.
//
// Legend: T rows, I width of a row, O outputs.

#include <omp.h>

#include "cpu_products.h"
#include "cpu_rows.h"

namespace {

// Rows that are taken at a time, and outputs of a block at most.
constexpr int64_t PART = 2048, MOST_OUTPUTS = 256;

template <typename Number>
struct Given {
  const Number *gradients, *rows;     // (T, O), (T, I)
  Number* grad_weight;                // (O, I)
  float* grad_bias;                   // (O,)
  int64_t num_rows, width, outputs;  // T, I, O
};

// Of so many outputs, at most MOST_OUTPUTS, so that all threads have equally many.
inline int64_t outputs_of_a_block(int64_t outputs, int num_threads) {
  int64_t blocks = (outputs + MOST_OUTPUTS - 1) / MOST_OUTPUTS;
  blocks = (blocks + num_threads - 1) / num_threads * num_threads;
  return ((outputs + blocks - 1) / blocks + TALL - 1) / TALL * TALL;
}

// Adds (count, C) rows up, to totals as wide as vectors.
template <typename Number>
inline void add_rows(
    const Number* rows, int64_t stride, int64_t count, int64_t width, float* totals) {
  for (int64_t c = 0; c < width; c += LANES) {
    Floats total = load(totals + c);
    for (int64_t row = 0; row < count; row++) total += get(rows + row * stride + c, width - c);
    store(totals + c, total);
  }
}

// A block's gradients of the rows from `start` on, as the rows of a product over them.
template <typename Number>
void turn(
    const Given<Number>& of, int64_t start, int64_t count, int64_t first, int64_t outputs,
    Number* turned, int64_t apart, float* totals) {
  for (int64_t k = 0; k < count; k += 2 * LANES) {
    const Number* from = of.gradients + (start + k) * of.outputs + first;
    int64_t here = std::min<int64_t>(2 * LANES, count - k);
    const Number* next = from + here * of.outputs;
    for (int64_t row = 0; row < std::min<int64_t>(2 * LANES, count - k - here); row++)
      for (int64_t line = 0; line < outputs; line += 64 / int64_t(sizeof(Number)))
        __builtin_prefetch(next + row * of.outputs + line);
    turn_rows(from, of.outputs, here, outputs, turned + k, apart);
    add_rows(from, of.outputs, here, outputs, totals);
  }
}

// The rows from `row` on, of one tile's depth, into the panels of their part.
template <typename Number>
void lay_out(const Given<Number>& of, int64_t row, Number* panels) {
  const int64_t start = row / PART * PART, k = row - start, wide = rounded_up(of.width);
  const int64_t depth = whole_depth<Number>(std::min(PART, of.num_rows - start));
  for (int64_t column = 0; column < wide; column += PANEL<Number>) {
    int64_t broad = std::min<int64_t>(PANEL<Number>, wide - column);
    lay_out_rows(
        of.rows + row * of.width + column, of.width,
        std::min(TILE_DEPTH<Number>, of.num_rows - row), std::min(broad, of.width - column),
        panels + start * wide + column * depth + k * broad, broad,
        std::min(TILE_DEPTH<Number>, depth - k));
  }
}

// What a thread works in, for a block of outputs: (outputs, PART) gradients turned, a line of the cache
// more from row to row, or all would lie at one place of it; (outputs, W) sums of the parts so far, W
// the width rounded up to vectors.
template <typename Number>
struct Room {
  int64_t apart;
  Number* turned;
  float* sums;

  Room(Cutter& cutter, const Given<Number>& of, int64_t outputs)
      : apart(whole_depth<Number>(std::min(of.num_rows, PART)) + TILE_DEPTH<Number>) {
    turned = cutter.numbers<Number>(outputs * apart);
    sums = cutter.numbers<float>(of.num_rows > PART ? outputs * rounded_up(of.width) : 0);
  }
};

// A block's gradients of weights, part after part.
template <typename Number>
void differentiate(
    const Given<Number>& of, const Number* panels, int64_t first, int64_t outputs,
    const Room<Number>& room, float* totals) {
  const int64_t wide = rounded_up(of.width);
  for (int64_t start = 0; start < of.num_rows; start += PART) {
    const int64_t count = std::min(PART, of.num_rows - start), depth = whole_depth<Number>(count);
    const bool is_last = start + count == of.num_rows;
    turn(of, start, count, first, outputs, room.turned, room.apart, totals + first);
    for (int64_t column = 0; column < wide; column += PANEL<Number>) {
      int64_t broad = std::min<int64_t>(PANEL<Number>, wide - column);
      multiply_narrow<TILE_VECTORS<Number>>(
          Left<Number>{room.turned, room.apart}, int(outputs),
          panels + start * wide + column * depth, int(broad) / LANES, depth,
          [&](int row, const auto& each) {
            float* sums = room.sums + row * wide + column;
            int64_t at = (first + row) * of.width + column, left = of.width - column;
            for (Floats sum : each) {
              if (start) sum += load(sums);
              if (is_last)
                put(of.grad_weight + at, sum, left);
              else
                store(sums, sum);
              sums += LANES, at += LANES, left -= LANES;
            }
          });
    }
  }
}

template <typename Number>
float weight_gradients(const Given<Number>& of, int num_threads) {
  const int64_t block = outputs_of_a_block(of.outputs, num_threads);
  const int64_t wide = rounded_up(of.width), size = whole_depth<Number>(of.num_rows) * wide;
  Cutter counter{nullptr};
  Room<Number>(counter, of, block);
  const int64_t bytes = counter.next - static_cast<char*>(nullptr);
  counter.numbers<Number>(size);
  counter.numbers<float>(rounded_up(of.outputs));
  counter.next += num_threads * bytes;
  Memory memory((counter.next - static_cast<char*>(nullptr)) / sizeof(float) + 16);
  if (!memory.floats) return NO_ROOM;
  Cutter cutter{memory.lined()};
  Number* panels = cutter.numbers<Number>(size);
  float* totals = cutter.numbers<float>(rounded_up(of.outputs));
  std::fill_n(totals, rounded_up(of.outputs), 0.0f);
#pragma omp parallel num_threads(num_threads)
  {
    [[maybe_unused]] Tiles tiles;
    Cutter own{cutter.next + omp_get_thread_num() * bytes};
    const Room<Number> room(own, of, block);
#pragma omp for schedule(static)
    for (int64_t row = 0; row < of.num_rows; row += TILE_DEPTH<Number>) lay_out(of, row, panels);
#pragma omp for schedule(static)
    for (int64_t first = 0; first < of.outputs; first += block)
      differentiate(of, panels, first, std::min(block, of.outputs - first), room, totals);
  }
  std::copy_n(totals, of.outputs, of.grad_bias);
  return DONE;
}

}  // namespace

extern "C" float weight_gradients_bf16(const Given<uint16_t>* of, int num_threads) {
  return weight_gradients(*of, num_threads);
}

// By vectors it is not faster than others.
extern "C" float multiplies_bf16(int) { return way_of_products<uint16_t>(false); }
