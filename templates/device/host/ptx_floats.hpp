// Inline PTX: instructions on floats. Approximations are the nearest number: what a GPU gives is within the ISA's bound of it.
#pragma once

#include "ptx.hpp"

namespace gemmgen {
namespace ptx {

// Floats of 16 bits, alone and two in a register.
struct Half { uint16_t bits; };
struct Brain { uint16_t bits; };
struct Halves { using Part = Half; uint32_t bits; };
struct Brains { using Part = Brain; uint32_t bits; };
template <typename T> constexpr bool IS_PAIR = Same<T, Halves>::value || Same<T, Brains>::value;
template <typename T> constexpr bool IS_SMALL = Same<T, Half>::value || Same<T, Brain>::value || IS_PAIR<T>;

inline float widened(Half a) { return ::float_from_f16(a.bits); }
inline float widened(Brain a) { return bits_as<float>(uint32_t(a.bits) << 16); }
inline void narrow_to(Half& to, float value) { to.bits = ::f16_from_float(value); }
inline void narrow_to(Brain& to, float value) { to.bits = ::bf16_from_float(value); }

template <typename T>
T next_to(T value, bool up) {
  using U = typename WiderOf<sizeof(T) / 2, false>::type;
  if (value == 0) return bits_as<T>(U(1 | (up ? U(0) : U(1) << (BITS<U> - 1))));
  return bits_as<T>(U(bits_as<U>(value) + ((value > 0) == up ? 1 : -1)));
}

// `value`, which is the nearest number to what is larger by something of `error`'s sign, rounded as HOW says.
template <typename T, unsigned HOW>
T directed(T value, double error) {
  constexpr unsigned WAY = HOW & ROUNDING;
  if (WAY == RN || error == 0 || value != value) return value;
  if (__builtin_isinf(value)) return value;
  const bool up = WAY == RP || (WAY == RZ && (value < 0 || (value == 0 && error < 0)));
  return (error > 0) == up ? next_to(value, up) : value;
}

template <unsigned HOW, typename T>
T flush_as(T value) {
  if constexpr (Same<T, float>::value && (HOW & FTZ)) return __builtin_fabsf(value) < 0x1p-126f ? __builtin_copysignf(0.0f, value) : value;
  else return value;
}

template <unsigned HOW, typename T>
T finished(T value) {
  value = flush_as<HOW>(value);
  if (HOW & SAT) value = value > T(1) ? T(1) : value > T(0) ? value : T(0);  // NaN becomes 0
  if constexpr (Same<T, float>::value)
    if (value != value) return bits_as<float>(0x7FFFFFFFu);
  return value;
}

// a * b + c, rounded once. Of f64 to nearest alone.
template <typename T, unsigned HOW>
T fused_number(T a, T b, T c) {
  a = flush_as<HOW>(a), b = flush_as<HOW>(b), c = flush_as<HOW>(c);
  if constexpr (Same<T, float>::value) {
    const float nearest = fmaf(a, b, c);
    if constexpr ((HOW & ROUNDING) == RN) return finished<HOW>(nearest);
    const double product = double(a) * b, sum = product + c, back = sum - product;
    const double lost = (product - (sum - back)) + (c - back), off = sum - nearest;
    if (__builtin_isinf(nearest) && !__builtin_isinf(sum)) {  // beyond the largest, towards which some roundings stay
      const bool up = nearest > 0;
      const bool away = (HOW & ROUNDING) == (up ? RP : RM);
      return finished<HOW>(away ? nearest : __builtin_copysignf(0x1.fffffep127f, nearest));
    }
    return finished<HOW>(directed<float, HOW>(nearest, off != 0 ? off : lost));
  } else {
    static_assert((HOW & ROUNDING) == RN, "inline PTX: f64 rounds to nearest here");
    return finished<HOW>(fma(a, b, c));
  }
}

// The same of small floats: rounded to odd on the way, which leaves the last rounding right.
inline float to_odd(double value) {
  const float nearest = float(value);
  if (nearest == value || value != value || __builtin_isinf(value)) return nearest;
  if (bits_as<uint32_t>(nearest) & 1) return nearest;
  return next_to(nearest, value > nearest);
}

inline double odd_sum(double a, double b) {
  const double sum = a + b, back = sum - a, lost = (a - (sum - back)) + (b - back);
  if (lost == 0 || lost != lost || bits_as<uint64_t>(sum) & 1) return sum;
  return next_to(sum, lost > 0);
}

template <typename T, unsigned HOW>
T fused(T a, T b, T c);

template <typename T, unsigned HOW, typename Compute>
T by_parts(T a, T b, T c, Compute compute) {
  using Part = typename T::Part;
  const Part low = compute(Part{uint16_t(a.bits)}, Part{uint16_t(b.bits)}, Part{uint16_t(c.bits)});
  const Part high =
      compute(Part{uint16_t(a.bits >> 16)}, Part{uint16_t(b.bits >> 16)}, Part{uint16_t(c.bits >> 16)});
  return T{uint32_t(high.bits) << 16 | low.bits};
}

template <typename T, unsigned HOW>
T fused(T a, T b, T c) {
  if constexpr (IS_FLOAT<T>) {
    return fused_number<T, HOW>(a, b, c);
  } else if constexpr (IS_PAIR<T>) {
    using Part = typename T::Part;
    return by_parts<T, HOW>(a, b, c, [](Part x, Part y, Part z) { return fused<Part, HOW>(x, y, z); });
  } else {
    float value = to_odd(odd_sum(double(widened(a)) * widened(b), widened(c)));
    if (HOW & SAT) value = value > 1.0f ? 1.0f : value > 0.0f ? value : 0.0f;
    if (HOW & RELU) value = value != value ? value : value > 0.0f ? value : 0.0f;
    T result;
    narrow_to(result, value);
    return result;
  }
}

template <typename T, unsigned HOW> T fma_(T a, T b, T c) { return fused<T, HOW>(a, b, c); }

template <typename T>
T one() {
  if constexpr (IS_FLOAT<T>) return T(1);
  else if constexpr (Same<T, Half>::value) return T{0x3C00};
  else if constexpr (Same<T, Brain>::value) return T{0x3F80};
  else if constexpr (Same<T, Halves>::value) return T{0x3C003C00};
  else return T{0x3F803F80};
}

template <typename T>
T negated(T a) {
  if constexpr (IS_FLOAT<T>) return -a;
  else if constexpr (IS_PAIR<T>) return T{a.bits ^ 0x80008000u};
  else return T{uint16_t(a.bits ^ 0x8000u)};
}

template <typename T>
T magnitude(T a) {
  if constexpr (Same<T, float>::value) return __builtin_fabsf(a);
  else if constexpr (Same<T, double>::value) return __builtin_fabs(a);
  else if constexpr (IS_PAIR<T>) return T{a.bits & 0x7FFF7FFFu};
  else return T{uint16_t(a.bits & 0x7FFFu)};
}

template <typename T>
T minus_zero() {
  if constexpr (IS_FLOAT<T>) return T(-0.0);
  else return negated(T{});
}

// -0 added keeps the sign of a product that is 0.
template <typename T, unsigned HOW> T sum_of(T a, T b) { return fused<T, HOW>(a, one<T>(), b); }
template <typename T, unsigned HOW> T product_of(T a, T b) { return fused<T, HOW>(a, b, minus_zero<T>()); }

template <typename T, unsigned HOW> T quotient_of(T a, T b) { return finished<HOW>(T(flush_as<HOW>(a) / flush_as<HOW>(b))); }
template <typename T, unsigned HOW> T rcp(T a) { return finished<HOW>(T(T(1) / flush_as<HOW>(a))); }
template <typename T, unsigned HOW> T sqrt_(T a) { return finished<HOW>(T(::sqrt(double(flush_as<HOW>(a))))); }
template <typename T, unsigned HOW> T rsqrt_(T a) { return finished<HOW>(T(1.0 / ::sqrt(double(flush_as<HOW>(a))))); }
template <typename T, unsigned HOW> T ex2(T a) { return finished<HOW>(T(::exp2(double(flush_as<HOW>(a))))); }
template <typename T, unsigned HOW> T lg2(T a) { return finished<HOW>(T(::log2(double(flush_as<HOW>(a))))); }
template <typename T, unsigned HOW> T sin_(T a) { return finished<HOW>(T(::sin(double(flush_as<HOW>(a))))); }
template <typename T, unsigned HOW> T cos_(T a) { return finished<HOW>(T(::cos(double(flush_as<HOW>(a))))); }
template <typename T, unsigned HOW> T tanh_(T a) { return finished<HOW>(T(::tanh(double(flush_as<HOW>(a))))); }
template <typename T, unsigned HOW> T copysign_(T a, T b) { return __builtin_signbit(a) ? -magnitude(b) : magnitude(b); }

// Of a number and NaN the number, with .NaN NaN; -0 is less than +0.
template <typename T, unsigned HOW>
T smaller_of(T a, T b) {
  if constexpr (IS_PAIR<T>) {
    using Part = typename T::Part;
    return by_parts<T, HOW>(a, b, T{}, [](Part x, Part y, Part) { return smaller_of<Part, HOW>(x, y); });
  } else if constexpr (IS_SMALL<T>) {
    T result;
    narrow_to(result, smaller_of<float, HOW>(widened(a), widened(b)));
    return result;
  } else {
    a = flush_as<HOW>(a), b = flush_as<HOW>(b);
    if ((HOW & NANS) && (a != a || b != b)) return finished<HOW>(T(a != a ? a : b));
    if (a != a) return finished<HOW>(b);
    if (b != b) return a;
    if (a == b) return __builtin_signbit(a) ? a : b;
    return a < b ? a : b;
  }
}

template <typename T, unsigned HOW>
T larger_of(T a, T b) {
  const T larger = negated(smaller_of<T, HOW>(negated(a), negated(b)));
  if constexpr (IS_FLOAT<T>) {
    return larger != larger ? finished<0>(larger) : larger;
  } else if constexpr (IS_PAIR<T>) {
    using Part = typename T::Part;
    return by_parts<T, HOW>(a, b, T{}, [](Part x, Part y, Part) { return larger_of<Part, HOW>(x, y); });
  } else {
    return widened(larger) != widened(larger) ? T{0x7FFF} : larger;
  }
}

}  // namespace ptx
}  // namespace gemmgen
