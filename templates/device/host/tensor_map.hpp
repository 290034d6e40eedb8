// A tensor map as the driver writes it in a kernel's parameter: gemmgen/kernel/tensor_map.py, TiledTensor.pack.
#pragma once

#include <cstdint>

namespace gemmgen {

struct TensorMap {
  unsigned char* address;
  uint64_t sizes[4];    // elements, along a line first
  uint64_t strides[3];  // bytes from one to the next along each other dimension
  uint32_t box[4];      // elements
  uint32_t element_bytes;
  uint32_t rank;
  uint32_t swizzle;  // bytes of a pattern's lines, or 0
  uint32_t tf32;     // whether loads round f32 to it

  uint32_t line_bytes() const { return box[0] * element_bytes; }
  uint32_t box_bytes() const { return line_bytes() * box[1] * box[2] * box[3]; }

  // Whether it can be one: no other bytes of a kernel are likely to look so.
  bool is_one() const { return rank >= 2 && rank <= 4 && box[0] >= 1 && box[0] <= 256 && element_bytes <= 8; }
};

static_assert(sizeof(TensorMap) == 96, "the driver packs as many bytes");

// Where swizzled lines of `span` bytes have what belongs at `address`: its 16-byte chunk is permuted with those beside it.
inline uint32_t swizzled(uint32_t address, uint32_t span) {
  if (span == 0) return address;
  const uint32_t chunks = span / 16;
  return address ^ (address >> 7 & (chunks - 1)) << 4;
}

}  // namespace gemmgen
