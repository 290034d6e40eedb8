// Inline PTX: instructions on integers and bits, moves and comparisons.
#pragma once

#include "ptx.hpp"

namespace gemmgen {
namespace ptx {

template <typename T, unsigned HOW>
T add(T a, T b) {
  if constexpr (IS_FLOAT<T> || IS_SMALL<T>) return sum_of<T, HOW>(a, b);
  else if constexpr (HOW & SAT) return saturated_sum<T>(__int128(a) + b);
  else return T(Whole(a) + Whole(b));
}

template <typename T, unsigned HOW>
T sub(T a, T b) {
  if constexpr (IS_FLOAT<T> || IS_SMALL<T>) return sum_of<T, HOW>(a, negated(b));
  else if constexpr (HOW & SAT) return saturated_sum<T>(__int128(a) - b);
  else return T(Whole(a) - Whole(b));
}

template <typename T, unsigned HOW>
auto mul(T a, T b) {
  if constexpr (IS_FLOAT<T> || IS_SMALL<T>) return product_of<T, HOW>(a, b);
  else if constexpr (HOW & WIDE) return Wider<T>(Wider<T>(a) * Wider<T>(b));
  else if constexpr (HOW & HI) return T(Wider<T>(Wider<T>(a) * Wider<T>(b)) >> BITS<T>);
  else return T(Whole(a) * Whole(b));
}

// The third operand of .wide is as large as the result.
template <typename T, unsigned HOW, typename C>
C mad(T a, T b, C c) {
  if constexpr (IS_FLOAT<T>) return fused<T, HOW>(a, b, c);
  else if constexpr (HOW & SAT) return saturated_sum<T>(__int128(mul<T, HOW & ~SAT>(a, b)) + c);
  else return C(Whole(mul<T, HOW>(a, b)) + Whole(c));
}

template <typename T, unsigned HOW>
T mul24(T a, T b) {
  constexpr int REST = 8;
  const auto cut = [](T x) { return (long long)(T(uint32_t(x) << REST)) >> REST; };
  return T(Whole(cut(a) * cut(b)) >> (HOW & HI ? 16 : 0));
}

template <typename T, unsigned HOW>
T sad(T a, T b, T c) {
  return T(Whole(a > b ? Whole(a) - Whole(b) : Whole(b) - Whole(a)) + Whole(c));
}

// By 0 nobody is promised anything; GPUs give ones.
template <typename T, unsigned HOW>
T div(T a, T b) {
  if constexpr (IS_FLOAT<T>) return quotient_of<T, HOW>(a, b);
  else if (b == 0) return T(~T(0));
  else return T(-1) < T(0) && b == T(-1) ? T(0 - Whole(a)) : T(a / b);
}

template <typename T, unsigned HOW>
T rem(T a, T b) {
  return b == 0 ? a : T(-1) < T(0) && b == T(-1) ? T(0) : T(a % b);
}

template <typename T, unsigned HOW>
T neg(T a) {
  if constexpr (IS_FLOAT<T> || IS_SMALL<T>) return flush_as<HOW>(negated(a));
  else return T(0 - Whole(a));
}

template <typename T, unsigned HOW>
T abs(T a) {
  if constexpr (IS_FLOAT<T> || IS_SMALL<T>) return flush_as<HOW>(magnitude(a));
  else return a < 0 ? T(0 - Whole(a)) : a;
}

template <typename T, unsigned HOW>
T min(T a, T b) {
  if constexpr (IS_FLOAT<T> || IS_SMALL<T>) return smaller_of<T, HOW>(a, b);
  else return a < b ? a : b;
}

template <typename T, unsigned HOW>
T max(T a, T b) {
  if constexpr (IS_FLOAT<T> || IS_SMALL<T>) return larger_of<T, HOW>(a, b);
  else return a > b ? a : b;
}

template <typename T, unsigned HOW> T and_(T a, T b) { return T(a & b); }
template <typename T, unsigned HOW> T or_(T a, T b) { return T(a | b); }
template <typename T, unsigned HOW> T xor_(T a, T b) { return T(a ^ b); }
template <typename T, unsigned HOW>
T not_(T a) {
  if constexpr (Same<T, bool>::value) return !a;
  else return T(~a);
}
template <typename T, unsigned HOW> T cnot(T a) { return a == 0; }
template <typename T, unsigned HOW> T mov(T a) { return a; }
template <typename T, unsigned HOW> T selp(T a, T b, bool chosen) { return chosen ? a : b; }
template <typename T, unsigned HOW> T slct(T a, T b, int c) { return c >= 0 ? a : b; }

template <typename T, unsigned HOW>
T shl(T a, uint32_t by) {
  return by >= BITS<T> ? T(0) : T(Whole(a) << by);
}

template <typename T, unsigned HOW>
T shr(T a, uint32_t by) {
  const unsigned most = BITS<T> - 1;
  if (by > most) return T(-1) < T(0) && a < 0 ? T(-1) : T(0);
  return T(a >> by);
}

template <typename T, unsigned HOW>
T shf_l(T low, T high, uint32_t by) {
  by = HOW & WRAP ? by & 31 : by > 32 ? 32 : by;
  return T((Whole(high) << 32 | low) >> (32 - by));
}

template <typename T, unsigned HOW>
T shf_r(T low, T high, uint32_t by) {
  by = HOW & WRAP ? by & 31 : by > 32 ? 32 : by;
  return T((Whole(high) << 32 | low) >> by);
}

// Bits beyond the first are those of the sign of what was taken, or of a where it reaches beyond a.
template <typename T, unsigned HOW>
T bfe(T a, uint32_t start, uint32_t length) {
  const unsigned first = start & 0xFF, count = length & 0xFF, most = BITS<T> - 1;
  const unsigned last = first + count - 1 > most ? most : first + count - 1;
  const bool sign = T(-1) < T(0) && count > 0 && (Whole(a) >> last & 1);
  Whole result = 0;
  for (unsigned i = 0; i <= most; ++i) {
    const bool bit = i < count && first + i <= most ? Whole(a) >> (first + i) & 1 : sign;
    result |= Whole(bit) << i;
  }
  return T(result);
}

template <typename T, unsigned HOW>
T bfi(T a, T b, uint32_t start, uint32_t length) {
  const unsigned first = start & 0xFF, count = length & 0xFF;
  Whole result = b;
  for (unsigned i = 0; i < count && first + i < BITS<T>; ++i)
    result = (result & ~(Whole(1) << (first + i))) | (Whole(a) >> i & 1) << (first + i);
  return T(result);
}

template <typename T, unsigned HOW> uint32_t popc(T a) { return uint32_t(__builtin_popcountll(a)); }
template <typename T, unsigned HOW> uint32_t clz(T a) { return a == 0 ? BITS<T> : uint32_t(__builtin_clzll(a)) - (64 - BITS<T>); }

template <typename T, unsigned HOW>
T brev(T a) {
  Whole result = 0;
  for (unsigned i = 0; i < BITS<T>; ++i) result |= (Whole(a) >> i & 1) << (BITS<T> - 1 - i);
  return T(result);
}

// The place of the highest bit that tells, ~0 without one.
template <typename T, unsigned HOW>
uint32_t bfind(T a) {
  const Whole bits = T(-1) < T(0) && a < 0 ? Whole(T(~a)) : Whole(a);
  return bits == 0 ? ~0u : 63 - uint32_t(__builtin_clzll(bits));
}

// Each digit of the selector takes one of eight bytes, or copies of its sign.
template <typename T, unsigned HOW>
uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
  const Whole bytes = Whole(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned digit = selector >> 4 * i & 15, byte = bytes >> 8 * (digit & 7) & 0xFF;
    result |= (digit & 8 ? (byte & 0x80 ? 0xFFu : 0u) : byte) << 8 * i;
  }
  return result;
}

template <typename T, unsigned HOW>
uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (unsigned i = 0; i < 8; ++i)
    if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return result;
}

template <typename A, typename B>
uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c) {
  return ::gemmgen::dp4a<A, B>(a, b, c);
}

// Comparisons. Those of unordered floats hold where one is NaN.
struct Eq { template <typename T> static bool of(T a, T b) { return a == b; } static constexpr bool unordered = false; };
struct Ne { template <typename T> static bool of(T a, T b) { return a != b; } static constexpr bool unordered = false; };
struct Lt { template <typename T> static bool of(T a, T b) { return a < b; } static constexpr bool unordered = false; };
struct Le { template <typename T> static bool of(T a, T b) { return a <= b; } static constexpr bool unordered = false; };
struct Gt { template <typename T> static bool of(T a, T b) { return a > b; } static constexpr bool unordered = false; };
struct Ge { template <typename T> static bool of(T a, T b) { return a >= b; } static constexpr bool unordered = false; };
struct Num { template <typename T> static bool of(T, T) { return true; } static constexpr bool unordered = false; };
struct Nan { template <typename T> static bool of(T, T) { return false; } static constexpr bool unordered = true; };
template <typename C> struct Or : C { static constexpr bool unordered = true; };

template <typename C, typename T, unsigned HOW>
bool compare(T a, T b) {
  if constexpr (IS_FLOAT<T>) {
    const T x = flush_as<HOW>(a), y = flush_as<HOW>(b);
    return x != x || y != y ? C::unordered : C::of(x, y);
  } else if constexpr (IS_SMALL<T>) {
    return compare<C, float, HOW>(widened(a), widened(b));
  } else {
    return C::of(a, b);
  }
}

}  // namespace ptx
}  // namespace gemmgen
