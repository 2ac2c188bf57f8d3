// Lazy weight decay, on a CPU: weights that only decay are updated once their rounded copy would change.
//
// If a model computes with a rounded copy, a block of weights is left alone for as many steps as surely
// leave that copy unchanged. Then, or when it wakes (has a gradient) or is read, all the decays that it
// has missed are applied, one after the other, so it gets the very bits that it would have had. It knows
// no moments and no gradients.

#pragma once

#include "native.h"

namespace {

constexpr int64_t BLOCK = 256;
static_assert(BLOCK % LANES == 0);

struct Decay {
  float learning_rate, weight_decay;
};

// Of every block whether it has had a gradient. Where there is a copy, also how far one that has had
// none is behind the latest steps.
struct Sleepers {
  uint8_t* awake;
  int32_t* taken;       // of those steps so many have changed its weights
  double* due;          // its copy is as it is while steps have decayed weights by less
  const Decay* decays;  // of each of those steps, this one the last
  int64_t num_steps;
  double decayed;  // by those steps, at most, as a share of a weight
};

// A weight after a step; `Steps` has its rates.
template <typename Steps>
inline Floats moved(Floats there, Floats quotient, const Steps& by) {
  return there - by.learning_rate * (quotient + by.weight_decay * there);
}

// The quotient of a sleeper. Not folded away, so that its bits are those it would have awake.
inline Floats no_quotient() {
  static volatile float nothing = 0.0f;
  return Floats{} + nothing;
}

// So many weights of a block take the decays of steps that it has missed, none of which their copy
// shows.
inline void catch_up(float* weights, int64_t count, const Decay* step, const Decay* end) {
  if (step == end) return;
  float there[BLOCK] = {};
  std::copy_n(weights, count, there);
  for (; step < end; step++)
    for (int64_t place = 0; place < BLOCK; place += LANES)
      store(there + place, moved(load(there + place), no_quotient(), *step));
  std::copy_n(there, count, weights);
}

// By what share of itself each of a block's weights may shrink, at least, before its copy is
// another: to the middle between that and the next number towards zero.
inline double share_to_spare(const float* weights, const uint16_t* copies, int64_t count) {
  constexpr uint32_t MAGNITUDE = 0x7FFFFFFF, INFINITE = 0x7F800000, HALF_A_STEP = 0x8000;
  constexpr uint32_t SMALL = 0x10000000;  // 2^-95; what rounding takes of the smallest is no small share
  constexpr double ROUNDING = 0x1p-22;    // of the division below, and of the sums of shares
  float there[BLOCK] = {};
  uint16_t rounded[BLOCK] = {};
  std::copy_n(weights, count, there);
  std::copy_n(copies, count, rounded);
  Floats most = {};
  for (int64_t place = 0; place < BLOCK; place += LANES) {
    const Words weight = (Words)load(there + place) & MAGNITUDE;
    const Words copy = (Words)load(rounded + place) & MAGNITUDE;
    const Floats share = (Floats)(copy - HALF_A_STEP) / (Floats)weight;
    const Integers is_odd = weight - SMALL >= INFINITE - SMALL;  // small, infinite or no number
    Floats last = is_odd ? Floats{} + 1.0f : share;
    last = copy == 0 ? Floats{} : last;
    most = last > most ? last : most;
  }
  return 1.0 - highest_in(most) - ROUNDING;
}

}  // namespace
