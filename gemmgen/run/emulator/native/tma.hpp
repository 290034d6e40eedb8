// TMA: boxes of tensors that some agent copies between global and shared memory, at some time between issue and wait. A load
// lands at once, or when no thread can go on without it; a store reads and writes at once, or when its thread waits for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "matrix_lanes.hpp"
#include "mbarriers.hpp"
#include "warp.hpp"

namespace gemmgen {

constexpr unsigned TMA_UNIT = 16;        // bytes
constexpr unsigned TMA_ALIGNMENT = 128;  // of a box in shared memory
constexpr unsigned MOST_TMA_DIMENSIONS = 4;

// A tensor map as the driver writes it in a kernel's parameter: gemmgen/kernel/tensor_map.py, TiledTensor.pack.
struct TensorMap {
  uint64_t address;
  uint64_t sizes[4];    // elements, along a line first
  uint64_t strides[3];  // bytes from one to the next along each other dimension
  uint32_t box[4];      // elements
  uint32_t element_bytes;
  uint32_t rank;
  uint32_t swizzle;  // bytes of a pattern's lines, or 0
  uint32_t tf32;     // whether loads round f32 to it
  // Of im2col mode: a box is box[0] channels of box[1] pixels, one after the other inside of the bounding box, at these steps.
  int32_t lower[2], upper[2];  // its corners: columns and rows from the image's first pixel, and from its last
  uint32_t steps[2];           // columns and rows; 0: the map has no such mode
  uint32_t unused[2];

  bool of_pixels() const { return steps[0] != 0; }
  uint32_t line_bytes() const { return box[0] * element_bytes; }
  uint32_t box_bytes() const { return line_bytes() * box[1] * box[2] * box[3]; }
  // Whether it can be one: no other bytes of a kernel are likely to look so.
  bool is_one() const { return rank >= 2 && rank <= 4 && box[0] >= 1 && box[0] <= 256 && element_bytes <= 8; }
};

static_assert(sizeof(TensorMap) == 128, "the driver packs as many bytes");

// A box: a tensor map, where in the tensor it starts, and its place in the shared memory of a block.
struct Box {
  TensorMap map;
  std::array<int64_t, 4> start;
  std::array<uint32_t, 2> tap;  // of im2col mode: columns and rows from each pixel to the one that is copied
  unsigned rank;        // of the block
  uint32_t offset;      // in its window
  unsigned char* window;
  bool stores;          // from shared memory
  const Instruction* at;
  uint32_t operation = 0;  // of a watch

  // Calls `visit` with up to 16 bytes in shared memory, in the tensor, and their number, for all chunks of the box; those of
  // which nothing lies in the tensor have no address there. Loads end with a line of the tensor, to the element; stores write
  // all 16 bytes of a chunk that begins in it, also behind the line's end (an H200 does). No chunk begins before a line's start
  // and ends behind it: boxes begin at multiples of 16 bytes.
  template <typename Visit>
  void each_chunk(Visit visit) const {
    const uint32_t elements = TMA_UNIT / map.element_bytes, lines = map.box[1] * map.box[2] * map.box[3];
    std::array<int64_t, 4> from = start;
    for (uint32_t line = 0; line < lines; ++line, advance(from))
      for (uint32_t first = 0; first < map.box[0]; first += elements) {
        const uint32_t inside = line * map.line_bytes() + first * map.element_bytes;
        const int64_t along = start[0] + first, size = int64_t(map.sizes[0]);
        const int64_t end = stores && along < size ? along + elements : std::min(along + int64_t(elements), size);
        const int64_t at[] = {along, from[1] + tap[0], from[2] + tap[1], from[3]};
        if (!is_inside(1, at[1]) || !is_inside(2, at[2]) || !is_inside(3, at[3]) || along < 0 || along >= end) {
          visit(place(inside), uint64_t(0), TMA_UNIT);
          continue;
        }
        const uint64_t tensor = map.address + uint64_t(at[3]) * map.strides[2] + uint64_t(at[2]) * map.strides[1] +
                                uint64_t(at[1]) * map.strides[0] + uint64_t(along) * map.element_bytes;
        visit(place(inside), tensor, unsigned(end - along) * map.element_bytes);
        if (end < along + elements)
          visit(place(inside) + (end - along) * map.element_bytes, uint64_t(0), unsigned(along + elements - end) * map.element_bytes);
      }
  }

  // Whether nothing of it lies in the tensor.
  bool outside() const {
    for (unsigned dimension = 0; dimension < map.rank; ++dimension)
      if (start[dimension] >= int64_t(map.sizes[dimension]) || start[dimension] + int64_t(map.box[dimension]) <= 0) return true;
    return false;
  }

  // The coordinates of its lines along a dimension, beyond the first: from one to another. Of pixels these are the bounding box's.
  int64_t begin(unsigned dimension) const {
    return !map.of_pixels() ? start[dimension] : dimension < 3 ? int64_t(map.lower[dimension - 1]) : 0;
  }
  int64_t end(unsigned dimension) const {
    if (!map.of_pixels()) return start[dimension] + int64_t(map.box[dimension]);
    return int64_t(map.sizes[dimension]) + (dimension < 3 ? map.upper[dimension - 1] : 0);
  }

  void load() const;
  void store() const;

 private:
  // To the next line: along a dimension, or where that is at its end, back to its beginning and along the next one.
  void advance(std::array<int64_t, 4>& at) const {
    for (unsigned dimension = 1; dimension < 4; ++dimension) {
      at[dimension] += map.of_pixels() && dimension < 3 ? map.steps[dimension - 1] : 1;
      if (dimension == 3 || at[dimension] < end(dimension)) return;
      at[dimension] = begin(dimension);
    }
  }
  bool is_inside(unsigned dimension, int64_t index) const { return index >= 0 && index < int64_t(map.sizes[dimension]); }
  unsigned char* place(uint32_t inside) const { return window + swizzled(offset + inside, map.swizzle); }
};

class Tma {
 public:
  explicit Tma(Machine& machine) : machine_(machine) {}

  void start();
  void load(const Box& box, Mbarrier& barrier, bool late);
  // Lands one of those that are under way; whether there was one.
  bool land_some();
  // At a block's end somebody must have waited for each load to it.
  void finish_block(unsigned rank);

  void store(Warp& warp, unsigned lane, const Box& box, bool late);
  void commit(Warp& warp);
  // Until all but so many groups have read shared memory, and have written as well.
  void wait(Warp& warp, uint32_t left, bool read);
  void exit_threads(Warp& warp);

 private:
  static constexpr uint32_t UNDER_WAY = ~0u;
  struct Load {
    Box box;
    unsigned barrier;
    uint32_t phase;  // that its bytes count in
  };
  struct Store {
    Box box;
    uint32_t group;
    bool done;
  };
  // Of a thread.
  struct Stores {
    std::vector<Store> pending;
    uint32_t groups = 0, read_groups = 0;
    const Instruction* last = nullptr;
  };

  void land(std::size_t place);
  Stores& stores_of(Warp& warp, unsigned lane);

  Machine& machine_;
  std::deque<Load> loads_;            // of the cluster
  std::vector<std::size_t> pending_;  // of these, under way
  std::vector<Stores> stores_;        // by rank and thread
};

}  // namespace gemmgen
