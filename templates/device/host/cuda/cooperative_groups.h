// CUDA's cooperative groups as far as kernels of one block need them: the block, and tiles of a warp.
#pragma once

#include "../gemmgen_emulator.hpp"

namespace cooperative_groups {

class thread_block {
 public:
  static void sync(int line = __builtin_LINE()) { __syncthreads(line); }
  static unsigned thread_rank() { return threadIdx.x; }
  static unsigned size() { return blockDim.x; }
  static unsigned num_threads() { return blockDim.x; }
  static dim3 group_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
  static dim3 thread_index() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
};

inline thread_block this_thread_block() { return {}; }

// SIZE lanes of a warp side by side.
template <unsigned SIZE, typename Parent = thread_block>
class thread_block_tile {
  static_assert(SIZE >= 1 && SIZE <= 32 && (SIZE & (SIZE - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads here");

 public:
  static unsigned thread_rank() { return gemmgen::lane() % SIZE; }
  static constexpr unsigned size() { return SIZE; }
  static constexpr unsigned num_threads() { return SIZE; }
  static unsigned meta_group_rank() { return threadIdx.x / SIZE; }
  static unsigned meta_group_size() { return (blockDim.x + SIZE - 1) / SIZE; }
  static void sync(int line = __builtin_LINE()) { __syncwarp(mask(), line); }

  template <typename T>
  static T shfl(T value, int source, int line = __builtin_LINE()) {
    return __shfl_sync(mask(), value, source, int(SIZE), line);
  }
  template <typename T>
  static T shfl_xor(T value, int lane_mask, int line = __builtin_LINE()) {
    return __shfl_xor_sync(mask(), value, lane_mask, int(SIZE), line);
  }
  template <typename T>
  static T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) {
    return __shfl_up_sync(mask(), value, delta, int(SIZE), line);
  }
  template <typename T>
  static T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) {
    return __shfl_down_sync(mask(), value, delta, int(SIZE), line);
  }
  static int any(int vote, int line = __builtin_LINE()) { return __any_sync(mask(), vote, line); }
  static int all(int vote, int line = __builtin_LINE()) { return __all_sync(mask(), vote, line); }
  static unsigned ballot(int vote, int line = __builtin_LINE()) { return __ballot_sync(mask(), vote, line) >> first(); }

 private:
  static unsigned first() { return gemmgen::lane() / SIZE * SIZE; }
  static unsigned mask() { return (~0u >> (32 - SIZE)) << first(); }
};

template <unsigned SIZE, typename Parent>
thread_block_tile<SIZE, Parent> tiled_partition(const Parent&) {
  return {};
}

template <typename Group>
void sync(const Group& group, int line = __builtin_LINE()) {
  group.sync(line);
}

}  // namespace cooperative_groups
