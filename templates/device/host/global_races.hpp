// Data races on C and on the workspace. Within a block order.hpp says what comes before what; the accesses of two
// blocks are ordered by a fence and an atomic on either side:
//
//     one writes     a barrier, a __threadfence, an atomic        what came before the fence is released
//     other reads    an atomic that finds the first one's, a __threadfence, a barrier       and acquired
//
// where the barriers may lack if one thread does both. Atomics on one word never race with each other, and each of them
// has to come before whoever reads or writes it otherwise. Blocks run one after the other here; whether they might
// have run otherwise is what fences and atomics say. What a block acquires it does not pass on to a third one,
// unless both used the same counter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "access.hpp"
#include "failure.hpp"
#include "gemmgen_emulator.hpp"
#include "launch.hpp"
#include "memory.hpp"
#include "order.hpp"

namespace gemmgen {

class GlobalRaces {
 public:
  void start_launch() {
    start_of_launch_ = order.epoch() + 1;
    blocks_.clear();
    released_.clear();
    atomics_.clear();
    for (int i = FIRST_WRITTEN; i < END_WRITTEN; ++i) {
      const std::size_t needed = operands[i].bytes / 4 * sizeof(Cell);
      if (shadows_[i].bytes >= needed) continue;
      unmap(shadows_[i]);
      shadows_[i] = map_private("the shadow of an operand", needed);
    }
  }

  void start_block() {
    blocks_.push_back({order.epoch(), blockIdx.x});
    fences_.clear();
    found_.clear();
    acquired_.clear();
  }

  // Elements are words; nothing is said of an access to a part of one.
  void access(const void* raw_address, std::size_t bytes, Place place, Kind kind) {
    for (int i = FIRST_WRITTEN; i < END_WRITTEN; ++i) {
      const std::size_t start = std::size_t(static_cast<const unsigned char*>(raw_address) - operands[i].data);
      if (start >= operands[i].bytes) continue;
      if (start + bytes > operands[i].bytes || (start | bytes) % 4 != 0) return;
      Cell* const cells = reinterpret_cast<Cell*>(shadows_[i].data);
      for (std::size_t offset = start; offset < start + bytes; offset += 4)
        access_word(cells[offset / 4], i, offset, place, kind);
      return;
    }
  }

  // The running thread's __threadfence: releases what came before it, and acquires what its atomics have found.
  void fence() {
    const Access now = order.now(Place(), Kind::read);
    for (const Found& found : found_)
      if (order.before(found.at)) acquired_.push_back({now, found.releases});
    fences_.push_back({now, order.pass_fence()});
  }

  // The running thread's atomic: finds what was released there, and releases what fences have covered.
  void atomic(const void* address, std::size_t bytes, Place place) {
    access(address, bytes, place, Kind::atomic);
    const auto released = released_.find(address);
    if (released != released_.end()) found_.push_back({order.now(place, Kind::atomic), &released->second});
    for (const Fence& fence : fences_) {
      if (!order.before(fence.at)) continue;
      std::vector<Release>& releases = released_[address];
      if (releases.empty() || releases.back().start_of_block != order.start_of_block())
        releases.push_back({order.start_of_block()});
      releases.back().add(fence);
    }
  }

 private:
  // A __threadfence: what of its thread's warp comes before it in its epoch.
  struct Fence {
    Access at;
    Order::Known known;
  };

  // What an atomic offers of its block: the accesses that any of these fences covers.
  struct Release {
    uint32_t start_of_block;
    uint32_t epoch = 0;                      // the last one with a fence: all before it is covered, and in it
    std::map<unsigned, Order::Known> known;  // what these know, by warp

    void add(const Fence& fence) {
      if (fence.at.epoch < epoch) return;
      if (fence.at.epoch > epoch) known.clear();
      epoch = fence.at.epoch;
      Order::Known& most = known[fence.at.thread / WARP];
      for (unsigned lane = 0; lane < WARP; ++lane) most[lane] = std::max(most[lane], fence.known[lane]);
    }

    bool covers(const Access& access) const {
      if (access.epoch != epoch) return access.epoch < epoch;
      const auto lanes = known.find(access.thread / WARP);
      return lanes != known.end() && lanes->second[access.thread % WARP] > access.interval;
    }
  };

  // What an atomic found on its word, or what a fence after it acquired: releases in the order of their blocks. Those
  // of other blocks stay as they are while this one runs.
  struct Found {
    Access at;
    const std::vector<Release>* releases;
  };

  struct StartedBlock {
    uint32_t epoch;
    unsigned index;
  };

  void access_word(Cell& cell, int operand, std::size_t offset, Place place, Kind kind) {
    std::vector<Access>* const atomics = kind == Kind::atomic || cell.write.kind == Kind::atomic ? &atomics_[&cell] : nullptr;
    if (kind != Kind::atomic && atomics != nullptr)
      for (const Access& earlier : *atomics)
        if (!before_anywhere(earlier)) refuse(earlier, operand, offset, place, kind);
    if (cell.write.kind != Kind::atomic && !before_anywhere(cell.write)) refuse(cell.write, operand, offset, place, kind);
    if (kind == Kind::read) {
      if (order.of_this_block(cell.reads[0]) || before_anywhere(cell.reads[0])) order.note_read(cell, place);
      return;
    }
    for (const Access& read : cell.reads)
      if (!before_anywhere(read)) refuse(read, operand, offset, place, kind);
    if (kind == Kind::atomic) note_atomic(*atomics, place);
    else if (atomics != nullptr) atomics->clear();
    cell.write = order.now(place, kind);
    cell.reads[0] = cell.reads[1] = Access();
  }

  // One that comes before this one in its block need not be known any more: what this one precedes it precedes, too.
  void note_atomic(std::vector<Access>& atomics, Place place) const {
    const bool follows = !atomics.empty() && order.of_this_block(atomics.back()) && order.before(atomics.back());
    if (follows) atomics.back() = order.now(place, Kind::atomic);
    else atomics.push_back(order.now(place, Kind::atomic));
  }

  // Whether an access of any block of this launch, or of an earlier launch, comes before the running thread's next.
  bool before_anywhere(const Access& access) const {
    if (access.epoch < start_of_launch_) return true;
    return order.of_this_block(access) ? order.before(access) : is_acquired(access);
  }

  bool is_acquired(const Access& access) const {
    for (const Found& found : acquired_) {
      if (!order.before(found.at)) continue;
      const auto starts_later = [](uint32_t epoch, const Release& release) { return epoch < release.start_of_block; };
      const auto after = std::upper_bound(found.releases->begin(), found.releases->end(), access.epoch, starts_later);
      if (after != found.releases->begin() && (after - 1)->covers(access)) return true;
    }
    return false;
  }

  [[noreturn]] __attribute__((noinline)) void refuse(const Access& first, int operand, std::size_t offset, Place place,
                                                     Kind kind) const {
    unsigned block = 0;
    for (const StartedBlock& started : blocks_)
      if (started.epoch <= first.epoch) block = started.index;
    const std::string where = operands[operand].describe(operands[operand].data + offset);
    fail("crash", {}, "data race on %s: block %u, thread %u%s%s at %s, block %u, thread %u%sit at %s, %s",
         OPERAND_NAMES[operand], block, first.thread, verb(first.kind), where.c_str(), first.place.text().c_str(),
         blockIdx.x, order.thread(), verb(kind), place.text().c_str(),
         block == blockIdx.x ? "no barrier between" : "and nothing orders blocks");
  }

  uint32_t start_of_launch_ = 0;
  std::vector<StartedBlock> blocks_;  // of this launch
  Region shadows_[OPERANDS];          // a cell for each word of C and of the workspace
  std::unordered_map<const Cell*, std::vector<Access>> atomics_;  // on each word since its last write: none orders another
  std::vector<Fence> fences_;    // of this block
  std::vector<Found> found_;     // by its atomics
  std::vector<Found> acquired_;  // by its fences
  std::map<const void*, std::vector<Release>> released_;  // by an atomic's address, in this launch
};

}  // namespace gemmgen
