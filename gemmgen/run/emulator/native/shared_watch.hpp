// Data races on shared memory, and values in it that nobody has set. A cell for each element, or less where an access is to less,
// holds the time of its last write and of each warp's last read; an access races with those that clocks.hpp does not put before
// it, if it or they write. What these accesses were is in logs, in the order of time.
//
// A warp is the unit: its lanes are told apart only where an access is not known to come later, by a barrier of the block, than
// all that it meets. That takes a few vector operations for all lanes together.
//
// A cell's write is negative where it takes a closer look: cp.asyncs and TMA loads, of which no barrier of a block tells, writes
// by other blocks, and values that nobody has set or that are worth nothing.
//
// Reads that are racy or unset give poison, which is told where it is used: NVVM loads from shared memory more than the text asks
// for. Others are told at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "clocks.hpp"
#include "lanes.hpp"
#include "memory.hpp"
#include "plane.hpp"
#include "warp.hpp"

namespace gemmgen {

class Block;
class Machine;

class SharedWatch {
 public:
  static constexpr unsigned STORE_READER = 8, PROXY_READERS = 9;  // eight warpgroups of a block, and TMA stores

  SharedWatch(Machine& machine, Clocks& clocks);

  void start_cluster();
  void pass_barrier_of_all();
  // Of one block of the cluster.
  void pass_block_barrier(unsigned rank) { block_known_[rank] = int32_t(clocks_.tick()); }

  // By the active lanes, in the shared memory of one block. Returns lanes whose value is worth nothing, and says why in `why`.
  uint32_t read(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], Block& owner, Poison& why);
  void write(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], Block& owner, Deed deed);
  // Of what the last write wrote: so many bytes `from` a lane's address on are worth nothing.
  void spoil(Warp& warp, const uint64_t (&addresses)[WARP], Block& owner, unsigned from, unsigned bytes, uint32_t lanes, const Poison& why);

  // A TMA load by a thread, at the time of its operation.
  void load(Block& owner, uint32_t offset, uint32_t bytes, const Trace& trace, unsigned thread);
  // By an agent, for `threads` all of which must come later than what it reads. What the generic proxy has written is for it where
  // `proxied` knows of that. `reader` tells apart those of whose reads none need be known once a later one has been waited for.
  void read_by_proxy(Block& owner, uint32_t offset, uint32_t bytes, const Trace& trace, const unsigned* threads, unsigned count,
                     const Clock& proxied, unsigned reader, bool may_be_unset);
  void note_operation(const Trace& trace) { operations_.push_back(trace); }
  // Whether nobody has written any of these bytes.
  bool unset(Block& owner, uint32_t offset, uint32_t bytes) const;

  std::string where(unsigned thread) const;

 private:
  struct Event {
    uint32_t time, at, lanes;
    uint16_t warp;  // of the cluster
    Deed deed;
    bool merged;    // of several reads of a cell: `offsets` are their times, by lane
    uint32_t bytes;
    uint32_t offsets[WARP];
  };
  struct Spoiled {
    uint32_t lanes;
    Poison why;
  };
  struct Runs;

  int32_t start() const { return int32_t(clocks_.start_of_cluster()); }
  // Accesses of an owner's own warps before this are known to them all.
  int32_t known(const Block& owner) const;
  std::size_t first_cell(const Block& owner) const;
  void fit(unsigned bytes) {
    if (bytes < cell_bytes()) [[unlikely]] split(bytes);
  }
  unsigned cell_bytes() const { return 1u << shift_; }
  void split(unsigned bytes);
  uint16_t warp_of(const Warp& warp) const;
  unsigned thread_of(const Warp& warp, unsigned lane) const;
  Event& record(std::vector<Event>& log, Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], Deed deed);

  const Event* find(const std::vector<Event>& log, uint32_t time) const;
  const Trace* find_operation(uint32_t time) const;
  Trace trace_of(const Event& event, unsigned lane) const;
  static uint32_t lanes_at(const Event& event, uint32_t offset);
  // Calls `visit` with each access that a cell's number, of a write or of a read, stands for.
  template <typename Visit>
  void each_trace(const std::vector<Event>& log, int32_t number, uint32_t offset, Visit visit) const;

  bool settled(Warp& warp, const std::vector<Event>& log, int32_t number);
  bool settle_reads(Warp& warp, std::size_t cell, unsigned count, const Event& event, int32_t known, int32_t& write, int32_t& read);
  uint32_t read_lane(Warp& warp, std::size_t cell, unsigned lane, std::size_t event, Block& owner, Poison& why);
  void note_read(Warp& warp, std::size_t cell, uint32_t offset, std::size_t event);
  uint32_t read_from_afar(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], Block& owner, Poison& why);
  // Whether a write's value is worth something to a reader; else why not.
  bool check_value(int32_t number, uint32_t offset, const Trace& now, unsigned thread, Block& owner, Poison& why);
  void write_lane(Warp& warp, std::size_t cell, unsigned lane, const Event& event, int32_t number, Block& owner);
  void check_readers(std::size_t cell, uint32_t offset, const Trace& now, unsigned thread, Block& owner);
  void check_proxy_readers(std::size_t cell, uint32_t offset, const Trace& now, unsigned thread, Block& owner);

  std::string race(const Trace& first, uint32_t offset, const Trace& now, unsigned thread, Block& owner) const;
  std::string unfenced(const Trace& first, uint32_t offset, const Trace& now, unsigned thread, Block& owner) const;
  std::string unset_text(uint32_t offset, const Trace& now, unsigned thread, Block& owner) const;
  std::string describe(Block& owner, uint32_t offset) const;
  std::string place(uint32_t at) const;
  uint32_t key(const Block& owner, uint32_t offset) const;

  Machine& machine_;
  Clocks& clocks_;
  const unsigned ranks_, warps_;  // warps of a block
  const std::size_t window_;      // bytes
  unsigned shift_ = 0;            // of a cell's bytes
  std::size_t cells_ = 0;         // of a block
  Plane writes_, latest_;         // of the latest read by any warp
  std::vector<Plane> reads_;      // by warp of the block
  std::array<Plane, PROXY_READERS> proxies_;
  std::array<unsigned, PROXY_READERS> proxy_agents_ = {};
  std::vector<Event> read_log_, write_log_;
  std::vector<Trace> operations_;
  std::vector<uint32_t> copies_;  // times of those that some thread has yet to wait for
  std::vector<int32_t> block_known_;
  std::unordered_map<uint32_t, Spoiled> spoiled_;                // by the time of the write
  std::unordered_map<uint32_t, std::vector<Trace>> far_reads_;   // since a cell's last write, by key
  uint32_t checked_by_ = 0;                // the operation for which
  std::array<int32_t, 32> checked_ = {};  // these writes have been found to come before it
  struct Verdict {
    int32_t number = 0;
    uint32_t lanes = 0;
  };
  std::vector<std::array<Verdict, 64>> verdicts_;  // by warp of the cluster: what comes before all that these lanes do
};

template <typename Visit>
void SharedWatch::each_trace(const std::vector<Event>& log, int32_t number, uint32_t offset, Visit visit) const {
  const auto time = uint32_t(std::abs(number));
  if (const Event* const event = find(log, time)) {
    const Event known = *event;
    each_of(lanes_at(known, offset), [&](unsigned lane) { visit(trace_of(known, lane)); });
  } else if (const Trace* const operation = find_operation(time)) {
    visit(Trace(*operation));
  }
}

}  // namespace gemmgen
