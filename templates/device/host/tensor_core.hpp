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

constexpr uint64_t F64_NAN = 0xFFF8000000000000;  // the one that sums become

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
  const Longs bits = reinterpret_cast<Longs>(value);
  const Doubles cut = reinterpret_cast<Doubles>(bits & ~((int64_t(1) << (52 - kept)) - 1));
  const Longs magnitude = bits & std::numeric_limits<int64_t>::max();
  const Longs tiny = magnitude < int64_t(1023 - 126) << 52;  // less than f32's smallest number that is not denormal
  const double unit = std::ldexp(1.0, -126 - kept);
  const Doubles units = __builtin_convertvector(__builtin_convertvector((tiny ? value : Doubles{}) / unit, Ints), Doubles);
  const Doubles denormal = reinterpret_cast<Doubles>(reinterpret_cast<Longs>(units * unit) | (bits ^ magnitude));
  return __builtin_convertvector(tiny ? denormal : cut, Floats);
}

// The nearest numbers of f16, ties to even, as floats.
inline Floats nearest_halves(Doubles value) {
  Floats nearest = {};
  for (unsigned lane = 0; lane < COLUMNS; ++lane) {
    const double one = value[lane];
    if (one == 0) continue;
    const double unit = std::ldexp(1.0, std::max(std::ilogb(one), -14) - 10);
    const double rounded = std::nearbyint(one / unit) * unit;
    nearest[lane] = float(std::fabs(rounded) > 65504.0 ? std::copysign(std::numeric_limits<double>::infinity(), one) : rounded);
  }
  return nearest;
}

// A row of a product of floating-point numbers: all steps of an instruction.
class FloatRow {
 public:
  FloatRow(const MatrixInstruction& instruction, const Factors& a, const Factors& b, bool special)
      : instruction_(instruction), a_(a), b_(b), special_(special) {}

  Floats sum(unsigned row, Floats c) const {
    const double* const values = reinterpret_cast<const double*>(a_.value) + row * instruction_.k;
    const int32_t* const exponents = reinterpret_cast<const int32_t*>(a_.exponent) + row * instruction_.k;
    for (unsigned k = 0; k < instruction_.k; k += unsigned(instruction_.products)) c = step(values + k, exponents + k, k, c);
    return c;
  }

 private:
  Floats step(const double* a, const int32_t* exponents, unsigned first, Floats c) const {
    const Words c_field = as_words(c) >> 23 & 0xFF;
    Ints largest = reinterpret_cast<Ints>(c_field) - 127;
    const Ints least = Ints{} + (instruction_.accumulator == Element::f16 ? -14 : -126);
    largest = largest > least ? largest : least;
    largest = (as_words(c) & 0x7FFFFFFF) != 0 ? largest : Ints{} + LEAST_EXPONENT;
    for (int i = 0; i < instruction_.products; ++i) {
      const Ints exponent = exponents[i] + b_.exponent[first + i];
      largest = exponent > largest ? exponent : largest;
    }
    const Doubles scale = power_of_two(instruction_.fraction - largest);
    Doubles total = cut(__builtin_convertvector(c, Doubles) * scale);
    constexpr int AT_ONCE = 16;  // products whose sum is less than 2^31, as each is less than 2^(fraction + 2)
    for (int i = 0; i < instruction_.products; i += AT_ONCE) {
      const int end = std::min(i + AT_ONCE, instruction_.products);
      Words sum = {};
      for (int p = i; p < end; ++p)
        sum += reinterpret_cast<Words>(__builtin_convertvector(a[p] * b_.value[first + p] * scale, Ints));
      total += __builtin_convertvector(reinterpret_cast<Ints>(sum), Doubles);
    }
    const Doubles value = total * power_of_two(largest - instruction_.fraction);
    Floats result = instruction_.accumulator == Element::f16 ? nearest_halves(value) : towards_zero(value, instruction_.kept);
    if (special_ || has_special(c_field)) settle_special(a, first, c, result);
    return result;
  }

  static GEMMGEN_INLINE Doubles cut(Doubles value) {
    return __builtin_convertvector(__builtin_convertvector(value, Ints), Doubles);
  }

  static bool has_special(Words field) {
    for (unsigned lane = 0; lane < COLUMNS; ++lane)
      if (field[lane] == 0xFF) return true;
    return false;
  }

  // Where a term is Inf or NaN the sum is what IEEE 754 says, with one NaN for all.
  void settle_special(const double* a, unsigned first, Floats c, Floats& result) const {
    for (unsigned lane = 0; lane < COLUMNS; ++lane) {
      double sum = double(c[lane]);
      for (int i = 0; i < instruction_.products; ++i) sum += a[i] * b_.value[first + i][lane];
      if (std::isnan(sum)) result[lane] = as_floats(Words{} + 0x7FFFFFFF)[lane];
      else if (std::isinf(sum)) result[lane] = float(sum);
    }
  }

  const MatrixInstruction& instruction_;
  const Factors &a_, &b_;
  bool special_;
};

// What the 32 lanes of a warp bring to an instruction.
struct MatrixOperand {
  const MatrixInstruction* instruction;
  void* d;
  const void *a, *b;
  int line;
};

// Visits every element of a fragment: calls `visit` with lane, element of the lane and its place (row or column, k).
template <typename Visit>
GEMMGEN_INLINE void each_factor(unsigned rows, unsigned k, unsigned shared, Visit visit) {
  const unsigned registers = rows * k / (32 * shared), blocks = rows / 8;
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned r = 0; r < registers; ++r)
      for (unsigned part = 0; part < shared; ++part)
        visit(lane, r * shared + part, lane / 4 + 8 * (r % blocks), 4 * shared * (r / blocks) + shared * (lane % 4) + part);
}

template <typename Visit>
GEMMGEN_INLINE void each_sum(unsigned rows, Visit visit) {
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < rows / 4; ++i) visit(lane, i, lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2);
}

// An instruction of a warp. Too large for a kernel's stack.
class MatrixProduct {
 public:
  void run(MatrixOperand* const* operands) {
    operands_ = operands;
    instruction_ = *operands[0]->instruction;
    if (instruction_.accumulator == Element::f64) return run_doubles();
    gather_codes();
    if (instruction_.accumulator == Element::s32) run_integers();
    else run_floats();
  }

 private:
  // As bit patterns, A by row and B by k, each element in a word of its own.
  void gather_codes() {
    switch (bits_of(instruction_.a)) {
      case 4: return gather<uint8_t, 4>();
      case 8: return gather<uint8_t, 8>();
      case 16: return gather<uint16_t, 16>();
      default: return gather<uint32_t, 32>();
    }
  }

  template <typename Code, unsigned BITS>
  void gather() {
    auto* const a = reinterpret_cast<uint32_t*>(a_codes_);
    auto* const b = reinterpret_cast<uint32_t*>(b_codes_);
    const unsigned k = instruction_.k;
    each_factor(instruction_.m, k, 32 / BITS, [&](unsigned lane, unsigned i, unsigned row, unsigned at) {
      a[row * k + at] = element<Code, BITS>(operands_[lane]->a, i);
    });
    each_factor(COLUMNS, k, 32 / BITS, [&](unsigned lane, unsigned i, unsigned column, unsigned at) {
      b[at * COLUMNS + column] = element<Code, BITS>(operands_[lane]->b, i);
    });
  }

  template <typename Code, unsigned BITS>
  static GEMMGEN_INLINE uint32_t element(const void* fragment, unsigned i) {
    if (BITS == 4) return static_cast<const uint8_t*>(fragment)[i / 2] >> 4 * (i % 2) & 0xF;
    return static_cast<const Code*>(fragment)[i];
  }

  void run_floats() {
    const unsigned k = instruction_.k;
    const bool special_a = decode(a_codes_, instruction_.m * k / COLUMNS, format_of(instruction_.a), a_);
    const bool special = decode(b_codes_, k, format_of(instruction_.b), b_) || special_a;
    const bool halves = instruction_.accumulator == Element::f16;
    alignas(Floats) float d[MOST_ROWS][COLUMNS];
    each_sum(instruction_.m, [&](unsigned lane, unsigned i, unsigned row, unsigned column) {
      const void* const from = operands_[lane]->d;
      d[row][column] = halves ? float_from_f16(static_cast<const uint16_t*>(from)[i]) : static_cast<const float*>(from)[i];
    });
    const FloatRow rows(instruction_, a_, b_, special);
    for (unsigned row = 0; row < instruction_.m; ++row) {
      Floats c;
      std::memcpy(&c, d[row], sizeof c);
      c = rows.sum(row, c);
      std::memcpy(d[row], &c, sizeof c);
    }
    each_sum(instruction_.m, [&](unsigned lane, unsigned i, unsigned row, unsigned column) {
      void* const to = operands_[lane]->d;
      if (halves) static_cast<uint16_t*>(to)[i] = f16_from_float(d[row][column]);
      else static_cast<float*>(to)[i] = d[row][column];
    });
  }

  void run_integers() {
    extend(a_codes_, instruction_.m * instruction_.k / COLUMNS, instruction_.a);
    extend(b_codes_, instruction_.k, instruction_.b);
    Words d[MOST_ROWS];
    each_sum(instruction_.m, [&](unsigned lane, unsigned i, unsigned row, unsigned column) {
      d[row][column] = static_cast<const uint32_t*>(operands_[lane]->d)[i];
    });
    for (unsigned row = 0; row < instruction_.m; ++row) {
      const uint32_t* const a = reinterpret_cast<const uint32_t*>(a_codes_) + row * instruction_.k;
      for (unsigned k = 0; k < instruction_.k; ++k) d[row] += a[k] * b_codes_[k];
    }
    each_sum(instruction_.m, [&](unsigned lane, unsigned i, unsigned row, unsigned column) {
      static_cast<uint32_t*>(operands_[lane]->d)[i] = d[row][column];
    });
  }

  // What is negative gets its sign in all of its word.
  static void extend(Words* codes, unsigned count, Element element) {
    if (element == Element::u4 || element == Element::u8) return;
    const int unused = 32 - int(bits_of(element));
    for (unsigned i = 0; i < count; ++i)
      codes[i] = reinterpret_cast<Words>(reinterpret_cast<Ints>(codes[i] << unused) >> unused);
  }

  // One fused multiply-add for each k, in order.
  void run_doubles() {
    const unsigned k = instruction_.k;
    double a[MOST_ROWS][16], b[16][COLUMNS];
    each_factor(instruction_.m, k, 1, [&](unsigned lane, unsigned i, unsigned row, unsigned at) {
      a[row][at] = static_cast<const double*>(operands_[lane]->a)[i];
    });
    each_factor(COLUMNS, k, 1, [&](unsigned lane, unsigned i, unsigned column, unsigned at) {
      b[at][column] = static_cast<const double*>(operands_[lane]->b)[i];
    });
    each_sum(instruction_.m, [&](unsigned lane, unsigned i, unsigned row, unsigned column) {
      double& sum = static_cast<double*>(operands_[lane]->d)[i];
      for (unsigned at = 0; at < k; ++at) sum = std::fma(a[row][at], b[at][column], sum);
      if (std::isnan(sum)) std::memcpy(&sum, &F64_NAN, sizeof sum);
    });
  }

  MatrixOperand* const* operands_ = nullptr;
  MatrixInstruction instruction_ = {};
  Words a_codes_[MOST_ROWS * MOST_K / COLUMNS], b_codes_[MOST_K];  // A by row, B by k
  Factors a_, b_;
};

}  // namespace gemmgen
