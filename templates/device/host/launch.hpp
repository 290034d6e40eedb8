// One launch as the driver sends it, and its operands where the kernel finds them.
#pragma once

#include <cstdint>

#include "kernel_entry.hpp"
#include "memory.hpp"

namespace gemmgen {

constexpr int OPERANDS = 11;  // the workspace's among them
constexpr const char* OPERAND_NAMES[OPERANDS] = {"A",       "B",       "C",       "partials", "tickets", "bias_m",
                                                 "bias_n", "scale_m", "scale_n", "residual", "aux"};
constexpr int FIRST_WRITTEN = 2;  // C; blocks write the workspace, too
constexpr int END_WRITTEN = 5;
constexpr int MAX_ARGUMENTS = 32;
constexpr int ARRAYS = 3;  // of pointers, which the kernel takes in the place of A, B and C
constexpr const char* ARRAY_NAMES[ARRAYS] = {"the pointers to A", "the pointers to B", "the pointers to C"};

// Where an operand lies in the file that driver and emulator share.
struct Placement {
  uint64_t offset;         // of the segment, a multiple of the page
  uint64_t segment_bytes;  // whole pages
  uint64_t skew;           // from the segment's start to the operand's first byte
  uint64_t bytes;
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
  uint32_t quiet;  // what the kernel prints goes nowhere
  uint32_t unused;
  uint64_t products;               // of a batch of pointers, else 0
  uint64_t matrices_offset;        // in the shared file: for A, B and C in turn where each product's matrix starts, in
                                   // bytes from the operand's first
  uint64_t matrix_bytes[ARRAYS];   // of one A, B and C
  Placement operands[OPERANDS];
  Argument arguments[MAX_ARGUMENTS];  // a pointer arrives as the number of its operand
  char signature[MAX_ARGUMENTS];
};

static_assert(sizeof(Request) == 728, "the driver packs 728 bytes");

inline Region operands[OPERANDS];
inline Region pointer_arrays[ARRAYS];

// The operand, or the array of pointers, that `address` is in or beside; null where it is far from all.
inline const Region* region_near(const unsigned char* address) {
  for (const Region& operand : operands)
    if (operand.near(address)) return &operand;
  for (const Region& array : pointer_arrays)
    if (array.near(address)) return &array;
  return nullptr;
}

}  // namespace gemmgen
