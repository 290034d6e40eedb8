// cp.async: a copy that lands in shared memory at some time between its issue and the wait that
// demands it. The emulator lands it at the last or at the first possible moment, as the seed says:
// late copies show a wait that is missing, early ones a buffer that is still being read. Whichever it is,
// races.hpp takes the bytes to be written from the issue to the wait.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "races.hpp"

namespace gemmgen {

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
    copy.group = committed_;
    if (land_now) land(copy);
    pending_.push_back(copy);
  }

  void commit() { ++committed_; }

  // Completes all groups but the `groups_left` newest.
  void wait(unsigned groups_left) {
    const unsigned done = committed_ > groups_left ? committed_ - groups_left : 0;
    std::size_t completed = 0;
    while (completed < pending_.size() && pending_[completed].group < done) complete(pending_[completed++]);
    pending_.erase(pending_.begin(), pending_.begin() + std::ptrdiff_t(completed));
  }

  // At a thread's exit everything lands, committed or not.
  void finish() {
    for (AsyncCopy& copy : pending_) complete(copy);
    pending_.clear();
    committed_ = 0;
  }

 private:
  static void land(AsyncCopy& copy) {
    std::memcpy(copy.destination, copy.data, copy.bytes);
    copy.landed = true;
  }

  static void complete(AsyncCopy& copy) {
    if (!copy.landed) land(copy);
    races.complete_copy(copy.destination, copy.bytes);
  }

  std::vector<AsyncCopy> pending_;
  unsigned committed_ = 0;
};

}  // namespace gemmgen
