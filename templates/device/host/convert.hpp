// Host twins of the conversions of templates/device/convert.cu, in integer arithmetic: to nearest, ties to even.
#pragma once

#include <stdint.h>
#include <string.h>

namespace gemmgen {

// A binary format: bits of its fraction, the bias of its exponent, its largest number, what stands for more, and NaN.
struct Format {
  int fraction, bias;
  uint32_t largest, beyond, nan;
};

constexpr Format F16_FORMAT{10, 15, 0x7BFF, 0x7C00, 0x7FFF};
constexpr Format BF16_FORMAT{7, 127, 0x7F7F, 0x7F80, 0x7FFF};
constexpr Format E4M3_FORMAT{3, 7, 0x7E, 0x7E, 0x7F};  // these two saturate
constexpr Format E5M2_FORMAT{2, 15, 0x7B, 0x7B, 0x7F};

// The magnitude's code in `format` of the float with these bits, which are without sign and no NaN.
inline uint32_t narrow_magnitude(uint32_t bits, const Format& format) {
  const int least = 1 - format.bias;  // exponent of the smallest number that is not denormal
  const int field = int(bits >> 23), exponent = (field > 0 ? field : 1) - 127;
  const uint32_t significand = (bits & 0x7FFFFF) | (field > 0 ? 0x800000 : 0);
  const int shift = 23 - format.fraction + (exponent < least ? least - exponent : 0);
  if (shift > 24) return 0;  // less than half the smallest
  const uint32_t kept = significand >> shift;
  const uint32_t rounded = (significand + (1u << (shift - 1)) - 1 + (kept & 1)) >> shift;
  const int leading = (exponent < least ? least : exponent) + format.bias - 1;  // `rounded` carries 1 into the exponent
  const uint32_t code = (uint32_t(leading) << format.fraction) + rounded;
  return code > format.largest ? format.beyond : code;
}

inline uint32_t narrow(float value, const Format& format, int sign_place) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return format.nan;
  return narrow_magnitude(magnitude, format) | (bits >> 31) << sign_place;
}

// The value of a code of at most 16 bits, its sign apart, where it is neither Inf nor NaN.
inline float widen_magnitude(uint32_t code, const Format& format) {
  const uint32_t field = code >> format.fraction, fraction = code & ((1u << format.fraction) - 1);
  const uint32_t scale_bits = (uint32_t(127 - format.bias - format.fraction) + (field > 0 ? field : 1)) << 23;
  float scale;  // of the fraction's last bit; a number of f32 that is not denormal
  memcpy(&scale, &scale_bits, sizeof scale);
  return float(int(fraction | (field > 0 ? 1u << format.fraction : 0))) * scale;
}

}  // namespace gemmgen

inline float float_from_f16(unsigned short bits) {
  const uint32_t code = bits & 0x7FFF;
  const float magnitude = code > 0x7C00   ? __builtin_nanf("")
                          : code == 0x7C00 ? __builtin_inff()
                                           : gemmgen::widen_magnitude(code, gemmgen::F16_FORMAT);
  return bits >> 15 ? -magnitude : magnitude;
}

inline float float_from_e4m3(unsigned char bits) {
  const uint32_t code = bits & 0x7F;
  const float magnitude = code == 0x7F ? __builtin_nanf("") : gemmgen::widen_magnitude(code, gemmgen::E4M3_FORMAT);
  return bits >> 7 ? -magnitude : magnitude;
}

inline unsigned short f16_from_float(float value) { return gemmgen::narrow(value, gemmgen::F16_FORMAT, 15); }
inline unsigned short bf16_from_float(float value) { return gemmgen::narrow(value, gemmgen::BF16_FORMAT, 15); }
inline unsigned char e4m3_from_float(float value) { return gemmgen::narrow(value, gemmgen::E4M3_FORMAT, 7); }
inline unsigned char e5m2_from_float(float value) { return gemmgen::narrow(value, gemmgen::E5M2_FORMAT, 7); }

// The nearest number with 10 bits of fraction, ties away from zero.
inline unsigned tf32_from_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return 0x7FFFFFFF;
  return (bits + (magnitude < 0x7F800000 ? 0x1000 : 0)) & ~0x1FFFu;
}

inline unsigned halves_from_e4m3(unsigned short pair) {
  const unsigned low = f16_from_float(float_from_e4m3(static_cast<unsigned char>(pair)));
  const unsigned high = f16_from_float(float_from_e4m3(static_cast<unsigned char>(pair >> 8)));
  return high << 16 | low;
}

// Byte i of the result is that of the eight bytes of a and b which digit i of `selector` names.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = uint64_t(b) << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= unsigned(bytes >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
  return result;
}

namespace gemmgen {

// c plus the products of four bytes; it wraps around at 32 bits.
template <typename A, typename B>
unsigned dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += unsigned(int(static_cast<A>(a >> i)) * int(static_cast<B>(b >> i)));
  return c;
}

}  // namespace gemmgen

inline int __dp4a(int a, int b, int c) {
  return int(gemmgen::dp4a<signed char, signed char>(unsigned(a), unsigned(b), unsigned(c)));
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) { return gemmgen::dp4a<unsigned char, unsigned char>(a, b, c); }
inline int dp4a_us(unsigned a, int b, int c) {
  return int(gemmgen::dp4a<unsigned char, signed char>(a, unsigned(b), unsigned(c)));
}

namespace gemmgen {

// `value`, which is a whole number or NaN: what has no `To` is the nearest one, and NaN is 0, as a GPU has it.
template <typename To>
To saturated(double value) {
  constexpr To LEAST = To(-1) < 0 ? To(1) << (8 * sizeof(To) - 1) : 0, LARGEST = ~LEAST;
  constexpr double END = To(-1) < 0 ? -double(LEAST) : 2.0 * double(To(1) << (8 * sizeof(To) - 1));
  if (!(value == value)) return 0;
  if (value >= END) return LARGEST;
  return value < double(LEAST) ? LEAST : To(value);
}

}  // namespace gemmgen

// To nearest (ties to even), towards zero, down and up.
#define GEMMGEN_TO_INTEGER(from, real, name, to)                                                      \
  inline to __##from##2##name##_rn(real value) { return gemmgen::saturated<to>(__builtin_rint(value)); }  \
  inline to __##from##2##name##_rz(real value) { return gemmgen::saturated<to>(__builtin_trunc(value)); } \
  inline to __##from##2##name##_rd(real value) { return gemmgen::saturated<to>(__builtin_floor(value)); } \
  inline to __##from##2##name##_ru(real value) { return gemmgen::saturated<to>(__builtin_ceil(value)); }
#define GEMMGEN_FROM(from, real)                     \
  GEMMGEN_TO_INTEGER(from, real, int, int)           \
  GEMMGEN_TO_INTEGER(from, real, uint, unsigned)     \
  GEMMGEN_TO_INTEGER(from, real, ll, long long)      \
  GEMMGEN_TO_INTEGER(from, real, ull, unsigned long long)
GEMMGEN_FROM(float, float)
GEMMGEN_FROM(double, double)
#undef GEMMGEN_FROM
#undef GEMMGEN_TO_INTEGER

inline float __int2float_rn(int value) { return float(value); }
inline float __uint2float_rn(unsigned value) { return float(value); }
inline float __ll2float_rn(long long value) { return float(value); }
inline float __ull2float_rn(unsigned long long value) { return float(value); }
inline double __int2double_rn(int value) { return value; }
inline double __uint2double_rn(unsigned value) { return value; }
inline double __ll2double_rn(long long value) { return double(value); }
inline float __double2float_rn(double value) { return float(value); }
