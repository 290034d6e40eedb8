// The runtime's side of mma, ldmatrix and stmatrix, which a whole warp does together. Included once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "block.hpp"
#include "failure.hpp"
#include "faults.hpp"
#include "matrix_instructions.hpp"
#include "operand_access.hpp"
#include "races.hpp"
#include "shared_memory.hpp"
#include "tensor_core.hpp"

namespace gemmgen {

constexpr unsigned ALL_LANES = ~0u;
constexpr unsigned MATRIX_ROWS = 8, MATRIX_ROW_BYTES = 16;

// What a lane brings to ldmatrix or stmatrix: its registers and a row of a matrix.
struct MatrixRows {
  unsigned* registers;
  unsigned count;
  bool transposed;
  int line;
  unsigned char row[MATRIX_ROW_BYTES];
};

// Which lanes take part is as for a shuffle, but nothing is ordered by it; and all of the warp's must.
inline void matrix_instruction(void* operand, Combine combine, int line) {
  block.warp_collective(ALL_LANES, operand, combine, unsigned(line), Order::none);
}

template <typename Operand>
void require_whole_warp(void* const* operands) {
  const auto missing = std::find(operands, operands + WARP, nullptr);
  if (missing == operands + WARP) return;
  const auto present = std::find_if(operands, operands + WARP, [](const void* operand) { return operand != nullptr; });
  fail("crash", {unsigned(static_cast<const Operand*>(*present)->line)},
       "%s: lane %zu has exited and takes no part in what the whole warp has to do", block.where().c_str(),
       std::size_t(missing - operands));
}

inline void multiply(void* const* operands) {
  require_whole_warp<MatrixOperand>(operands);
  static TensorCore tensor_core;
  tensor_core.run(reinterpret_cast<MatrixOperand* const*>(operands));
}

// Calls `visit` with the rows' bytes of each element that a lane's registers hold, two for each, and those.
template <typename Visit>
void each_element(void* const* operands, Visit visit) {
  const auto of = [&](unsigned lane) -> MatrixRows& { return *static_cast<MatrixRows*>(operands[lane]); };
  for (unsigned lane = 0; lane < WARP; ++lane)
    for (unsigned i = 0; i < of(lane).count; ++i)
      for (unsigned half = 0; half < 2; ++half) {
        const unsigned across = lane / 4, along = 2 * (lane % 4) + half;
        const unsigned row = of(0).transposed ? along : across, column = of(0).transposed ? across : along;
        visit(of(MATRIX_ROWS * i + row).row + 2 * column, reinterpret_cast<unsigned char*>(of(lane).registers + i) + 2 * half);
      }
}

inline void distribute_rows(void* const* operands) {
  require_whole_warp<MatrixRows>(operands);
  each_element(operands, [](const unsigned char* row, unsigned char* held) { std::memcpy(held, row, 2); });
}

inline void collect_rows(void* const* operands) {
  require_whole_warp<MatrixRows>(operands);
  each_element(operands, [](unsigned char* row, const unsigned char* held) { std::memcpy(row, held, 2); });
}

// The row's address, of a lane that gives one.
inline unsigned char* checked_row(const void* row, const char* what, int line) {
  auto* const address = static_cast<unsigned char*>(const_cast<void*>(row));
  const auto refuse = [&](const char* why) {
    fail("crash", {unsigned(line)}, "%s: %s %s (%s)", block.where().c_str(), what, why, describe_address(address).c_str());
  };
  if (!shared_memory.contains(address, MATRIX_ROW_BYTES)) refuse("of a row outside shared memory");
  if (!aligned(address, MATRIX_ROW_BYTES)) refuse("of a row at an address that 16 does not divide");
  return address;
}

void multiply_matrices(const MatrixInstruction& instruction, void* d, const void* a, const void* b, int line) {
  MatrixOperand operand = {&instruction, d, a, b, line};
  matrix_instruction(&operand, multiply, line);
}

void load_matrices(unsigned* registers, unsigned count, bool transposed, const void* row, int line) {
  MatrixRows operand = {registers, count, transposed, line, {}};
  if (block.lane() < MATRIX_ROWS * count) {
    const unsigned char* const address = checked_row(row, "ldmatrix", line);
    if (watching) races.read(address, MATRIX_ROW_BYTES, Place::line(unsigned(line)));
    std::memcpy(operand.row, address, MATRIX_ROW_BYTES);
  }
  matrix_instruction(&operand, distribute_rows, line);
}

void store_matrices(const unsigned* registers, unsigned count, bool transposed, void* row, int line) {
  MatrixRows operand = {const_cast<unsigned*>(registers), count, transposed, line, {}};
  matrix_instruction(&operand, collect_rows, line);
  if (block.lane() >= MATRIX_ROWS * count) return;
  unsigned char* const address = checked_row(row, "stmatrix", line);
  if (watching) races.write(address, MATRIX_ROW_BYTES, Place::line(unsigned(line)));
  std::memcpy(address, operand.row, MATRIX_ROW_BYTES);
}

}  // namespace gemmgen
