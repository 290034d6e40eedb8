// One launch as the driver sends it, and its operands where the kernel finds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory.hpp"

namespace gemmgen {

constexpr std::size_t MAX_ARGUMENT_BYTES = 4096;  // CUDA's own limit before 12.1
constexpr std::size_t ARGUMENT_ALIGNMENT = 128;   // at most

// An operand, or a part of the workspace, and where it lies in the file that driver and emulator share.
struct Placement {
  char name[24];
  uint64_t offset;         // of the segment, a multiple of the page
  uint64_t segment_bytes;  // whole pages
  uint64_t skew;           // from the segment's start to the operand's first byte
  uint64_t bytes;
  uint32_t element_bytes;
  uint16_t written;       // whether the kernel may write there
  uint16_t array;         // whether it takes an array of pointers to the matrices that lie there,
  uint64_t matrix_bytes;  // each of so many bytes
  // Of a matrix, as Geometry has them; all 0 for what is none.
  uint64_t line_bytes;
  uint64_t ld_bytes;
  uint64_t span_bytes;
  uint64_t stride_bytes;
  uint16_t by_rows;
  uint16_t holds_values;  // whether what it holds before the launch may be read
  uint32_t matrices;      // that lie apart for the kernel, with pages of their own in the file,
  uint64_t lines;         // or whose lines do; 1 and 1 where all is one piece
  uint64_t file_ld_bytes;      // from one line, or from one matrix, to the next in the file
  uint64_t file_stride_bytes;
  uint64_t before;  // bytes that lie before the segment for the kernel, and have no memory

  bool in_pieces() const { return matrices * lines > 1; }
};

// Laid out as gemmgen/run/emulator/server.py packs it.
struct Request {
  uint64_t seed;
  uint64_t blocks_offset;  // in the shared file: the indices of the blocks to run, in their order
  uint32_t block_count;
  uint32_t grid;
  uint32_t threads;
  uint32_t shared_bytes;
  uint32_t workers;
  uint32_t timeout_ms;
  uint8_t quiet;            // what the kernel prints goes nowhere
  uint8_t dependent;        // it may start before the kernel ahead of it has ended
  uint16_t cluster;         // blocks of a cluster; these are beside each other in the list
  uint32_t element_bytes;   // of what shared memory holds
  uint32_t operand_count;   // whose Placements follow the Request,
  uint32_t argument_count;  // then the Parameters of so many arguments,
  uint32_t argument_bytes;  // then these, a pointer as the number of its operand
  uint32_t entry;           // which of gemmgen_entries is launched
  uint64_t products;         // of a batch of pointers, else 0
  uint64_t matrices_offset;  // in the shared file: for each operand that has an array in turn where each product's matrix
                             // starts, in bytes from the operand's first
};

static_assert(sizeof(Request) == 80 && sizeof(Placement) == 144, "the driver packs as many bytes");

struct Operand {
  Region region;
  Region array;  // of pointers to its matrices, where the kernel takes such
  std::size_t element_bytes;
  bool written;
  bool holds_values;
  std::size_t before;  // bytes from what the kernel takes for its start to the first that has memory

  // What the kernel takes for it.
  unsigned char* pointer() const { return array.data != nullptr ? array.data : region.data - before; }
};

inline std::vector<Operand> operands;

// The operand, or the array of pointers, that `address` is in or beside; null where it is far from all.
inline const Region* region_near(const unsigned char* address) {
  for (const Operand& operand : operands) {
    if (operand.region.near(address)) return &operand.region;
    if (operand.array.near(address)) return &operand.array;
  }
  return nullptr;
}

}  // namespace gemmgen
