// Gradients -> weights on a CPU: what cpu_updates.py calls.
//
// Weights are taken in blocks. One that has never had a gradient sleeps (cpu_sleepers.h): its moments
// are zero, so its update is its decay alone, and neither moments nor gradient are read. Of an
// embedding's rows most sleep through a fine-tuning. The gradients' norm, which comes first, says who
// wakes. Sums are made block after block, so the number of threads changes no bit. It knows no
// parameters.
//
// Source: Kingma and Ba 2015 (Adam); google-research/bert optimization.py,
// AdamWeightDecayOptimizer; You et al. 2020 (LAMB), of which this is Adam's direction.

#include <cmath>

#include "cpu_gradient.h"

namespace {

constexpr int64_t BLOCKS_TOGETHER = 64;

struct Rates {
  float learning_rate, weight_decay, beta1, new1, beta2, new2, epsilon, correction1, correction2;
};

// Those of one run, and what every gradient is multiplied by.
struct StepRates : Rates {
  float gradient_factor;
};

// One run of parameters, laid end to end.
struct Flat {
  float *weight, *exp_avg, *exp_avg_sq;
  uint16_t* copy;      // none where the weights are what the model computes with
  Sleepers* sleepers;  // none: all are awake
  int64_t count;
};

template <typename Values>
inline Values root(Values values) {
  for (int lane = 0; lane < LANES; lane++) values[lane] = std::sqrt(values[lane]);
  return values;
}

// Zero where a moment is too small for a whole mantissa: of such numbers an update takes ten times as
// long, and without a gradient every first moment comes to them, after some 750 steps.
inline Floats without_subnormal(Floats moments) {
  constexpr uint32_t EXPONENT = 0x7F800000;
  return (Floats)((Words)moments & (Words)(((Words)moments & EXPONENT) != 0));
}

// m / (sqrt(v) + epsilon), of the new moments.
inline Floats quotient(Floats gradient, float* exp_avg, float* exp_avg_sq, const StepRates& rates) {
  Floats scaled = gradient * rates.gradient_factor;
  Floats first = without_subnormal(rates.beta1 * load(exp_avg) + rates.new1 * scaled);
  Floats second =
      without_subnormal(rates.beta2 * load(exp_avg_sq) + rates.new2 * scaled * scaled);
  store(exp_avg, first);
  store(exp_avg_sq, second);
  return first * rates.correction1 / (root(second) * rates.correction2 + rates.epsilon);
}

struct Update {
  Flat flat;
  Gradient gradient;
  Rates rates;
};

// LANES weights from `place` on; those of a sleeping block have no gradient.
template <typename Number>
inline void step(const Flat& flat, const Number* gradient, int64_t place, const StepRates& rates) {
  const Floats ratio =
      gradient ? quotient(load(gradient), flat.exp_avg + place, flat.exp_avg_sq + place, rates)
               : no_quotient();
  const Floats changed = moved(load(flat.weight + place), ratio, rates);
  store(flat.weight + place, changed);
  if (flat.copy) store(flat.copy + place, changed);
}

// m / (sqrt(v) + epsilon) + decay * weight, of LANES from `place` on.
template <typename Number>
inline Floats direction(
    const Flat& flat, const Number* gradient, int64_t place, const StepRates& rates) {
  const Floats ratio =
      quotient(load(gradient), flat.exp_avg + place, flat.exp_avg_sq + place, rates);
  return ratio + rates.weight_decay * load(flat.weight + place);
}

// The last weights of a run, fewer than LANES: as a run of their own with room for LANES.
template <typename Number, typename Then>
void with_rest(const Flat& flat, const Number* gradient, int64_t place, const Then& then) {
  float weight[LANES] = {}, exp_avg[LANES] = {}, exp_avg_sq[LANES] = {};
  uint16_t copy[LANES] = {};
  Number gradients[LANES] = {};
  int64_t rest = flat.count - place;
  std::copy_n(flat.weight + place, rest, weight);
  std::copy_n(flat.exp_avg + place, rest, exp_avg);
  std::copy_n(flat.exp_avg_sq + place, rest, exp_avg_sq);
  if (gradient) std::copy_n(gradient, rest, gradients);
  then(Flat{weight, exp_avg, exp_avg_sq, copy, nullptr, LANES}, gradient ? gradients : nullptr);
  std::copy_n(weight, rest, flat.weight + place);
  std::copy_n(exp_avg, rest, flat.exp_avg + place);
  std::copy_n(exp_avg_sq, rest, flat.exp_avg_sq + place);
  if (flat.copy) std::copy_n(copy, rest, flat.copy + place);
}

template <typename Number>
void step_block(
    const Flat& flat, int64_t place, int64_t end, const Number* gradient, const StepRates& rates) {
  for (; place + LANES <= end; place += LANES) {
    step(flat, gradient, place, rates);
    if (gradient) gradient += LANES;
  }
  if (place < end)
    with_rest(flat, gradient, place, [&](const Flat& rest, const Number* its) {
      step(rest, its, 0, rates);
    });
}

// Of a block, whose weights do not change.
template <typename Number>
void find_directions(
    const Flat& flat, int64_t place, int64_t end, const Number* gradient, const StepRates& rates,
    float* to) {
  for (; place + LANES <= end; place += LANES, gradient += LANES)
    store(to + place, direction(flat, gradient, place, rates));
  if (place == end) return;
  Flat kept = flat;
  kept.copy = nullptr;
  with_rest(kept, gradient, place, [&](const Flat& rest, const Number* its) {
    float found[LANES];
    store(found, direction(rest, its, 0, rates));
    std::copy_n(found, end - place, to + place);
  });
}

// Asks for what there is of the next block that is awake, of those that a thread takes together. It lies
// anywhere among those that sleep, which no processor foresees. Of a function that does nothing else g++
// leaves out every call.
__attribute__((always_inline)) inline void ask_for_next(const Flat& flat, int64_t block) {
  const uint8_t* awake = flat.sleepers->awake;
  const int64_t last = (block / BLOCKS_TOGETHER + 1) * BLOCKS_TOGETHER;
  const int64_t end = std::min(flat.count / BLOCK, last);
  int64_t next = block + 1;
  while (next < end && !awake[next]) next++;
  if (next >= end) return;
  for (int64_t place = next * BLOCK; place < (next + 1) * BLOCK; place += 2 * LANES) {
    __builtin_prefetch(flat.copy + place, 1);
    for (int64_t at = place; at < place + 2 * LANES; at += LANES) {
      __builtin_prefetch(flat.weight + at, 1);
      __builtin_prefetch(flat.exp_avg + at, 1);
      __builtin_prefetch(flat.exp_avg_sq + at, 1);
    }
  }
}

template <typename Number>
void adam(
    const Flat& flat, const Pieces<Number>& gradient, const StepRates& rates, int num_threads) {
  Sleepers* sleepers = flat.sleepers;
  const bool may_wait = sleepers && flat.copy;
#pragma omp parallel for num_threads(num_threads) schedule(dynamic, BLOCKS_TOGETHER)
  for (int64_t block = 0; block < parts(flat.count, BLOCK); block++) {
    const int64_t place = block * BLOCK, end = std::min(flat.count, place + BLOCK);
    const bool sleeps = sleepers && !sleepers->awake[block];
    if (may_wait) {
      if (sleeps && sleepers->decayed < sleepers->due[block]) continue;
      ask_for_next(flat, block);
      const Decay* decays = sleepers->decays;
      catch_up(
          flat.weight + place, end - place, decays + sleepers->taken[block],
          decays + sleepers->num_steps - 1);
      sleepers->taken[block] = int32_t(sleepers->num_steps);
    }
    Number room[BLOCK];
    step_block(
        flat, place, end, sleeps ? nullptr : gradient.of_block(place, end, room), rates);
    if (may_wait && sleeps)
      sleepers->due[block] =
          sleepers->decayed + share_to_spare(flat.weight + place, flat.copy + place, end - place);
  }
}

template <typename Number>
void find_directions(const Update& update, float gradient_factor, float* to, int num_threads) {
  const StepRates rates{update.rates, gradient_factor};
  const Pieces<Number> gradient{update.gradient};
  const int64_t count = update.flat.count;
#pragma omp parallel for num_threads(num_threads) schedule(dynamic, BLOCKS_TOGETHER)
  for (int64_t block = 0; block < parts(count, BLOCK); block++) {
    const int64_t place = block * BLOCK, end = std::min(count, place + BLOCK);
    Number room[BLOCK];
    find_directions(update.flat, place, end, gradient.of_block(place, end, room), rates, to);
  }
}

// All weights take the decays that they have missed.
inline void settle(const Flat& flat, int num_threads) {
  Sleepers& sleepers = *flat.sleepers;
#pragma omp parallel for num_threads(num_threads) schedule(dynamic, BLOCKS_TOGETHER)
  for (int64_t block = 0; block < parts(flat.count, BLOCK); block++) {
    const int64_t place = block * BLOCK;
    catch_up(
        flat.weight + place, std::min(BLOCK, flat.count - place),
        sleepers.decays + sleepers.taken[block], sleepers.decays + sleepers.num_steps);
  }
}

template <typename Number>
bool add_squares_of_run(const Update& update, int num_threads, double* total) {
  uint8_t* awake = update.flat.sleepers ? update.flat.sleepers->awake : nullptr;
  const Gradient& gradient = update.gradient;
  if (gradient.is_of_table()) return add_squares_of_rows<Number>(gradient, awake, num_threads, total);
  return add_squares(Pieces<Number>{gradient}, update.flat.count, awake, num_threads, total);
}

template <typename Number>
void adam(const Update& update, float gradient_factor, int num_threads) {
  const StepRates rates{update.rates, gradient_factor};
  adam(update.flat, Pieces<Number>{update.gradient}, rates, num_threads);
}

}  // namespace

extern "C" float squared_norm_fp32(const Update* updates, int64_t count, int num_threads) {
  double total = 0;
  for (const Update* update = updates; update < updates + count; update++) {
    const bool is_done = update->gradient.is_bfloat16
                             ? add_squares_of_run<uint16_t>(*update, num_threads, &total)
                             : add_squares_of_run<float>(*update, num_threads, &total);
    if (!is_done) return NO_ROOM;
  }
  return float(total);
}

extern "C" float adam_fp32(
    const Update* updates, int64_t count, float gradient_factor, int num_threads) {
  for (const Update* update = updates; update < updates + count; update++) {
    if (update->gradient.is_bfloat16)
      adam<uint16_t>(*update, gradient_factor, num_threads);
    else
      adam<float>(*update, gradient_factor, num_threads);
  }
  return DONE;
}

extern "C" float directions_fp32(
    const Update* update, float gradient_factor, float* to, int num_threads) {
  if (update->gradient.is_bfloat16)
    find_directions<uint16_t>(*update, gradient_factor, to, num_threads);
  else
    find_directions<float>(*update, gradient_factor, to, num_threads);
  return DONE;
}

extern "C" float settle_fp32(const Flat* flat, int num_threads) {
  settle(*flat, num_threads);
  return DONE;
}
