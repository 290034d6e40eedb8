// The arithmetic of tensor cores, to the bit, for a tile of 16 x 8 or 8 x 8 sums; gemmgen/problem/mma.py says what it is.
//
// Three ways lead to the same bits. `exact` takes numbers whose sums need no rounding, as most test data has: plain f32. `scaled`
// takes what has moderate exponents: each product, exact in f32, is cut to an integer. `any` takes everything, in doubles.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "matrix_table.hpp"
#include "tile_factors.hpp"

namespace gemmgen::tiles {

// The sums of a tile by register number: 32 lanes each. Those of f16 are floats.
using Sums = float[4][LANES];

class TileSums {
 public:
  explicit TileSums(const MatrixInstruction& of)
      : of_(of), halves_(of.accumulator == Element::f16), registers_(std::min(of.m, 16u) / 4), least_(halves_ ? -14 : -126),
        kept_mask_(~0u << (23 - of.kept)) {}

  // sums += A * B, in floating point.
  void add(const FactorsA& a, const FactorsB& b, Sums& sums) const {
    alignas(BYTES) Sums made;
    if ((no_rounding(a.extent, b.extent) && exact(a, b, sums, made)) ||
        (moderate(a.extent) && moderate(b.extent) && scaled(a, b, sums, made))) {
      std::memcpy(sums, made, registers_ * sizeof sums[0]);
      return;
    }
    any(a, b, sums);
  }

  // The same of integers: modulo 2^32, or the nearest number of s32 where they saturate.
  void add_integers(const FactorsA& a, const FactorsB& b, uint32_t (&sums)[4][LANES]) const {
    for (unsigned half = 0; half < registers_ / 2; ++half) {
      Floats total[2][VECTORS] = {};  // f32 holds the sum: 64 products of four bits, or 32 of eight
      add_plainly(a, b, half, total);
      for (unsigned odd = 0; odd < 2; ++odd)
        for (unsigned vector = 0; vector < VECTORS; ++vector) {
          uint32_t* const at = sums[2 * half + odd] + vector * WIDTH;
          const Words before = load(at), added = reinterpret_cast<Words>(cut(total[odd][vector])), sum = before + added;
          const Words beyond = (before ^ sum) & (added ^ sum);
          const Words end = reinterpret_cast<Words>(reinterpret_cast<Ints>(before) >> 31) ^ ~SIGN;
          store(at, of_.saturates && any_bits(beyond) >> 31 != 0 ? (reinterpret_cast<Ints>(beyond) < 0 ? end : sum) : sum);
        }
    }
  }

 private:
  static constexpr int MODERATE = 50;                    // f32 holds products of such factors, and the scales of their sums
  static constexpr int LEAST_PRODUCT = -2 * MODERATE - 1;  // less than the exponent of any product
  static constexpr uint32_t SIGN = 0x80000000, INFINITE = 0x7F800000, ONE_NAN = 0x7FFFFFFF;

  static bool moderate(const Extent& of) {
    return !of.special && of.highest <= MODERATE && of.lowest >= -MODERATE;
  }

  static GEMMGEN_INLINE Floats power_of_two(Ints exponent) { return reinterpret_cast<Floats>((exponent + 127) << 23); }

  // Exact ------------------------------------------------------------------------------------------------------------

  // Bits that a sum may have for each of its steps to be exact: no term is cut, and no result rounded.
  int exact_bits() const { return halves_ ? 11 : std::min({of_.fraction, of_.kept + 1, 24}); }
  int products_bits(const Extent& a, const Extent& b) const {
    return std::bit_width(of_.k - 1) + a.highest + b.highest + 2 - (a.lowest_bit + b.lowest_bit);
  }

  bool no_rounding(const Extent& a, const Extent& b) const {
    if (!moderate(a) || !moderate(b)) return false;
    const int unit = a.lowest_bit + b.lowest_bit;
    if (products_bits(a, b) >= exact_bits() || std::abs(unit) > 2 * MODERATE) return false;
    if (std::max(a.highest + b.highest, halves_ ? least_ : -Extent::NONE) - of_.fraction > unit) return false;
    return !halves_ || (unit >= -24 && unit <= 4);  // f16 holds all sums
  }

  // Whether C leaves it at that.
  bool exact(const FactorsA& a, const FactorsB& b, const Sums& sums, Sums& made) const {
    const int unit = a.extent.lowest_bit + b.extent.lowest_bit, bits = exact_bits();
    const float most = float((1 << bits) - (1 << products_bits(a.extent, b.extent)));
    const Floats scale = power_of_two(Ints{} - unit), back = power_of_two(Ints{} + unit);
    Ints off = {};
    for (unsigned r = 0; r < registers_; ++r)
      for (unsigned vector = 0; vector < VECTORS; ++vector) {
        const Floats c = as_floats(load_sums(sums, r, vector)), multiple = __builtin_convertvector(cut(c * scale), Floats);
        off |= (multiple * back != c) | (multiple > most) | (multiple < -most);
      }
    if (any_bits(reinterpret_cast<Words>(off)) != 0) return false;
    for (unsigned half = 0; half < registers_ / 2; ++half) {
      Floats total[2][VECTORS];
      for (unsigned odd = 0; odd < 2; ++odd)
        for (unsigned vector = 0; vector < VECTORS; ++vector)
          total[odd][vector] = as_floats(load_sums(sums, 2 * half + odd, vector));
      add_plainly(a, b, half, total);
      for (unsigned odd = 0; odd < 2; ++odd)
        for (unsigned vector = 0; vector < VECTORS; ++vector)
          store_sums(made, 2 * half + odd, vector, total[odd][vector] + 0.0f);  // no sum is -0
    }
    return true;
  }

  // Products whose sum f32 holds, of one half of the rows and of its columns, the even and the odd ones.
  GEMMGEN_INLINE void add_plainly(const FactorsA& a, const FactorsB& b, unsigned half, Floats (&total)[2][VECTORS]) const {
    for (unsigned k = 0; k < of_.k; ++k)
#pragma GCC unroll 8
      for (unsigned vector = 0; vector < VECTORS; ++vector) {
        const Floats value = a.values_of(half, k)[vector];
        total[0][vector] = multiply_add(value, *b.values_of(0, k), total[0][vector]);
        total[1][vector] = multiply_add(value, *b.values_of(1, k), total[1][vector]);
      }
  }

  // Where nothing is rounded, one instruction or two give the same.
  static GEMMGEN_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__FMA__) || defined(__aarch64__)
    for (unsigned i = 0; i < WIDTH; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#else
    return c + a * b;
#endif
  }

  static GEMMGEN_INLINE Words load_sums(const Sums& sums, unsigned r, unsigned vector) {
    Words bits;
    std::memcpy(&bits, sums[r] + vector * WIDTH, sizeof bits);
    return bits;
  }
  static GEMMGEN_INLINE void store_sums(Sums& sums, unsigned r, unsigned vector, Floats values) {
    std::memcpy(sums[r] + vector * WIDTH, &values, sizeof values);
  }

  // Scaled -----------------------------------------------------------------------------------------------------------

  // Whether no sum is Inf, NaN or beyond 31 bits of the unit at which terms are cut.
  bool scaled(const FactorsA& a, const FactorsB& b, const Sums& sums, Sums& made) const {
    switch (of_.products) {
      case 4: return scaled<4>(a, b, sums, made);
      case 8: return scaled<8>(a, b, sums, made);
      case 16: return scaled<16>(a, b, sums, made);
      case 32: return scaled<32>(a, b, sums, made);
      default: return false;
    }
  }

  template <unsigned PRODUCTS>
  __attribute__((noinline)) bool scaled(const FactorsA& a, const FactorsB& b, const Sums& sums, Sums& made) const {
    Words bad = {};
    for (unsigned r = 0; r < registers_; ++r)
      for (unsigned block = 0; block < BLOCKS; ++block) {
        Floats c[2] = {as_floats(load_sums(sums, r, 2 * block)), as_floats(load_sums(sums, r, 2 * block + 1))};
        for (unsigned k = 0; k < of_.k; k += PRODUCTS)
          bad |= step<PRODUCTS>(a.values_of(r / 2, k) + 2 * block, a.exponents_of_half(r / 2, k) + block,
                                b.values_of(r % 2, k), b.exponents_of_odd(r % 2, k), c);
        for (unsigned i = 0; i < 2; ++i) store_sums(made, r, 2 * block + i, c[i]);
      }
    return any_bits(bad) >> 31 == 0;
  }

  // The sign bit of a lane that this cannot do.
  template <unsigned PRODUCTS>
  GEMMGEN_INLINE Words step(const Floats* a, const Words* a_exponents, const Floats* b, const Words* b_exponents,
                            Floats (&c)[2]) const {
    Shorts of_products = Shorts{} + int16_t(2 * NOTHING);
#pragma GCC unroll 32
    for (unsigned p = 0; p < PRODUCTS; ++p)
      of_products = larger(of_products, reinterpret_cast<Shorts>(a_exponents[p * BLOCKS]) + reinterpret_cast<Shorts>(b_exponents[p]));
    Words bad = {};
#pragma GCC unroll 2
    for (unsigned i = 0; i < 2; ++i) {
      const Words bits = as_words(c[i]);
      bad |= (bits & ~SIGN) + (SIGN - INFINITE);
      const Ints largest = larger(exponents_of(c[i], least_), unpacked(reinterpret_cast<Words>(of_products), i));
      const Ints exponent = larger(largest, Ints{} + LEAST_PRODUCT);
      const Floats scale = power_of_two(of_.fraction - exponent);
      Words total = reinterpret_cast<Words>(cut(c[i] * scale));
      constexpr unsigned AT_ONCE = std::min(PRODUCTS, 16u);  // products whose sum has 31 bits: each has of_.fraction + 2
      for (unsigned first = 0; first < PRODUCTS; first += AT_ONCE) {
        Words part = {};
#pragma GCC unroll 16
        for (unsigned p = first; p < first + AT_ONCE; ++p) part += reinterpret_cast<Words>(cut(a[p * VECTORS + i] * b[p] * scale));
        const Words sum = total + part;
        bad |= (total ^ sum) & (part ^ sum);
        total = sum;
      }
      const Words sign = total & SIGN, magnitude = sign != 0 ? -total : total;
      bad |= magnitude;
      // Without the bit below the 24 that f32 holds, conversion rounds down.
      Words value = as_words(to_floats(magnitude & ~(magnitude >> 24)));
      const Floats unit = power_of_two(exponent - of_.fraction);
      if (halves_) {
        const Words off = reinterpret_cast<Words>(cut(as_floats(value)) != reinterpret_cast<Ints>(magnitude)) & 1;  // to odd
        c[i] = nearest_halves(as_floats(as_words(as_floats(value | off) * unit) | sign));
        continue;
      }
      value = (as_words(as_floats(value) * unit) & kept_mask_) | sign;
      const Words of_c = bits & kept_mask_, alone = (of_c & ~SIGN) != 0 ? of_c : Words{};  // where all products are 0
      c[i] = as_floats(largest < LEAST_PRODUCT ? alone : value);
    }
    return bad;
  }

  // The nearest numbers of f16, ties to even. Added to a number, 1.5 * 2^23 times its last place leaves no bits below that.
  static GEMMGEN_INLINE Floats nearest_halves(Floats value) {
    const Words bits = as_words(value), sign = bits & SIGN;
    const Ints field = reinterpret_cast<Ints>(bits >> 23 & 0xFF);
    const Floats large = reinterpret_cast<Floats>((larger(field, Ints{} + (127 - 14)) + 13) << 23 | 0x400000);
    const Words rounded = as_words((value + large) - large) & ~SIGN;
    const Words held = as_floats(rounded) > 65504.0f ? Words{} + INFINITE : rounded;
    return as_floats(value != 0 ? held | sign : Words{});
  }

  // Any --------------------------------------------------------------------------------------------------------------

  static constexpr unsigned FEW = WIDTH / 2;
  using Doubles = double __attribute__((vector_size(BYTES)));
  using Longs = int64_t __attribute__((vector_size(BYTES)));
  using FewFloats = float __attribute__((vector_size(BYTES / 2)));
  using FewInts = int32_t __attribute__((vector_size(BYTES / 2)));
  using FewWords = uint32_t __attribute__((vector_size(BYTES / 2)));

  template <typename T>
  static GEMMGEN_INLINE T from_floats(const void* from, unsigned lane) {
    T values;
    std::memcpy(&values, static_cast<const float*>(from) + lane, sizeof values);
    return values;
  }

  static GEMMGEN_INLINE Doubles doubles(FewFloats values) { return __builtin_convertvector(values, Doubles); }

  // 2^exponent, for exponents that a double has.
  static GEMMGEN_INLINE Doubles double_power(FewInts exponent) {
    return reinterpret_cast<Doubles>((__builtin_convertvector(exponent, Longs) + 1023) << 52);
  }

  __attribute__((noinline)) void any(const FactorsA& a, const FactorsB& b, Sums& sums) const {
    const bool special = a.extent.special || b.extent.special;
    for (unsigned r = 0; r < registers_; ++r)
      for (unsigned vector = 0; vector < VECTORS; ++vector) {
        Floats c = as_floats(load_sums(sums, r, vector));
        for (unsigned k = 0; k < of_.k; k += of_.products) {
          const Floats *const of_a = a.values_of(r / 2, k) + vector, *const of_b = b.values_of(r % 2, k);
          const Ints largest =
              largest_of(a.exponents_of_half(r / 2, k) + vector / 2, b.exponents_of_odd(r % 2, k), vector % 2, c);
          Floats made;
          for (unsigned first = 0; first < WIDTH; first += FEW) {
            const FewFloats part =
                few_sums(of_a, of_b, first, from_floats<FewFloats>(&c, first), from_floats<FewInts>(&largest, first));
            std::memcpy(reinterpret_cast<float*>(&made) + first, &part, sizeof part);
          }
          const bool settles = special || any_bits(((as_words(c) & ~SIGN) + (SIGN - INFINITE)) & SIGN) != 0;
          c = settles ? settled(of_a, of_b, c, made) : made;
        }
        store_sums(sums, r, vector, c);
      }
  }

  Ints largest_of(const Words* a_exponents, const Words* b_exponents, unsigned which, Floats c) const {
    Shorts largest = Shorts{} + int16_t(LEAST);
    for (unsigned p = 0; p < of_.products; ++p)
      largest = larger(largest, reinterpret_cast<Shorts>(a_exponents[p * BLOCKS]) + reinterpret_cast<Shorts>(b_exponents[p]));
    return larger(exponents_of(c, least_), unpacked(reinterpret_cast<Words>(largest), which));
  }

  FewFloats few_sums(const Floats* a, const Floats* b, unsigned lane, FewFloats c, FewInts largest) const {
    constexpr unsigned AT_ONCE = 16;  // as above
    const Doubles scale = double_power(of_.fraction - largest);
    const auto cut_one = [](Doubles value) { return __builtin_convertvector(value, FewInts); };
    Doubles total = __builtin_convertvector(cut_one(doubles(c) * scale), Doubles);
    for (unsigned first = 0; first < of_.products; first += AT_ONCE) {
      FewWords part = {};
      for (unsigned p = first; p < std::min(first + AT_ONCE, of_.products); ++p) {
        const Doubles of_a = doubles(from_floats<FewFloats>(a + p * VECTORS, lane));
        const Doubles of_b = doubles(from_floats<FewFloats>(b + p, lane));
        part += reinterpret_cast<FewWords>(cut_one(of_a * of_b * scale));
      }
      total += __builtin_convertvector(reinterpret_cast<FewInts>(part), Doubles);
    }
    const Doubles value = total * double_power(largest - of_.fraction);
    return halves_ ? few_halves(value) : towards_zero(value);
  }

  // Where a term is Inf or NaN the sum is what IEEE 754 says, with one NaN for all. Of other numbers only the sign counts.
  Floats settled(const Floats* a, const Floats* b, Floats c, Floats made) const {
    const auto tame = [](Floats value) {
      const Words bits = as_words(value), magnitude = bits & ~SIGN;
      const Words one = (magnitude != 0 ? Words{} + 0x3F800000 : Words{}) | (bits & SIGN);
      return as_floats(magnitude >= INFINITE ? bits : one);
    };
    Floats terms = tame(c);
    for (unsigned p = 0; p < of_.products; ++p) terms += tame(a[p * VECTORS]) * tame(b[p]);
    const Words special = terms == terms ? as_words(terms) : Words{} + ONE_NAN;
    return as_floats((as_words(terms) & ~SIGN) >= INFINITE ? special : as_words(made));
  }

  static constexpr int LEAST = -300;  // less than the exponent of any product, at their full range

  // With `kept` bits of fraction, towards zero; of less below f32's least exponent.
  GEMMGEN_INLINE FewFloats towards_zero(Doubles value) const {
    constexpr int FRACTION = 52, BIAS = 1023, LEAST_NORMAL = -126;
    const Longs bits = reinterpret_cast<Longs>(value), sign = bits & std::numeric_limits<int64_t>::min();
    const Doubles cut = reinterpret_cast<Doubles>(bits & ~((int64_t(1) << (FRACTION - of_.kept)) - 1));
    const Longs tiny = (bits ^ sign) < int64_t(BIAS + LEAST_NORMAL) << FRACTION;
    const FewInts units = FewInts{} + (of_.kept - LEAST_NORMAL);
    const Doubles scaled = (tiny ? value : Doubles{}) * double_power(units);
    const Doubles whole = __builtin_convertvector(__builtin_convertvector(scaled, FewInts), Doubles);
    const Doubles denormal = reinterpret_cast<Doubles>(reinterpret_cast<Longs>(whole * double_power(-units)) | sign);
    return __builtin_convertvector(tiny ? denormal : cut, FewFloats);
  }

  // As nearest_halves.
  static GEMMGEN_INLINE FewFloats few_halves(Doubles value) {
    const Longs bits = reinterpret_cast<Longs>(value), sign = bits & std::numeric_limits<int64_t>::min();
    const Longs field = (bits ^ sign) >> 52, least = Longs{} + (1023 - 14);
    const Doubles large = reinterpret_cast<Doubles>(((field > least ? field : least) + (52 - 10)) << 52 | int64_t(1) << 51);
    const Doubles rounded = (value + large) - large;
    const Doubles nearest = rounded > 65504.0 || rounded < -65504.0 ? Doubles{} + std::numeric_limits<double>::infinity() : rounded;
    const Longs magnitude = reinterpret_cast<Longs>(nearest) & std::numeric_limits<int64_t>::max();
    return __builtin_convertvector(reinterpret_cast<Doubles>(value != 0 ? magnitude | sign : Longs{}), FewFloats);
  }

  const MatrixInstruction& of_;
  bool halves_;
  unsigned registers_;
  int least_;
  uint32_t kept_mask_;
};

// f16's numbers in floats, and back: these are numbers of f16, Inf or NaN.
inline void widen_halves(const uint32_t* packed, float* even, float* odd) {
  for (unsigned vector = 0; vector < VECTORS; ++vector) {
    const Words word = load(packed + vector * WIDTH);
    const Floats low = numbers<Element::f16>(word & 0xFFFF), high = numbers<Element::f16>(word >> 16);
    std::memcpy(even + vector * WIDTH, &low, sizeof low);
    std::memcpy(odd + vector * WIDTH, &high, sizeof high);
  }
}

GEMMGEN_INLINE Words half_codes(Words bits) {
  const Words magnitude = bits & 0x7FFFFFFF, sign = bits >> 31 << 15;
  const Words normal = (magnitude - (112u << 23)) >> 13;
  const Words denormal = reinterpret_cast<Words>(cut(as_floats(magnitude < (113u << 23) ? magnitude : Words{}) * 0x1p24f));
  const Words special = magnitude == 0x7F800000 ? Words{} + 0x7C00 : Words{} + 0x7FFF;
  const Words finite = magnitude < (113u << 23) ? denormal : normal;
  return (magnitude >= 0x7F800000 ? special : finite) | sign;
}

inline void narrow_halves(const float* even, const float* odd, uint32_t* packed) {
  for (unsigned vector = 0; vector < VECTORS; ++vector) {
    Words low, high;
    std::memcpy(&low, even + vector * WIDTH, sizeof low);
    std::memcpy(&high, odd + vector * WIDTH, sizeof high);
    store(packed + vector * WIDTH, half_codes(low) | half_codes(high) << 16);
  }
}

}  // namespace gemmgen::tiles
