// The runtime's side of wmma.hpp. Included once.
#pragma once

#include <cstring>

#include "block.hpp"
#include "failure.hpp"
#include "matrix_runtime.hpp"
#include "operand_access.hpp"
#include "races.hpp"
#include "shared_memory.hpp"
#include "wmma.hpp"

namespace gemmgen {

constexpr unsigned WMMA_SIDE = 16, WMMA_LINE_BYTES = 32, WMMA_BYTES = 16;  // the last two of the first's alignment, and ld's

// What a lane brings to a load or store: its part of the fragment, the first line's address, and a half of line lane / 2.
struct WmmaHalfLine {
  const char* what;
  WmmaElements* elements;
  bool by_mn;  // lines run along k: each is a row of A, or a column of B
  bool is_a;
  const float* sums;
  const void* first;
  int ld, line;
  unsigned char bytes[WMMA_SIDE / 2 * sizeof(float)];
};

[[noreturn]] inline void refuse_wmma(const WmmaHalfLine& operand, const char* why, const void* address) {
  fail("crash", {unsigned(operand.line)}, "%s: %s %s (%s, ld = %d)", block.where().c_str(), operand.what, why,
       describe_address(static_cast<const unsigned char*>(address)).c_str(), operand.ld);
}

// All lanes are there, and name the same lines.
inline void require_one_fragment(void* const* operands) {
  require_whole_warp<WmmaHalfLine>(operands);
  const auto& first = *static_cast<const WmmaHalfLine*>(operands[0]);
  for (unsigned lane = 1; lane < WARP; ++lane) {
    const auto& other = *static_cast<const WmmaHalfLine*>(operands[lane]);
    if (other.first != first.first || other.ld != first.ld)
      refuse_wmma(other, "by lanes that do not all name the same matrix and ld", other.first);
  }
}

// Where this lane's half line is, of elements of `size` bytes.
inline unsigned char* half_line(const WmmaHalfLine& operand, unsigned size) {
  const unsigned lane = block.lane(), bytes = WMMA_SIDE / 2 * size;
  if (!aligned(operand.first, WMMA_LINE_BYTES)) refuse_wmma(operand, "of lines at an address that 32 does not divide", operand.first);
  if (operand.ld * int(size) % int(WMMA_BYTES) != 0)
    refuse_wmma(operand, "of lines that are no multiple of 16 bytes apart", operand.first);
  auto* const address = static_cast<unsigned char*>(const_cast<void*>(operand.first)) +
                        (std::ptrdiff_t(lane / 2) * operand.ld + std::ptrdiff_t(lane % 2 * WMMA_SIDE / 2)) * std::ptrdiff_t(size);
  if (!shared_memory.contains(address, bytes)) refuse_wmma(operand, "of a line outside shared memory", address);
  return address;
}

// Each lane gets what mma.sync wants of it: one of many ways, which no kernel can tell from others.
inline void distribute_fragment(void* const* operands) {
  require_one_fragment(operands);
  const auto of = [&](unsigned lane) -> WmmaHalfLine& { return *static_cast<WmmaHalfLine*>(operands[lane]); };
  for (unsigned lane = 0; lane < WARP; ++lane)
    for (unsigned i = 0; i < 4; ++i)
      for (unsigned part = 0; part < 2; ++part) {
        const unsigned second_mn = of(0).is_a ? i % 2 : i / 2, second_k = of(0).is_a ? i / 2 : i % 2;
        const unsigned mn = lane / 4 + 8 * second_mn, k = 2 * (lane % 4) + part + 8 * second_k;
        const unsigned across = of(0).by_mn ? mn : k, along = of(0).by_mn ? k : mn;
        const unsigned char* const element = of(2 * across + along / 8).bytes + 2 * (along % 8);
        std::memcpy(reinterpret_cast<unsigned char*>(of(lane).elements->registers + i) + 2 * part, element, 2);
      }
}

inline void collect_sums(void* const* operands) {
  require_one_fragment(operands);
  const auto of = [&](unsigned lane) -> WmmaHalfLine& { return *static_cast<WmmaHalfLine*>(operands[lane]); };
  for (unsigned lane = 0; lane < WARP; ++lane)
    for (unsigned i = 0; i < 8; ++i) {
      const unsigned row = lane / 4 + 8 * (i % 4 / 2), column = 2 * (lane % 4) + i % 2;  // of half i / 4
      std::memcpy(of(2 * row + i / 4).bytes + sizeof(float) * column, of(lane).sums + i, sizeof(float));
    }
}

void wmma_load(WmmaElements& held, bool is_a, WmmaOrder order, const void* lines, int ld, int line) {
  const char* const what = is_a ? "wmma_load_a" : "wmma_load_b";
  WmmaHalfLine operand = {what, &held, is_a == (order == WmmaOrder::row), is_a, nullptr, lines, ld, line, {}};
  const unsigned char* const address = half_line(operand, 2);
  if (watching) races.read(address, WMMA_SIDE, Place::line(unsigned(line)));
  std::memcpy(operand.bytes, address, WMMA_SIDE);
  matrix_instruction(&operand, distribute_fragment, line);
  held.order = order;
}

void wmma_store(float* rows, const float* d, int ld, int line) {
  WmmaHalfLine operand = {"wmma_store", nullptr, false, false, d, rows, ld, line, {}};
  unsigned char* const address = half_line(operand, sizeof(float));
  matrix_instruction(&operand, collect_sums, line);
  if (watching) races.write(address, sizeof operand.bytes, Place::line(unsigned(line)));
  std::memcpy(address, operand.bytes, sizeof operand.bytes);
}

void wmma_multiply(const MatrixInstruction& half, float* d, const WmmaElements& a, WmmaOrder order_a, const WmmaElements& b,
                   WmmaOrder order_b, int line) {
  const auto require = [&](const WmmaElements& side, WmmaOrder order, const char* name) {
    if (side.order == order) return;
    const char* const why = side.order == WmmaOrder::unset ? "nobody has loaded" : "was loaded in the other order";
    fail("crash", {unsigned(line)}, "%s: %s of a fragment of %s that %s", block.where().c_str(), half.name, name, why);
  };
  require(a, order_a, "A");
  require(b, order_b, "B");
  for (unsigned i = 0; i < 2; ++i) multiply_matrices(half, d + 4 * i, a.registers, b.registers + 2 * i, line);
}

}  // namespace gemmgen
