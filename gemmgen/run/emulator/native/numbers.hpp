// Scalar arithmetic of PTX instructions on floats. It stands alone. Common functions are small and free of
// branches, because their callers loop over the lanes of a warp and want vectors. Not for -ffast-math.
//
// A template's HOW is the instruction's modifiers, or'ed: add<RZ | FTZ>(a, b) is add.rz.ftz.f32, result and operands
// flushed, NaN made NVIDIA's.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace gemmgen::numbers {

enum How : unsigned {
  RN = 0,  // to nearest, ties to even
  RZ = 1,
  RM = 2,
  RP = 3,
  RNA = 4,  // to nearest, ties away from zero
  ROUNDING = 7,
  FTZ = 1 << 3,
  SAT = 1 << 4,
  RELU = 1 << 5,
  SATFINITE = 1 << 6,
  NANS = 1 << 7,      // .NaN of min and max
  ABSOLUTE = 1 << 8,  // .abs of min and max
  XORSIGN = 1 << 9,
  INTEGRAL = 1 << 10,  // of cvt: INTEGRAL | RZ is .rzi
};

// Floats of 16 bits, alone and two in a register.
struct F16 { uint16_t bits; };
struct BF16 { uint16_t bits; };
struct F16x2 { using Part = F16; uint32_t bits; };
struct BF16x2 { using Part = BF16; uint32_t bits; };

template <typename T> constexpr bool IS_SMALL = std::is_same_v<T, F16> || std::is_same_v<T, BF16>;
template <typename T> constexpr bool IS_PAIR = std::is_same_v<T, F16x2> || std::is_same_v<T, BF16x2>;
template <typename T> constexpr bool IS_REAL = std::is_same_v<T, float> || std::is_same_v<T, double>;

#if __LDBL_MANT_DIG__ == 113
using Quad = long double;
#else
using Quad = __float128;
#endif
using Bits128 = unsigned __int128;

// What belongs to a type: its bits, and a type that holds its products and the remainders of its quotients exactly.
template <typename T> struct Of { using Bits = std::make_unsigned_t<T>; };
template <> struct Of<float> {
  using Bits = uint32_t; using Wide = double;
  static constexpr Bits INFINITE = 0x7F800000, NAN_BITS = 0x7FFFFFFF, ONE = 0x3F800000, LEAST_NORMAL = 0x00800000;
};
template <> struct Of<double> {
  using Bits = uint64_t; using Wide = Quad;
  static constexpr Bits INFINITE = 0x7FF0000000000000, NAN_BITS = 0x7FFFFFFFFFFFFFFF, LEAST_NORMAL = 0x0010000000000000;
};
template <> struct Of<F16> {
  using Bits = uint16_t;
  static constexpr Bits INFINITE = 0x7C00, NAN_BITS = 0x7FFF, LEAST_NORMAL = 0x0400;
};
template <> struct Of<BF16> {
  using Bits = uint16_t;
  static constexpr Bits INFINITE = 0x7F80, NAN_BITS = 0x7FFF, LEAST_NORMAL = 0x0080;
};
template <> struct Of<Quad> { using Bits = Bits128; };

template <typename T> using BitsOf = typename Of<T>::Bits;
template <typename T> using WideOf = typename Of<T>::Wide;
template <typename T> constexpr unsigned WIDTH = 8 * sizeof(T);
template <typename T> constexpr BitsOf<T> SIGN = BitsOf<T>(BitsOf<T>(1) << (WIDTH<T> - 1));

template <typename T> constexpr BitsOf<T> raw(T value) { return std::bit_cast<BitsOf<T>>(value); }
template <typename T> constexpr T from_raw(BitsOf<T> bits) { return std::bit_cast<T>(bits); }
template <typename T> constexpr BitsOf<T> magnitude_bits(T value) { return BitsOf<T>(raw(value) & BitsOf<T>(~SIGN<T>)); }
template <typename T> constexpr bool is_nan(T value) { return magnitude_bits(value) > Of<T>::INFINITE; }

// NaN as NVIDIA's f32 instructions give it. Those of f64 keep a payload.
constexpr float canonical(float value) { return value != value ? from_raw<float>(0x7FFFFFFF) : value; }
constexpr double canonical(double value) { return value; }

// .ftz: of f32 and f16 alone.
template <unsigned HOW, typename T>
constexpr T flushed(T value) {
  if constexpr ((HOW & FTZ) != 0 && !std::is_same_v<T, double>) {
    return from_raw<T>(magnitude_bits(value) < Of<T>::LEAST_NORMAL ? BitsOf<T>(raw(value) & SIGN<T>) : raw(value));
  } else {
    return value;
  }
}

// .sat and .relu; with .sat NaN is 0.
template <unsigned HOW, typename T>
constexpr T limited(T value) {
  if constexpr ((HOW & SAT) != 0) value = value > T(1) ? T(1) : value > T(0) ? value : T(0);
  if constexpr ((HOW & RELU) != 0) value = value <= T(0) ? T(0) : value;
  return value;
}

template <unsigned HOW, typename T>
constexpr T finished(T value) { return canonical(limited<HOW>(flushed<HOW>(value))); }

// ---- Rounding ------------------------------------------------------------------------------------------------------

// A number rounded to nearest, moved to what HOW asks for. The exact one is further from zero or nearer to it.
template <unsigned HOW, typename T>
constexpr T directed(T nearest, bool further, bool nearer) {
  constexpr unsigned WAY = HOW & ROUNDING;
  if constexpr (WAY == RN) return nearest;
  const BitsOf<T> bits = raw(nearest);
  const bool negative = (bits & SIGN<T>) != 0;
  const bool outwards = WAY == RZ ? false : negative == (WAY == RM);
  const BitsOf<T> out = further ? BitsOf<T>(1) : BitsOf<T>(0), in = nearer ? BitsOf<T>(~BitsOf<T>(0)) : BitsOf<T>(0);
  return from_raw<T>(BitsOf<T>(bits + (outwards ? out : in)));
}

template <typename W> constexpr W absolute(W value) { return value < 0 ? -value : value; }

// `value` as a T, rounded once.
template <typename T, unsigned HOW, typename W>
constexpr T narrowed(W value) {
  const T nearest = T(value);
  if constexpr ((HOW & ROUNDING) == RN) return nearest;
  const W back = absolute(W(nearest)), exact = absolute(value);
  return directed<HOW>(nearest, back < exact, back > exact);
}

// A number that is not exact gets an odd last bit: rounding it again, to 2 bits less or fewer, gives what rounding the
// exact number would.
template <typename T>
constexpr T to_odd(T nearest, bool further, bool nearer) {
  const BitsOf<T> bits = raw(nearest);
  const BitsOf<T> even = BitsOf<T>(BitsOf<T>(bits & 1) - 1);  // a mask
  const BitsOf<T> out = further ? BitsOf<T>(1) : BitsOf<T>(0), step = nearer ? BitsOf<T>(~BitsOf<T>(0)) : out;
  return from_raw<T>(BitsOf<T>(bits + (step & even)));
}

inline float odd_float(double value) {
  const float nearest = float(value);
  const double back = absolute(double(nearest)), exact = absolute(value);
  return to_odd(nearest, back < exact, back > exact);
}

// x + y, to odd. The error of the sum is exact (Knuth's TwoSum).
template <typename W>
constexpr W odd_sum(W x, W y) {
  const W sum = x + y, back = sum - x, lost = (x - (sum - back)) + (y - back);
  const W away = sum > 0 ? lost : -lost;
  return to_odd(sum, away > 0, away < 0);
}

// x + y, rounded to a T once.
template <typename T, unsigned HOW, typename W>
constexpr T rounded_sum(W x, W y) {
  const W sum = odd_sum(x, y);
  const T result = narrowed<T, HOW>(sum);
  if constexpr ((HOW & ROUNDING) == RM) {  // downwards a sum of opposite numbers is -0
    const bool negative = ((raw(x) | raw(y)) & SIGN<W>) != 0;
    return sum == 0 && negative ? -T(0) : result;
  }
  return result;
}

// ---- f32 and f64 ---------------------------------------------------------------------------------------------------

template <unsigned HOW, typename T>
constexpr T sum_of(T a, T b) {
  if constexpr ((HOW & ROUNDING) == RN) return a + b;
  else return rounded_sum<T, HOW>(WideOf<T>(a), WideOf<T>(b));
}

template <unsigned HOW, typename T>
constexpr T product_of(T a, T b) {
  if constexpr ((HOW & ROUNDING) == RN) return a * b;
  else return narrowed<T, HOW>(WideOf<T>(a) * WideOf<T>(b));
}

template <unsigned HOW, typename T>
inline T fused(T a, T b, T c) {
#ifdef __FMA__
  if constexpr ((HOW & ROUNDING) == RN) {
    if constexpr (std::is_same_v<T, float>) return __builtin_fmaf(a, b, c);
    else return __builtin_fma(a, b, c);
  }
#endif
  return rounded_sum<T, HOW>(WideOf<T>(a) * WideOf<T>(b), WideOf<T>(c));
}

template <unsigned HOW, typename T>
constexpr T quotient_of(T a, T b) {
  const T quotient = a / b;
  if constexpr ((HOW & ROUNDING) == RN) return quotient;
  const WideOf<T> rest = WideOf<T>(a) - WideOf<T>(quotient) * WideOf<T>(b);  // exact; NaN where nothing was rounded
  const WideOf<T> away = a > 0 ? rest : -rest;
  return directed<HOW>(quotient, away > 0, away < 0);
}

template <unsigned HOW, typename T>
inline T root_of(T a) {
  T root;
  if constexpr (std::is_same_v<T, float>) root = __builtin_sqrtf(a);
  else root = __builtin_sqrt(a);
  const WideOf<T> rest = WideOf<T>(a) - WideOf<T>(root) * WideOf<T>(root);
  return directed<HOW>(root, rest > 0, rest < 0);
}

template <unsigned HOW = RN, typename T> requires IS_REAL<T>
constexpr T add(T a, T b) { return finished<HOW>(sum_of<HOW>(flushed<HOW>(a), flushed<HOW>(b))); }
template <unsigned HOW = RN, typename T> requires IS_REAL<T>
constexpr T sub(T a, T b) { return finished<HOW>(sum_of<HOW>(flushed<HOW>(a), -flushed<HOW>(b))); }
template <unsigned HOW = RN, typename T> requires IS_REAL<T>
constexpr T mul(T a, T b) { return finished<HOW>(product_of<HOW>(flushed<HOW>(a), flushed<HOW>(b))); }
template <unsigned HOW = RN, typename T> requires IS_REAL<T>
inline T fma(T a, T b, T c) { return finished<HOW>(fused<HOW>(flushed<HOW>(a), flushed<HOW>(b), flushed<HOW>(c))); }
template <unsigned HOW = RN, typename T> requires IS_REAL<T>
constexpr T div(T a, T b) { return finished<HOW>(quotient_of<HOW>(flushed<HOW>(a), flushed<HOW>(b))); }
template <unsigned HOW = RN, typename T> requires IS_REAL<T>
constexpr T rcp(T a) { return div<HOW>(T(1), a); }
template <unsigned HOW = RN, typename T> requires IS_REAL<T>
inline T sqrt(T a) { return finished<HOW>(root_of<HOW>(flushed<HOW>(a))); }

// ---- f16 and bf16 --------------------------------------------------------------------------------------------------

// A binary format: bits of its fraction, the bias of its exponent, the place of its sign, its largest number, the code
// for infinity (that of the largest number where the format has none), and NaN (likewise).
struct Format {
  int fraction, bias, sign_place;
  uint32_t largest, infinite, nan;
};

constexpr Format F16_FORMAT{10, 15, 15, 0x7BFF, 0x7C00, 0x7FFF};
constexpr Format BF16_FORMAT{7, 127, 15, 0x7F7F, 0x7F80, 0x7FFF};
constexpr Format E4M3{3, 7, 7, 0x7E, 0x7E, 0x7F};
constexpr Format E5M2{2, 15, 7, 0x7B, 0x7C, 0x7F};
constexpr Format E2M3{3, 1, 5, 0x1F, 0x1F, 0x1F};  // NaN becomes the largest number in formats below 8 bits
constexpr Format E3M2{2, 3, 5, 0x1F, 0x1F, 0x1F};
constexpr Format E2M1{1, 1, 3, 0x07, 0x07, 0x07};

template <typename T> constexpr Format FORMAT = std::is_same_v<T, F16> ? F16_FORMAT : BF16_FORMAT;

// The code of `value` in a format, rounded as HOW says.
template <const Format& TO, unsigned HOW>
constexpr uint32_t encoded(float value) {
  constexpr unsigned WAY = HOW & ROUNDING;
  constexpr int LEAST = 1 - TO.bias;  // exponent of the smallest number that is not subnormal
  const uint32_t bits = raw(value), magnitude = bits & 0x7FFFFFFF, sign = bits >> 31;
  const int field = int(magnitude >> 23), exponent = (field > 0 ? field : 1) - 127;
  const uint32_t significand = (magnitude & 0x7FFFFF) | (field > 0 ? 0x800000u : 0u);
  const int missing = exponent < LEAST ? LEAST - exponent : 0;
  const int wanted = 23 - TO.fraction + missing, shift = wanted > 26 ? 26 : wanted;  // beyond 26 nothing changes
  const bool outwards = WAY == RM ? sign != 0 : WAY == RP ? sign == 0 : false;
  const uint32_t half = 1u << (shift - 1), kept = significand >> shift;
  const uint32_t added = WAY == RN ? half - 1 + (kept & 1) : WAY == RNA ? half : outwards ? 2 * half - 1 : 0;
  const uint32_t rounded = (significand + added) >> shift;  // it may carry 1 into the exponent
  const int leading = (exponent < LEAST ? LEAST : exponent) + TO.bias - 1;
  uint32_t code = (uint32_t(leading) << TO.fraction) + rounded;
  const uint32_t beyond = (HOW & SATFINITE) == 0 && (WAY == RN || WAY == RNA || outwards) ? TO.infinite : TO.largest;
  code = code > TO.largest ? beyond : code;
  if constexpr ((HOW & SATFINITE) == 0) code = magnitude == 0x7F800000 ? TO.infinite : code;
  return magnitude > 0x7F800000 ? TO.nan : code | sign << TO.sign_place;
}

// f32 to f16, to nearest: what encoded() gives, in fewer steps.
constexpr uint16_t nearest_f16(float value) {
  const uint32_t bits = raw(value), magnitude = bits & 0x7FFFFFFF;
  const uint32_t normal = (magnitude + 0xFFF + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
  // The last bit of a number near 0.5 is f16's smallest number: the sum is rounded there.
  const uint32_t subnormal = raw(from_raw<float>(magnitude) + 0.5f) - raw(0.5f);
  uint32_t code = magnitude < 0x38800000 ? subnormal : normal;
  code = magnitude >= 0x477FF000 ? 0x7C00 : code;
  return uint16_t(magnitude > 0x7F800000 ? 0x7FFF : code | (bits >> 16 & 0x8000));
}

constexpr uint16_t nearest_bf16(float value) {
  const uint32_t bits = raw(value);
  return uint16_t((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FFF : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// f32 to f16 or bf16.
template <typename T, unsigned HOW = RN>
constexpr T narrow(float value) {
  value = limited<HOW>(value);
  T result;
  if constexpr ((HOW & (ROUNDING | SATFINITE)) != 0) result = T{uint16_t(encoded<FORMAT<T>, HOW>(value))};
  else if constexpr (std::is_same_v<T, F16>) result = T{nearest_f16(value)};
  else result = T{nearest_bf16(value)};
  return flushed<std::is_same_v<T, F16> ? HOW : 0>(result);
}

constexpr float widen(F16 value) {
  const uint32_t magnitude = uint32_t(value.bits & 0x7FFF) << 13, sign = uint32_t(value.bits & 0x8000) << 16;
  // The exponent is 112 too low. What is subnormal becomes the fraction of 2^-14: no f32 that is subnormal, which is slow.
  const uint32_t subnormal = raw(from_raw<float>(magnitude + 0x38800000) - 0x1p-14f);
  const uint32_t finite = magnitude < 0x00800000 ? subnormal : magnitude + 0x38000000;
  return from_raw<float>((magnitude >= 0x0F800000 ? magnitude | 0x7F800000 : finite) | sign);
}
constexpr float widen(BF16 value) { return from_raw<float>(uint32_t(value.bits) << 16); }

template <typename T> constexpr T upper(uint32_t pair) { return T{uint16_t(pair >> 16)}; }
template <typename T> constexpr T lower(uint32_t pair) { return T{uint16_t(pair)}; }
template <typename T> constexpr uint32_t joined(T upper, T lower) { return uint32_t(upper.bits) << 16 | lower.bits; }

// `of` on both parts of pairs: by_parts([](auto x, auto y) { return add<SAT>(x, y); }, a, b).
template <typename F, typename T, typename... Ts>
constexpr T by_parts(F of, T a, Ts... rest) {
  using Part = typename T::Part;
  return T{joined<Part>(of(upper<Part>(a.bits), upper<Part>(rest.bits)...), of(lower<Part>(a.bits), lower<Part>(rest.bits)...))};
}

// bf16 has no .ftz: its subnormal numbers are kept.
template <unsigned HOW, typename T>
constexpr float operand(T value) { return widen(flushed<std::is_same_v<T, F16> ? HOW : 0>(value)); }

// A sum or product of two such numbers is rounded to f32 first, which has bits enough that the second rounding gives
// what one alone would: 24 is at least 2 * 11 + 2. That is not so of fma.
template <unsigned HOW = RN, typename T> requires IS_SMALL<T>
constexpr T add(T a, T b) { return narrow<T, HOW>(operand<HOW>(a) + operand<HOW>(b)); }
template <unsigned HOW = RN, typename T> requires IS_SMALL<T>
constexpr T sub(T a, T b) { return narrow<T, HOW>(operand<HOW>(a) - operand<HOW>(b)); }
template <unsigned HOW = RN, typename T> requires IS_SMALL<T>
constexpr T mul(T a, T b) { return narrow<T, HOW>(operand<HOW>(a) * operand<HOW>(b)); }
template <unsigned HOW = RN, typename T> requires IS_SMALL<T>
inline T fma(T a, T b, T c) {
  const double product = double(operand<HOW>(a)) * double(operand<HOW>(b));
  return narrow<T, HOW>(odd_float(odd_sum(product, double(operand<HOW>(c)))));
}

template <unsigned HOW = RN, typename T> requires IS_PAIR<T>
constexpr T add(T a, T b) { return by_parts([](auto x, auto y) { return add<HOW>(x, y); }, a, b); }
template <unsigned HOW = RN, typename T> requires IS_PAIR<T>
constexpr T sub(T a, T b) { return by_parts([](auto x, auto y) { return sub<HOW>(x, y); }, a, b); }
template <unsigned HOW = RN, typename T> requires IS_PAIR<T>
constexpr T mul(T a, T b) { return by_parts([](auto x, auto y) { return mul<HOW>(x, y); }, a, b); }
template <unsigned HOW = RN, typename T> requires IS_PAIR<T>
inline T fma(T a, T b, T c) { return by_parts([](auto x, auto y, auto z) { return fma<HOW>(x, y, z); }, a, b, c); }

// ---- Signs, extremes, comparisons: floats of any size --------------------------------------------------------------

template <typename T> constexpr bool IS_FLOAT = IS_REAL<T> || IS_SMALL<T>;

template <unsigned HOW = 0, typename T> requires IS_FLOAT<T>
constexpr T neg(T a) { return from_raw<T>(BitsOf<T>(raw(flushed<HOW>(a)) ^ SIGN<T>)); }
template <unsigned HOW = 0, typename T> requires IS_FLOAT<T>
constexpr T abs(T a) { return from_raw<T>(magnitude_bits(flushed<HOW>(a))); }
template <unsigned HOW = 0, typename T> requires IS_PAIR<T>
constexpr T neg(T a) { return by_parts([](auto x) { return neg<HOW>(x); }, a); }
template <unsigned HOW = 0, typename T> requires IS_PAIR<T>
constexpr T abs(T a) { return by_parts([](auto x) { return abs<HOW>(x); }, a); }

// b with the sign of a: PTX's order.
template <typename T> requires IS_FLOAT<T>
constexpr T copysign(T a, T b) { return from_raw<T>(BitsOf<T>(magnitude_bits(b) | (raw(a) & SIGN<T>))); }

// min and max: of a number and NaN the number, with .NaN NaN; -0 is less than +0.
template <bool LARGER, unsigned HOW, typename T>
constexpr T extreme(T first, T second) {
  using U = BitsOf<T>;
  using S = std::make_signed_t<U>;
  U a = raw(flushed<HOW>(first)), b = raw(flushed<HOW>(second));
  const U sign = U((a ^ b) & SIGN<T>);
  if constexpr ((HOW & ABSOLUTE) != 0) a = U(a & U(~SIGN<T>)), b = U(b & U(~SIGN<T>));
  const bool a_nan = U(a & U(~SIGN<T>)) > Of<T>::INFINITE, b_nan = U(b & U(~SIGN<T>)) > Of<T>::INFINITE;
  // As integers, floats are in order where the bits below a sign that is set are turned over.
  const S a_key = S(a ^ (U(S(a) >> (WIDTH<T> - 1)) & U(~SIGN<T>)));
  const S b_key = S(b ^ (U(S(b) >> (WIDTH<T> - 1)) & U(~SIGN<T>)));
  U result = (LARGER ? a_key > b_key : a_key < b_key) ? a : b;
  result = a_nan ? b : b_nan ? a : result;
  if constexpr ((HOW & XORSIGN) != 0) result = U(result | sign);
  const bool nothing = (HOW & NANS) != 0 ? a_nan || b_nan : a_nan && b_nan;
  return from_raw<T>(nothing ? Of<T>::NAN_BITS : result);
}

template <unsigned HOW = 0, typename T> requires IS_FLOAT<T>
constexpr T min(T a, T b) { return extreme<false, HOW>(a, b); }
template <unsigned HOW = 0, typename T> requires IS_FLOAT<T>
constexpr T max(T a, T b) { return extreme<true, HOW>(a, b); }
template <unsigned HOW = 0, typename T> requires IS_FLOAT<T>
constexpr T min(T a, T b, T c) { return min<HOW>(min<HOW>(a, b), c); }
template <unsigned HOW = 0, typename T> requires IS_FLOAT<T>
constexpr T max(T a, T b, T c) { return max<HOW>(max<HOW>(a, b), c); }
template <unsigned HOW = 0, typename T> requires IS_PAIR<T>
constexpr T min(T a, T b) { return by_parts([](auto x, auto y) { return min<HOW>(x, y); }, a, b); }
template <unsigned HOW = 0, typename T> requires IS_PAIR<T>
constexpr T max(T a, T b) { return by_parts([](auto x, auto y) { return max<HOW>(x, y); }, a, b); }

// lo, ls, hi and hs are lt, le, gt and ge of unsigned integers. Those with u hold where an operand is NaN.
enum class Comparison : uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

template <Comparison IS, unsigned HOW = 0, typename T>
constexpr bool compare(T first, T second) {
  using enum Comparison;
  if constexpr (IS_SMALL<T>) {
    return compare<IS>(operand<HOW>(first), operand<HOW>(second));
  } else {
    T a = first, b = second;
    if constexpr (IS_REAL<T>) a = flushed<HOW>(a), b = flushed<HOW>(b);
    if constexpr (IS == eq) return a == b;
    if constexpr (IS == ne) return bool((a < b) | (a > b));
    if constexpr (IS == lt) return a < b;
    if constexpr (IS == le) return a <= b;
    if constexpr (IS == gt) return a > b;
    if constexpr (IS == ge) return a >= b;
    if constexpr (IS == equ) return !bool((a < b) | (a > b));
    if constexpr (IS == neu) return a != b;
    if constexpr (IS == ltu) return !(a >= b);
    if constexpr (IS == leu) return !(a > b);
    if constexpr (IS == gtu) return !(a <= b);
    if constexpr (IS == geu) return !(a < b);
    if constexpr (IS == num) return bool((a == a) & (b == b));
    return bool((a != a) | (b != b));
  }
}

enum class Property : uint8_t { finite, infinite, number, notanumber, normal, subnormal };  // of testp

template <Property IS, typename T> requires IS_REAL<T>
constexpr bool testp(T value) {
  using enum Property;
  const BitsOf<T> magnitude = magnitude_bits(value);
  if constexpr (IS == finite) return magnitude < Of<T>::INFINITE;
  if constexpr (IS == infinite) return magnitude == Of<T>::INFINITE;
  if constexpr (IS == number) return magnitude <= Of<T>::INFINITE;
  if constexpr (IS == notanumber) return magnitude > Of<T>::INFINITE;
  if constexpr (IS == normal) return magnitude >= Of<T>::LEAST_NORMAL && magnitude < Of<T>::INFINITE;
  return magnitude < Of<T>::LEAST_NORMAL && magnitude != 0;  // the ISA counts 0 as neither
}

}  // namespace gemmgen::numbers
