// Which accesses of a block come before which, whatever order its threads run in here. Those of two threads are ordered by
//
//     a barrier of the block       which starts a new epoch for all of its threads
//     a barrier among lanes        __syncwarp and the warp collectives, for the lanes that meet
//
// Each warp counts its meetings in intervals, and each thread knows of every lane of its warp the interval before which
// that lane's accesses come before its own. A copy under way comes before nothing: see shared_races.hpp.
#pragma once

#include <array>
#include <cstdint>

#include "access.hpp"

namespace gemmgen {

constexpr unsigned WARP = 32;
constexpr unsigned MAX_THREADS = 1024;

class Order {
 public:
  using Known = std::array<uint32_t, WARP>;  // by lane, the intervals that come before

  void start_block() {
    start_epoch();
    start_of_block_ = epoch_;
  }

  void start_epoch() { ++epoch_; }

  // `thread` goes on.
  void run(unsigned thread) { thread_ = thread; }

  // The lanes of `mask` have met: each knows from now on what any of them knew.
  void pass_warp_barrier(unsigned first_thread, unsigned mask) {
    const uint32_t interval = ++intervals_[first_thread / WARP];
    Known known = {};
    for (unsigned lane = 0; lane < WARP; ++lane) {
      if (!(mask >> lane & 1)) continue;
      for (unsigned other = 0; other < WARP; ++other)
        if (known_[first_thread + lane][other] > known[other]) known[other] = known_[first_thread + lane][other];
    }
    for (unsigned lane = 0; lane < WARP; ++lane)
      if (mask >> lane & 1) known[lane] = interval;
    for (unsigned lane = 0; lane < WARP; ++lane)
      if (mask >> lane & 1) known_[first_thread + lane] = known;
  }

  // The running thread's fence: what of its warp comes before it. What the thread does from now on does not.
  Known pass_fence() {
    Known known = known_[thread_];
    known[thread_ % WARP] = ++intervals_[warp()];
    return known;
  }

  // Whether an access comes before the running thread's next.
  bool before(const Access& access) const {
    if (access.epoch < epoch_ && access.kind != Kind::copy_under_way) return true;
    return before_in_epoch(access);
  }

  Access now(Place place, Kind kind) const { return {epoch_, intervals_[warp()], place, uint16_t(thread_), kind}; }

  // Two reads suffice: they are unordered, and of different warps if any two are, so that a write
  // by whichever thread races with one of them if it races with any. Only meetings of part of a warp
  // can order both and leave a third one, which then goes unseen; no race is reported that is none.
  void note_read(Cell& cell, Place place) const {
    Access& first = cell.reads[0];
    Access& second = cell.reads[1];
    if (first.epoch < epoch_) {
      first = now(place, Kind::read);
      second.epoch = 0;
      return;
    }
    if (first.thread == thread_ || before(first)) {
      first = now(place, Kind::read);
      if (second.epoch != 0 && before(second)) second.epoch = 0;
    } else if (before(second) || (first.thread / WARP == second.thread / WARP && first.thread / WARP != warp())) {
      second = now(place, Kind::read);
    }
  }

  uint32_t epoch() const { return epoch_; }
  uint32_t start_of_block() const { return start_of_block_; }
  bool of_this_block(const Access& access) const { return access.epoch >= start_of_block_; }

  unsigned thread() const { return thread_; }  // that runs
  unsigned warp() const { return thread_ / WARP; }
  uint32_t interval() const { return intervals_[warp()]; }

 private:
  __attribute__((noinline)) bool before_in_epoch(const Access& access) const {
    if (!of_this_block(access)) return true;
    if (access.kind == Kind::copy_under_way) return false;
    if (access.thread == thread_) return true;
    return access.thread / WARP == warp() && known_[thread_][access.thread % WARP] > access.interval;
  }

  uint32_t epoch_ = 0;  // barriers and blocks so far; it only grows, so that nothing is ever cleared
  uint32_t start_of_block_ = 0;
  unsigned thread_ = 0;
  uint32_t intervals_[MAX_THREADS / WARP] = {};
  Known known_[MAX_THREADS] = {};  // of each thread's warp
};

inline Order order;

}  // namespace gemmgen
