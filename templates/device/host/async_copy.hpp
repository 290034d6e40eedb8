// cp.async: a copy that lands in shared memory at some time between its issue and the wait that
// demands it. The emulator lands it at the last or at the first possible moment, as the seed says:
// late copies show a wait that is missing, early ones a buffer that is still being read.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "failure.hpp"

namespace gemmgen {

struct AsyncCopy {
  unsigned char* destination;
  unsigned bytes;
  unsigned group;
  unsigned char data[16];
};

// The copies that one thread has under way, oldest first.
class AsyncCopies {
 public:
  void issue(AsyncCopy copy) {
    copy.group = committed_;
    pending_.push_back(copy);
  }

  void commit() { ++committed_; }

  // Completes all groups but the `groups_left` newest.
  void wait(unsigned groups_left) {
    const unsigned done = committed_ > groups_left ? committed_ - groups_left : 0;
    std::size_t landed = 0;
    while (landed < pending_.size() && pending_[landed].group < done) land(pending_[landed++]);
    pending_.erase(pending_.begin(), pending_.begin() + std::ptrdiff_t(landed));
  }

  // At a thread's exit everything lands, committed or not.
  void finish() {
    for (const AsyncCopy& copy : pending_) land(copy);
    pending_.clear();
    committed_ = 0;
  }

  static void land(const AsyncCopy& copy) { std::memcpy(copy.destination, copy.data, copy.bytes); }

 private:
  std::vector<AsyncCopy> pending_;
  unsigned committed_ = 0;
};

}  // namespace gemmgen
