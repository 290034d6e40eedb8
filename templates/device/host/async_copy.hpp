// cp.async: a copy that lands in shared memory at some time between its issue and the wait that
// demands it. The emulator lands it at the last or at the first possible moment, as the seed says:
// late copies show a wait that is missing, early ones a buffer that is still being read. Whichever it is,
// races.hpp takes the bytes to be written from the issue to the wait.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "clocks.hpp"

namespace gemmgen {

// Whether copies of a launch land at the last possible moment.
inline bool lands_late(uint64_t seed) { return seed / 2 % 2 == 0; }

struct AsyncCopy {
  unsigned char* destination;
  unsigned bytes;
  unsigned group;
  bool landed;
  unsigned char data[16];
};

// The copies that one thread has under way, oldest first.
class AsyncCopies {
 public:
  void issue(AsyncCopy copy, bool land_now) {
    copy.group = unsigned(group_ends_.size());
    if (land_now) land(copy);
    pending_.push_back(copy);
  }

  void commit() { group_ends_.push_back(clocks.tick()); }

  // Completes all groups but the `groups_left` newest.
  void wait(unsigned groups_left) {
    if (group_ends_.size() <= groups_left) return;
    const std::size_t done = group_ends_.size() - groups_left;
    const auto end = std::find_if(pending_.begin(), pending_.end(), [done](const AsyncCopy& copy) { return copy.group >= done; });
    for (auto copy = pending_.begin(); copy != end; ++copy) land(*copy);
    pending_.erase(pending_.begin(), end);
    clocks.complete_copies(group_ends_[done - 1]);
  }

  // At a thread's exit everything lands, committed or not.
  void finish() {
    for (AsyncCopy& copy : pending_) land(copy);
    pending_.clear();
    group_ends_.clear();
  }

 private:
  static void land(AsyncCopy& copy) {
    if (!copy.landed) std::memcpy(copy.destination, copy.data, copy.bytes);
    copy.landed = true;
  }

  std::vector<AsyncCopy> pending_;
  std::vector<uint32_t> group_ends_;  // by group, in the time of clocks.hpp
};

}  // namespace gemmgen
