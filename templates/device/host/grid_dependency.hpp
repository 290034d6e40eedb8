// Launches that may start before the kernel ahead of them on the stream has ended (programmatic stream serialization): that
// may still write what they read, or read what they write, until a thread has waited for it by griddepcontrol.wait.
#pragma once

#include <bitset>
#include <vector>

#include "access.hpp"
#include "clocks.hpp"

namespace gemmgen {

class GridDependency {
 public:
  void start_launch(bool dependent) { dependent_ = dependent; }

  void start_block() {
    waits_.clear();
    waited_.reset();
  }

  // The running thread's.
  void wait() {
    if (!dependent_) return;
    waits_.push_back(clocks.now(Place(), Kind::read));
    waited_.set(clocks.thread());
  }

  // Whether the running thread has waited, or comes after one that has.
  bool is_over() {
    if (!dependent_ || waited_[clocks.thread()]) return true;
    for (const Access& wait : waits_)
      if (clocks.before(wait)) {
        waited_.set(clocks.thread());
        return true;
      }
    return false;
  }

 private:
  bool dependent_ = false;
  std::vector<Access> waits_;  // of the block, or cluster
  std::bitset<MAX_THREADS> waited_;
};

}  // namespace gemmgen
