// What is remembered of an operand's memory: a cell for each element, or for less where an access is to less.
#pragma once

#include <cstddef>

#include "access.hpp"
#include "memory.hpp"

namespace gemmgen {

// The last write and two of the reads since.
struct Cell {
  Access write;
  Access reads[2];
};

class Shadow {
 public:
  // For a launch; what cells hold of earlier ones says nothing any more.
  void resize(std::size_t bytes, std::size_t element_bytes) {
    count_ = bytes / element_bytes;
    cell_bytes_ = element_bytes;
    if (count_ * sizeof(Cell) <= cells_.bytes) return;
    unmap(cells_);
    cells_ = map_cells(count_);
  }

  // Calls `visit` with each cell of the access and its offset in the operand.
  template <typename Visit>
  void each_cell(std::size_t start, std::size_t bytes, Visit visit) {
    if ((start | bytes) % cell_bytes_ != 0) split_cells((start | bytes) & -(start | bytes));
    Cell* const cells = reinterpret_cast<Cell*>(cells_.data);
    for (std::size_t offset = start; offset < start + bytes; offset += cell_bytes_)
      visit(cells[offset / cell_bytes_], offset);
  }

 private:
  static Region map_cells(std::size_t count) { return map_private("the shadow of an operand", count * sizeof(Cell)); }

  // From now on a cell is for `bytes`, a power of two; each of them knows what the larger one did.
  __attribute__((noinline)) void split_cells(std::size_t bytes) {
    const std::size_t parts = cell_bytes_ / bytes;
    const Region split = map_cells(count_ * parts);
    const Cell* const from = reinterpret_cast<const Cell*>(cells_.data);
    Cell* const to = reinterpret_cast<Cell*>(split.data);
    for (std::size_t i = 0; i < count_ * parts; ++i) to[i] = from[i / parts];
    unmap(cells_);
    cells_ = split;
    count_ *= parts;
    cell_bytes_ = bytes;
  }

  Region cells_;
  std::size_t count_ = 0;
  std::size_t cell_bytes_ = 1;  // a power of two
};

}  // namespace gemmgen
