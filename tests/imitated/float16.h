// Products of float16 vectors (AVX512-FP16) by those of float32, for a processor without them: included
// before a source, it takes the place of the four instructions that sources use.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, the instructions by
// name.

#pragma once

#if defined(IMITATED_FLOAT16)

#include <immintrin.h>

#define __AVX512FP16__ 1

namespace imitated {

constexpr int NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

// a * b + c, rounded once. Of the two float32 numbers about a sum that is none the odd one is taken,
// which is on the same side of the middle between two float16 numbers as the sum.
inline __m256i add_product(__m256i a, __m256i b, __m256i c) {
  const __m512 first = _mm512_cvtph_ps(a), second = _mm512_cvtph_ps(b), third = _mm512_cvtph_ps(c);
  const __m512 near = _mm512_fmadd_ps(first, second, third);
  constexpr int DOWN = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  constexpr int UP = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
  const __m512 below = _mm512_fmadd_round_ps(first, second, third, DOWN);
  const __m512 above = _mm512_fmadd_round_ps(first, second, third, UP);
  const __mmask16 is_between = _mm512_cmp_ps_mask(below, above, _CMP_LT_OQ);
  const __mmask16 is_odd = _mm512_test_epi32_mask((__m512i)below, _mm512_set1_epi32(1));
  const __m512 odd = _mm512_mask_blend_ps(is_odd, above, below);
  return _mm512_cvtps_ph(_mm512_mask_blend_ps(is_between, near, odd), NEAREST);
}

inline __m512i add_products(__m512i a, __m512i b, __m512i c) {
  const __m256i low = add_product(
      _mm512_castsi512_si256(a), _mm512_castsi512_si256(b), _mm512_castsi512_si256(c));
  const __m256i high = add_product(
      _mm512_extracti64x4_epi64(a, 1), _mm512_extracti64x4_epi64(b, 1),
      _mm512_extracti64x4_epi64(c, 1));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

}  // namespace imitated

#define __m512h __m512i
#define __m256h __m256i
#define _mm512_loadu_ph(place) _mm512_loadu_si512(place)
#define _mm512_cvtxps_ph(numbers) _mm512_cvtps_ph(numbers, imitated::NEAREST)
#define _mm512_cvtxph_ps(halves) _mm512_cvtph_ps(halves)
#define _mm512_fmadd_ph(a, b, c) imitated::add_products(a, b, c)

#endif
