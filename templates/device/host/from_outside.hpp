// What threads do in the shared memory of other blocks of their cluster: it has to come before these blocks end.
#pragma once

#include <cstdint>
#include <iterator>
#include <unordered_map>

#include "access.hpp"
#include "clocks.hpp"

namespace gemmgen {

// Of one block, or of a place in its memory.
class FromOutside {
 public:
  // The latest of each thread counts.
  void note(const Access& access) { latest_[access.agent] = access; }

  // The running thread exits: what it knows of has come before its block ends.
  void exit_thread() {
    for (auto one = latest_.begin(); one != latest_.end();)
      one = clocks.before(one->second) ? latest_.erase(one) : std::next(one);
  }

  void clear() { latest_.clear(); }
  bool empty() const { return latest_.empty(); }
  const Access& any() const { return latest_.begin()->second; }

 private:
  std::unordered_map<uint16_t, Access> latest_;
};

}  // namespace gemmgen
