// The recurrence of an LSTM on a CPU, forward and backward: what cpu_recurrence.py calls.
//
// Sequences are read side by side, a place at a time, those that go on being the first of the place
// before. At every place the state before it is multiplied by the recurrent matrix, gates and cells
// are made of the sums, and cells are projected where there is a projection; threads share products by
// panels and cells by sequences, and meet after each. Gradients of the matrices, sums over all places,
// are made elsewhere, of what this leaves. A row's result depends neither on the sequences beside its
// own nor on the number of threads. It knows no tensors.
//
// Source: Hochreiter and Schmidhuber 1997; Gers et al. 2000; Sak et al. 2014.
//
// Legend: T rows, n sequences of a place, N of the first, F cells, H width of a state.

#include <omp.h>

#include "cpu_shared_products.h"
#include "cpu_rows.h"

namespace {

// The matrices, and how many sequences have each place.
struct Recurrence {
  const float *across, *down;  // (4F, H), (H, F); `down` may be null: cells are not projected
  int64_t num_cells, width;    // F, H
  const int64_t* counts;
  int64_t num_places;

  int64_t num_sums() const { return 4 * num_cells; }
};

// A matrix laid out, in memory of its own.
struct LaidOut {
  Memory memory;
  Panels<float> panels;

  // Of `width` columns, of which one lies `column` numbers from the next, each of `depth` rows, `row`
  // numbers apart; either lie side by side. Of null, nothing.
  LaidOut(
      const float* matrix, int64_t width, int64_t column, int64_t depth, int64_t row,
      int num_threads)
      : memory(matrix ? whole_panels<float>(width) * depth : 1),
        panels{memory.floats, nullptr, depth, width} {
    if (!matrix || !memory.floats) return;
#pragma omp parallel for schedule(static) num_threads(num_threads)
    for (int64_t first = 0; first < width; first += PANEL<float>) {
      const float* from = matrix + first * column;
      float* to = memory.floats + first * depth;
      if (first + PANEL<float> > width)
        lay_out_last(from, width - first, column, row, to);
      else if (row == 1)
        lay_out_columns({from, column}, depth, PANEL<float>, to);
      else
        lay_out_rows({from, row}, depth, PANEL<float>, to);
    }
  }

 private:
  // Zeros fill it.
  void lay_out_last(
      const float* from, int64_t width, int64_t column, int64_t row, float* to) const {
    for (int64_t d = 0; d < panels.depth; d++)
      for (int64_t c = 0; c < PANEL<float>; c++) *to++ = c < width ? from[c * column + d * row] : 0.0f;
  }
};

// Puts a product's sums, with what is added to them, into rows of so many columns.
template <typename Number>
inline auto into(float* rows, int64_t width, const Number* added) {
  return [=](int64_t row, int64_t column, const auto& sums) {
    for (const Floats& each : sums) {
      int64_t at = row * width + column, room = width - column;
      if (room <= 0) return;
      put(rows + at, added ? each + get(added + at, room) : each, room);
      column += LANES;
    }
  };
}

// Sums of one row become its gates, and its cells and what they show are made.
inline void step(
    float* gates, const float* before, float* cells, float* shown, int64_t num_cells) {
  for (int64_t f = 0; f < num_cells; f += LANES) {
    int64_t room = num_cells - f;
    float *first = gates + f, *second = first + num_cells, *third = second + num_cells,
          *fourth = third + num_cells;
    Floats input = sigmoid(get(first, room)), forget = sigmoid(get(second, room));
    Floats candidate = hyperbolic_tangent(get(third, room)), output = sigmoid(get(fourth, room));
    Floats cell = input * candidate;
    if (before) cell += forget * get(before + f, room);
    put(first, input, room), put(second, forget, room);
    put(third, candidate, room), put(fourth, output, room);
    put(cells + f, cell, room), put(shown + f, output * hyperbolic_tangent(cell), room);
  }
}

// (T, 4F) sums -> (T, H) states; and of the rows that have a place, or where they are not kept of those
// of the first place, (..., 4F) gates and (..., F) cells.
template <typename Number>
float forward(
    const Recurrence& of, const Number* sums, float* states, float* gates, float* cells,
    bool is_kept, int num_threads) {
  int64_t num_sums = of.num_sums(), num_cells = of.num_cells, width = of.width;
  LaidOut across(of.across, num_sums, width, width, 1, num_threads);
  LaidOut down(of.down, width, num_cells, num_cells, 1, num_threads);
  Memory room(of.down ? of.counts[0] * num_cells : 1);
  if (!across.memory.floats || !down.memory.floats || !room.floats) return NO_ROOM;
#pragma omp parallel num_threads(num_threads)
  {
    int64_t start = 0, earlier = 0;
    for (int64_t place = 0; place < of.num_places; place++) {
      int64_t count = of.counts[place], kept = is_kept ? start : 0;
      float *gates_here = gates + kept * num_sums, *cells_here = cells + kept * num_cells;
      const Number* sums_here = sums + start * num_sums;
      const float* before = place ? cells + (is_kept ? earlier : 0) * num_cells : nullptr;
      float* shown = of.down ? room.floats : states + start * width;
      if (place)
        multiply_together(
            Left<float>{states + earlier * width, width}, count, across.panels,
            into(gates_here, num_sums, sums_here));
#pragma omp for schedule(static)
      for (int64_t row = 0; row < count; row++) {
        float* own = gates_here + row * num_sums;
        if (!place)
          for (int64_t i = 0; i < num_sums; i++) own[i] = widened(sums_here[row * num_sums + i]);
        step(
            own, before ? before + row * num_cells : nullptr, cells_here + row * num_cells,
            shown + row * num_cells, num_cells);
      }
      if (of.down)
        multiply_together(
            Left<float>{shown, num_cells}, count, down.panels,
            into<float>(states + start * width, width, nullptr));
      earlier = start, start += count;
    }
  }
  return DONE;
}

// One row back: the gradients of its sums, and of its cells before, in the place of those after.
inline void step_back(
    const float* gates, const float* cells, const float* before, const float* grad_shown,
    float* grad_cells, float* grad_sums, float* shown, int64_t num_cells) {
  for (int64_t f = 0; f < num_cells; f += LANES) {
    int64_t room = num_cells - f;
    Floats input = get(gates + f, room), forget = get(gates + num_cells + f, room);
    Floats candidate = get(gates + 2 * num_cells + f, room);
    Floats output = get(gates + 3 * num_cells + f, room), seen = hyperbolic_tangent(get(cells + f, room));
    Floats arrived = get(grad_shown + f, room);
    Floats gradient = get(grad_cells + f, room) + arrived * output * (1.0f - seen * seen);
    Floats earlier = before ? get(before + f, room) : Floats{};
    put(grad_sums + f, gradient * candidate * input * (1.0f - input), room);
    put(grad_sums + num_cells + f, gradient * earlier * forget * (1.0f - forget), room);
    put(grad_sums + 2 * num_cells + f, gradient * input * (1.0f - candidate * candidate), room);
    put(grad_sums + 3 * num_cells + f, arrived * seen * output * (1.0f - output), room);
    put(grad_cells + f, gradient * forget, room);
    put(shown + f, output * seen, room);
  }
}

// (T, H) gradients of states, to which is added what comes from later places -> of the rows that have
// a place, (..., 4F) gradients of sums, and (..., F) what the cells showed.
float backward(
    const Recurrence& of, const float* gates, const float* cells, float* grad_states,
    float* grad_sums, float* shown, int num_threads) {
  int64_t num_sums = of.num_sums(), num_cells = of.num_cells, width = of.width, end = 0;
  LaidOut across(of.across, width, 1, num_sums, width, num_threads);
  LaidOut down(of.down, num_cells, 1, width, num_cells, num_threads);
  Memory grad_cells(of.counts[0] * num_cells), room(of.down ? of.counts[0] * num_cells : 1);
  for (const Memory* each : {&across.memory, &down.memory, &grad_cells, &room})
    if (!each->floats) return NO_ROOM;
  std::fill_n(grad_cells.floats, of.counts[0] * num_cells, 0.0f);
  for (int64_t place = 0; place < of.num_places; place++) end += of.counts[place];
#pragma omp parallel num_threads(num_threads)
  {
    int64_t start = end;
    for (int64_t place = of.num_places - 1; place >= 0; place--) {
      int64_t count = of.counts[place];
      start -= count;
      int64_t earlier = place ? start - of.counts[place - 1] : 0;
      const float* grad_shown = of.down ? room.floats : grad_states + start * width;
      if (of.down)
        multiply_together(
            Left<float>{grad_states + start * width, width}, count, down.panels,
            into<float>(room.floats, num_cells, nullptr));
#pragma omp for schedule(static)
      for (int64_t row = 0; row < count; row++) {
        int64_t at = start + row;
        step_back(
            gates + at * num_sums, cells + at * num_cells,
            place ? cells + (earlier + row) * num_cells : nullptr, grad_shown + row * num_cells,
            grad_cells.floats + row * num_cells, grad_sums + at * num_sums,
            shown + at * num_cells, num_cells);
      }
      float* to = grad_states + earlier * width;
      if (place)
        multiply_together(
            Left<float>{grad_sums + start * num_sums, num_sums}, count, across.panels,
            into<float>(to, width, to));
    }
  }
  return DONE;
}

}  // namespace

#define FORWARD(TYPE, NUMBER)                                                                      \
  extern "C" float multiplies_##TYPE(int) { return VECTOR_BYTES > 16; }                            \
  extern "C" float recurrence_forward_##TYPE(                                                      \
      const Recurrence* of, const NUMBER* sums, float* states, float* gates, float* cells,         \
      int is_kept, int num_threads) {                                                              \
    return forward(*of, sums, states, gates, cells, is_kept, num_threads);                         \
  }

FORWARD(fp32, float)
FORWARD(bf16, uint16_t)

extern "C" float recurrence_backward_fp32(
    const Recurrence* of, const float* gates, const float* cells, float* grad_states,
    float* grad_sums, float* shown, int num_threads) {
  return backward(*of, gates, cells, grad_states, grad_sums, shown, num_threads);
}
