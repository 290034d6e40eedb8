// The conversions of templates/device/convert.cu for a host, in integer arithmetic: to nearest, ties to even.
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

inline int __float2int_rn(float value) { return int(__builtin_rint(value)); }
