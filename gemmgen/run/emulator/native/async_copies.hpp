// cp.async: copies that land in shared memory at some time between their issue and the wait that demands them. They land at
// the last or at the first possible moment, as the seed says: late ones show a wait that is missing, early ones a buffer that
// is still being read.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace gemmgen {

// Of the lanes of a warp.
class AsyncCopies {
 public:
  static constexpr unsigned LANES = 32, MOST_BYTES = 16;

  // What one instruction copies, until it lands.
  struct Batch {
    uint32_t lanes = 0;
    unsigned bytes = 0;
    uint32_t group[LANES];
    unsigned char* to[LANES];
    unsigned char data[LANES][MOST_BYTES];
  };

  void start() {
    count_ = 0;
    committed_.fill(0);
  }

  // A new one, to be filled.
  Batch& issue(uint32_t lanes, unsigned bytes) {
    if (count_ == pending_.size()) pending_.emplace_back();
    Batch& made = pending_[count_++];
    made.lanes = lanes, made.bytes = bytes;
    std::memcpy(made.group, committed_.data(), sizeof made.group);
    return made;
  }

  void commit(uint32_t lanes) {
    for (unsigned lane = 0; lane < LANES; ++lane) committed_[lane] += lanes >> lane & 1;
  }

  // Completes all groups but the `left` newest.
  void wait(uint32_t lanes, uint32_t left) {
    finish(lanes, [&](const Batch& batch, unsigned lane) { return batch.group[lane] + left < committed_[lane]; });
  }

  // Completes all of them, committed or not.
  void wait_all(uint32_t lanes) {
    finish(lanes, [](const Batch&, unsigned) { return true; });
  }

 private:
  template <typename Done>
  void finish(uint32_t lanes, Done done) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      Batch& batch = pending_[i];
      for (uint32_t left = batch.lanes & lanes; left != 0; left &= left - 1) {
        const auto lane = unsigned(__builtin_ctz(left));
        if (!done(batch, lane)) continue;
        std::memcpy(batch.to[lane], batch.data[lane], batch.bytes);
        batch.lanes &= ~(1u << lane);
      }
      if (batch.lanes == 0) continue;
      if (kept != i) std::swap(pending_[kept], batch);
      ++kept;
    }
    count_ = kept;
  }

  std::vector<Batch> pending_;  // the first `count_`
  std::size_t count_ = 0;
  std::array<uint32_t, LANES> committed_ = {};  // groups, by lane
};

}  // namespace gemmgen
