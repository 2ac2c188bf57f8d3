// Gradients -> weights on a CPU: what cpu_updates.py calls.
//
// Weights are taken in blocks. One that has never had a gradient sleeps: its moments are zero, so
// its update is its decay alone, and neither moments nor gradient are read. Of an embedding's rows
// most sleep through a fine-tuning. The gradient's norm, which comes first, says who wakes, and of
// rows the caller. Sums are made block after block, so the number of threads changes no bit. It
// knows no parameters.
//
// A gradient lies as its weights do, or is rows of them, and zero elsewhere.
//
// Source: Kingma and Ba 2015 (Adam); google-research/bert optimization.py,
// AdamWeightDecayOptimizer.

#include <cmath>

#include "native.h"

namespace {

constexpr int64_t BLOCK = 256, BLOCKS_TOGETHER = 64;
static_assert(BLOCK % LANES == 0);

struct Rates {
  float gradient_factor, learning_rate, weight_decay, beta1, new1, beta2, new2, epsilon;
  float correction1, correction2;
};

// One run of parameters, laid end to end.
struct Flat {
  float *weight, *exp_avg, *exp_avg_sq;
  uint16_t* copy;  // none where the weights are what the model computes with
  uint8_t* awake;  // one a block; none: all are
  int64_t count;
};

template <typename Values>
inline Values root(Values values) {
  for (int lane = 0; lane < LANES; lane++) values[lane] = std::sqrt(values[lane]);
  return values;
}

// Zero where a moment is too small for a whole mantissa: such numbers take a processor a hundred times
// as long, and without a gradient every first moment comes to them, after some 800 steps.
inline Floats without_subnormal(Floats moments) {
  constexpr uint32_t EXPONENT = 0x7F800000;
  return (Floats)((Words)moments & (Words)(((Words)moments & EXPONENT) != 0));
}

// m / (sqrt(v) + epsilon), of the new moments.
inline Floats quotient(Floats gradient, float* exp_avg, float* exp_avg_sq, const Rates& rates) {
  Floats scaled = gradient * rates.gradient_factor;
  Floats first = without_subnormal(rates.beta1 * load(exp_avg) + rates.new1 * scaled);
  Floats second =
      without_subnormal(rates.beta2 * load(exp_avg_sq) + rates.new2 * scaled * scaled);
  store(exp_avg, first);
  store(exp_avg_sq, second);
  return first * rates.correction1 / (root(second) * rates.correction2 + rates.epsilon);
}

inline void update(Floats quotient, float* weight, uint16_t* copy, const Rates& rates) {
  Floats there = load(weight);
  Floats changed = there - rates.learning_rate * (quotient + rates.weight_decay * there);
  store(weight, changed);
  if (copy) store(copy, changed);
}

// What has arrived for a run.
template <typename Number>
struct Gradient {
  const Number* numbers;
  const int32_t* places;  // of each row the number of its own in `numbers`, or -1; none: all are there
  int64_t width;          // of a row

  // Where the block's lie: as they are, or put together in `room`.
  const Number* of_block(int64_t place, int64_t end, Number* room) const {
    if (!places) return numbers + place;
    int64_t row = place / width;
    if (end <= (row + 1) * width && places[row] >= 0)
      return numbers + places[row] * width + (place - row * width);
    for (int64_t there = place; there < end; row++) {
      int64_t next = std::min(end, (row + 1) * width);
      Number* to = room + (there - place);
      if (places[row] < 0)
        std::fill_n(to, next - there, Number(0));
      else
        std::copy_n(numbers + places[row] * width + (there - row * width), next - there, to);
      there = next;
    }
    return room;
  }
};

// LANES weights from `place` on; those of a sleeping block have no gradient.
template <typename Number>
inline void step(const Flat& flat, const Number* gradient, int64_t place, const Rates& rates) {
  // Not folded away where it is zero, so that a sleeper's bits are those it would have awake.
  static volatile float nothing = 0.0f;
  Floats ratio = Floats{} + nothing;
  if (gradient)
    ratio = quotient(load(gradient), flat.exp_avg + place, flat.exp_avg_sq + place, rates);
  update(ratio, flat.weight + place, flat.copy ? flat.copy + place : nullptr, rates);
}

// The last weights of a run, fewer than LANES.
template <typename Number>
void step_rest(const Flat& flat, const Number* gradient, int64_t place, const Rates& rates) {
  float weight[LANES] = {}, exp_avg[LANES] = {}, exp_avg_sq[LANES] = {};
  uint16_t copy[LANES] = {};
  Number gradients[LANES] = {};
  int64_t rest = flat.count - place;
  std::copy_n(flat.weight + place, rest, weight);
  std::copy_n(flat.exp_avg + place, rest, exp_avg);
  std::copy_n(flat.exp_avg_sq + place, rest, exp_avg_sq);
  if (gradient) std::copy_n(gradient, rest, gradients);
  Flat there{weight, exp_avg, exp_avg_sq, copy, nullptr, LANES};
  step(there, gradient ? gradients : nullptr, 0, rates);
  std::copy_n(weight, rest, flat.weight + place);
  std::copy_n(exp_avg, rest, flat.exp_avg + place);
  std::copy_n(exp_avg_sq, rest, flat.exp_avg_sq + place);
  if (flat.copy) std::copy_n(copy, rest, flat.copy + place);
}

template <typename Number>
void adam(
    const Flat& flat, const Gradient<Number>& gradient, const Rates& rates, int num_threads) {
  int64_t num_blocks = (flat.count + BLOCK - 1) / BLOCK;
#pragma omp parallel for num_threads(num_threads) schedule(dynamic, BLOCKS_TOGETHER)
  for (int64_t block = 0; block < num_blocks; block++) {
    int64_t place = block * BLOCK, end = std::min(flat.count, place + BLOCK);
    Number room[BLOCK];
    const Number* arrived = nullptr;
    if (!flat.awake || flat.awake[block]) arrived = gradient.of_block(place, end, room);
    const Number* after = arrived;
    for (; place + LANES <= end; place += LANES) {
      step(flat, after, place, rates);
      if (after) after += LANES;
    }
    if (place < end) step_rest(flat, after, place, rates);
  }
}

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

template <typename Number>
float squared_norm(const Number* gradient, int64_t count, uint8_t* awake, int num_threads) {
  int64_t num_blocks = (count + BLOCK - 1) / BLOCK;
  Memory memory(num_blocks);
  float* sums = memory.floats;
  if (!sums) return NO_ROOM;
#pragma omp parallel for num_threads(num_threads)
  for (int64_t block = 0; block < num_blocks; block++) {
    const Number* there = gradient + block * BLOCK;
    const int64_t here = std::min(BLOCK, count - block * BLOCK);
    sums[block] = block_norm(there, here);
    if (awake && !awake[block]) awake[block] = is_any(there, here);
  }
  double total = 0;
  for (int64_t block = 0; block < num_blocks; block++) total += sums[block];
  return float(total);
}

}  // namespace

#define UPDATES(TYPE, NUMBER)                                                                      \
  extern "C" float adam_##TYPE(                                                                    \
      const Flat* flat, const Gradient<NUMBER>* gradient, const Rates* rates, int num_threads) {   \
    adam(*flat, *gradient, *rates, num_threads);                                                   \
    return DONE;                                                                                   \
  }                                                                                                \
  extern "C" float squared_norm_##TYPE(                                                            \
      const NUMBER* gradient, int64_t count, uint8_t* awake, int num_threads) {                    \
    return squared_norm(gradient, count, awake, num_threads);                                      \
  }

UPDATES(fp32, float)
UPDATES(bf16, uint16_t)
