// Data races on what a launch writes in global memory. Within a block clocks.hpp says what comes before what; the accesses of two
// blocks are ordered by a fence and an atomic on either side:
//
//     one writes     a barrier, a __threadfence, an atomic        what came before the fence is released
//     other reads    an atomic that finds the first one's, a __threadfence, a barrier       and acquired
//
// where the barriers may lack if one thread does both. What a block has acquired it passes on to a third one. Atomics on
// one address, and loads that are relaxed, do not race with each other, where their scopes hold both blocks; those on a
// counter come before other accesses to it by who found them and fenced.
// Blocks of a cluster are ordered by its barrier, too, but not by arrivals at each other's mbarriers: see device/cluster.cu.
// Blocks run one after the other here; whether they might have run otherwise is what fences and atomics say.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "allocations.hpp"
#include "clocks.hpp"

namespace gemmgen {

class Machine;

// Who makes an access, and what it is.
struct Doer {
  unsigned thread;
  Trace trace;
};

class GlobalWatch {
 public:
  GlobalWatch(Machine& machine, Clocks& clocks);
  ~GlobalWatch();

  void start_cluster();
  // A thread has waited at the cluster's barrier, where `past` was released.
  void pass_cluster_barrier(unsigned thread, std::shared_ptr<const Clock> past);

  // Inside of an allocation that the kernel writes.
  void access(const Allocation& operand, uint64_t address, uint64_t bytes, const Doer& doer);
  // A thread's __threadfence: releases what came before it, and acquires what its atomics have found.
  void fence(unsigned thread);
  // Finds what was released there, and releases what the thread's fences have covered. `counts`: what it finds there tells which
  // atomics came before it, as that of a counter does and a sum of floats does not. `finds`: it gives that to the thread.
  void atomic(const Allocation& operand, uint64_t address, uint64_t bytes, const Doer& doer, bool counts, bool finds);
  // A load that is relaxed, or acquires: finds what an atomic would.
  void strong_read(const Allocation& operand, uint64_t address, uint64_t bytes, const Doer& doer);
  // A read that may miss what this launch has written there.
  void read_only(const Allocation& operand, uint64_t address, uint64_t bytes, const Doer& doer);

 private:
  // The last write and two of the reads since.
  struct Cell {
    Trace write;
    Trace reads[2];
  };
  struct Shadow {
    Cell* cells = nullptr;
    std::size_t count = 0;
    uint64_t cell_bytes = 1;  // a power of two
  };
  // What came before a fence: of each cluster that has a part in it, by its start.
  using Past = std::map<uint32_t, Clock>;
  struct Fence {
    Trace at;
    Past past;
  };
  // What an atomic found: the atomics before it at an address, and what these released.
  struct Found {
    Trace at;
    uint64_t address;
    std::shared_ptr<const Past> past;
  };
  struct Acquired {
    Trace at;  // a fence
    Found found;
  };
  struct Told {
    Trace at;
    std::shared_ptr<const Clock> past;
  };
  // Where atomics are made.
  struct Location {
    std::vector<Trace> atomics;            // since the last write there: none of them orders another
    bool of_block = false;                 // some of them are of a block's scope
    std::shared_ptr<const Past> released;  // null where nothing is
    void release(const Past& past);
  };
  struct Started {
    uint32_t time;
    unsigned block;  // a cluster's first
  };

  static void join(Past& past, const Past& other);
  static Cell* map(std::size_t count);
  static void unmap(Shadow& shadow);
  Shadow& shadow_of(const Allocation& operand);
  void split(Shadow& shadow, uint64_t bytes);
  template <typename Visit>
  void each_cell(const Allocation& operand, uint64_t address, uint64_t bytes, Visit visit);
  void access_cell(Cell& cell, const Allocation& operand, uint64_t address, const Doer& doer);
  void note_read(Cell& cell, uint64_t address, const Doer& doer);
  void note_atomic(Location& location, uint64_t address, const Doer& doer) const;
  void note_found(const Found& found, unsigned thread);
  Trace mark(unsigned thread) const { return {clocks_.time(), 0, uint16_t(thread), Deed::read}; }

  // Whether an earlier access and this one do not race, though nothing orders them.
  bool never_race(const Trace& earlier, const Doer& doer) const;
  // Whether an access to `address` by any block of this launch comes before the thread's next.
  bool before_anywhere(const Trace& earlier, uint64_t address, unsigned thread) const;
  bool in_own_block(const Trace& earlier, unsigned thread) const;
  bool is_told(const Trace& earlier, unsigned thread) const;
  bool orders(const Found& found, const Trace& earlier, uint64_t address) const;

  std::string where(unsigned first_block, unsigned thread) const;
  std::string place(uint32_t at) const;
  [[noreturn]] void refuse_unset(const Region& operand, uint64_t address, const Doer& doer) const;
  [[noreturn]] void refuse(const Trace& first, const Region& operand, uint64_t address, const Doer& doer) const;

  Machine& machine_;
  Clocks& clocks_;
  std::vector<Started> started_;
  std::vector<Shadow> shadows_;  // by allocation
  std::unordered_map<uint64_t, Location> locations_;
  std::unordered_map<uint64_t, std::vector<Trace>> more_reads_;  // than a cell holds
  std::vector<Fence> fences_;       // of this cluster
  std::vector<Found> found_;        // by its atomics
  std::vector<Acquired> acquired_;  // by its fences
  std::vector<Told> told_;          // by its barrier
};

}  // namespace gemmgen
