// Gradients of a run of weights, in pieces as they lie -> what there is of a block, and the sum of
// squares, on a CPU.
//
// Pieces come in their order, and between them it is zero. It knows no weights.

#pragma once

#include "cpu_sleepers.h"

namespace {

// What has arrived for some of a run's weights, from one to before another.
struct Piece {
  const void* numbers;
  int64_t first, end;
};

// A run's pieces as listed; or rows of a table, whose numbers lie one behind the other, `width` each.
struct Gradient {
  const Piece* pieces;
  const void* numbers;
  const int64_t* rows;
  int64_t num_pieces, width;
  bool is_bfloat16;

  bool is_of_table() const { return width > 0; }
};

template <typename Number>
struct Pieces {
  const Gradient& gradient;

  int64_t first(int64_t piece) const {
    return gradient.is_of_table() ? gradient.rows[piece] * gradient.width : gradient.pieces[piece].first;
  }

  int64_t end(int64_t piece) const {
    return gradient.is_of_table() ? (gradient.rows[piece] + 1) * gradient.width : gradient.pieces[piece].end;
  }

  const Number* numbers(int64_t piece) const {
    return gradient.is_of_table() ? (const Number*)gradient.numbers + piece * gradient.width
                                  : (const Number*)gradient.pieces[piece].numbers;
  }

  // The first that holds something behind the place.
  int64_t behind(int64_t place) const {
    int64_t from = 0, to = gradient.num_pieces;
    while (from < to) {
      const int64_t middle = (from + to) / 2;
      if (end(middle) <= place)
        from = middle + 1;
      else
        to = middle;
    }
    return from;
  }

  // Where the block's lie: as they are, or put together in `room`.
  const Number* of_block(int64_t place, int64_t stop, Number* room) const {
    int64_t piece = behind(place);
    const int64_t last = gradient.num_pieces;
    if (piece != last && first(piece) <= place && stop <= end(piece))
      return numbers(piece) + (place - first(piece));
    std::fill_n(room, stop - place, Number(0));
    for (; piece != last && first(piece) < stop; piece++) {
      const int64_t from = std::max(place, first(piece)), to = std::min(stop, end(piece));
      std::copy_n(numbers(piece) + (from - first(piece)), to - from, room + (from - place));
    }
    return room;
  }
};

// Of one block. Sums that do not wait for each other are made at once.
template <typename Number>
float block_norm(const Number* gradient, int64_t count) {
  constexpr int AT_ONCE = 4;
  Floats totals[AT_ONCE] = {};
  int64_t place = 0;
  for (; place + AT_ONCE * LANES <= count; place += AT_ONCE * LANES)
    for (int part = 0; part < AT_ONCE; part++) {
      const Floats values = load(gradient + place + part * LANES);
      totals[part] += values * values;
    }
  float sum = sum_of((totals[0] + totals[1]) + (totals[2] + totals[3]));
  for (; place < count; place++) {
    const float value = widened(gradient[place]);
    sum += value * value;
  }
  return sum;
}

// Whether a gradient is not zero, NaN among them; squares of small ones are.
template <typename Number>
bool is_any(const Number* gradient, int64_t count) {
  bool is_there = false;
  for (int64_t place = 0; place < count; place++) is_there |= widened(gradient[place]) != 0.0f;
  return is_there;
}

// Of so many numbers; false where there is no room for sums.
template <typename Number>
bool add_squares(
    const Pieces<Number>& gradient, int64_t count, uint8_t* awake, int num_threads, double* total) {
  const int64_t num_blocks = parts(count, BLOCK);
  Memory memory(num_blocks);
  float* sums = memory.floats;
  if (!sums) return false;
#pragma omp parallel for num_threads(num_threads)
  for (int64_t block = 0; block < num_blocks; block++) {
    const int64_t place = block * BLOCK, end = std::min(count, place + BLOCK);
    Number room[BLOCK];
    const Number* there = gradient.of_block(place, end, room);
    sums[block] = block_norm(there, end - place);
    if (awake && !awake[block]) awake[block] = is_any(there, end - place);
  }
  for (int64_t block = 0; block < num_blocks; block++) *total += sums[block];
  return true;
}

// Of rows of a table, whose numbers lie one behind the other. All that holds something of one wakes.
template <typename Number>
bool add_squares_of_rows(
    const Gradient& gradient, uint8_t* awake, int num_threads, double* total) {
  const int64_t count = gradient.num_pieces * gradient.width;
  const Piece whole{gradient.numbers, 0, count};
  for (int64_t row = 0; awake && row < gradient.num_pieces; row++) {
    const int64_t first = gradient.rows[row] * gradient.width, end = first + gradient.width;
    for (int64_t block = first / BLOCK; block * BLOCK < end; block++) awake[block] = 1;
  }
  const Gradient numbers{&whole, nullptr, nullptr, 1, 0, gradient.is_bfloat16};
  return add_squares(Pieces<Number>{numbers}, count, nullptr, num_threads, total);
}

}  // namespace
