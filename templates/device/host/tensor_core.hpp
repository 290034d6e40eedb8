// The products of warps, from the registers of 32 lanes and back: row_sums.hpp has their arithmetic.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "matrix_instructions.hpp"
#include "row_sums.hpp"

namespace gemmgen {

// What the 32 lanes of a warp bring to an instruction.
struct MatrixOperand {
  const MatrixInstruction* instruction;
  void* d;
  const void *a, *b;
  int line;
};

constexpr unsigned LANES = 32;

// A or B of a warp, from its registers to numbers. Instructions share fragments: what is known is not decoded again.
class Fragment {
 public:
  // Registers of `bytes` a lane, of `lines` rows or columns of k elements each; numbers come by row of A, and by k of B.
  void fill(const void* const* registers, unsigned bytes, unsigned lines, unsigned k, Element element, bool by_k) {
    const bool same = bytes == 16 ? keep<16>(registers) : bytes == 8 ? keep<8>(registers) : keep<4>(registers);
    if (same && lines_ == lines && k_ == k && element_ == element) return;
    lines_ = lines, k_ = k, element_ = element;
    switch (bits_of(element)) {
      case 4: gather<uint8_t, 4>(by_k); break;
      case 8: gather<uint8_t, 8>(by_k); break;
      case 16: gather<uint16_t, 16>(by_k); break;
      default: gather<uint32_t, 32>(by_k);
    }
    if (is_integer(element)) extend();
    else special = decode(codes, lines * k / COLUMNS, format_of(element), factors);
  }

  Words codes[MOST_ROWS * MOST_K / COLUMNS];  // bit patterns, or whole numbers
  Factors factors;
  bool special = false;  // some are Inf or NaN

 private:
  static constexpr unsigned MOST_BYTES = 16;

  // Copies the registers; whether they are those that it had.
  template <unsigned BYTES>
  bool keep(const void* const* registers) {
    using Word = std::conditional_t<BYTES == 4, uint32_t, uint64_t>;
    Word differing = 0;
    for (unsigned lane = 0; lane < LANES; ++lane) {
      Word now[BYTES / sizeof(Word)], before[BYTES / sizeof(Word)];
      std::memcpy(now, registers[lane], BYTES);
      std::memcpy(before, registers_[lane], BYTES);
      for (unsigned i = 0; i < BYTES / sizeof(Word); ++i) differing |= now[i] ^ before[i];
      std::memcpy(registers_[lane], now, BYTES);
    }
    return differing == 0;
  }

  static bool is_integer(Element element) { return element <= Element::s32; }

  template <typename Code, unsigned BITS>
  void gather(bool by_k) {
    constexpr unsigned SHARED = 32 / BITS;
    auto* const words = reinterpret_cast<uint32_t*>(codes);
    const unsigned blocks = lines_ / 8, count = lines_ * k_ / (LANES * SHARED);
    const unsigned line_step = by_k ? 1 : k_, k_step = by_k ? lines_ : 1;
    for (unsigned lane = 0; lane < LANES; ++lane)
      for (unsigned r = 0; r < count; ++r) {
        const unsigned line = lane / 4 + 8 * (r % blocks), k = 4 * SHARED * (r / blocks) + SHARED * (lane % 4);
        for (unsigned part = 0; part < SHARED; ++part)
          words[line * line_step + (k + part) * k_step] = element<Code, BITS>(registers_[lane], r * SHARED + part);
      }
  }

  template <typename Code, unsigned BITS>
  static GEMMGEN_INLINE uint32_t element(const unsigned char* registers, unsigned i) {
    if (BITS == 4) return registers[i / 2] >> 4 * (i % 2) & 0xF;
    Code code;
    std::memcpy(&code, registers + i * sizeof code, sizeof code);
    return code;
  }

  // What is negative gets its sign in all of its word.
  void extend() {
    if (element_ == Element::u4 || element_ == Element::u8) return;
    const int unused = 32 - int(bits_of(element_));
    for (unsigned i = 0; i < lines_ * k_ / COLUMNS; ++i)
      codes[i] = reinterpret_cast<Words>(reinterpret_cast<Ints>(codes[i] << unused) >> unused);
  }

  unsigned lines_ = 0, k_ = 0;
  Element element_ = Element::f64;
  unsigned char registers_[LANES][MOST_BYTES];
};

// The fragments of late, by where their registers are.
class Fragments {
 public:
  Fragment& at(const void* registers) {
    const auto address = reinterpret_cast<uintptr_t>(registers);
    return some_[(address >> 3 ^ address >> 8 ^ address >> 17) % COUNT];  // stacks of warps lie 17 * 2^17 bytes apart
  }

 private:
  static constexpr unsigned COUNT = 128;
  Fragment some_[COUNT];
};

// The instructions of warps. Too large for a kernel's stack.
class TensorCore {
 public:
  void run(MatrixOperand* const* operands) {
    operands_ = operands;
    instruction_ = *operands[0]->instruction;
    if (instruction_.accumulator == Element::f64) return run_doubles();
    if (instruction_.accumulator == Element::s32) return run_integers();
    if (instruction_.accumulator == Element::f16) return run_floats<uint16_t>();
    run_floats<float>();
  }

 private:
  template <typename Sum>
  void run_floats() {
    const Fragment &a = fragment_a(), &b = fragment_b();
    const FloatRow rows(instruction_, a.factors, b.factors, a.special || b.special);
    Floats d[MOST_ROWS];
    each_pair<Sum>([&](const Sum* sums, unsigned row, unsigned column) {
      for (unsigned i = 0; i < 2; ++i) d[row][column + i] = widened(sums[i]);
    });
    for (unsigned row = 0; row < instruction_.m; ++row) d[row] = rows.sum(row, d[row]);
    each_pair<Sum>([&](Sum* sums, unsigned row, unsigned column) {
      for (unsigned i = 0; i < 2; ++i) narrow_into(sums[i], d[row][column + i]);
    });
  }

  static float widened(float value) { return value; }
  static float widened(uint16_t half) { return float_from_f16(half); }
  static void narrow_into(float& to, float value) { to = value; }
  static void narrow_into(uint16_t& to, float value) { to = f16_from_float(value); }

  void run_integers() {
    const Fragment &a = fragment_a(), &b = fragment_b();
    Words d[MOST_ROWS];
    each_pair<uint32_t>([&](const uint32_t* sums, unsigned row, unsigned column) {
      for (unsigned i = 0; i < 2; ++i) d[row][column + i] = sums[i];
    });
    for (unsigned row = 0; row < instruction_.m; ++row) {
      const uint32_t* const factors = reinterpret_cast<const uint32_t*>(a.codes) + row * instruction_.k;
      for (unsigned k = 0; k < instruction_.k; ++k) d[row] += factors[k] * b.codes[k];
    }
    each_pair<uint32_t>([&](uint32_t* sums, unsigned row, unsigned column) {
      for (unsigned i = 0; i < 2; ++i) sums[i] = d[row][column + i];
    });
  }

  // One fused multiply-add for each k, in order.
  void run_doubles() {
    const unsigned k = instruction_.k, blocks = instruction_.m / 8;
    double a[MOST_ROWS][16], b[COLUMNS][16];
    for (unsigned lane = 0; lane < LANES; ++lane) {
      const auto *const of_a = static_cast<const double*>(operands_[lane]->a), *const of_b = static_cast<const double*>(operands_[lane]->b);
      for (unsigned r = 0; r < k / 4 * blocks; ++r) a[lane / 4 + 8 * (r % blocks)][r / blocks * 4 + lane % 4] = of_a[r];
      for (unsigned r = 0; r < k / 4; ++r) b[lane / 4][4 * r + lane % 4] = of_b[r];
    }
    each_pair<double>([&](double* sums, unsigned row, unsigned column) {
      for (unsigned i = 0; i < 2; ++i) {
        for (unsigned at = 0; at < k; ++at) sums[i] = fused(a[row][at], b[column + i][at], sums[i]);
      }
    });
  }

  // a * b + c, with one rounding. A NaN is that of b, else that of c, else that of a, made quiet.
  static double fused(double a, double b, double c) {
    const double sum = std::fma(a, b, c);
    if (!std::isnan(sum)) return sum;
    for (const double operand : {b, c, a})
      if (std::isnan(operand)) return operand + 0.0;
    double made;
    std::memcpy(&made, &F64_NAN, sizeof made);
    return made;
  }

  // Calls `visit` with every two neighbouring sums of a lane, their row and the first one's column.
  template <typename Sum, typename Visit>
  GEMMGEN_INLINE void each_pair(Visit visit) {
    for (unsigned lane = 0; lane < LANES; ++lane)
      for (unsigned i = 0; i < instruction_.m / 8; ++i)
        visit(static_cast<Sum*>(operands_[lane]->d) + 2 * i, lane / 4 + 8 * i, 2 * (lane % 4));
  }

  const Fragment& fragment_a() { return filled(a_, &MatrixOperand::a, instruction_.m, instruction_.a, false); }
  const Fragment& fragment_b() { return filled(b_, &MatrixOperand::b, COLUMNS, instruction_.b, true); }

  const Fragment& filled(Fragments& known, const void* MatrixOperand::*side, unsigned lines, Element element, bool by_k) {
    const void* registers[LANES];
    for (unsigned lane = 0; lane < LANES; ++lane) registers[lane] = operands_[lane]->*side;
    Fragment& found = known.at(registers[0]);
    found.fill(registers, lines * instruction_.k * bits_of(element) / 8 / LANES, lines, instruction_.k, element, by_k);
    return found;
  }

  MatrixOperand* const* operands_ = nullptr;
  MatrixInstruction instruction_ = {};
  Fragments a_, b_;
};

}  // namespace gemmgen
