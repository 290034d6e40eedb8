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
  struct Copy {
    unsigned char* to;
    unsigned lane, bytes;
    uint32_t group;
    bool landed;
    unsigned char data[16];
  };

  void start() {
    pending_.clear();
    committed_.fill(0);
  }

  void issue(Copy copy, bool late) {
    copy.group = committed_[copy.lane];
    copy.landed = !late;
    if (!late) std::memcpy(copy.to, copy.data, copy.bytes);
    pending_.push_back(copy);
  }

  void commit(uint32_t lanes) {
    for (unsigned lane = 0; lane < 32; ++lane) committed_[lane] += lanes >> lane & 1;
  }

  // Completes all groups but the `left` newest.
  void wait(uint32_t lanes, uint32_t left) {
    finish(lanes, [&](const Copy& copy) { return copy.group + left < committed_[copy.lane]; });
  }

  // Completes all of them, committed or not.
  void wait_all(uint32_t lanes) {
    finish(lanes, [](const Copy&) { return true; });
  }

 private:
  template <typename Done>
  void finish(uint32_t lanes, Done done) {
    std::size_t kept = 0;
    for (Copy& copy : pending_) {
      if ((lanes >> copy.lane & 1) != 0 && done(copy)) {
        if (!copy.landed) std::memcpy(copy.to, copy.data, copy.bytes);
      } else {
        pending_[kept++] = copy;
      }
    }
    pending_.resize(kept);
  }

  std::vector<Copy> pending_;
  std::array<uint32_t, 32> committed_ = {};  // groups, by lane
};

}  // namespace gemmgen
