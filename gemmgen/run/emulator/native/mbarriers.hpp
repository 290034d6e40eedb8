// mbarriers: phases that arrivals and bytes complete.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "instruction.hpp"
#include "warp.hpp"

namespace gemmgen {

struct Mbarrier {
  unsigned number = 0;
  unsigned rank = 0;       // of the block in whose memory it lies
  uint32_t offset = 0;     // in its window
  uint32_t count = 0;      // arrivals that complete a phase
  uint32_t missing = 0;    // of the phase that runs
  int64_t bytes = 0;       // expected and not there yet
  uint32_t phase = 0;      // that runs; so many are complete
  uint32_t acquired = 0;   // of these, as many as some thread has waited for

  uint32_t parity() const { return phase & 1; }
};

constexpr unsigned MBARRIER_BYTES = 8;

class Mbarriers {
 public:
  explicit Mbarriers(Machine& machine) : machine_(machine) {}

  void start() { all_.clear(); }
  void init(Warp& warp, const Instruction* i, Block& owner, uint32_t offset, uint32_t count);
  void invalidate(Warp& warp, const Instruction* i, Block& owner, uint32_t offset);
  // Throws Failure where no thread has made one there.
  Mbarrier& at(Warp& warp, const Instruction* i, Block& owner, uint32_t offset);
  Mbarrier& operator[](unsigned number) { return all_[number]; }
  void arrive(Warp& warp, const Instruction* i, Mbarrier& barrier, uint32_t arrivals);
  // So many bytes more are expected; fewer than none have come. Returns the phase that they count in.
  uint32_t expect(const Instruction* i, Mbarrier& barrier, int64_t bytes);
  // What a thread waits for there.
  std::string describe(unsigned number) const;
  std::string place(const Mbarrier& barrier) const;

 private:
  void settle(Mbarrier& barrier);

  Machine& machine_;
  std::deque<Mbarrier> all_;  // of the cluster, where they stay
};

}  // namespace gemmgen
