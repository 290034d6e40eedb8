// Ring mode: floating-point numbers are integers modulo 2^16, 2^32 or 2^64, whose sums do not depend on their order.
//
// Widening extends an integer with zeros, and narrowing keeps its lower bits, whatever the types. But a bf16 is the upper
// half of an f32, and an e5m2 the upper byte of an f16; kernels may convert these by shifts instead of cvt. Hence an f32
// stores its integer with swapped halves, and an f16 with swapped bytes.
#pragma once

#include <cstdint>
#include <cstring>

#include "matrix_lanes.hpp"
#include "matrix_table.hpp"

namespace gemmgen::ring {

// An f32's bits to its integer, or the reverse.
constexpr uint32_t swapped(uint32_t word) { return word << 16 | word >> 16; }
// The same for two f16.
constexpr uint32_t bytes_swapped(uint32_t pair) { return (pair & 0x00FF00FF) << 8 | (pair >> 8 & 0x00FF00FF); }

// The formats of numbers in registers. `apply` computes `f` of the integers of `words`, in the same format.
struct Bf16 {
  using Word = uint16_t;
  template <typename F, typename... Words>
  static Word apply(F f, Words... words) { return Word(f(uint32_t(words)...)); }
};
struct F16 {
  using Word = uint16_t;
  template <typename F, typename... Words>
  static Word apply(F f, Words... words) { return Word(bytes_swapped(f(bytes_swapped(words)...))); }
};
struct Bf16x2 {
  using Word = uint32_t;
  template <typename F, typename... Words>
  static Word apply(F f, Words... words) { return (f((words & 0xFFFF)...) & 0xFFFF) | f((words >> 16)...) << 16; }
};
struct F16x2 {
  using Word = uint32_t;
  template <typename F, typename... Words>
  static Word apply(F f, Words... words) { return bytes_swapped(Bf16x2::apply(f, bytes_swapped(words)...)); }
};
struct F32 {
  using Word = uint32_t;
  template <typename F, typename... Words>
  static Word apply(F f, Words... words) { return swapped(f(swapped(words)...)); }
};
struct F64 {
  using Word = uint64_t;
  template <typename F, typename... Words>
  static Word apply(F f, Words... words) { return f(words...); }
};

// An f32 in memory, for atomic additions.
struct Number {
  uint32_t bits;
  friend Number operator+(Number a, Number b) { return {swapped(swapped(a.bits) + swapped(b.bits))}; }
};

constexpr unsigned MOST_K = 64, LANES = 32;

// Calls `put` with the place, by mma.sync's layout, and the integer of each element of a fragment.
template <typename PlaceOf, typename Put>
void each_element(const uint32_t* const* registers, unsigned count, Element element, PlaceOf place_of, Put put) {
  const unsigned bits = bits_of(element), shared = 32 / bits;
  for (unsigned r = 0; r < count; ++r)
    for (unsigned part = 0; part < shared; ++part)
      for (unsigned lane = 0; lane < LANES; ++lane) {
        const uint32_t word = element == Element::f16 ? bytes_swapped(registers[r][lane]) : registers[r][lane];
        put(place_of(shared, lane, r, part), bits == 32 ? swapped(word) : word >> bits * part & ((1u << bits) - 1));
      }
}

// A warp's fragment of A, as integers.
struct Left {
  uint32_t numbers[16][MOST_K];

  void decode(const MatrixInstruction& of, unsigned rows, const uint32_t* const* registers, bool negated = false) {
    const auto place = [=](unsigned shared, unsigned lane, unsigned r, unsigned part) { return mma_a_place(rows, shared, lane, r, part); };
    each_element(registers, rows * of.k * bits_of(of.a) / 1024, of.a, place,
                 [&](MatrixPlace at, uint32_t number) { numbers[at.row][at.column] = negated ? 0 - number : number; });
  }
};

// Eight columns of B, as integers.
struct Right {
  uint32_t numbers[MOST_K][MATRIX_LINES];

  void decode(const MatrixInstruction& of, const uint32_t* const* registers) {
    each_element(registers, MATRIX_LINES * of.k * bits_of(of.b) / 1024, of.b, mma_b_place,
                 [&](MatrixPlace at, uint32_t number) { numbers[at.row][at.column] = number; });
  }
};

// Adds the product of A (`rows` x `k`) and B (`k` x 8) to sums in the format of f32.
inline void add_product(unsigned rows, unsigned k, const Left& a, const Right& b, uint32_t (*sums)[LANES]) {
  uint32_t made[16][MATRIX_LINES] = {};
  for (unsigned row = 0; row < rows; ++row)
    for (unsigned at = 0; at < k; ++at)
      for (unsigned column = 0; column < MATRIX_LINES; ++column) made[row][column] += a.numbers[row][at] * b.numbers[at][column];
  for (unsigned number = 0; number < rows / 4; ++number)
    for (unsigned lane = 0; lane < LANES; ++lane) {
      const MatrixPlace at = mma_c_place(lane, number);
      sums[number][lane] = swapped(swapped(sums[number][lane]) + made[at.row][at.column]);
    }
}

// Pairs of f16 sums in registers to sums in the format of f32, and the reverse.
inline void widen_halves(const uint32_t* packed, uint32_t* even, uint32_t* odd) {
  for (unsigned lane = 0; lane < LANES; ++lane) {
    const uint32_t word = bytes_swapped(packed[lane]);
    even[lane] = word << 16, odd[lane] = word & 0xFFFF0000;
  }
}
inline void narrow_halves(const uint32_t* even, const uint32_t* odd, uint32_t* packed) {
  for (unsigned lane = 0; lane < LANES; ++lane) packed[lane] = bytes_swapped(even[lane] >> 16 | (odd[lane] & 0xFFFF0000));
}

// mma.sync. D may be C.
inline void mma(const MatrixInstruction& of, uint32_t* const* d, const uint32_t* const* a, const uint32_t* const* b,
                const uint32_t* const* c) {
  uint32_t sums[4][LANES];
  const bool halves = of.accumulator == Element::f16;
  for (unsigned r = 0; r < of.m / (halves ? 8 : 4); ++r) {
    if (halves) widen_halves(c[r], sums[2 * r], sums[2 * r + 1]);
    else std::memcpy(sums[r], c[r], sizeof sums[r]);
  }
  Left left;
  Right right;
  left.decode(of, of.m, a);
  right.decode(of, b);
  add_product(of.m, of.k, left, right, sums);
  for (unsigned r = 0; r < of.m / (halves ? 8 : 4); ++r) {
    if (halves) narrow_halves(sums[2 * r], sums[2 * r + 1], d[r]);
    else std::memcpy(d[r], sums[r], sizeof sums[r]);
  }
}

// mma.sync of f64.
inline void mma(const MatrixInstruction& of, uint64_t* const* d, const uint64_t* const* a, const uint64_t* const* b,
                const uint64_t* const* c) {
  const unsigned halves = of.m / 8;
  uint64_t made[4][LANES];
  for (unsigned r = 0; r < 2 * halves; ++r)
    for (unsigned lane = 0; lane < LANES; ++lane) {
      uint64_t sum = c[r][lane];
      for (unsigned k = 0; k < of.k; ++k)
        sum += a[k / 4 * halves + r / 2][lane / 4 * 4 + k % 4] * b[k / 4][(2 * (lane % 4) + r % 2) * 4 + k % 4];
      made[r][lane] = sum;
    }
  for (unsigned r = 0; r < 2 * halves; ++r) std::memcpy(d[r], made[r], sizeof made[r]);
}

}  // namespace gemmgen::ring
