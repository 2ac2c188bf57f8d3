// GELU and its slope, from tables, on a CPU: as exact as numbers of bfloat16 can tell. Layers that only
// answer have a rougher one, with no slope, among what happens to their rows (cpu_rows.h).
//
// Below a negative x lies as much of either as is missing above -x. What is missing is a polynomial of
// degree 4 in each half unit from 0 to 7.5, that meets it at Chebyshev's points: within 6e-7 (GELU's
// share) and 4e-6 (its slope). It knows no rows.
//
// Source: Hendrycks and Gimpel 2016, x times the normal distribution's share below x.

#pragma once

#include "native.h"

namespace {

constexpr int HALF_UNITS = 16, COEFFICIENTS = 5;
typedef float Missing[COEFFICIENTS][HALF_UNITS];

// Of the normal distribution, above x.
alignas(64) constexpr Missing OF_SHARE = {
    {4.01293674e-01f, 2.26627352e-01f, 1.05649774e-01f, 4.00591569e-02f,
     1.22244727e-02f, 2.97976323e-03f, 5.77025042e-04f, 8.84172852e-05f,
     1.06885258e-05f, 1.01708324e-06f, 7.60496052e-08f, 4.46217245e-09f,
     2.05226342e-10f, 7.39225778e-12f, 2.08385816e-13f, 0.0f},
    {-1.93328933e-01f, -1.50568790e-01f, -9.13281583e-02f, -4.31412818e-02f,
     -1.58701203e-02f, -4.54610456e-03f, -1.01399641e-03f, -1.76087694e-04f,
     -2.38048966e-05f, -2.50488511e-06f, -2.05126740e-07f, -1.30703175e-08f,
     -6.47860647e-10f, -2.49743455e-11f, -7.48495360e-13f, 0.0f},
    {1.20827951e-02f, 2.82307135e-02f, 2.85387423e-02f, 1.88735589e-02f,
     8.92707888e-03f, 3.12594967e-03f, 8.24242866e-04f, 1.65238804e-04f,
     2.53366185e-05f, 2.98320462e-06f, 2.70462392e-07f, 1.89180473e-08f,
     1.02240432e-09f, 4.27386094e-11f, 1.38302540e-12f, 0.0f},
    {7.46995792e-03f, 2.74597072e-03f, -2.08244526e-03f, -3.66524236e-03f,
     -2.68162878e-03f, -1.25411509e-03f, -4.12668535e-04f, -9.93115439e-05f,
     -1.78306304e-05f, -2.41650114e-06f, -2.49076029e-07f, -1.96263937e-08f,
     -1.18663453e-09f, -5.52016325e-11f, -1.97994813e-12f, 0.0f},
    {-7.30122959e-04f, -1.41888289e-03f, -8.51848980e-04f, 1.82338352e-05f,
     3.78741126e-04f, 2.96527203e-04f, 1.30798817e-04f, 3.87384513e-05f,
     8.17724411e-06f, 1.26596713e-06f, 1.46104536e-07f, 1.27000672e-08f,
     8.37313200e-10f, 4.20804580e-11f, 1.61806353e-12f, 0.0f},
};
// Of the slope of x times its share, to 1.
alignas(64) constexpr Missing OF_SLOPE = {
    {3.04626645e-01f, 7.74278261e-04f, -1.22661583e-01f, -1.10926151e-01f,
     -5.91897440e-02f, -2.20275336e-02f, -6.01738114e-03f, -1.23381652e-03f,
     -1.92115679e-04f, -2.28730764e-05f, -2.09139766e-06f, -1.47294312e-07f,
     -8.00728502e-09f, -3.36516054e-10f, -1.09460143e-11f, 0.0f},
    {-3.74555818e-01f, -2.16451205e-01f, -3.99787717e-02f, 4.58273835e-02f,
     4.86076927e-02f, 2.52967660e-02f, 8.68777605e-03f, 2.12603752e-03f,
     3.82857504e-04f, 5.15937513e-05f, 5.25484018e-06f, 4.07084452e-07f,
     2.40900135e-08f, 1.09224731e-09f, 3.80245831e-11f, 0.0f},
    {4.75737325e-02f, 9.70403518e-02f, 6.95645314e-02f, 1.76970510e-02f,
     -9.48384092e-03f, -1.11368556e-02f, -5.40998071e-03f, -1.66316519e-03f,
     -3.56434561e-04f, -5.54045732e-05f, -6.37703732e-06f, -5.50265610e-07f,
     -3.58847136e-08f, -1.77850868e-09f, -6.72612798e-11f, 0.0f},
    {2.82656965e-02f, 2.51662971e-03f, -1.67190504e-02f, -1.43659534e-02f,
     -3.94291035e-03f, 1.47891569e-03f, 1.74519155e-03f, 7.67855991e-04f,
     2.08745608e-04f, 3.90602479e-05f, 5.25722105e-06f, 5.20856066e-07f,
     3.85188653e-08f, 2.14591614e-09f, 9.06420079e-11f, 0.0f},
    {-4.28587110e-03f, -7.03930031e-03f, -1.94938777e-03f, 2.42501436e-03f,
     2.22886496e-03f, 5.33468452e-04f, -2.21644786e-04f, -2.09590851e-04f,
     -7.77960950e-05f, -1.77988325e-05f, -2.78635972e-06f, -3.11911823e-07f,
     -2.55651612e-08f, -1.55665361e-09f, -7.11010230e-11f, 0.0f},
};

// Of each place its value; that of NaN is some.
inline Floats looked_up(const float (&values)[HALF_UNITS], Integers places) {
#if defined(__GNUC__) && !defined(__clang__)
  if constexpr (LANES == HALF_UNITS) return __builtin_shuffle(load(values), places);
  if constexpr (LANES == HALF_UNITS / 2)
    return __builtin_shuffle(load(values), load(values + LANES), places);
#endif
  Floats found;
  for (int lane = 0; lane < LANES; lane++) found[lane] = values[places[lane] & (HALF_UNITS - 1)];
  return found;
}

// Where x lies in the tables; NaN stays NaN. From 7.5 on nothing is missing.
struct Place {
  Floats x, t;
  Integers number;

  explicit Place(Floats x) : x(x) {
    constexpr float LAST = HALF_UNITS - 0.5f;
    Floats far = (x < 0.0f ? -x : x) * 2.0f;
    far = far > LAST ? Floats{} + LAST : far;
    number = __builtin_convertvector(far, Integers);
    t = far - __builtin_convertvector(number, Floats) - 0.5f;
  }

  // 1 less what is missing.
  Floats there(const Missing& missing) const {
    Floats sum = looked_up(missing[COEFFICIENTS - 1], number);
#pragma GCC unroll 4
    for (int k = COEFFICIENTS - 2; k >= 0; k--) sum = sum * t + looked_up(missing[k], number);
    return x > 0.0f ? 1.0f - sum : sum;
  }

  Floats gelu() const { return x * there(OF_SHARE); }
  Floats slope() const { return there(OF_SLOPE); }
};

}  // namespace
