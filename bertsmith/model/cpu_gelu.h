// GELU and its derivative, from tables, on a CPU: as exact as bfloat16 can represent. For inference, a
// rougher one without the derivative.
//
// GELU is x times a share f(x), the normal distribution's below x. Both f and GELU's derivative satisfy
// f(-x) = 1 - f(x), and 1 - f(x) is a polynomial of degree 4 on each half unit from 0 to 7.5, which
// interpolates it at Chebyshev nodes: within 6e-7 (the share) and 4e-6 (the derivative). It knows no rows.
//
// Source: Hendrycks and Gimpel 2016, x times the normal distribution's share below x.

#pragma once

#include "native.h"

namespace {

constexpr int HALF_UNITS = 16, COEFFICIENTS = 5;
typedef float Missing[COEFFICIENTS][HALF_UNITS];

// Of the normal distribution, above x.
alignas(64) constexpr Missing OF_SHARE = {
    {4.01293665e-01f, 2.26627350e-01f, 1.05649777e-01f, 4.00591567e-02f,
     1.22244731e-02f, 2.97976332e-03f, 5.77025057e-04f, 8.84172841e-05f,
     1.06885254e-05f, 1.01708326e-06f, 7.60496022e-08f, 4.46217241e-09f,
     2.05226336e-10f, 7.39225781e-12f, 2.08385812e-13f, 0.0f},
    {-3.86657864e-01f, -3.01137567e-01f, -1.82656318e-01f, -8.62825662e-02f,
     -3.17402408e-02f, -9.09220893e-03f, -2.02799286e-03f, -3.52175382e-04f,
     -4.76097921e-05f, -5.00977012e-06f, -4.10253477e-07f, -2.61406345e-08f,
     -1.29572131e-09f, -4.99486910e-11f, -1.49699068e-12f, 0.0f},
    {4.83311787e-02f, 1.12922855e-01f, 1.14154972e-01f, 7.54942372e-02f,
     3.57083157e-02f, 1.25037991e-02f, 3.29697155e-03f, 6.60955207e-04f,
     1.01346472e-04f, 1.19328188e-05f, 1.08184952e-06f, 7.56721903e-08f,
     4.08961709e-09f, 1.70954431e-10f, 5.53210169e-12f, 0.0f},
    {5.97596616e-02f, 2.19677649e-02f, -1.66595615e-02f, -2.93219388e-02f,
     -2.14530304e-02f, -1.00329211e-02f, -3.30134830e-03f, -7.94492371e-04f,
     -1.42645047e-04f, -1.93320084e-05f, -1.99260830e-06f, -1.57011144e-07f,
     -9.49307655e-09f, -4.41613052e-10f, -1.58395849e-11f, 0.0f},
    {-1.16819674e-02f, -2.27021258e-02f, -1.36295836e-02f, 2.91741366e-04f,
     6.05985802e-03f, 4.74443519e-03f, 2.09278101e-03f, 6.19815197e-04f,
     1.30835906e-04f, 2.02554747e-05f, 2.33767264e-06f, 2.03201068e-07f,
     1.33970115e-08f, 6.73287315e-10f, 2.58890166e-11f, 0.0f},
};
// Of the slope of x times its share, to 1.
alignas(64) constexpr Missing OF_SLOPE = {
    {3.04626644e-01f, 7.74278247e-04f, -1.22661583e-01f, -1.10926151e-01f,
     -5.91897443e-02f, -2.20275335e-02f, -6.01738133e-03f, -1.23381650e-03f,
     -1.92115680e-04f, -2.28730769e-05f, -2.09139762e-06f, -1.47294315e-07f,
     -8.00728461e-09f, -3.36516065e-10f, -1.09460141e-11f, 0.0f},
    {-7.49111652e-01f, -4.32902396e-01f, -7.99575448e-02f, 9.16547701e-02f,
     9.72153842e-02f, 5.05935326e-02f, 1.73755530e-02f, 4.25207522e-03f,
     7.65715027e-04f, 1.03187500e-04f, 1.05096806e-05f, 8.14168914e-07f,
     4.81800271e-08f, 2.18449459e-09f, 7.60491670e-11f, 0.0f},
    {1.90294936e-01f, 3.88161421e-01f, 2.78258115e-01f, 7.07882047e-02f,
     -3.79353650e-02f, -4.45474237e-02f, -2.16399226e-02f, -6.65266067e-03f,
     -1.42573821e-03f, -2.21618291e-04f, -2.55081486e-05f, -2.20106244e-06f,
     -1.43538855e-07f, -7.11403469e-09f, -2.69045120e-10f, 0.0f},
    {2.26125568e-01f, 2.01330371e-02f, -1.33752406e-01f, -1.14927627e-01f,
     -3.15432847e-02f, 1.18313255e-02f, 1.39615322e-02f, 6.14284771e-03f,
     1.66996487e-03f, 3.12481978e-04f, 4.20577671e-05f, 4.16684861e-06f,
     3.08150931e-07f, 1.71673289e-08f, 7.25136062e-10f, 0.0f},
    {-6.85739368e-02f, -1.12628803e-01f, -3.11902035e-02f, 3.88002284e-02f,
     3.56618389e-02f, 8.53549503e-03f, -3.54631664e-03f, -3.35345371e-03f,
     -1.24473753e-03f, -2.84781330e-04f, -4.45817568e-05f, -4.99058933e-06f,
     -4.09042570e-07f, -2.49064573e-08f, -1.13761633e-09f, 0.0f},
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

  // A number is rounded to halves by one whose last bit is a half.
  explicit Place(Floats x) : x(x) {
    constexpr float LAST = HALF_UNITS / 2.0f - 0.25f, HALVES = 3 << 21;
    const Floats far = lower(Floats{} + LAST, magnitude(x)) - 0.25f, raised = far + HALVES;
    number = (Integers)raised;  // its last bits
    t = far - (raised - HALVES);
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

// ---- without a slope ------------------------------------------------------------------------------

// What GELU takes from a positive x, and is of -x: by degrees, around 0, 1/4 to 15/4.
alignas(64) constexpr float TAKEN[4][HALF_UNITS] = {
    {0.00000000e+00f, 1.00321673e-01f, 1.54267743e-01f, 1.69970378e-01f,
     1.58655867e-01f, 1.32063255e-01f, 1.00211903e-01f, 7.01044053e-02f,
     4.55008112e-02f, 2.75052991e-02f, 1.55241778e-02f, 8.19425471e-03f,
     4.04957077e-03f, 1.87522417e-03f, 8.14125990e-04f, 3.31522053e-04f},
    {5.00000000e-01f, 3.04628342e-01f, 1.32507607e-01f, 7.76958128e-04f,
     -8.33135098e-02f, -1.22660823e-01f, -1.27469525e-01f, -1.10927112e-01f,
     -8.52328986e-02f, -5.91906197e-02f, -3.76115702e-02f, -2.20277384e-02f,
     -1.19456481e-02f, -6.01729192e-03f, -2.82165711e-03f, -1.23362837e-03f},
    {-3.99539232e-01f, -3.73688936e-01f, -3.07528079e-01f, -2.16369078e-01f,
     -1.21298760e-01f, -4.04874757e-02f, 1.56269949e-02f, 4.53827009e-02f,
     5.37097231e-02f, 4.84809838e-02f, 3.72396968e-02f, 2.53399685e-02f,
     1.55747570e-02f, 8.74179229e-03f, 4.51131910e-03f, 2.14937679e-03f},
    {1.29112666e-02f, 6.31117970e-02f, 1.09495543e-01f, 1.28867477e-01f,
     1.20608121e-01f, 9.26062465e-02f, 5.67273311e-02f, 2.37767659e-02f,
     2.10397542e-04f, -1.24782892e-02f, -1.63350776e-02f, -1.48088988e-02f,
     -1.10794660e-02f, -7.22975982e-03f, -4.21961211e-03f, -2.24761339e-03f},
};

// The normal distribution's share below x within 6e-6, and farther out than 4 within 4e-5.
inline Floats rough_normal_share(Floats x) {
  const Floats near = higher(lower(x, Floats{} + 4.0f), Floats{} - 4.0f);
  Floats square = near * near;
  Floats sum = square * 8.063436e-11f - 7.0034796e-9f;
  sum = sum * square + 2.7161599e-7f;
  sum = sum * square - 6.2950053e-6f;
  sum = sum * square + 9.8908131e-5f;
  sum = sum * square - 1.1339224e-3f;
  sum = sum * square + 9.8774778e-3f;
  sum = sum * square - 6.6410594e-2f;
  sum = sum * square + 3.9892271e-1f;
  return sum * near + 0.5f;
}

// GELU, by tables within 2e-6, and farther out than 3.87 within 3e-4: enough for numbers of eight bits, or
// products of eleven. Beside products multiplications count most: it takes three, that polynomial eleven.
inline Floats rough_gelu(Floats x) {
  if constexpr (LANES < HALF_UNITS) return x * rough_normal_share(x);
  constexpr float FARTHEST = 3.87f, QUARTERS = 3 << 20;  // whose last bit is a quarter
  const Floats near = lower(magnitude(x), Floats{} + FARTHEST), raised = near + QUARTERS;
  const Floats t = near - (raised - QUARTERS);
  const Integers number = (Integers)raised;  // its last bits
  Floats taken = looked_up(TAKEN[3], number);
#pragma GCC unroll 4
  for (int k = 2; k >= 0; k--) taken = taken * t + looked_up(TAKEN[k], number);
  return higher(Floats{}, x) - taken;  // NaN stays NaN
}

}  // namespace
