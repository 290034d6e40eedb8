// Which lane of a warp holds what of a matrix. Pure functions; see "Warp-level matrix instructions" in the PTX ISA.
#pragma once

#include <cstdint>

namespace gemmgen {

// A row and a column: of A (row, k), of B (k, column).
struct MatrixPlace {
  unsigned row, column;
  bool operator==(const MatrixPlace&) const = default;
};

// A half of a register: bits 16 * half and up.
struct LaneHalf {
  unsigned lane, half;
  bool operator==(const LaneHalf&) const = default;
};

constexpr unsigned MATRIX_LINES = 8, MATRIX_LINE_BYTES = 16;  // of an 8 x 8 matrix of 16 bits

// mma.sync: `rows` is m, `shared` the elements that a register holds, `part` which of them, from the lowest bits on.
constexpr MatrixPlace mma_a_place(unsigned rows, unsigned shared, unsigned lane, unsigned r, unsigned part) {
  const unsigned blocks = rows / 8;
  return {lane / 4 + 8 * (r % blocks), 4 * shared * (r / blocks) + shared * (lane % 4) + part};
}

constexpr MatrixPlace mma_b_place(unsigned shared, unsigned lane, unsigned r, unsigned part) {
  return {4 * shared * r + shared * (lane % 4) + part, lane / 4};
}

// Sum `number` of a lane, in the order of its registers: two of f16 share one.
constexpr MatrixPlace mma_c_place(unsigned lane, unsigned number) {
  return {lane / 4 + 8 * (number / 2), 2 * (lane % 4) + number % 2};
}

// wgmma: sum `number` of a thread of warp `warp`.
constexpr MatrixPlace wgmma_d_place(unsigned warp, unsigned lane, unsigned number) {
  const MatrixPlace place = mma_c_place(lane, number % 4);
  return {16 * warp + place.row, 8 * (number / 4) + place.column};
}

// wmma.m16n16k16 of 16-bit elements. The layout is the implementation's choice: here it is mma.sync's, so that columns
// 8 i to 8 i + 7 are the mma of sums 4 i to 4 i + 3 and registers 2 i and 2 i + 1 of B. Fragments of f16 have eight registers,
// the last four of which repeat the first four.
constexpr unsigned WMMA_REGISTERS = 4;

constexpr MatrixPlace wmma_a_place(unsigned lane, unsigned r, unsigned half) {
  return mma_a_place(16, 2, lane, r % WMMA_REGISTERS, half);
}

constexpr MatrixPlace wmma_b_place(unsigned lane, unsigned r, unsigned half) {
  const MatrixPlace place = mma_b_place(2, lane, r % 2, half);
  return {place.row, place.column + 8 * (r % WMMA_REGISTERS / 2)};
}

constexpr MatrixPlace wmma_c_place(unsigned lane, unsigned number) {
  const MatrixPlace place = mma_c_place(lane, number % 4);
  return {place.row, place.column + 8 * (number / 4)};
}

// ldmatrix and stmatrix of 8 x 8 matrices of 16 bits: register i of a lane belongs to matrix i. The address of row `row` of
// matrix `matrix` is that which this lane gives:
constexpr unsigned matrix_row_lane(unsigned matrix, unsigned row) { return MATRIX_LINES * matrix + row; }

// The element that a half of a lane's register holds.
constexpr MatrixPlace matrix_place(unsigned lane, unsigned half, bool transposed) {
  const unsigned across = lane / 4, along = 2 * (lane % 4) + half;
  return transposed ? MatrixPlace{along, across} : MatrixPlace{across, along};
}

// The half that holds an element of a matrix which is not transposed.
constexpr LaneHalf matrix_holder(MatrixPlace place) { return {4 * place.row + place.column / 2, place.column % 2}; }

// movmatrix.trans: where a half of a lane's result comes from.
constexpr LaneHalf movmatrix_source(unsigned lane, unsigned half) { return matrix_holder(matrix_place(lane, half, true)); }

// Where swizzled lines of `span` bytes have what belongs at `address`: its 16-byte chunk is permuted with those beside it.
constexpr uint32_t swizzled(uint32_t address, uint32_t span) {
  if (span == 0) return address;
  return address ^ (address >> 7 & (span / 16 - 1)) << 4;
}

}  // namespace gemmgen
