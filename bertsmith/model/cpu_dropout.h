// The draws of dropout, as bertsmith/model/dropout.py makes them, a vector at a time.
//
// Source: the hash is that of bertsmith/randomness.py, mix32.

#pragma once

#include <utility>

#include "native.h"

namespace {

// What is kept of dropout, and how much more it counts.
struct Dropout {
  uint32_t bar;  // an element is kept where 31 drawn bits are no less
  float kept;
};

// The hash of words that were folded, before its last fold.
inline Words mixed(Words words) {
  words *= 0x7FEB352Du;
  return (words ^ (words >> 15)) * 0x846CA68Bu;
}

inline Words mix32(Words words) {
  words = mixed(words ^ (words >> 16));
  return words ^ (words >> 16);
}

// What a row's dropout is drawn from at one place in the network.
inline int32_t word_at(uint32_t site, int32_t row_key) {
  return int32_t(mix32(Words{} + (uint32_t(row_key) ^ site))[0]);
}

template <int... NUMBERS>
inline Words counted(std::integer_sequence<int, NUMBERS...>) {
  return Words{uint32_t(NUMBERS)...};
}

// Of the columns from `first` on: 0 where they are dropped, or what makes up for it.
inline Floats keep_factors(int32_t word, uint32_t first, const Dropout& dropout) {
  // Each column times a number; what the lanes have of it is known to the compiler.
  const Words lanes = counted(std::make_integer_sequence<int, LANES>()) * 0x85EBCA77u;
  const Words columns = lanes + first * 0x85EBCA77u;
  // The first fold of word and columns each, which comes to the same. The last one changes a draw's lower
  // half alone, by its upper one; lower halves decide where upper ones are equal, so the bound's serves.
  const uint32_t folded = uint32_t(word) ^ (uint32_t(word) >> 16), bound = 2 * dropout.bar;
  const Words draws = mixed(columns ^ (columns >> 16) ^ folded);
  Integers is_kept = (draws ^ (bound >> 16)) >= bound;
  const Floats kept = Floats{} + dropout.kept;
  return is_kept ? kept : Floats{};
}

}  // namespace
