// What the C++ files of this package share: vectors of numbers, float32 and bfloat16 in memory, and
// e^x. compiler.py builds them; native.py says how wide a vector is, VECTOR_BYTES.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

// Whether one instruction multiplies pairs of bfloat16 and adds them up, a whole vector at a time.
#if defined(__AVX512BF16__) && VECTOR_BYTES == 64
#define MULTIPLIES_BF16 1
#else
#define MULTIPLIES_BF16 0
#endif

// The same of quads of bytes, the ones without a sign and the others with one, summed exactly.
#if defined(__AVX512VNNI__) && VECTOR_BYTES == 64
#define MULTIPLIES_INT8 1
#else
#define MULTIPLIES_INT8 0
#endif

// A thread begins a stage of what a function does, in which its team makes so many products of numbers: for
// whoever times it (benchmarks/timed.h). Null: it ends.
#ifndef STAGE
#define STAGE(...) ((void)0)
#endif

namespace {

typedef float Floats __attribute__((vector_size(VECTOR_BYTES)));
typedef float UnalignedFloats __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t Words __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t Halves __attribute__((vector_size(VECTOR_BYTES / 2)));

constexpr int LANES = VECTOR_BYTES / 4;
// What a function returns: it found no memory to work in.
constexpr float NO_ROOM = -1.0f, DONE = 0.0f;

template <typename Count>
inline Count rounded_up(Count count) {
  return (count + LANES - 1) / LANES * LANES;
}

// How many parts of a size so many make, the last of them whole or not.
inline int64_t parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

inline Floats load(const float* from) { return *reinterpret_cast<const UnalignedFloats*>(from); }

inline void store(float* to, Floats values) { *reinterpret_cast<UnalignedFloats*>(to) = values; }

// Each is the lower half of a word: one instruction, of which g++ 12 makes four by itself.
inline Words as_words(Halves halves) {
#if defined(__AVX512F__) && VECTOR_BYTES == 64
  return (Words)_mm512_cvtepu16_epi32((__m256i)halves);
#elif defined(__AVX2__) && VECTOR_BYTES == 32
  return (Words)_mm256_cvtepu16_epi32((__m128i)halves);
#else
  return __builtin_convertvector(halves, Words);
#endif
}

inline Floats load(const uint16_t* bfloat16) {
  Halves halves;
  std::memcpy(&halves, bfloat16, sizeof halves);
  return (Floats)(as_words(halves) << 16);
}

// a < b ? a : b, so b where one is no number: one instruction, of which g++ 12 makes two.
inline Floats lower(Floats a, Floats b) {
#if defined(__AVX512F__) && VECTOR_BYTES == 64
  return (Floats)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__) && VECTOR_BYTES == 32
  return (Floats)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return a < b ? a : b;
#endif
}

// a > b ? a : b, likewise.
inline Floats higher(Floats a, Floats b) {
#if defined(__AVX512F__) && VECTOR_BYTES == 64
  return (Floats)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__) && VECTOR_BYTES == 32
  return (Floats)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return a > b ? a : b;
#endif
}

inline Floats magnitude(Floats values) { return (Floats)((Words)values & 0x7FFFFFFFu); }

// To the nearest bfloat16, ties to even; NaN stays NaN.
inline void store(uint16_t* to, Floats values) {
  Words bits = (Words)values;
  Words rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  Integers is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  Halves halves = __builtin_convertvector(is_nan ? Words{} + 0x7FC0 : rounded, Halves);
  std::memcpy(to, &halves, sizeof halves);
}

template <int BYTES>
struct Part {
  typedef float Type __attribute__((vector_size(BYTES)));
};

// All lanes made one, in pairs, those that are far apart first.
template <int BYTES, typename Fold>
inline float folded(typename Part<BYTES>::Type values, Fold fold) {
  if constexpr (BYTES == sizeof(float)) {
    return values[0];
  } else {
    typename Part<BYTES / 2>::Type parts[2];
    std::memcpy(parts, &values, sizeof parts);
    return folded<BYTES / 2>(fold(parts[0], parts[1]), fold);
  }
}

inline float sum_of(Floats values) {
  return folded<VECTOR_BYTES>(values, [](auto low, auto high) { return low + high; });
}

inline float highest_in(Floats values) {
  return folded<VECTOR_BYTES>(values, [](auto low, auto high) { return low < high ? high : low; });
}

inline float widened(float value) { return value; }

inline float widened(uint16_t bfloat16) {
  uint32_t bits = uint32_t(bfloat16) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline void narrow(float value, float* to) { *to = value; }

// To the nearest bfloat16, ties to even; NaN stays NaN.
inline void narrow(float value, uint16_t* to) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  *to = is_nan ? 0x7FC0 : uint16_t((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// How far from one to the next rows of so many numbers lie that products read: an odd number of lines
// of the cache. An even one apart the rows of a tile meet in fewer places of the first cache, and
// drive each other out of it.
template <typename Number>
inline int64_t stride_for(int64_t width) {
  constexpr int64_t LINE = 64 / sizeof(Number);
  return (parts(width, LINE) | 1) * LINE;
}

// Floats to work in, not set to anything; null where there are none.
struct Memory {
  float* floats;
  explicit Memory(int64_t count) : floats(static_cast<float*>(std::malloc(count * sizeof(float)))) {}
  Memory(const Memory&) = delete;
  ~Memory() { std::free(floats); }

  // From the first line of the cache on, which 64 bytes more have room for.
  char* lined() const {
    return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(floats) + 63) / 64 * 64);
  }
};

// Cuts memory, or only counts how much there is to cut.
struct Cutter {
  char* next;

  template <typename Number>
  Number* numbers(int64_t count) {
    Number* found = reinterpret_cast<Number*>(next);
    next += (count * sizeof(Number) + 63) / 64 * 64;
    return found;
  }
};

constexpr float LOG2_E = 1.44269504088896341f;

// e^x of x <= 0: within two units in the last place; 0 below e^-87, NaN of NaN. It is 2^n times e^r, of
// which a polynomial makes the latter, fitted from -log 2 / 2 to log 2 / 2 so that its largest relative
// error is least, 2e-9. A sum with ROUNDED_BY is rounded to a whole number, whose lowest bits are n raised
// by what makes of them the exponent of 2^n.
inline Floats exponential(Floats x) {
  constexpr float ROUNDED_BY = 12582912.0f + 127.0f;  // 1.5 times 2^23
  const Floats sum = x * LOG2_E + ROUNDED_BY, whole = sum - ROUNDED_BY;
  const Floats rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;  // log 2 in two parts
  Floats power = rest * 1.38436409e-3f + 8.37416667e-3f;
  power = power * rest + 4.16680016e-2f;
  power = power * rest + 0.166664317f;
  power = power * rest + 0.49999994f;
  power = power * rest + 1.0f;
  power = power * rest + 1.0f;
  const Floats result = power * (Floats)((Words)sum << 23);
  return x < -87.0f ? Floats{} : result;
}

// 2^y of y <= 0: within 4e-6 of it, relatively; 0 from y = -126 down, NaN of NaN. It is 2^n times 2^r of a
// rest r from 0 to 1, and a polynomial makes the latter, fitted so that its largest relative error is
// least, 3e-6, of those that are exactly 1 at 0: the highest score's weight is 1, or the gradient of a word
// that is nearly certain would be that error.
inline Floats rough_power(Floats y) {
  constexpr float LOWEST = -126.0f;
#if defined(__AVX512DQ__) && VECTOR_BYTES == 64
  const Floats rest = (Floats)_mm512_reduce_ps((__m512)y, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
  // A sum with 1.5 times 2^23 is rounded to a whole number, and 127 more makes an exponent of it. With nearly
  // a half taken off first that is the whole number below y; of a whole y it may be one less, and then r = 1.
  constexpr float ROUNDED_BY = 12582912.0f + 127.0f, BELOW_A_HALF = 0.49999997f;
  const Floats sum = (y - BELOW_A_HALF) + ROUNDED_BY, rest = y - (sum - ROUNDED_BY);
#endif
  Floats power = rest * 1.342668e-2f + 5.224247e-2f;
  power = power * rest + 0.2412802f;
  power = power * rest + 0.69304484f;
  power = power * rest + 1.0f;
#if defined(__AVX512DQ__) && VECTOR_BYTES == 64
  const __mmask16 is_there =
      _mm512_cmp_ps_mask((__m512)y, (__m512)(Floats{} + LOWEST), _CMP_NLE_UQ);
  return (Floats)_mm512_maskz_scalef_ps(is_there, (__m512)power, (__m512)y);
#else
  const Floats result = power * (Floats)((Words)sum << 23);
  return y <= LOWEST ? Floats{} : result;
#endif
}

// e^(x * scale) of x <= 0 and a positive scale, for what becomes such numbers: of half precision a rough one
// will do.
template <typename Number>
inline Floats exponential_for(Floats x, float scale) {
  if constexpr (sizeof(Number) < sizeof(float)) return rough_power(x * (scale * LOG2_E));
  return exponential(x * scale);
}

// Of (W,) scores, W whole vectors; a NaN may hide it.
inline float highest_of(const float* scores, int64_t wide) {
  Floats most = load(scores);
  for (int64_t i = LANES; i < wide; i += LANES) most = higher(load(scores + i), most);
  return highest_in(most);
}

}  // namespace
