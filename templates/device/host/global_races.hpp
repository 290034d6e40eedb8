// Data races on C and on the workspace. Within a block clocks.hpp says what comes before what; the accesses of two
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

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "access.hpp"
#include "clocks.hpp"
#include "cluster.hpp"
#include "failure.hpp"
#include "gemmgen_emulator.hpp"
#include "launch.hpp"
#include "memory.hpp"
#include "shadow.hpp"

namespace gemmgen {

class GlobalRaces {
 public:
  void start_launch() {
    start_of_launch_ = clocks.time() + 1;
    blocks_.clear();
    locations_.clear();
    more_reads_.clear();
    shadows_.resize(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].written) shadows_[i].resize(operands[i].region.bytes, operands[i].element_bytes);
  }

  void start_block() {
    blocks_.push_back({clocks.start_of_block(), cluster.first_block});
    fences_.clear();
    found_.clear();
    acquired_.clear();
    told_.clear();
  }

  // The running thread has waited at the cluster's barrier, where `past` was released.
  void pass_cluster_barrier(const std::shared_ptr<const Clock>& past) { told_.push_back({clocks.now(Place(), Kind::read), past}); }

  // An access inside of operand `number`, which the kernel writes.
  void access(std::size_t number, const unsigned char* address, std::size_t bytes, Place place, Kind kind) {
    const Operand& operand = operands[number];
    shadows_[number].each_cell(std::size_t(address - operand.region.data), bytes, [&](Cell& cell, std::size_t offset) {
      access_element(cell, operand, operand.region.data + offset, place, kind);
    });
  }

  // The running thread's __threadfence: releases what came before it, and acquires what its atomics have found.
  void fence() {
    const Access now = clocks.now(Place(), Kind::read);
    for (const Found& found : found_)
      if (clocks.before(found.at)) acquired_.push_back({now, found});
    Past past;
    clocks.release(past[clocks.start_of_block()]);
    for (const Acquired& acquired : acquired_)
      if (clocks.before(acquired.at) && acquired.found.past != nullptr) join(past, *acquired.found.past);
    fences_.push_back({now, std::move(past)});
  }

  // The running thread's atomic: finds what was released there, and releases what its fences have covered.
  void atomic(std::size_t number, const unsigned char* address, std::size_t bytes, Place place, bool counts, Kind kind) {
    Location& location = locations_[address];
    if (!location.atomics.empty()) found_.push_back({clocks.now(place, kind), counts ? address : nullptr, location.released});
    access(number, address, bytes, place, kind);
    for (const Fence& fence : fences_)
      if (clocks.before(fence.at)) location.release(fence.past);
    clocks.tick();
  }

  // Its load that is relaxed, or acquires: finds what an atomic would.
  void strong_read(std::size_t number, const unsigned char* address, std::size_t bytes, Place place, Kind kind) {
    const auto location = locations_.find(address);
    if (location != locations_.end() && !location->second.atomics.empty())
      found_.push_back({clocks.now(place, kind), address, location->second.released});
    access(number, address, bytes, place, kind);
  }

  // A read that may miss what this launch has written there.
  void read_only(std::size_t number, const unsigned char* address, std::size_t bytes, Place place) {
    const Region& operand = operands[number].region;
    shadows_[number].each_cell(std::size_t(address - operand.data), bytes, [&](Cell& cell, std::size_t offset) {
      if (cell.write.time >= start_of_launch_)
        fail("race", place.location(), "%s: __ldg reads %s, which the same launch wrote at %s: the cache "
             "that it reads by may hold what was there before", cluster.where(clocks.thread()).c_str(),
             operand.describe(operand.data + offset).c_str(), cell.write.place.text().c_str());
    });
  }

  // The same of one that nothing is ordered by, as a maximum.
  void reduction(std::size_t number, const unsigned char* address, std::size_t bytes, Place place, Kind kind) {
    access(number, address, bytes, place, kind);
    clocks.tick();
  }

 private:
  // What came before a fence: of each block that has a part in it, by the start of the block.
  using Past = std::map<uint32_t, Clock>;

  static void join(Past& past, const Past& other) {
    for (const auto& [start, clock] : other) gemmgen::join(past[start], clock);
  }

  struct Fence {
    Access at;
    Past past;
  };

  // What an atomic found: the atomics before it at an address, and what these released.
  struct Found {
    Access at;
    const unsigned char* address;
    std::shared_ptr<const Past> past;
  };

  struct Acquired {
    Access at;  // a fence
    Found found;
  };

  struct Told {
    Access at;
    std::shared_ptr<const Clock> past;
  };

  // Where atomics are made.
  struct Location {
    std::vector<Access> atomics;           // since the last write there: none of them orders another
    bool of_block = false;                 // some of them are of a block's scope
    std::shared_ptr<const Past> released;  // null where nothing is

    void release(const Past& past) {
      Past all = released == nullptr ? Past() : *released;
      join(all, past);
      released = std::make_shared<const Past>(std::move(all));
    }
  };

  struct StartedBlock {
    uint32_t start;
    unsigned index;  // of a cluster's first
  };

  void access_element(Cell& cell, const Operand& operand, const unsigned char* address, Place place, Kind kind) {
    if (!operand.holds_values && kind != Kind::write && cell.write.time < start_of_launch_)
      refuse_unset(operand.region, address, place, kind);
    Location* const location = is_update(kind) || is_update(cell.write.kind) ? &locations_[address] : nullptr;
    const auto check = [&](const Access& earlier) {
      if (!never_race(earlier, kind) && !before_anywhere(earlier, address))
        refuse(earlier, operand.region, address, place, kind);
    };
    if (location != nullptr && (kind != Kind::atomic || location->of_block))
      for (const Access& earlier : location->atomics) check(earlier);
    if (!is_update(cell.write.kind)) check(cell.write);
    if (kind == Kind::read || kind == Kind::strong_read || kind == Kind::block_read)
      return note_read(cell, address, place, kind);
    for (const Access& read : cell.reads) check(read);
    if (const auto more = more_reads_.find(address); more != more_reads_.end()) {
      for (const Access& read : more->second) check(read);
      more_reads_.erase(more);
    }
    if (is_update(kind)) note_atomic(*location, address, place, kind);
    else if (location != nullptr) location->atomics.clear(), location->of_block = false;
    cell = {clocks.now(place, kind), {}};
  }

  // An access that comes before this one need not be known any more: what this one precedes it precedes, too.
  // Unless more would race with it.
  void note_read(Cell& cell, const unsigned char* address, Place place, Kind kind) {
    const Access now = clocks.now(place, kind);
    const auto is_needed = [&](const Access& read) {
      if (kind != Kind::read && kind != read.kind && read.time >= start_of_launch_) return true;
      return !before_anywhere(read, address);
    };
    for (Access& read : cell.reads)
      if (!is_needed(read)) {
        read = now;
        return;
      }
    std::vector<Access>& more = more_reads_[address];
    for (Access& read : more)
      if (!is_needed(read)) {
        read = now;
        return;
      }
    more.push_back(now);
  }

  void note_atomic(Location& location, const unsigned char* address, Place place, Kind kind) const {
    std::vector<Access>& atomics = location.atomics;
    location.of_block |= is_of_block(kind);
    const bool follows = !atomics.empty() && before_anywhere(atomics.back(), address);
    if (follows) atomics.back() = clocks.now(place, kind);
    else atomics.push_back(clocks.now(place, kind));
  }

  // Whether an earlier access and one of the running thread do not race, though nothing orders them.
  static bool never_race(const Access& earlier, Kind kind) {
    if (!is_strong(earlier.kind) || !is_strong(kind)) return false;
    if (!is_of_block(earlier.kind) && !is_of_block(kind)) return true;
    return clocks.of_this_block(earlier) && in_own_block(earlier);
  }

  // Whether an access to `address` by any block, of this launch or an earlier one, comes before the running thread's next.
  bool before_anywhere(const Access& access, const unsigned char* address) const {
    if (access.time < start_of_launch_) return true;
    if (clocks.of_this_block(access) && (in_own_block(access) ? clocks.before(access) : is_told(access))) return true;
    for (const Acquired& acquired : acquired_)
      if (clocks.before(acquired.at) && orders(acquired.found, access, address)) return true;
    return false;
  }

  static bool in_own_block(const Access& access) {
    return cluster.ranks == 1 || cluster.rank_of(clocks.thread_of(access)) == cluster.rank_of(clocks.thread());
  }

  // Of an access of another block of the cluster.
  bool is_told(const Access& access) const {
    if (clocks.known_to_all(access)) return true;
    for (const Told& told : told_)
      if (in_own_block(told.at) && clocks.before(told.at) && told.past->covers(access)) return true;
    return false;
  }

  static bool orders(const Found& found, const Access& access, const unsigned char* address) {
    if (is_update(access.kind) && address == found.address && access.time < found.at.time) return true;
    if (found.past == nullptr) return false;
    const auto after = found.past->upper_bound(access.time);
    return after != found.past->begin() && std::prev(after)->second.covers(access);
  }

  // C with beta = 0, and what an epilogue only writes: nothing is there before the launch has written it.
  [[noreturn]] __attribute__((noinline)) void refuse_unset(const Region& operand, const unsigned char* address, Place place,
                                                           Kind kind) const {
    const bool is_matrix = operand.geometry.element > 0;
    fail("crash", place.location(), "%s%s%s, which this launch has not written%s",
         cluster.where(clocks.thread()).c_str(), verb(kind),
         (is_matrix ? operand.name + " at " + operand.place(address) : operand.describe(address)).c_str(),
         operand.name == "C" ? " and may not read: beta is 0, or no input" : "");
  }

  [[noreturn]] __attribute__((noinline)) void refuse(const Access& first, const Region& operand, const unsigned char* address,
                                                     Place place, Kind kind) const {
    Cluster then = cluster;
    for (const StartedBlock& started : blocks_)
      if (started.start <= first.time) then.first_block = started.index;
    const unsigned thread = clocks.thread_of(first);
    fail("race", {}, "data race on %s: %s%s%s at %s, %s%sit at %s, %s", operand.name.c_str(), then.where(thread).c_str(),
         verb(first.kind), operand.describe(address).c_str(), first.place.text().c_str(),
         cluster.where(clocks.thread()).c_str(), verb(kind), place.text().c_str(),
         then.block_of(thread) == cluster.block_of(clocks.thread()) ? "no barrier between" : "and nothing orders blocks");
  }

  uint32_t start_of_launch_ = 0;
  std::vector<StartedBlock> blocks_;  // of this launch
  std::vector<Shadow> shadows_;       // of the operands that the kernel writes
  std::unordered_map<const unsigned char*, Location> locations_;
  std::unordered_map<const unsigned char*, std::vector<Access>> more_reads_;  // than a cell holds
  std::vector<Fence> fences_;      // of this block
  std::vector<Found> found_;       // by its atomics
  std::vector<Acquired> acquired_;  // by its fences
  std::vector<Told> told_;          // by the cluster's barrier
};

}  // namespace gemmgen
