// Inline PTX: cvt, between integers and floats of all sizes.
#pragma once

#include "ptx.hpp"

namespace gemmgen {
namespace ptx {

template <typename T>
constexpr bool IS_INTEGER = !IS_FLOAT<T> && !IS_SMALL<T>;

template <unsigned HOW>
double rounded(double value) {
  constexpr unsigned WAY = HOW & ROUNDING;
  return WAY == RZ ? __builtin_trunc(value) : WAY == RM ? __builtin_floor(value) : WAY == RP ? __builtin_ceil(value) : __builtin_rint(value);
}

// NaN is 0, and of 64 bits, on either side, the number whose highest bit alone is set. What is too large is the largest.
template <typename To, typename From, unsigned HOW>
To integer_of(From value) {
  constexpr bool WIDE_ONE = sizeof(From) == 8 || sizeof(To) == 8;
  if (value != value) return WIDE_ONE ? To(Whole(1) << (BITS<To> - 1)) : To(0);
  return ::gemmgen::saturated<To>(rounded<HOW>(double(flush_as<HOW>(value))));
}

// The nearest f32, or as HOW rounds, of a number that f32 may lack. `value` is exact.
template <unsigned HOW>
float single_of(long double value) {
  const float nearest = float(value);
  if (__builtin_isinf(nearest) && !__builtin_isinf(value)) {
    const bool away = (HOW & ROUNDING) == RN || (HOW & ROUNDING) == (value > 0 ? RP : RM);
    return away ? nearest : __builtin_copysignf(0x1.fffffep127f, nearest);
  }
  const long double off = value - nearest;
  return directed<float, HOW>(nearest, off > 0 ? 1 : off < 0 ? -1 : 0);
}

template <unsigned HOW>
double double_of(long double value) {
  const double nearest = double(value);
  const long double off = value - nearest;
  return directed<double, HOW>(nearest, off > 0 ? 1 : off < 0 ? -1 : 0);
}

template <typename To, unsigned HOW>
To small_of(float value) {
  if (HOW & RELU) value = value != value ? value : value > 0.0f ? value : 0.0f;
  if (HOW & SAT) value = value > 1.0f ? 1.0f : value > 0.0f ? value : 0.0f;
  To result;
  narrow_to(result, value);
  constexpr unsigned WAY = HOW & ROUNDING;
  if (WAY == RZ && value == value && __builtin_fabsf(widened(result)) > __builtin_fabsf(value)) --result.bits;
  return result;
}

template <typename To, typename From, unsigned HOW>
To cvt(From value) {
  if constexpr (IS_SMALL<From> && IS_SMALL<To>) {
    return small_of<To, HOW>(widened(value));
  } else if constexpr (IS_SMALL<From>) {
    return cvt<To, float, HOW>(widened(value));
  } else if constexpr (IS_SMALL<To>) {
    if constexpr (Same<From, float>::value) return small_of<To, HOW>(flush_as<HOW>(value));
    else return small_of<To, HOW>(to_odd(double(value)));
  } else if constexpr (IS_FLOAT<From> && IS_INTEGER<To>) {
    return integer_of<To, From, HOW>(value);
  } else if constexpr (IS_FLOAT<From>) {
    if constexpr ((HOW & INTEGRAL) != 0) return finished<HOW>(To(rounded<HOW>(double(flush_as<HOW>(value)))));
    else if constexpr (sizeof(To) < sizeof(From)) return finished<HOW>(single_of<HOW>(value));
    else return finished<HOW>(To(flush_as<HOW>(value)));
  } else if constexpr (Same<To, float>::value) {
    return finished<HOW>(single_of<HOW>(value));
  } else if constexpr (Same<To, double>::value) {
    return finished<HOW>(double_of<HOW>(value));
  } else if constexpr (HOW & SAT) {
    return saturated_sum<To>(value);
  } else {
    return To(value);
  }
}

inline uint32_t cvt_tf32(float value) { return ::tf32_from_float(value); }

// Two numbers of 16 or 8 bits from two of f32; the first is the upper one.
template <typename To, unsigned HOW>
To cvt_pair(float upper, float lower) {
  using Part = typename To::Part;
  return To{uint32_t(small_of<Part, HOW>(upper).bits) << 16 | small_of<Part, HOW>(lower).bits};
}

inline uint16_t cvt_e4m3x2(float upper, float lower) { return uint16_t(::e4m3_from_float(upper) << 8 | ::e4m3_from_float(lower)); }
inline uint16_t cvt_e5m2x2(float upper, float lower) { return uint16_t(::e5m2_from_float(upper) << 8 | ::e5m2_from_float(lower)); }
inline uint32_t halves_of_e4m3x2(uint16_t pair) { return ::halves_from_e4m3(pair); }
inline uint32_t halves_of_e5m2x2(uint16_t pair) { return uint32_t(pair & 0xFF00) << 16 | uint32_t(pair & 0xFF) << 8; }

}  // namespace ptx
}  // namespace gemmgen
