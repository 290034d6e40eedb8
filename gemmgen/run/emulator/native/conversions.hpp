// cvt between integers and floats of all sizes, and between pairs of floats.
#pragma once

#include "integer_numbers.hpp"
#include "numbers.hpp"

namespace gemmgen::numbers {

// ---- To integers ---------------------------------------------------------------------------------------------------

// A whole number as HOW rounds. Without roundsd's instructions the builtins would call libm.
template <unsigned HOW>
inline double integral(double value) {
  constexpr unsigned WAY = HOW & ROUNDING;
#ifdef __SSE4_1__
  if constexpr (WAY == RZ) return __builtin_trunc(value);
  if constexpr (WAY == RM) return __builtin_floor(value);
  if constexpr (WAY == RP) return __builtin_ceil(value);
  return __builtin_nearbyint(value);
#else
  const double size = absolute(value);
  const double nearest = size < 0x1p52 ? (size + 0x1p52) - 0x1p52 : size;
  const bool up = WAY == RP ? value > nearest : WAY == RM ? -value > nearest : false;
  const bool down = WAY == RN ? false : WAY == RZ || (value < 0) == (WAY == RP) ? nearest > size : false;
  const double result = nearest + double(up) - double(down);
  return from_raw<double>(raw(result) | (raw(value) & SIGN<double>));
#endif
}

// The nearest T to a whole number; NaN as the ISA has it: 0, but the sign's bit alone where either side has 64 bits.
template <Integer To, bool WIDE_NAN>
constexpr To saturated(double value) {
  constexpr To LEAST = std::numeric_limits<To>::min(), LARGEST = std::numeric_limits<To>::max();
  constexpr To OF_NAN = WIDE_NAN ? To(Unsigned<To>(1) << (WIDTH<To> - 1)) : To(0);
  if constexpr (sizeof(To) == 8) {
    constexpr double END = IS_SIGNED<To> ? 0x1p63 : 0x1p64;
    const bool small = value < double(LEAST), large = value >= END, fits = !small & !large & (value == value);
    const To inside = To(fits ? value : 0.0);
    return value != value ? OF_NAN : large ? LARGEST : small ? LEAST : inside;
  } else {
    double clamped = value > double(LARGEST) ? double(LARGEST) : value < double(LEAST) ? double(LEAST) : value;
    clamped = value != value ? 0.0 : clamped;
    To result;
    if constexpr (std::is_same_v<To, uint32_t>) result = uint32_t(int32_t(clamped - 0x1p31)) ^ 0x80000000u;  // AVX2 has no other
    else result = To(int32_t(clamped));
    return value != value ? OF_NAN : result;
  }
}

// ---- From integers -------------------------------------------------------------------------------------------------

template <typename To, unsigned HOW, Integer From>
constexpr To real_from(From value) {
  const To nearest = To(value);
  if constexpr ((HOW & ROUNDING) == RN) {
    return nearest;
  } else {
    const __int128 back = __int128(nearest), exact = value;
    return directed<HOW>(nearest, absolute(back) < absolute(exact), absolute(back) > absolute(exact));
  }
}

template <Integer From>
constexpr float odd_float_from(From value) {
  const float nearest = float(value);
  const __int128 back = __int128(nearest), exact = value;
  return to_odd(nearest, absolute(back) < absolute(exact), absolute(back) > absolute(exact));
}

// cvt.sat between integers.
template <Integer To, Integer From>
constexpr To clamped_integer(From value) {
  using ToLimits = std::numeric_limits<To>;
  using FromLimits = std::numeric_limits<From>;
  if constexpr (uint64_t(FromLimits::max()) > uint64_t(ToLimits::max())) value = value > From(ToLimits::max()) ? From(ToLimits::max()) : value;
  if constexpr (IS_SIGNED<From> && !IS_SIGNED<To>) value = value < 0 ? From(0) : value;
  else if constexpr (IS_SIGNED<From> && sizeof(To) < sizeof(From)) value = value < From(ToLimits::min()) ? From(ToLimits::min()) : value;
  return To(value);
}

// ---- cvt of single numbers -----------------------------------------------------------------------------------------

// Of an f32 .ftz flushes the operand and the result; a result of f16 is kept.
template <typename To, typename From, unsigned HOW = RN>
inline To cvt(From value) {
  constexpr unsigned UNFLUSHED = HOW & ~unsigned(FTZ), ROUNDED = UNFLUSHED & ~unsigned(INTEGRAL);
  if constexpr (IS_SMALL<From>) {
    if constexpr (IS_SMALL<To>) return cvt<To, float, UNFLUSHED>(widen(value));
    else return cvt<To, float, HOW>(widen(value));
  } else if constexpr (IS_REAL<From> && Integer<To>) {
    return saturated<To, sizeof(From) == 8 || sizeof(To) == 8>(integral<HOW>(double(flushed<HOW>(value))));
  } else if constexpr (IS_REAL<From> && IS_SMALL<To>) {
    if constexpr ((HOW & INTEGRAL) != 0) return narrow<To, ROUNDED & ~unsigned(ROUNDING)>(float(integral<HOW>(double(flushed<HOW>(value)))));
    else if constexpr (std::is_same_v<From, float>) return narrow<To, ROUNDED>(flushed<HOW>(value));
    else return narrow<To, ROUNDED>(odd_float(value));
  } else if constexpr (IS_REAL<From>) {
    if constexpr ((HOW & INTEGRAL) != 0) return finished<HOW>(To(integral<HOW>(double(flushed<HOW>(value)))));
    else if constexpr (sizeof(To) < sizeof(From)) return finished<HOW>(narrowed<To, HOW>(value));
    else return finished<HOW>(To(flushed<HOW>(value)));
  } else if constexpr (IS_SMALL<To>) {
    return narrow<To, ROUNDED>(odd_float_from(value));
  } else if constexpr (IS_REAL<To>) {
    return finished<HOW>(real_from<To, HOW>(value));
  } else if constexpr ((HOW & SAT) != 0) {
    return clamped_integer<To>(value);
  } else {
    return To(value);
  }
}

// cvt.rna.tf32.f32 and its like: 10 bits of fraction are kept.
template <unsigned HOW = RNA>
constexpr uint32_t cvt_tf32(float value) {
  constexpr unsigned WAY = HOW & ROUNDING;
  const uint32_t bits = raw(limited<HOW>(value)), magnitude = bits & 0x7FFFFFFF;
  const uint32_t added = WAY == RNA ? 0x1000 : WAY == RN ? 0xFFF + (magnitude >> 13 & 1) : 0;
  uint32_t result = (magnitude + (magnitude < 0x7F800000 ? added : 0)) & ~0x1FFFu;
  if constexpr ((HOW & SATFINITE) != 0) result = result >= 0x7F800000 ? 0x7F7FE000 : result;
  return magnitude > 0x7F800000 ? 0x7FFFFFFF : result | (bits & 0x80000000);
}

// ---- Pairs: the first operand becomes the upper part ----------------------------------------------------------------

template <unsigned HOW = RN>
constexpr F16x2 cvt_f16x2(float upper, float lower) { return {joined(narrow<F16, HOW>(upper), narrow<F16, HOW>(lower))}; }
template <unsigned HOW = RN>
constexpr BF16x2 cvt_bf16x2(float upper, float lower) { return {joined(narrow<BF16, HOW>(upper), narrow<BF16, HOW>(lower))}; }

// To E4M3, E5M2, E2M3, E3M2 (a byte each) and E2M1 (4 bits each). All imply .satfinite.
template <const Format& TO, unsigned HOW = RN>
constexpr uint16_t cvt_codes(float upper, float lower) {
  constexpr int PLACE = TO.sign_place == 3 ? 4 : 8;
  return uint16_t(encoded<TO, HOW | SATFINITE>(limited<HOW>(upper)) << PLACE | encoded<TO, HOW | SATFINITE>(limited<HOW>(lower)));
}
template <const Format& TO, unsigned HOW = RN>
constexpr uint16_t cvt_codes(F16x2 pair) {
  return cvt_codes<TO, HOW>(widen(upper<F16>(pair.bits)), widen(lower<F16>(pair.bits)));
}

// A code's value as f16, which has all of them.
template <const Format& FROM, unsigned HOW = RN>
constexpr F16 decoded(uint32_t code) {
  constexpr uint32_t SIGN_BIT = 1u << FROM.sign_place;
  const uint32_t magnitude = code & (SIGN_BIT - 1), sign = (code & SIGN_BIT) != 0 ? 0x8000u : 0u;
  const uint32_t field = magnitude >> FROM.fraction, fraction = magnitude & ((1u << FROM.fraction) - 1);
  const uint32_t significand = fraction | (field > 0 ? 1u << FROM.fraction : 0u);
  const uint32_t scale = (uint32_t(127 - FROM.bias - FROM.fraction) + (field > 0 ? field : 1)) << 23;  // of its last bit
  uint32_t result = nearest_f16(float(int32_t(significand)) * from_raw<float>(scale));
  if constexpr (FROM.infinite > FROM.largest) result = magnitude == FROM.infinite ? 0x7C00 : result;
  if constexpr (FROM.nan > FROM.largest) result = magnitude > FROM.infinite ? 0x7FFF : result | sign;
  else result |= sign;
  if constexpr ((HOW & RELU) != 0) result = result > 0x8000 || result == 0x8000 ? 0 : result;
  return F16{uint16_t(result)};
}
template <const Format& FROM, unsigned HOW = RN>
constexpr F16x2 cvt_from_codes(uint16_t codes) {
  constexpr int PLACE = FROM.sign_place == 3 ? 4 : 8;
  return {joined(decoded<FROM, HOW>(uint32_t(codes) >> PLACE), decoded<FROM, HOW>(codes))};
}

// ue8m0: a power of two, the exponent's field of an f32, upwards with RP. Signs are dropped, 0xFF is NaN.
template <unsigned HOW>
constexpr uint32_t power_code(float value) {
  const uint32_t magnitude = magnitude_bits(value);
  const bool up = (HOW & ROUNDING) == RP && (magnitude & 0x7FFFFF) != 0 && magnitude > 0x400000 && magnitude < 0x7F800000;
  const uint32_t code = (magnitude >> 23) + (up ? 1 : 0);
  return (HOW & SATFINITE) != 0 && magnitude <= 0x7F800000 && code == 0xFF ? 0xFE : code;
}
template <unsigned HOW>
constexpr uint16_t cvt_ue8m0x2(float upper, float lower) { return uint16_t(power_code<HOW>(upper) << 8 | power_code<HOW>(lower)); }
template <unsigned HOW>
constexpr uint16_t cvt_ue8m0x2(BF16x2 pair) {
  return cvt_ue8m0x2<HOW>(widen(upper<BF16>(pair.bits)), widen(lower<BF16>(pair.bits)));
}
constexpr BF16 power_of(uint32_t code) { return BF16{uint16_t(code == 0xFF ? 0x7FFF : code == 0 ? 0x0040 : code << 7)}; }
constexpr BF16x2 cvt_from_ue8m0x2(uint16_t codes) { return {joined(power_of(codes >> 8), power_of(codes & 0xFF))}; }

}  // namespace gemmgen::numbers
