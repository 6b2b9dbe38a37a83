// Functions of one number, for loops that the compiler turns into vector instructions.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace treefold {

inline float exponential(float x) {
  // 2^f = 1 + f P(f) for f in [-1/2, 1/2], to 9e-8 of it: the best polynomial of its degree.
  float power = x * 1.44269504f;
  power = power < -126.0f ? -126.0f : power;  // comparisons that keep NaN
  power = power > 128.0f ? 128.0f : power;    // 2^128 is infinity
  const float whole = std::nearbyint(power), f = power - whole;
  const float series =
      0.693147f + f * (0.24022242f + f * (0.055507336f + f * (0.009671513f + f * 0.0013264727f)));
  const int32_t bits = (static_cast<int32_t>(whole) + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  return (1.0f + f * series) * scale;
}

inline double exponential(double x) { return std::exp(x); }

template <class T>
inline T sigmoid(T x) {
  return T(1) / (T(1) + exponential(-x));
}

inline float hyperbolic_tangent(float x) { return 2.0f * sigmoid(2.0f * x) - 1.0f; }

inline double hyperbolic_tangent(double x) { return std::tanh(x); }

// The normal distribution: its probability below u, and its density there.
template <class T>
struct Normal {
  T below, density;
};

inline Normal<float> normal_at(float u) {
  // Abramowitz and Stegun 7.1.26: the error function to 1.5e-7.
  const float z = std::fabs(u) * 0.70710678f, t = 1.0f / (1.0f + 0.3275911f * z);
  const float e = exponential(-z * z);
  const float tail =
      0.5f * e * t *
      (0.254829592f +
       t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  return {u < 0.0f ? tail : 1.0f - tail, 0.39894228f * e};
}

inline Normal<double> normal_at(double u) {
  return {0.5 * std::erfc(-u * 0.70710678118654752440), 0.39894228040143267794 * std::exp(-u * u / 2)};
}

// A mixture that is exact at both ends.
template <class T>
inline T mixture(T start, T end, T weight) {
  const T step = end - start;
  return weight < T(0.5) ? start + weight * step : end - (T(1) - weight) * step;
}

template <class T>
inline void add(const T* __restrict from, int64_t count, T* __restrict to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace treefold
