// Scalar arithmetic of PTX instructions on integers and bits. It stands alone but for numbers.hpp; its functions are small and
// free of branches for the same reason.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "numbers.hpp"

namespace gemmgen::numbers {

template <typename T> constexpr bool IS_SIGNED = std::is_signed_v<T>;
template <typename T> using Unsigned = std::make_unsigned_t<T>;
template <typename T> concept Integer = std::is_integral_v<T>;
template <Integer T>
using Doubled = std::conditional_t<sizeof(T) == 8, std::conditional_t<IS_SIGNED<T>, __int128, Bits128>,
                                   std::conditional_t<sizeof(T) == 4, std::conditional_t<IS_SIGNED<T>, int64_t, uint64_t>,
                                                      std::conditional_t<IS_SIGNED<T>, int32_t, uint32_t>>>;

template <Integer T> constexpr T add(T a, T b) { return T(uint64_t(a) + uint64_t(b)); }
template <Integer T> constexpr T sub(T a, T b) { return T(uint64_t(a) - uint64_t(b)); }
template <Integer T> constexpr T neg(T a) { return T(0 - uint64_t(a)); }
template <Integer T> constexpr T abs(T a) { return a < 0 ? neg(a) : a; }
template <Integer T> constexpr T mul_lo(T a, T b) { return T(uint64_t(a) * uint64_t(b)); }
template <Integer T> constexpr Doubled<T> mul_wide(T a, T b) { return Doubled<T>(Doubled<T>(a) * Doubled<T>(b)); }
template <Integer T> constexpr T mul_hi(T a, T b) { return T(mul_wide(a, b) >> WIDTH<T>); }

constexpr int32_t clamped(int64_t value) { return int32_t(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value); }
constexpr int32_t add_sat(int32_t a, int32_t b) { return clamped(int64_t(a) + b); }
constexpr int32_t sub_sat(int32_t a, int32_t b) { return clamped(int64_t(a) - b); }
constexpr int32_t mad_hi_sat(int32_t a, int32_t b, int32_t c) { return clamped(int64_t(mul_hi(a, b)) + c); }

// The 48 bits of a product of the lower 24 bits.
template <Integer T> constexpr int64_t product24(T a, T b) {
  return int64_t(T(uint32_t(a) << 8) >> 8) * int64_t(T(uint32_t(b) << 8) >> 8);
}
template <Integer T> constexpr T mul24_lo(T a, T b) { return T(product24(a, b)); }
template <Integer T> constexpr T mul24_hi(T a, T b) { return T(product24(a, b) >> 16); }
template <Integer T> constexpr T mad24_lo(T a, T b, T c) { return add(mul24_lo(a, b), c); }
template <Integer T> constexpr T mad24_hi(T a, T b, T c) { return add(mul24_hi(a, b), c); }
constexpr int32_t mad24_hi_sat(int32_t a, int32_t b, int32_t c) { return add_sat(mul24_hi(a, b), c); }

template <Integer T> constexpr T min(T a, T b) { return a < b ? a : b; }
template <Integer T> constexpr T max(T a, T b) { return a > b ? a : b; }
template <Integer T> constexpr T min_relu(T a, T b) { return max(min(a, b), T(0)); }
template <Integer T> constexpr T max_relu(T a, T b) { return max(max(a, b), T(0)); }
template <Integer T> constexpr T sad(T a, T b, T c) { return add(a < b ? sub(b, a) : sub(a, b), c); }

// `of` on both halves, as T of 16 bits, of u16x2 and s16x2.
template <Integer T, typename F>
constexpr uint32_t by_halves(F of, uint32_t a, uint32_t b) {
  return uint32_t(uint16_t(of(T(a >> 16), T(b >> 16)))) << 16 | uint16_t(of(T(a), T(b)));
}

// The least number by -1 wraps. By 0 what the GPU gives: all ones, and the dividend as the rest.
template <Integer T>
constexpr T div(T a, T b) {
  const bool negates = IS_SIGNED<T> && b == T(-1);
  const T quotient = T(a / (b == 0 || negates ? T(1) : b));
  return b == 0 ? T(~T(0)) : negates ? neg(a) : quotient;
}
template <Integer T>
constexpr T rem(T a, T b) {
  const bool negates = IS_SIGNED<T> && b == T(-1);
  const T rest = T(a % (b == 0 || negates ? T(1) : b));
  return b == 0 ? a : negates ? T(0) : rest;
}

// Amounts beyond the width leave 0, or the sign.
template <Integer T> constexpr T shl(T a, uint32_t by) { return by < WIDTH<T> ? T(uint64_t(a) << (by & 63)) : T(0); }
template <Integer T> constexpr T shr(T a, uint32_t by) {
  if constexpr (IS_SIGNED<T>) return T(a >> (by < WIDTH<T> ? by : WIDTH<T> - 1));
  else return by < WIDTH<T> ? T(a >> by) : T(0);
}

// The upper word of what is shifted left, the lower one of what is shifted right.
template <bool WRAP> constexpr uint32_t funnel_amount(uint32_t by) { return WRAP ? by & 31 : by > 32 ? 32 : by; }
template <bool WRAP> constexpr uint32_t shf_l(uint32_t low, uint32_t high, uint32_t by) {
  return uint32_t((uint64_t(high) << 32 | low) >> (32 - funnel_amount<WRAP>(by)));
}
template <bool WRAP> constexpr uint32_t shf_r(uint32_t low, uint32_t high, uint32_t by) {
  return uint32_t((uint64_t(high) << 32 | low) >> funnel_amount<WRAP>(by));
}

// `length` bits from the lowest on, of which there may be more than T has.
template <Integer T> constexpr T low_mask(uint32_t length) { return T(~shl(Unsigned<T>(~Unsigned<T>(0)), length)); }

// Bits beyond the field are its sign, or that of a where the field reaches beyond a.
template <Integer T>
constexpr T bfe(T a, uint32_t start, uint32_t length) {
  start &= 0xFF, length &= 0xFF;
  const T field = shr(a, start);
  const uint32_t rest = length < WIDTH<T> ? WIDTH<T> - length : 0;
  if constexpr (IS_SIGNED<T>) return shr(shl(field, rest), rest) & (length == 0 ? T(0) : T(-1));
  else return T(field & low_mask<T>(length));
}

template <Integer T>
constexpr T bfi(T a, T b, uint32_t start, uint32_t length) {
  const T mask = shl(low_mask<T>(length & 0xFF), start & 0xFF);
  return T((b & ~mask) | (shl(a, start & 0xFF) & mask));
}

template <Integer T> constexpr uint32_t popc(T a) { return uint32_t(std::popcount(Unsigned<T>(a))); }
template <Integer T> constexpr uint32_t clz(T a) { return uint32_t(std::countl_zero(Unsigned<T>(a))); }

// The place of the highest bit that is not the sign, all ones without one. .shiftamt: how far left it has to go.
template <bool SHIFT_AMOUNT = false, Integer T>
constexpr uint32_t bfind(T a) {
  const uint32_t zeros = clz(a < 0 ? T(~a) : a);
  return zeros == WIDTH<T> ? ~0u : SHIFT_AMOUNT ? zeros : WIDTH<T> - 1 - zeros;
}

template <Integer T>
constexpr T brev(T value) {
  Unsigned<T> a = Unsigned<T>(value);
#pragma GCC unroll 6
  for (unsigned half = WIDTH<T> / 2; half > 0; half /= 2) {  // swaps halves of the word, of its halves, ...
    const auto ones = Unsigned<T>(~Unsigned<T>(0));
    const auto low = Unsigned<T>(ones / Unsigned<T>((Unsigned<T>(1) << half) + 1));
    a = Unsigned<T>((a >> half & low) | (a & low) << half);
  }
  return T(a);
}

enum class Permute : uint8_t { bytes, f4e, b4e, rc8, ecl, ecr, rc16 };

// Each digit of the selector takes one of eight bytes, or copies of its sign.
constexpr uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t digit = selector >> 4 * i & 15, byte = uint32_t(bytes >> 8 * (digit & 7)) & 0xFF;
    result |= ((digit & 8) != 0 ? (byte >> 7) * 0xFF : byte) << 8 * i;
  }
  return result;
}

// The ISA's table of the modes as selectors, by the lower two bits of c.
template <Permute MODE>
constexpr uint32_t prmt(uint32_t a, uint32_t b, uint32_t c) {
  constexpr uint64_t TABLE = MODE == Permute::f4e   ? 0x6543'5432'4321'3210
                             : MODE == Permute::b4e ? 0x0123'7012'6701'5670
                             : MODE == Permute::rc8 ? 0x3333'2222'1111'0000
                             : MODE == Permute::ecl ? 0x3333'3222'3211'3210
                             : MODE == Permute::ecr ? 0x3210'2210'1110'0000
                                                    : 0x3232'1010'3232'1010;
  if constexpr (MODE == Permute::bytes) return prmt(a, b, c);
  else return prmt(a, b, uint32_t(TABLE >> 16 * (c & 3)) & 0xFFFF);
}

constexpr uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t row = 0; row < 8; ++row)
    result |= (0u - (table >> row & 1)) & ((row & 4) != 0 ? a : ~a) & ((row & 2) != 0 ? b : ~b) & ((row & 1) != 0 ? c : ~c);
  return result;
}

template <bool WRAP, Integer T>
constexpr T szext(T a, uint32_t bits) {
  const uint32_t count = WRAP ? bits & 31 : bits > 32 ? 32 : bits;
  return bfe(a, 0, count);
}

template <bool WRAP>
constexpr uint32_t bmsk(uint32_t start, uint32_t bits) {
  if constexpr (WRAP) start &= 31, bits &= 31;
  return shl(low_mask<uint32_t>(bits), start);
}

// c plus the products of four bytes, of two halves and two bytes. A and B are int8_t or uint8_t.
template <Integer A, Integer B>
constexpr uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c) {
  for (unsigned i = 0; i < 32; i += 8) c += uint32_t(int32_t(A(a >> i)) * int32_t(B(b >> i)));
  return c;
}
template <Integer A, Integer B, bool HIGH>
constexpr uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c) {
  using Half = std::conditional_t<IS_SIGNED<A>, int16_t, uint16_t>;
  for (unsigned i = 0; i < 2; ++i) c += uint32_t(int32_t(Half(a >> 16 * i)) * int32_t(B(b >> (8 * i + (HIGH ? 16 : 0)))));
  return c;
}

// add.cc and addc, sub.cc and subc (whose carry is a borrow), mad.cc and madc: of u32 and u64.
template <Integer T> struct Carried { T value; bool carry; };
template <Integer T> constexpr Carried<T> add_carry(T a, T b, bool carry = false) {
  const T sum = T(a + b), value = T(sum + T(carry));
  return {value, bool((sum < a) | (value < sum))};
}
template <Integer T> constexpr Carried<T> sub_borrow(T a, T b, bool borrow = false) {
  const T difference = T(a - b), value = T(difference - T(borrow));
  return {value, bool((a < b) | (difference < T(borrow)))};
}
template <Integer T> constexpr Carried<T> mad_lo_carry(T a, T b, T c, bool carry = false) { return add_carry(mul_lo(a, b), c, carry); }
template <Integer T> constexpr Carried<T> mad_hi_carry(T a, T b, T c, bool carry = false) { return add_carry(mul_hi(a, b), c, carry); }

}  // namespace gemmgen::numbers
