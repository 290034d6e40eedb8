// The products of warps: mma.sync, and wmma by way of it.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

#include "matrix_table.hpp"
#include "ring_numbers.hpp"
#include "tile_factors.hpp"
#include "tile_sums.hpp"

namespace gemmgen {

// Computes products one after the other; one per thread, as it remembers fragments: kernels use each several times.
class WarpProducts {
 public:
  // Registers come by number, each of 32 lanes. D may be C. Types other than f64.
  void mma(const MatrixInstruction& of, uint32_t* const* d, const uint32_t* const* a, const uint32_t* const* b,
           const uint32_t* const* c) {
    if (of.ring) return ring::mma(of, d, a, b, c);
    const unsigned a_registers = of.m * of.k * bits_of(of.a) / 1024, b_registers = 8 * of.k * bits_of(of.b) / 1024;
    const auto& left = memory_->a[slot(a[0], MOST_A)].of(a, a_registers, of.m, of.k, of.a);
    const auto& right = memory_->b[slot(b[0], MOST_B)].of(b, b_registers, 8, of.k, of.b);
    const tiles::TileSums tile(of);
    if (of.accumulator == Element::s32) {
      alignas(tiles::BYTES) uint32_t sums[4][tiles::LANES];
      for (unsigned r = 0; r < of.m / 4; ++r) std::memcpy(sums[r], c[r], sizeof sums[r]);
      tile.add_integers(left, right, sums);
      for (unsigned r = 0; r < of.m / 4; ++r) std::memcpy(d[r], sums[r], sizeof sums[r]);
      return;
    }
    alignas(tiles::BYTES) tiles::Sums sums;
    const bool halves = of.accumulator == Element::f16;
    if (halves)
      for (unsigned r = 0; r < of.m / 8; ++r) tiles::widen_halves(c[r], sums[2 * r], sums[2 * r + 1]);
    else
      for (unsigned r = 0; r < of.m / 4; ++r) std::memcpy(sums[r], c[r], sizeof sums[r]);
    tile.add(left, right, sums);
    if (halves)
      for (unsigned r = 0; r < of.m / 8; ++r) tiles::narrow_halves(sums[2 * r], sums[2 * r + 1], d[r]);
    else
      for (unsigned r = 0; r < of.m / 4; ++r) std::memcpy(d[r], sums[r], sizeof sums[r]);
  }

  // The same of f64: one fused multiply-add for each k, in order.
  void mma(const MatrixInstruction& of, uint64_t* const* d, const uint64_t* const* a, const uint64_t* const* b,
           const uint64_t* const* c) {
    if (of.ring) return ring::mma(of, d, a, b, c);
    constexpr unsigned MOST = 16;  // k
    const unsigned halves = of.m / 8;
    double of_a[2][MOST][tiles::LANES], of_b[2][MOST][tiles::LANES];
    for (unsigned k = 0; k < of.k; ++k)
      for (unsigned lane = 0; lane < tiles::LANES; ++lane) {
        const unsigned t = k % 4;
        for (unsigned half = 0; half < halves; ++half) of_a[half][k][lane] = number(a[k / 4 * halves + half][lane / 4 * 4 + t]);
        for (unsigned odd = 0; odd < 2; ++odd) of_b[odd][k][lane] = number(b[k / 4][(2 * (lane % 4) + odd) * 4 + t]);
      }
    for (unsigned r = 0; r < 2 * halves; ++r) {
      double sums[tiles::LANES];
      for (unsigned lane = 0; lane < tiles::LANES; ++lane) sums[lane] = number(c[r][lane]);
      for (unsigned k = 0; k < of.k; ++k)
        for (unsigned lane = 0; lane < tiles::LANES; ++lane)
          sums[lane] = __builtin_fma(of_a[r / 2][k][lane], of_b[r % 2][k][lane], sums[lane]);
      for (unsigned lane = 0; lane < tiles::LANES; ++lane) {
        if (sums[lane] != sums[lane]) {  // which NaN it is depends on the operands
          sums[lane] = number(c[r][lane]);
          for (unsigned k = 0; k < of.k; ++k) sums[lane] = fused(of_a[r / 2][k][lane], of_b[r % 2][k][lane], sums[lane]);
        }
        std::memcpy(d[r] + lane, &sums[lane], sizeof sums[lane]);
      }
    }
  }

  // wmma.mma of 16 x 16 x 16: `half` is the table's record. Registers as in matrix_lanes.hpp: 4 of A, 4 of B, 8 sums.
  void wmma(const MatrixInstruction& half, uint32_t* const* d, const uint32_t* const* a, const uint32_t* const* b,
            const uint32_t* const* c) {
    for (unsigned i = 0; i < 2; ++i) mma(half, d + 4 * i, a, b + 2 * i, c + 4 * i);
  }

 private:
  // Numbers with the registers that they came from.
  template <typename Factors>
  class Known {
   public:
    const Factors& of(const uint32_t* const* registers, unsigned count, unsigned lines, unsigned k, Element element) {
      const bool alike = lines == lines_ && k == k_ && element == element_;
      if (keep(registers, count) && alike) return factors_;
      lines_ = lines, k_ = k, element_ = element;
      if constexpr (requires { factors_.decode(registers, lines, k, element); }) factors_.decode(registers, lines, k, element);
      else factors_.decode(registers, k, element);
      return factors_;
    }

   private:
    // Copies the registers; whether they are those that it had.
    bool keep(const uint32_t* const* registers, unsigned count) {
      tiles::Words differing = {};
      for (unsigned r = 0; r < count; ++r)
        for (unsigned vector = 0; vector < tiles::VECTORS; ++vector) {
          uint32_t* const before = registers_[r] + vector * tiles::WIDTH;
          const tiles::Words now = tiles::load(registers[r] + vector * tiles::WIDTH);
          differing |= now ^ tiles::load(before);
          tiles::store(before, now);
        }
      return tiles::any_bits(differing) == 0;
    }

    static constexpr unsigned MOST_REGISTERS = 4;
    unsigned lines_ = 0, k_ = 0;
    Element element_ = Element::f64;
    alignas(tiles::BYTES) uint32_t registers_[MOST_REGISTERS][tiles::LANES];
    Factors factors_;
  };

  static constexpr unsigned MOST_A = 16, MOST_B = 32;  // few enough for caches: a fragment of A takes 6 KB
  struct Memory {
    Known<tiles::FactorsA> a[MOST_A];
    Known<tiles::FactorsB> b[MOST_B];
  };

  // By where the registers are: a kernel's next iteration brings others in the same ones.
  static unsigned slot(const uint32_t* registers, unsigned count) {
    return unsigned((reinterpret_cast<uintptr_t>(registers) >> 7) * 0x9E3779B97F4A7C15 >> 40) % count;
  }

  static double number(uint64_t bits) {
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  // a * b + c, with one rounding. A NaN is that of b, else that of c, else that of a, made quiet.
  static double fused(double a, double b, double c) {
    constexpr uint64_t UNEXPLAINED = 0xFFF8000000000000, QUIET = uint64_t(1) << 51;
    const double sum = __builtin_fma(a, b, c);
    if (sum == sum) return sum;
    for (const double operand : {b, c, a})
      if (operand != operand) {
        uint64_t bits;
        std::memcpy(&bits, &operand, sizeof bits);
        return number(bits | QUIET);
      }
    return number(UNEXPLAINED);
  }

  std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();
};

}  // namespace gemmgen
