// Inline PTX as the emulator computes it: what gemmgen/run/emulator/ptx/ makes of an `asm` statement calls these. Included
// where a kernel's text has any. A register is its bits, as PTX has it; an instruction says what they mean.
#pragma once

#include <stdint.h>
#include <string.h>

namespace gemmgen {
namespace ptx {

// What an instruction's name says beside its types. Roundings to whole numbers are those of their values.
enum Modifier : unsigned {
  RN = 0, RZ = 1, RM = 2, RP = 3, ROUNDING = 3, RNA = 4,
  FTZ = 8, SAT = 16, NANS = 32, RELU = 64, SATFINITE = SAT,
  LO = 0, HI = 128, WIDE = 256, CLAMP = 0, WRAP = 512, APPROX = 0, FULL = 0, INTEGRAL = 1024,
};

// Constants that stand in the text.
struct Integer { long long value; };
struct Single { uint32_t bits; };
struct Double { uint64_t bits; };
struct Real { double value; };

template <typename A, typename B> struct Same { static constexpr bool value = false; };
template <typename A> struct Same<A, A> { static constexpr bool value = true; };

template <typename To, typename From>
__attribute__((always_inline)) inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "inline PTX: a register of another size than its instruction's type");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// A source operand as the type that its instruction says.
template <typename T, typename R>
__attribute__((always_inline)) inline T as(R from) {
  if constexpr (Same<R, Integer>::value) return bits_as<T>(T(from.value));
  else if constexpr (Same<R, Single>::value) return T(bits_as<float>(from.bits));
  else if constexpr (Same<R, Double>::value) return T(bits_as<double>(from.bits));
  else if constexpr (Same<R, Real>::value) return T(from.value);
  else if constexpr (Same<R, bool>::value) return from;
  else return bits_as<T>(from);
}

// The same of an instruction that takes the low bits of a register that is larger: st and cvt.
template <typename T, typename R>
__attribute__((always_inline)) inline T low_as(R from) {
  if constexpr (Same<R, Integer>::value || Same<R, Single>::value || Same<R, Double>::value || Same<R, Real>::value) return as<T>(from);
  else if constexpr (sizeof(T) == 1) return bits_as<T>(uint8_t(from));
  else if constexpr (sizeof(T) == 2) return bits_as<T>(uint16_t(from));
  else if constexpr (sizeof(T) == 4) return bits_as<T>(uint32_t(from));
  else return bits_as<T>(from);
}

template <typename R, typename T>
__attribute__((always_inline)) inline void put(R& to, T value) {
  if constexpr (Same<R, bool>::value) to = bool(value);
  else to = bits_as<R>(value);
}

// Into a register that may be larger: ld and cvt extend, by the sign where the type has one.
template <typename R, typename T>
__attribute__((always_inline)) inline void put_wide(R& to, T value) {
  static_assert(sizeof(R) >= sizeof(T), "inline PTX: a register is too small for its instruction's type");
  if constexpr (sizeof(R) == sizeof(T)) to = bits_as<R>(value);
  else to = R(value);
}

// An operand of `asm`, which has the size of its constraint.
template <typename R, typename T>
__attribute__((always_inline)) inline R take(const T& value) {
  static_assert(sizeof(T) == sizeof(R), "inline PTX: an operand of another size than its constraint");
  R bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
template <typename R, typename T>
__attribute__((always_inline)) inline void give(T& to, R bits) {
  static_assert(sizeof(T) == sizeof(R), "inline PTX: an operand of another size than its constraint");
  memcpy(&to, &bits, sizeof bits);
}

template <typename T> constexpr bool IS_FLOAT = Same<T, float>::value || Same<T, double>::value;
template <typename T> constexpr unsigned BITS = 8 * sizeof(T);
template <unsigned BYTES, bool SIGNED> struct WiderOf { using type = unsigned __int128; };
template <> struct WiderOf<8, true> { using type = __int128; };
template <> struct WiderOf<4, true> { using type = int64_t; };
template <> struct WiderOf<4, false> { using type = uint64_t; };
template <> struct WiderOf<2, true> { using type = int32_t; };
template <> struct WiderOf<2, false> { using type = uint32_t; };
template <typename T> using Wider = typename WiderOf<sizeof(T), (T(-1) < T(0))>::type;

// Integers, which wrap around.
using Whole = unsigned long long;

template <typename T>
T saturated_sum(__int128 sum) {
  constexpr __int128 LEAST = T(-1) < T(0) ? -(__int128(1) << (BITS<T> - 1)) : 0;
  constexpr __int128 LARGEST = LEAST + ((__int128(1) << BITS<T>) - 1);
  return T(sum < LEAST ? LEAST : sum > LARGEST ? LARGEST : sum);
}

}  // namespace ptx
}  // namespace gemmgen

#include "ptx_floats.hpp"
#include "ptx_integers.hpp"
#include "ptx_convert.hpp"
#include "ptx_memory.hpp"
