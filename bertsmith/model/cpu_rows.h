// What happens to rows between products, on a CPU: activations and LayerNorm.
//
// Rows are numbers in memory and float32 in registers; one may end inside of a vector. It knows no
// products and no layers.

#pragma once

#include <cmath>

#include "cpu_bands.h"
#include "cpu_gelu.h"
#include "native.h"

// Whether whole lines may be written past the caches: a vector is one.
#if defined(__AVX512F__) && VECTOR_BYTES == 64
#define WRITES_PAST_CACHES 1
#else
#define WRITES_PAST_CACHES 0
#endif

namespace {

constexpr int GELU = 0, GELU_TANH = 1, RELU = 2, SILU = 3, TANH = 4;

// Below so many tokens' rows threads would take longer to meet than to pass over them.
constexpr int64_t FEW_TOKENS = 128;

struct Norm {
  const float *weight, *bias;  // (H,)
  float epsilon;
};

inline void put(float* to, Floats values) { store(to, values); }

inline void put(uint16_t* to, Floats values) {
#if MULTIPLIES_BF16
  __m256bh halves = _mm512_cvtneps_pbh((__m512)values);
  std::memcpy(to, &halves, sizeof halves);
#else
  store(to, values);
#endif
}

// Two vectors side by side: of bfloat16 a line of the cache, written at once. Whole lines may go past the
// caches: what is not read soon leaves room in them, and need not be there to be written.
template <bool IS_FAR = false, typename Number>
inline void put_both(Number* to, Floats low, Floats high) {
#if MULTIPLIES_BF16
  if constexpr (sizeof(Number) == 2) {
    const __m512i line = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
    if constexpr (IS_FAR)
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line);
    else
      _mm512_storeu_si512(to, line);
    return;
  }
#endif
#if WRITES_PAST_CACHES
  if constexpr (IS_FAR && sizeof(Number) == sizeof(float)) {
    for (const Floats& each : {low, high}) _mm512_stream_ps(to, (__m512)each), to += LANES;
    return;
  }
#endif
  put(to, low), put(to + LANES, high);
}

// What went past the caches is seen by whoever follows, other threads too.
inline void publish_far() {
#if WRITES_PAST_CACHES
  _mm_sfence();
#endif
}

// An even number of vectors side by side, of which `change`, told the column of each, makes others: put
// to a row from that column on.
template <typename Number, int VECTORS, typename Change>
inline void put_pairs(
    const Grid<Number>& to, int64_t row, int64_t column, const Floats (&values)[VECTORS],
    const Change& change) {
  static_assert(VECTORS % 2 == 0);
  for (int v = 0; v < VECTORS; v += 2, column += 2 * LANES)
    put_both(
        to.at(row, column), change(column, values[v]), change(column + LANES, values[v + 1]));
}

// What becomes of sums: `change` makes them what is put to rows.
template <typename Number, typename Change>
inline auto put_into(const Grid<Number>& to, const Change& change) {
  return [=](int64_t row, int64_t column, const auto& sums) {
    put_pairs(to, row, column, sums, [&](int64_t at, const Floats& sum) {
      return change(row, at, sum);
    });
  };
}

template <typename Number>
inline auto as_they_are(const Grid<Number>& to) {
  return put_into(to, [](int64_t, int64_t, Floats sum) { return sum; });
}

// A row seldom ends inside of a vector: `put_last` and `get_last` stand apart, or their code would be in
// every loop over rows.
template <typename Number>
__attribute__((noinline)) void put_last(Number* to, Floats values, int64_t room) {
  for (int64_t lane = 0; lane < room; lane++) narrow(values[lane], to + lane);
}

// The first of a vector's values, as many as there is room for.
template <typename Number>
inline void put(Number* to, Floats values, int64_t room) {
  if (__builtin_expect(room >= LANES, true)) return put(to, values);
  put_last(to, values, room);
}

// A row of what `make` makes of each column's vector, put two vectors at once: of float32 it must not lie in
// bands, which are one of the longest vectors wide, and none that is put so does.
template <typename Number, typename Make>
inline void put_made(const Grid<Number>& to, int64_t width, const Make& make) {
  int64_t h = 0;
  for (; h + 2 * LANES <= width; h += 2 * LANES) put_both(to.at(0, h), make(h), make(h + LANES));
  for (; h < width; h += LANES) put(to.at(0, h), make(h), width - h);
}

// (W,) values, W whole vectors, the first of them as many as there is room for.
template <typename Number>
inline void put_row(const float* values, int64_t wide, Number* to, int64_t room) {
  for (int64_t at = 0; at < wide; at += LANES) put(to + at, load(values + at), room - at);
}

template <typename Number>
__attribute__((noinline)) Floats get_last(const Number* from, int64_t count) {
  Floats values = {};
  for (int64_t lane = 0; lane < count; lane++) values[lane] = widened(from[lane]);
  return values;
}

// The first of the numbers that are there; zeros past them.
template <typename Number>
inline Floats get(const Number* from, int64_t count) {
  return __builtin_expect(count >= LANES, true) ? load(from) : get_last(from, count);
}

// 1 / (1 + e^-x), within 3e-7 of it.
inline Floats sigmoid(Floats x) {
  Integers is_positive = x > 0.0f;
  Floats small = exponential(is_positive ? -x : x);
  return (is_positive ? Floats{} + 1.0f : small) / (small + 1.0f);
}

// Within 4e-7 of tanh x; near zero, where that would be much of it, a polynomial.
// Source: Cephes, tanhf.
inline Floats hyperbolic_tangent(Floats x) {
  Floats square = x * x, far = sigmoid(x * 2.0f) * 2.0f - 1.0f;
  Floats sum = square * -5.70498872745e-3f + 2.06390887954e-2f;
  sum = sum * square - 5.37397155531e-2f;
  sum = sum * square + 1.33314422036e-1f;
  sum = sum * square - 3.33332819422e-1f;
  return square < 0.390625f ? sum * square * x + x : far;
}

// How much of x GELU lets through: the normal distribution's share below x, within 3e-7 of it; and its
// density at x, which GELU's slope has too.
// Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
struct NormalShare {
  Floats x, share, density;

  explicit NormalShare(Floats x) : x(x) {
    Integers is_positive = x > 0.0f;
    Floats far = (is_positive ? x : -x) * 0.70710678118654752f;
    Floats t = 1.0f / (far * 0.3275911f + 1.0f), power = exponential(-far * far);
    Floats sum = t * 1.061405429f - 1.453152027f;
    sum = sum * t + 1.421413741f;
    sum = sum * t - 0.284496736f;
    sum = sum * t + 0.254829592f;
    Floats outside = sum * t * 0.5f * power;
    share = is_positive ? 1.0f - outside : outside;
    density = power * 0.3989422804f;
  }

  Floats gelu() const { return x * share; }
  Floats slope() const { return x * density + share; }
};

template <bool IS_ROUGH>
inline Floats activated(Floats x, int activation) {
  if (activation == GELU) return IS_ROUGH ? rough_gelu(x) : NormalShare(x).gelu();
  if (activation == GELU_TANH)
    return x * sigmoid((x + x * x * x * 0.044715f) * 1.5957691216057308f);
  if (activation == RELU) return x < 0.0f ? Floats{} : x;  // NaN stays NaN
  if (activation == SILU) return x * sigmoid(x);
  if (activation == TANH) return hyperbolic_tangent(x);
  return x;
}

// The sum of what `each` makes of the vectors of a (W,) row, told their columns; W is whole vectors. Four
// sums at once: none is ready to be added to in the next cycle, and more are rounded less.
template <typename Each>
inline Floats sum_over(int64_t wide, const Each& each) {
  Floats totals[4] = {};
  int64_t h = 0;
  for (; h + 4 * LANES <= wide; h += 4 * LANES)
#pragma GCC unroll 4
    for (int part = 0; part < 4; part++) totals[part] += each(h + part * LANES);
  for (; h < wide; h += LANES) totals[0] += each(h);
  return (totals[0] + totals[1]) + (totals[2] + totals[3]);
}

// How far a row's values are from their mean, squared and added up.
inline float squares_around(const float* row, int64_t wide, float mean) {
  return sum_of(sum_over(wide, [=](int64_t h) {
    const Floats centred = load(row + h) - mean;
    return centred * centred;
  }));
}

// Of a row: what its norm takes away, and by what it multiplies the rest.
struct Statistics {
  float mean, factor;
};

// LayerNorm of a row of which `value`, told the column of each vector, makes the numbers, zeros past the
// last one; (W,) floats are what it works in. Of what comes of them `change`, told it too, makes what is put.
template <typename Number, typename Value, typename Change>
Statistics normalise(
    float* row, int64_t width, const Norm& norm, const Grid<Number>& to, const Value& value,
    const Change& change) {
  const int64_t wide = rounded_up(width);
  const Floats total = sum_over(wide, [&](int64_t h) {
    const Floats found = value(h);
    store(row + h, found);
    return found;
  });
  const float mean = sum_of(total) / width;
  std::fill(row + width, row + wide, mean);  // no part of the variance
  const float factor = 1.0f / std::sqrt(squares_around(row, wide, mean) / width + norm.epsilon);
  put_made(to, width, [&](int64_t h) {
    Floats weight = get(norm.weight + h, width - h), bias = get(norm.bias + h, width - h);
    return change(h, (load(row + h) - mean) * factor * weight + bias);
  });
  return {mean, factor};
}

template <typename Number, typename Value>
Statistics normalise(
    float* row, int64_t width, const Norm& norm, const Grid<Number>& to, const Value& value) {
  return normalise(row, width, norm, to, value, [](int64_t, Floats normed) { return normed; });
}

}  // namespace
