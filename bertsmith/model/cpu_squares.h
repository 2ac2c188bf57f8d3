// Rows -> columns, in square blocks of words, on a CPU.
//
// A word is four bytes: one number of float32, or two of bfloat16 that lie in rows one below the other.
// It knows no products.
//
// Legend: D depth, C columns.

#pragma once

#include "native.h"

namespace {

// Square blocks of words, numbers of four bytes in all, change rows for columns.
typedef Words Square[LANES];

#if defined(__GNUC__) && !defined(__clang__)
template <int... LANE>
inline void swap_halves(
    Words& low, Words& high, int size, std::integer_sequence<int, LANE...>) {
  const Words lows = {uint32_t(LANE & size ? LANES + (LANE ^ size) : LANE)...};
  const Words highs = {uint32_t(LANE & size ? LANES + LANE : LANE + size)...};
  Words first = __builtin_shuffle(low, high, lows);
  high = __builtin_shuffle(low, high, highs);
  low = first;
}

inline void turn(Square& square) {
#pragma GCC unroll 4
  for (int size = 1; size < LANES; size *= 2)
#pragma GCC unroll 16
    for (int row = 0; row < LANES; row++)
      if (!(row & size))
        swap_halves(
            square[row], square[row | size], size, std::make_integer_sequence<int, LANES>());
}
#else
inline void turn(Square& square) {
  for (int row = 0; row < LANES; row++)
    for (int column = 0; column < row; column++) {
      uint32_t word = square[row][column];
      square[row][column] = square[column][row];
      square[column][row] = word;
    }
}
#endif

inline Words side_by_side(const uint16_t* first, const uint16_t* second) {
  Halves low, high = {};
  std::memcpy(&low, first, sizeof low);
  if (second) std::memcpy(&high, second, sizeof high);
  return as_words(low) | as_words(high) << 16;
}

inline Words side_by_side(const float* first, const float*) {
  Words words;
  std::memcpy(&words, first, sizeof words);
  return words;
}

// Of so many columns; zeros past them.
template <typename Number>
inline Words side_by_side(const Number* first, const Number* second, int64_t count) {
  if (count >= LANES) return side_by_side(first, second);
  Number ends[2][LANES] = {};
  std::copy(first, first + count, ends[0]);
  if (second) std::copy(second, second + count, ends[1]);
  return side_by_side(ends[0], ends[1]);
}

// A vector of a row's numbers and one of those below them -> pairs of bfloat16, side by side.
inline Words in_pairs(Floats above, Floats below) {
#if MULTIPLIES_BF16
  typedef uint16_t Places __attribute__((vector_size(64)));
  constexpr Places PLACES = {0,  16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                             8,  24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)below, (__m512)above);
  return (Words)_mm512_permutexvar_epi16((__m512i)PLACES, both);
#else
  uint16_t rows[2][LANES];
  store(rows[0], above), store(rows[1], below);
  return side_by_side(rows[0], rows[1]);
#endif
}

// (D, C) rows, `stride` numbers from one to the next, -> (C, D) rows, `apart` numbers from one to the
// next; D is filled up with zeros to whole squares of words.
inline void turn_rows(
    const uint16_t* rows, int64_t stride, int64_t depth, int64_t width, uint16_t* turned,
    int64_t apart) {
  for (int64_t k = 0; k < depth; k += 2 * LANES)
    for (int64_t c = 0; c < width; c += LANES) {
      Square square{};
      for (int64_t pair = 0, at = k; pair < LANES && at < depth; pair++, at += 2) {
        const uint16_t* first = rows + at * stride + c;
        square[pair] = side_by_side(first, at + 1 < depth ? first + stride : nullptr, width - c);
      }
      turn(square);
      for (int64_t row = c; row < std::min(c + LANES, width); row++)
        std::memcpy(turned + row * apart + k, &square[row - c], sizeof(Words));
    }
}

inline void turn_rows(
    const float* rows, int64_t stride, int64_t depth, int64_t width, float* turned, int64_t apart) {
  for (int64_t k = 0; k < depth; k += LANES)
    for (int64_t c = 0; c < width; c += LANES) {
      Square square{};
      for (int64_t row = 0; row < std::min<int64_t>(LANES, depth - k); row++)
        square[row] = side_by_side<float>(rows + (k + row) * stride + c, nullptr, width - c);
      turn(square);
      for (int64_t row = c; row < std::min(c + LANES, width); row++)
        std::memcpy(turned + row * apart + k, &square[row - c], sizeof(Words));
    }
}

}  // namespace
