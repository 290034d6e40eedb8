// The arithmetic of tensor cores, to the bit; gemmgen/problem/mma.py says what it is, and where from. All of a product's
// columns, eight, are computed side by side.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "convert.hpp"
#include "matrix_instructions.hpp"

namespace gemmgen {

constexpr unsigned COLUMNS = 8, MOST_ROWS = 16, MOST_K = 64;

using Ints = int32_t __attribute__((vector_size(4 * COLUMNS)));
using Words = uint32_t __attribute__((vector_size(4 * COLUMNS)));
using Longs = int64_t __attribute__((vector_size(8 * COLUMNS)));
using Floats = float __attribute__((vector_size(4 * COLUMNS)));
using Doubles = double __attribute__((vector_size(8 * COLUMNS)));

#define GEMMGEN_INLINE inline __attribute__((always_inline))

// How an element's bits make a number: 1 of sign, `exponent` and `fraction`. Elements that a register holds in its upper
// bits are shifted down by `shift` before.
struct FloatFormat {
  int exponent, fraction, shift;
  bool has_infinity;

  int bias() const { return (1 << (exponent - 1)) - 1; }
  uint32_t largest_field() const { return (1u << exponent) - 1; }
};

inline FloatFormat format_of(Element element) {
  switch (element) {
    case Element::e4m3: return {4, 3, 0, false};
    case Element::e5m2: return {5, 2, 0, true};
    case Element::f16: return {5, 10, 0, true};
    case Element::bf16: return {8, 7, 0, true};
    default: return {8, 10, 13, true};  // tf32
  }
}

inline unsigned bits_of(Element element) {
  switch (element) {
    case Element::s4:
    case Element::u4: return 4;
    case Element::s8:
    case Element::u8:
    case Element::e4m3:
    case Element::e5m2: return 8;
    case Element::f16:
    case Element::bf16: return 16;
    case Element::f64: return 64;
    default: return 32;
  }
}

constexpr uint64_t F64_NAN = 0xFFF8000000000000;  // what no operand's NaN explains

constexpr int NOTHING = -10000;  // the exponent of a zero, which counts for nothing
constexpr int LEAST_EXPONENT = -300;  // below that of every product

// Eight elements of A or B as numbers, with their exponents.
struct Factors {
  Doubles value[2 * MOST_K];  // of A by row, two to four eights of k each; of B by k
  Ints exponent[2 * MOST_K];
};

// 2^exponent, for exponents that a double has.
GEMMGEN_INLINE Doubles power_of_two(Ints exponent) {
  return reinterpret_cast<Doubles>((__builtin_convertvector(exponent, Longs) + 1023) << 52);
}

// Whether some of them are Inf or NaN.
inline bool decode(const Words* codes, unsigned count, FloatFormat format, Factors& into) {
  const uint32_t fraction_mask = (1u << format.fraction) - 1;
  bool special = false;
  for (unsigned i = 0; i < count; ++i) {
    const Words code = codes[i] >> format.shift;
    const Words field = code >> format.fraction & format.largest_field(), sign = code >> (format.exponent + format.fraction) & 1;
    const Words fraction = code & fraction_mask;
    const Words significand = fraction | (field != 0 ? Words{} + (1u << format.fraction) : Words{});
    const Ints exponent = reinterpret_cast<Ints>(field != 0 ? field : Words{} + 1) - format.bias();
    const Ints signed_significand = sign != 0 ? -reinterpret_cast<Ints>(significand) : reinterpret_cast<Ints>(significand);
    into.value[i] = __builtin_convertvector(signed_significand, Doubles) * power_of_two(exponent - format.fraction);
    into.exponent[i] = significand != 0 ? exponent : Ints{} + NOTHING;
    for (unsigned lane = 0; lane < COLUMNS; ++lane) {
      if (field[lane] != format.largest_field() || (!format.has_infinity && fraction[lane] != fraction_mask)) continue;
      const double infinity = sign[lane] ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
      into.value[i][lane] = fraction[lane] ? std::numeric_limits<double>::quiet_NaN() : infinity;
      special = true;
    }
  }
  return special;
}

GEMMGEN_INLINE Floats as_floats(Words bits) { return reinterpret_cast<Floats>(bits); }
GEMMGEN_INLINE Words as_words(Floats values) { return reinterpret_cast<Words>(values); }

// Of f32's numbers, exact in doubles: those with `kept` bits of fraction, towards zero; of less below f32's least exponent.
GEMMGEN_INLINE Floats towards_zero(Doubles value, int kept) {
  constexpr int DOUBLE_BITS = 52, DOUBLE_BIAS = 1023, LEAST = -126;
  const Longs bits = reinterpret_cast<Longs>(value), sign = bits & std::numeric_limits<int64_t>::min();
  const Doubles cut = reinterpret_cast<Doubles>(bits & ~((int64_t(1) << (DOUBLE_BITS - kept)) - 1));
  const Longs tiny = (bits ^ sign) < int64_t(DOUBLE_BIAS + LEAST) << DOUBLE_BITS;  // below all that is not denormal
  const Ints units = Ints{} + (kept - LEAST);
  const Doubles whole = __builtin_convertvector(
      __builtin_convertvector((tiny ? value : Doubles{}) * power_of_two(units), Ints), Doubles);
  const Doubles denormal = reinterpret_cast<Doubles>(reinterpret_cast<Longs>(whole * power_of_two(-units)) | sign);
  return __builtin_convertvector(tiny ? denormal : cut, Floats);
}

// The nearest numbers of f16, ties to even, as floats.
GEMMGEN_INLINE Floats nearest_halves(Doubles value) {
  const Longs bits = reinterpret_cast<Longs>(value), sign = bits & std::numeric_limits<int64_t>::min();
  const Longs field = (bits ^ sign) >> 52, least = Longs{} + (1023 - 14);
  // Added to a number, 1.5 * 2^52 times the unit of its last place leaves no bits below that.
  const Longs shifted = (field > least ? field : least) + (52 - 10);
  const Doubles large = reinterpret_cast<Doubles>(shifted << 52 | int64_t(1) << 51);
  const Doubles rounded = (value + large) - large;
  const Doubles nearest = rounded > 65504.0 || rounded < -65504.0 ? Doubles{} + std::numeric_limits<double>::infinity() : rounded;
  const Longs magnitude = reinterpret_cast<Longs>(nearest) & std::numeric_limits<int64_t>::max();
  return __builtin_convertvector(reinterpret_cast<Doubles>(value != 0 ? magnitude | sign : Longs{}), Floats);
}

// The rows of a product of floating-point numbers, each summed by itself: all steps of an instruction.
class FloatRow {
 public:
  FloatRow(const MatrixInstruction& instruction, const Factors& a, const Factors& b, bool special)
      : a_(a), b_(b), k_(instruction.k), products_(unsigned(instruction.products)), fraction_(instruction.fraction),
        kept_(instruction.kept), halves_(instruction.accumulator == Element::f16), special_(special) {}

  Floats sum(unsigned row, Floats c) const {
    const double* const values = reinterpret_cast<const double*>(a_.value) + row * k_;
    const int32_t* const exponents = reinterpret_cast<const int32_t*>(a_.exponent) + row * k_;
    for (unsigned k = 0; k < k_; k += products_) c = step(values + k, exponents + k, b_.value + k, b_.exponent + k, c);
    return c;
  }

 private:
  GEMMGEN_INLINE Floats step(const double* a, const int32_t* a_exponents, const Doubles* b, const Ints* b_exponents, Floats c) const {
    const Words c_field = as_words(c) >> 23 & 0xFF;
    Ints largest = reinterpret_cast<Ints>(c_field) - 127;
    const Ints least = Ints{} + (halves_ ? -14 : -126);
    largest = largest > least ? largest : least;
    largest = (as_words(c) & 0x7FFFFFFF) != 0 ? largest : Ints{} + LEAST_EXPONENT;
    for (unsigned i = 0; i < products_; ++i) {
      const Ints exponent = a_exponents[i] + b_exponents[i];
      largest = exponent > largest ? exponent : largest;
    }
    const Doubles scale = power_of_two(fraction_ - largest);
    Doubles total = cut(__builtin_convertvector(c, Doubles) * scale);
    constexpr unsigned AT_ONCE = 16;  // products whose sum is less than 2^31, as each is less than 2^(fraction + 2)
    for (unsigned i = 0; i < products_; i += AT_ONCE) {
      const unsigned end = std::min(i + AT_ONCE, products_);
      Words sum = {};
      for (unsigned p = i; p < end; ++p) sum += reinterpret_cast<Words>(__builtin_convertvector(a[p] * b[p] * scale, Ints));
      total += __builtin_convertvector(reinterpret_cast<Ints>(sum), Doubles);
    }
    const Doubles value = total * power_of_two(largest - fraction_);
    Floats result = halves_ ? nearest_halves(value) : towards_zero(value, kept_);
    if (special_ || has_special(c_field)) settle_special(a, b, c, result);
    return result;
  }

  static GEMMGEN_INLINE Doubles cut(Doubles value) {
    return __builtin_convertvector(__builtin_convertvector(value, Ints), Doubles);
  }

  static bool has_special(Words field) {
    using Pairs = uint64_t __attribute__((vector_size(sizeof field)));
    const Pairs found = reinterpret_cast<Pairs>(field == 0xFF);
    return (found[0] | found[1] | found[2] | found[3]) != 0;
  }

  // Where a term is Inf or NaN the sum is what IEEE 754 says, with one NaN for all.
  __attribute__((noinline)) void settle_special(const double* a, const Doubles* b, Floats c, Floats& result) const {
    Doubles sum = __builtin_convertvector(c, Doubles);
    for (unsigned i = 0; i < products_; ++i) sum += a[i] * b[i];
    const Ints finite = __builtin_convertvector(sum - sum == Doubles{}, Ints), number = __builtin_convertvector(sum == sum, Ints);
    const Words special = number ? as_words(__builtin_convertvector(sum, Floats)) : Words{} + 0x7FFFFFFF;
    result = as_floats(finite ? as_words(result) : special);
  }

  const Factors &a_, &b_;
  unsigned k_, products_;
  int fraction_, kept_;
  bool halves_, special_;
};

// The same of sixteen columns at once, summed in f32 as far as that is exact: products are, of factors that are MODERATE, and so
// are their multiples by a power of two down to the unit at which they are cut.
class WideRows {
 public:
  static constexpr unsigned WIDTH = 2 * COLUMNS, MOST_FACTORS = 32;  // columns, and k of an instruction

  void start(const MatrixInstruction& instruction) { of_ = instruction, k_ = unsigned(instruction.k); }

  // Whether all `count` eights of factors have exponents by which f32 holds products and their scales.
  static bool moderate(const Factors& factors, unsigned count) {
    Ints beyond = {};
    for (unsigned i = 0; i < count; ++i) {
      const Ints exponent = factors.exponent[i];
      beyond |= (exponent != NOTHING) & ((exponent > MODERATE) | (exponent < -MODERATE));
    }
    for (unsigned lane = 0; lane < COLUMNS; ++lane)
      if (beyond[lane] != 0) return false;
    return true;
  }

  // Rows of A, k of each.
  void take_a(const Factors& a, unsigned first, unsigned rows) {
    const double* const values = reinterpret_cast<const double*>(a.value);
    const int32_t* const exponents = reinterpret_cast<const int32_t*>(a.exponent);
    for (unsigned i = 0; i < rows * k_; ++i) {
      a_values_[first * k_ + i] = float(values[i]);
      a_exponents_[first * k_ + i] = int16_t(exponents[i]);
    }
  }

  // Eight columns of B: the left ones, or those to their right.
  void take_b(const Factors& b, bool right) {
    for (unsigned k = 0; k < k_; ++k)
      for (unsigned lane = 0; lane < COLUMNS; ++lane) {
        b_values_[k][lane + right * COLUMNS] = float(b.value[k][lane]);
        b_exponents_[k][lane + right * COLUMNS] = int16_t(b.exponent[k][lane]);
      }
  }

  // Adds to `sums`, a row's, none of which is Inf or NaN.
  void add(unsigned row, float* sums) const {
    switch (of_.products) {
      case 8: return add<8>(row, sums);
      case 16: return add<16>(row, sums);
      default: return add<32>(row, sums);
    }
  }

 private:
  static constexpr int MODERATE = 50;                     // f32 holds products of such factors, and the scales of their sums
  static constexpr int LEAST_SCALED = -2 * MODERATE - 1;  // less than a product's exponent ever is
  static constexpr unsigned AT_ONCE = 16;  // products whose sum is less than 2^31
  using WideInts = int32_t __attribute__((vector_size(4 * WIDTH)));
  using WideShorts = int16_t __attribute__((vector_size(2 * WIDTH)));
  using WideFloats = float __attribute__((vector_size(4 * WIDTH)));

  template <unsigned PRODUCTS>
  void add(unsigned row, float* sums) const {
    for (unsigned k = 0; k < k_; k += PRODUCTS) step<PRODUCTS>(a_values_ + row * k_ + k, a_exponents_ + row * k_ + k, k, sums);
  }

  template <unsigned PRODUCTS>
  GEMMGEN_INLINE void step(const float* a, const int16_t* a_exponents, unsigned first, float* sums) const {
    WideShorts of_products = WideShorts{} + int16_t(LEAST_EXPONENT);
    #pragma GCC unroll 32
    for (unsigned p = 0; p < PRODUCTS; ++p) {
      const WideShorts exponent = b_exponents_[first + p] + a_exponents[p];
      of_products = exponent > of_products ? exponent : of_products;
    }
    WideInts bits;
    std::memcpy(&bits, sums, sizeof bits);
    WideInts largest = (bits >> 23 & 0xFF) - 127;
    const int least = of_.accumulator == Element::f16 ? -14 : -126;
    largest = largest > least ? largest : WideInts{} + least;
    largest = (bits & 0x7FFFFFFF) != 0 ? largest : WideInts{} + LEAST_EXPONENT;
    const WideInts wide = __builtin_convertvector(of_products, WideInts);
    largest = wide > largest ? wide : largest;
    const WideInts scaled = largest > LEAST_SCALED ? largest : WideInts{} + LEAST_SCALED;  // below it all products are 0
    const WideFloats scale = reinterpret_cast<WideFloats>((of_.fraction - scaled + 127) << 23);
    Pair exponents, sum[(PRODUCTS + AT_ONCE - 1) / AT_ONCE];
    exponents.all = largest;
    for (unsigned part = 0; part * AT_ONCE < PRODUCTS; ++part) {
      WideInts total = {};
      #pragma GCC unroll 16
      for (unsigned p = part * AT_ONCE; p < std::min((part + 1) * AT_ONCE, PRODUCTS); ++p)
        total += __builtin_convertvector(b_values_[first + p] * a[p] * scale, WideInts);
      sum[part].all = total;
    }
    for (unsigned half = 0; half < 2; ++half) {
      const Ints exponent = exponents.half[half];
      Floats c;
      std::memcpy(&c, sums + half * COLUMNS, sizeof c);
      const Doubles cut = __builtin_convertvector(c, Doubles) * power_of_two(of_.fraction - exponent);
      Doubles total = __builtin_convertvector(__builtin_convertvector(cut, Ints), Doubles);
      for (const Pair& part : sum) total += __builtin_convertvector(part.half[half], Doubles);
      const Doubles value = total * power_of_two(exponent - of_.fraction);
      c = of_.accumulator == Element::f16 ? nearest_halves(value) : towards_zero(value, of_.kept);
      std::memcpy(sums + half * COLUMNS, &c, sizeof c);
    }
  }

  union Pair {
    WideInts all;
    Ints half[2];
  };

  MatrixInstruction of_ = {};
  unsigned k_ = 0;
  float a_values_[64 * MOST_FACTORS];
  int16_t a_exponents_[64 * MOST_FACTORS];
  WideFloats b_values_[MOST_FACTORS];
  WideShorts b_exponents_[MOST_FACTORS];
};

}  // namespace gemmgen
