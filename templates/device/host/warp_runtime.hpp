// The runtime's side of barriers, shuffles and votes: where threads of a block or a warp meet. Included once.
#pragma once

#include <cstddef>
#include <cstring>

#include "block.hpp"
#include "gemmgen_emulator.hpp"
#include "memory.hpp"

namespace gemmgen {

void block_barrier(int line) { block.block_barrier(unsigned(line)); }
unsigned block_vote(bool vote, int line) { return block.block_vote(vote, unsigned(line)); }

unsigned lane() { return block.lane(); }
unsigned active_mask(int line) { return block.active_mask(unsigned(line)); }

void named_barrier(unsigned number, unsigned threads, bool waits, int line, bool aligned) {
  block.named_barrier(number, threads, waits, unsigned(line), aligned);
}

void warp_collective(unsigned mask, void* operand, Combine combine, int line) {
  block.warp_collective(mask, operand, combine, unsigned(line));
}

struct Exchange {
  const void* value;
  void* received;
  std::size_t bytes;
  unsigned source_lane;
};

// Every lane receives its source lane's value; poison if that lane takes no part.
inline void exchange(void* const* operands) {
  for (unsigned lane = 0; lane < WARP; ++lane) {
    const auto* const to = static_cast<const Exchange*>(operands[lane]);
    if (to == nullptr) continue;
    const auto* const from = to->source_lane < WARP ? static_cast<const Exchange*>(operands[to->source_lane]) : nullptr;
    if (from != nullptr && from->bytes == to->bytes) std::memcpy(to->received, from->value, to->bytes);
    else std::memset(to->received, POISON, to->bytes);
  }
}

struct Vote {
  bool vote;
  unsigned lanes;  // that say yes
};

inline void count_votes(void* const* operands) {
  unsigned lanes = 0;
  for (unsigned lane = 0; lane < WARP; ++lane)
    if (const auto* const vote = static_cast<const Vote*>(operands[lane])) lanes |= unsigned(vote->vote) << lane;
  for (unsigned lane = 0; lane < WARP; ++lane)
    if (auto* const vote = static_cast<Vote*>(operands[lane])) vote->lanes = lanes;
}

void warp_exchange(unsigned mask, const void* value, void* received, size_t bytes, unsigned source_lane, int line) {
  Exchange operand = {value, received, bytes, source_lane};
  block.warp_collective(mask, &operand, exchange, unsigned(line));
}

unsigned warp_vote(unsigned mask, bool vote, int line) {
  Vote operand = {vote, 0};
  block.warp_collective(mask, &operand, count_votes, unsigned(line));
  return operand.lanes;
}

}  // namespace gemmgen
