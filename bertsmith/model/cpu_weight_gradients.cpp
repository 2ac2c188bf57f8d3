// Rows and the gradients of what a linear map made of them -> gradients of its weights and bias, on a
// CPU: what cpu_linear.py calls.
//
// Gradients change rows for columns while they are read, a block of outputs at a time, and the sums of
// the bias are made on the way; rows are laid out as panels once. Of many rows so many are taken at a
// time as leave a block in the second cache. Every sum is made in the order of rows, in float32, so
// the number of threads changes no bit. It knows no layers and no Python.
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

// What comes of a part's product: kept in float32 until the last one.
template <typename Number>
struct Sums {
  const Given<Number>& of;
  float* kept;  // (O, I); null where there is one part
  bool is_first, is_last;

  template <typename Each>
  void take(int64_t output, int64_t column, const Each& sums) const {
    int64_t at = output * of.width + column, room = of.width - column;
    for (Floats each : sums) {
      if (!is_first) each += get(kept + at, room);
      if (is_last)
        put(of.grad_weight + at, each, room);
      else
        put(kept + at, each, room);
      at += LANES, room -= LANES;
      if (room <= 0) break;
    }
  }
};

// So many rows, of one tile's depth, into panels of all columns, as their depth from `k` on.
template <typename Number>
void lay_out(
    const Given<Number>& of, int64_t start, int64_t count, Number* panels, int64_t k,
    int64_t depth) {
  constexpr int BROAD = PANEL<Number>;
  const int64_t wide = rounded_up(of.width), deep = std::min(TILE_DEPTH<Number>, depth - k);
  for (int64_t column = 0; column < wide; column += BROAD) {
    int64_t broad = std::min<int64_t>(BROAD, wide - column);
    lay_out_rows(
        of.rows + start * of.width + column, of.width, count,
        std::min<int64_t>(BROAD, of.width - column), panels + column * depth + k * broad, broad,
        deep);
  }
}

template <typename Number>
float weight_gradients(const Given<Number>& of, int num_threads) {
  constexpr int BROAD = PANEL<Number>;
  const int64_t block = outputs_of_a_block(of.outputs, num_threads);
  const int64_t most = whole_depth<Number>(std::min(of.num_rows, PART));
  const int64_t apart = most + TILE_DEPTH<Number>;  // not all at one place of the cache
  const int64_t wide = rounded_up(of.width);
  const bool is_whole = of.num_rows <= PART;
  Cutter counter{nullptr};
  counter.numbers<Number>(most * wide);
  counter.numbers<float>(is_whole ? 0 : of.outputs * of.width);
  counter.numbers<float>(rounded_up(of.outputs));
  counter.numbers<Number>(num_threads * block * apart);
  Memory memory((counter.next - static_cast<char*>(nullptr)) / sizeof(float) + 16);
  if (!memory.floats) return NO_ROOM;
  Cutter cutter{memory.lined()};
  Number* panels = cutter.numbers<Number>(most * wide);
  float* kept = cutter.numbers<float>(is_whole ? 0 : of.outputs * of.width);
  float* totals = cutter.numbers<float>(rounded_up(of.outputs));
  Number* room = cutter.numbers<Number>(num_threads * block * apart);
  std::fill_n(totals, rounded_up(of.outputs), 0.0f);
#pragma omp parallel num_threads(num_threads)
  {
    [[maybe_unused]] Tiles tiles;
    Number* turned = room + omp_get_thread_num() * block * apart;
    for (int64_t start = 0; start < of.num_rows; start += PART) {
      const int64_t count = std::min(PART, of.num_rows - start);
      const int64_t depth = whole_depth<Number>(count);
      const Sums<Number> sums{of, kept, start == 0, start + count == of.num_rows};
#pragma omp for schedule(static)
      for (int64_t k = 0; k < depth; k += TILE_DEPTH<Number>)
        lay_out(of, start + k, std::min(TILE_DEPTH<Number>, count - k), panels, k, depth);
#pragma omp for schedule(static)
      for (int64_t first = 0; first < of.outputs; first += block) {
        int64_t outputs = std::min(block, of.outputs - first);
        turn(of, start, count, first, outputs, turned, apart, totals + first);
        for (int64_t column = 0; column < wide; column += BROAD)
          multiply_narrow<TILE_VECTORS<Number>>(
              Left<Number>{turned, apart}, int(outputs), panels + column * depth,
              int(std::min<int64_t>(BROAD, wide - column)) / LANES, depth,
              [&](int row, const auto& each) { sums.take(first + row, column, each); });
      }
    }
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
