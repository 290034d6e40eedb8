// wgmma: the product of a warpgroup, whose operands lie in shared memory where descriptors say, or A in registers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "matrix_lanes.hpp"
#include "matrix_table.hpp"
#include "ring_numbers.hpp"
#include "tile_factors.hpp"
#include "tile_sums.hpp"

namespace gemmgen {

constexpr unsigned WGMMA_ROWS = 64, WGMMA_WARPS = 4, WGMMA_K_BYTES = 32, WGMMA_COLUMNS = 256;
constexpr unsigned WGMMA_CHUNK_BYTES = 16;

// Where A or B of a wgmma lies: 8 lines of 8, 4, 2 or 1 chunks of 16 bytes are a pattern, whose lines run along k, or along
// the rows or columns where it is transposed.
struct Descriptor {
  uint32_t start, leading, stride;  // bytes
  unsigned base_offset, swizzle;    // of a pattern's lines, in bytes; 0 for none

  explicit Descriptor(uint64_t bits)
      : start(uint32_t(bits & 0x3FFF) << 4), leading(uint32_t(bits >> 16 & 0x3FFF) << 4),
        stride(uint32_t(bits >> 32 & 0x3FFF) << 4), base_offset(unsigned(bits >> 49 & 7)) {
    constexpr unsigned SPANS[] = {0, 128, 64, 32};
    swizzle = SPANS[bits >> 62];
  }

  // The shared address of a chunk: K-major, line `line` and chunk `chunk` of k.
  uint32_t k_major(uint32_t line, uint32_t chunk) const {
    const uint32_t span = swizzle == 0 ? WGMMA_CHUNK_BYTES : swizzle;
    const uint32_t along = swizzle == 0 ? chunk * leading : chunk * WGMMA_CHUNK_BYTES;
    return swizzled((start + line / 8 * stride + line % 8 * span + along) & WINDOW, swizzle);
  }

  // MN-major: k and chunk `chunk` along rows or columns.
  uint32_t mn_major(uint32_t k, uint32_t chunk) const {
    if (swizzle == 0) return (start + chunk * stride + k % 8 * WGMMA_CHUNK_BYTES + k / 8 * leading) & WINDOW;
    const uint32_t chunks = swizzle / WGMMA_CHUNK_BYTES;
    const uint32_t along = chunk % chunks * WGMMA_CHUNK_BYTES + chunk / chunks * leading;
    return swizzled((start + along + k % 8 * swizzle + k / 8 * stride) & WINDOW, swizzle);
  }

  // Calls `visit` with each chunk's shared address, its first line and its first k.
  template <typename Visit>
  void each_chunk(unsigned lines, unsigned element_bytes, bool transposed, Visit visit) const {
    const unsigned elements = WGMMA_CHUNK_BYTES / element_bytes, k = WGMMA_K_BYTES / element_bytes;
    if (transposed) {
      for (unsigned at = 0; at < k; ++at)
        for (unsigned chunk = 0; chunk < lines / elements; ++chunk) visit(mn_major(at, chunk), chunk * elements, at);
      return;
    }
    for (unsigned line = 0; line < lines; ++line)
      for (unsigned chunk = 0; chunk < 2; ++chunk) visit(k_major(line, chunk), line, chunk * elements);
  }

 private:
  static constexpr uint32_t WINDOW = 0x3FFFF;
};

// A wgmma with its immediates.
struct WarpgroupInstruction {
  MatrixInstruction of;
  bool trans_a = false, trans_b = false;    // MN-major
  bool negate_a = false, negate_b = false;  // imm-scale-a and -b of -1
};

using FactorRegisters = uint32_t[WGMMA_WARPS][4][tiles::LANES];  // A: of each warp four registers of 32 lanes

// The sums of a warpgroup, placed as its registers are: 4 i to 4 i + 3 of a warp are a tile of 16 x 8. Those of f16 are floats.
struct WarpgroupSums {
  alignas(tiles::BYTES) uint32_t values[WGMMA_WARPS][WGMMA_COLUMNS / 2][tiles::LANES];

  // From a warp's registers, and back to them: n / 2, or n / 4 of f16.
  void load(const MatrixInstruction& of, unsigned warp, const uint32_t* const* registers) {
    const bool halves = of.accumulator == Element::f16;
    for (unsigned r = 0; r < registers_of(of); ++r) {
      if (halves && of.ring) ring::widen_halves(registers[r], values[warp][2 * r], values[warp][2 * r + 1]);
      else if (halves) tiles::widen_halves(registers[r], floats(warp, 2 * r), floats(warp, 2 * r + 1));
      else std::memcpy(values[warp][r], registers[r], sizeof values[warp][r]);
    }
  }

  void store(const MatrixInstruction& of, unsigned warp, uint32_t* const* registers) const {
    const bool halves = of.accumulator == Element::f16;
    for (unsigned r = 0; r < registers_of(of); ++r) {
      if (halves && of.ring) ring::narrow_halves(values[warp][2 * r], values[warp][2 * r + 1], registers[r]);
      else if (halves) tiles::narrow_halves(floats(warp, 2 * r), floats(warp, 2 * r + 1), registers[r]);
      else std::memcpy(registers[r], values[warp][r], sizeof values[warp][r]);
    }
  }

  // Whether a warp's registers hold anything else.
  bool differ(const MatrixInstruction& of, unsigned warp, const uint32_t* const* registers) const {
    uint32_t held[WGMMA_COLUMNS / 2][tiles::LANES];
    uint32_t* places[WGMMA_COLUMNS / 2];
    for (unsigned r = 0; r < registers_of(of); ++r) places[r] = held[r];
    store(of, warp, places);
    for (unsigned r = 0; r < registers_of(of); ++r)
      if (std::memcmp(held[r], registers[r], sizeof held[r]) != 0) return true;
    return false;
  }

  static constexpr unsigned registers_of(const MatrixInstruction& of) {
    return of.accumulator == Element::f16 ? of.n / 4 : of.n / 2;
  }

 private:
  float* floats(unsigned warp, unsigned r) { return reinterpret_cast<float*>(values[warp][r]); }
  const float* floats(unsigned warp, unsigned r) const { return reinterpret_cast<const float*>(values[warp][r]); }
};

// Computes products one after the other; one per thread.
class WarpgroupProduct {
 public:
  // `shared`: what shared address 0 stands for; each chunk of the operands has to be there. `a_registers` is null where `a`
  // says where A lies. Without `scale_d` sums start at 0.
  void run(const WarpgroupInstruction& instruction, const unsigned char* shared, uint64_t a, const FactorRegisters* a_registers,
           uint64_t b, bool scale_d, WarpgroupSums& sums) {
    const MatrixInstruction& of = instruction.of;
    Scratch& scratch = *scratch_;
    if (a_registers == nullptr) {
      read(Descriptor(a), shared, WGMMA_ROWS, bits_of(of.a) / 8, instruction.trans_a, [&](unsigned line, unsigned chunk) {
        return scratch.a_codes[line / 16][line / 8 % 2 + 2 * chunk] + line % 8 * 4;
      });
      a_registers = &scratch.a_codes;
    }
    read(Descriptor(b), shared, of.n, bits_of(of.b) / 8, instruction.trans_b,
         [&](unsigned line, unsigned chunk) { return scratch.b_codes[line / 8][chunk] + line % 8 * 4; });
    for (unsigned warp = 0; warp < WGMMA_WARPS; ++warp) {
      const auto& codes = (*a_registers)[warp];
      const uint32_t* const registers[] = {codes[0], codes[1], codes[2], codes[3]};
      if (!scale_d) std::memset(sums.values[warp], 0, of.n / 2 * sizeof sums.values[warp][0]);
      if (of.ring) scratch.left[warp].decode(of, 16, registers, instruction.negate_a != instruction.negate_b);
      else scratch.a[warp].decode(registers, 16, of.k, of.a, instruction.negate_a);
    }
    for (unsigned tile = 0; of.ring && tile < of.n / 8; ++tile) {
      const uint32_t* const registers[] = {scratch.b_codes[tile][0], scratch.b_codes[tile][1]};
      scratch.right.decode(of, registers);
      for (unsigned warp = 0; warp < WGMMA_WARPS; ++warp)
        ring::add_product(16, of.k, scratch.left[warp], scratch.right, sums.values[warp] + 4 * tile);
    }
    if (of.ring) return;
    for (unsigned first = 0; first < of.n / 8; first += AT_ONCE) {
      const unsigned end = std::min(first + AT_ONCE, of.n / 8);
      for (unsigned tile = first; tile < end; ++tile) {
        const uint32_t* const registers[] = {scratch.b_codes[tile][0], scratch.b_codes[tile][1]};
        scratch.b[tile - first].decode(registers, of.k, of.b, instruction.negate_b);
      }
      for (unsigned warp = 0; warp < WGMMA_WARPS; ++warp)
        for (unsigned tile = first; tile < end; ++tile)
          add(of, scratch.a[warp], scratch.b[tile - first], sums.values[warp] + 4 * tile);
    }
  }

 private:
  static constexpr unsigned AT_ONCE = 4;  // tiles, whose factors stay in the first cache while all warps use them

  static void add(const MatrixInstruction& of, const tiles::FactorsA& a, const tiles::FactorsB& b, uint32_t (*sums)[tiles::LANES]) {
    const tiles::TileSums tile(of);
    if (of.accumulator == Element::s32) tile.add_integers(a, b, *reinterpret_cast<uint32_t(*)[4][tiles::LANES]>(sums));
    else tile.add(a, b, *reinterpret_cast<tiles::Sums*>(sums));
  }

  // Fills what are the registers of mma.sync: `quad_of` says where the four words are which a line has of a chunk of k.
  template <typename QuadOf>
  static void read(Descriptor at, const unsigned char* shared, unsigned lines, unsigned bytes, bool transposed, QuadOf quad_of) {
    const unsigned of_chunk = WGMMA_CHUNK_BYTES / bytes;  // k
    at.each_chunk(lines, bytes, transposed, [&](uint32_t address, unsigned line, unsigned k) {
      if (!transposed) {
        std::memcpy(quad_of(line, k / of_chunk), shared + address, WGMMA_CHUNK_BYTES);
        return;
      }
      uint16_t codes[WGMMA_CHUNK_BYTES / 2];  // only 16-bit types are
      std::memcpy(codes, shared + address, sizeof codes);
      for (unsigned i = 0; i < 8; ++i) std::memcpy(reinterpret_cast<uint16_t*>(quad_of(line + i, k / 8)) + k % 8, &codes[i], 2);
    });
  }

  struct Scratch {
    alignas(tiles::BYTES) FactorRegisters a_codes;
    alignas(tiles::BYTES) uint32_t b_codes[WGMMA_COLUMNS / 8][2][tiles::LANES];
    tiles::FactorsA a[WGMMA_WARPS];
    tiles::FactorsB b[AT_ONCE];
    ring::Left left[WGMMA_WARPS];
    ring::Right right;
  };
  std::unique_ptr<Scratch> scratch_ = std::make_unique<Scratch>();
};

}  // namespace gemmgen
