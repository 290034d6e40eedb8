// Approximations: the nearest number, moved by a seed within the error that the PTX ISA (9.1, sections 9.7.3 and 9.7.4)
// promises. A kernel that needs more than that fails for some seeds. Results of the ISA's tables stay as they are.
#pragma once

#include <cmath>

#include "conversions.hpp"

namespace gemmgen::numbers {

// Which of the results that the ISA allows: a function of the seed and the operands. Seed 0: the nearest number.
struct Wobble {
  uint64_t seed = 0;
};

// -1 to 1; 0 for seed 0. `instruction` tells apart what instructions make of one operand.
constexpr double drawn(Wobble wobble, uint64_t instruction, uint64_t operands) {
  uint64_t mixed = wobble.seed * 0x9E3779B97F4A7C15 ^ instruction << 56 ^ operands;
  mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9;  // splitmix64
  mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB;
  mixed ^= mixed >> 31;
  return wobble.seed == 0 ? 0.0 : double(int64_t(mixed)) * 0x1p-63;
}

// The distance of a float from the next one.
constexpr double ulp(float value) {
  const uint32_t field = magnitude_bits(value) >> 23;
  return from_raw<double>(uint64_t((field > 0 ? field : 1) + 1023 - 150) << 52);
}

template <typename T>
inline T nearest_to(double value) {
  if constexpr (std::is_same_v<T, float>) return float(value);
  else return narrow<T>(odd_float(value));
}
inline double widened(float value) { return value; }
template <typename T> inline double widened(T value) { return widen(value); }

// A T that is no further from `exact` than `error`, or the nearest one where none is so near.
template <typename T>
inline T moved(double exact, double error, double by) {
  const T candidate = nearest_to<T>(exact + by * error);
  return absolute(widened(candidate) - exact) <= error ? candidate : nearest_to<T>(exact);
}

// The same, where T has its nearest number there or 0 or infinity. NaN and these two are not moved.
template <typename T>
inline T approximated(double exact, double error, double by) {
  const T nearest = nearest_to<T>(exact);
  const BitsOf<T> magnitude = magnitude_bits(nearest);
  return magnitude == 0 || magnitude >= Of<T>::INFINITE ? nearest : moved<T>(exact, error, by);
}

enum : uint64_t { OF_RCP = 1, OF_SQRT, OF_RSQRT, OF_DIV, OF_DIV_FULL, OF_EX2, OF_LG2, OF_SIN, OF_COS, OF_TANH };

// ---- f32. HOW is 0 or FTZ ------------------------------------------------------------------------------------------

// "The maximum ulp error is 1."
template <unsigned HOW = 0>
inline float rcp_approximate(float x, Wobble wobble) {
  x = flushed<HOW>(x);
  const double exact = 1.0 / double(x);
  return finished<HOW>(approximated<float>(exact, ulp(float(exact)), drawn(wobble, OF_RCP, raw(x))));
}

// "The maximum relative error is 2^-23."
template <unsigned HOW = 0>
inline float sqrt_approximate(float x, Wobble wobble) {
  x = flushed<HOW>(x);
  const double exact = __builtin_sqrt(double(x));
  return finished<HOW>(approximated<float>(exact, exact * 0x1p-23, drawn(wobble, OF_SQRT, raw(x))));
}

// "The maximum relative error is 2^-22.9."
template <unsigned HOW = 0>
inline float rsqrt_approximate(float x, Wobble wobble) {
  x = flushed<HOW>(x);
  const double exact = 1.0 / __builtin_sqrt(double(x));
  return finished<HOW>(approximated<float>(exact, exact * 0x1.125fp-23, drawn(wobble, OF_RSQRT, raw(x))));
}

constexpr uint64_t both(float a, float b) { return uint64_t(raw(a)) * 0x9E3779B97F4A7C15 + raw(b); }

// div.approx: "for |b| in [2^-126, 2^126], the maximum ulp error is 2. For 2^126 < |b| < 2^128, if a is infinity it
// returns NaN, otherwise 0" with the quotient's sign.
template <unsigned HOW = 0>
inline float div_approximate(float a, float b, Wobble wobble) {
  a = flushed<HOW>(a), b = flushed<HOW>(b);
  const double exact = double(a) / double(b);
  if (absolute(b) > 0x1p126f) {
    const bool number = absolute(a) < std::numeric_limits<float>::infinity() && b == b;
    return number ? from_raw<float>((raw(a) ^ raw(b)) & SIGN<float>) : from_raw<float>(0x7FFFFFFF);
  }
  return finished<HOW>(approximated<float>(exact, 2 * ulp(float(exact)), drawn(wobble, OF_DIV, both(a, b))));
}

// div.full: "the maximum ulp error is 2 across the full range of inputs".
template <unsigned HOW = 0>
inline float div_full(float a, float b, Wobble wobble) {
  a = flushed<HOW>(a), b = flushed<HOW>(b);
  const double exact = double(a) / double(b);
  return finished<HOW>(approximated<float>(exact, 2 * ulp(float(exact)), drawn(wobble, OF_DIV_FULL, both(a, b))));
}

// "The maximum ulp error is 2 ulp from correctly rounded result." 2^0 is 1 by the ISA's table.
template <unsigned HOW = 0>
inline float exp2_approximate(float x, Wobble wobble) {
  x = flushed<HOW>(x);
  const float nearest = float(std::exp2(double(x)));
  // Powers of 2 are exact: NVIDIA's own tanh of f64 counts on that.
  const double by = x == __builtin_floorf(x) ? 0.0 : drawn(wobble, OF_EX2, raw(x));
  const float result = approximated<float>(nearest, 2 * ulp(nearest), by);
  return finished<HOW>(result < 0.0f ? nearest : result);
}

// "The maximum absolute error is 2^-22 in (0.5, 2). Outside of it the maximum relative error is 2^-22."
template <unsigned HOW = 0>
inline float log2_approximate(float x, Wobble wobble) {
  x = flushed<HOW>(x);
  const double exact = std::log2(double(x)), error = x > 0.5f && x < 2.0f ? 0x1p-22 : absolute(exact) * 0x1p-22;
  const bool number = absolute(exact) < std::numeric_limits<double>::infinity();
  return finished<HOW>(number ? moved<float>(exact, error, drawn(wobble, OF_LG2, raw(x))) : float(exact));
}

// "The maximum absolute error is 2^-20.5 in [-2pi, 2pi], 2^-14.7 in [-100pi, 100pi]." Beyond there is no promise: the
// error is taken to grow with the angle.
inline double error_of_angle(double x) {
  constexpr double PI = 3.14159265358979323846;
  const double size = absolute(x), grown = 0x1.3b2cp-15 * size / (100 * PI);
  return size <= 2 * PI ? 0x1.6a09p-21 : size <= 100 * PI ? 0x1.3b2cp-15 : grown < 1 ? grown : 1.0;
}

template <unsigned HOW = 0>
inline float sin_approximate(float x, Wobble wobble) {
  x = flushed<HOW>(x);
  if (x == 0.0f) return x;
  return finished<HOW>(moved<float>(std::sin(double(x)), error_of_angle(x), drawn(wobble, OF_SIN, raw(x))));
}

template <unsigned HOW = 0>
inline float cos_approximate(float x, Wobble wobble) {
  x = flushed<HOW>(x);
  if (x == 0.0f) return 1.0f;
  return finished<HOW>(moved<float>(std::cos(double(x)), error_of_angle(x), drawn(wobble, OF_COS, raw(x))));
}

// "The maximum relative error is 2^-11. Subnormal inputs get passed through." Here 1 is never exceeded.
inline float tanh_approximate(float x, Wobble wobble) {
  if (magnitude_bits(x) < Of<float>::LEAST_NORMAL) return x;
  const double exact = std::tanh(double(x));
  const double by = absolute(x) == std::numeric_limits<float>::infinity() ? 0.0 : drawn(wobble, OF_TANH, raw(x));
  const float result = canonical(moved<float>(exact, absolute(exact) * 0x1p-11, by));
  return result > 1.0f ? 1.0f : result < -1.0f ? -1.0f : result;
}

// ---- f16, bf16 and pairs -------------------------------------------------------------------------------------------

// "The maximum relative error for .f16 is 2^-9.9, for .bf16 2^-7." For bf16 .ftz is part of the name.
template <typename T> requires IS_SMALL<T>
inline T exp2_approximate(T a, Wobble wobble) {
  constexpr bool FLUSHES = std::is_same_v<T, BF16>;
  const T operand = FLUSHES && magnitude_bits(a) < Of<T>::LEAST_NORMAL ? from_raw<T>(raw(a) & SIGN<T>) : a;
  const double x = widen(operand), exact = std::exp2(x);
  const double error = exact * (FLUSHES ? 0x1p-7 : 0x1.125fp-10);
  const T result = approximated<T>(exact, error, x == 0 ? 0.0 : drawn(wobble, OF_EX2, raw(a)));
  return FLUSHES && magnitude_bits(result) < Of<T>::LEAST_NORMAL ? from_raw<T>(0) : result;
}

// "The maximum absolute error for .f16 is 2^-10.987, for .bf16 2^-8."
template <typename T> requires IS_SMALL<T>
inline T tanh_approximate(T a, Wobble wobble) {
  if (magnitude_bits(a) == 0) return a;
  const double exact = std::tanh(double(widen(a))), error = std::is_same_v<T, BF16> ? 0x1p-8 : 0x1.024ap-11;
  const double by = magnitude_bits(a) == Of<T>::INFINITE ? 0.0 : drawn(wobble, OF_TANH, raw(a));
  const T result = moved<T>(exact, error, by);
  const float value = widen(result);
  return value > 1.0f ? narrow<T>(1.0f) : value < -1.0f ? narrow<T>(-1.0f) : result;
}

template <typename T> requires IS_PAIR<T>
inline T exp2_approximate(T a, Wobble wobble) { return by_parts([=](auto x) { return exp2_approximate(x, wobble); }, a); }
template <typename T> requires IS_PAIR<T>
inline T tanh_approximate(T a, Wobble wobble) { return by_parts([=](auto x) { return tanh_approximate(x, wobble); }, a); }

// ---- f64 -----------------------------------------------------------------------------------------------------------

// rcp and rsqrt.approx.ftz.f64 read and write the upper words alone: 20 bits of fraction. The ISA states no error; the
// last bit is moved.
inline double upper_word(double exact, double by) {
  const uint64_t bits = raw(exact), magnitude = bits & ~SIGN<double>;
  if (magnitude > Of<double>::INFINITE) return from_raw<double>(0x7FFFFFFF00000000);
  if (magnitude < Of<double>::LEAST_NORMAL) return from_raw<double>(bits & SIGN<double>);
  if (magnitude == Of<double>::INFINITE) return exact;
  const double target = double(uint32_t(bits)) * 0x1p-32 + 0.5 + by;  // in last bits: -0.5 to 2.5
  return from_raw<double>((bits >> 32 << 32) + (uint64_t(int64_t(target + 1) - 1) << 32));
}
inline double upper_operand(double x) {
  const uint64_t bits = raw(x) >> 32 << 32;
  return from_raw<double>((bits & ~SIGN<double>) < Of<double>::LEAST_NORMAL ? bits & SIGN<double> : bits);
}
inline double rcp_approximate_ftz(double x, Wobble wobble) {
  return upper_word(1.0 / upper_operand(x), drawn(wobble, OF_RCP, raw(x) >> 32));
}
inline double rsqrt_approximate_ftz(double x, Wobble wobble) {
  return upper_word(1.0 / __builtin_sqrt(upper_operand(x)), drawn(wobble, OF_RSQRT, raw(x) >> 32));
}

// rsqrt.approx.f64, a function of software on GPUs: the ISA states no error; it is moved by an ulp.
inline double rsqrt_approximate(double x, Wobble wobble) {
  const double exact = double(1.0L / std::sqrt((long double)x));
  const double by = drawn(wobble, OF_RSQRT, raw(x));
  const bool fixed = !(absolute(exact) < std::numeric_limits<double>::infinity()) || exact == 0;
  return fixed ? exact : from_raw<double>(raw(exact) + (by > 0.5 ? 1 : 0) - (by < -0.5 ? 1 : 0));
}

}  // namespace gemmgen::numbers
