// The blocks that run at once, by turns: one, or those of a cluster. Their threads are numbered one block after the other, from
// a whole warp on.
#pragma once

#include <string>

namespace gemmgen {

constexpr unsigned MAX_RANKS = 16;
constexpr unsigned WARP = 32;

struct Cluster {
  unsigned first_block = 0, ranks = 1;
  unsigned threads = 1;  // of a block

  unsigned stride() const { return ranks == 1 ? threads : (threads + WARP - 1) / WARP * WARP; }
  unsigned count() const { return ranks * stride(); }  // of numbers
  unsigned warps() const { return (count() + WARP - 1) / WARP; }
  unsigned warps_of_block() const { return (threads + WARP - 1) / WARP; }
  bool has(unsigned thread) const { return in_block(thread) < threads; }

  unsigned rank_of(unsigned thread) const { return thread / stride(); }
  unsigned block_of(unsigned thread) const { return first_block + rank_of(thread); }
  unsigned in_block(unsigned thread) const { return thread % stride(); }

  std::string where(unsigned thread) const {
    return "block " + std::to_string(block_of(thread)) + ", thread " + std::to_string(in_block(thread));
  }

  // Of a thread that is named after another one.
  std::string where(unsigned thread, unsigned after) const {
    return rank_of(thread) == rank_of(after) ? "thread " + std::to_string(in_block(thread)) : where(thread);
  }

  // "block 3", or "the cluster of blocks 2 and 3".
  std::string text() const {
    const std::string first = std::to_string(first_block), last = std::to_string(first_block + ranks - 1);
    return ranks == 1 ? "block " + first : "the cluster of blocks " + first + (ranks == 2 ? " and " : " to ") + last;
  }
};

inline Cluster cluster;

}  // namespace gemmgen
