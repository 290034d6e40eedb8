// The threads of a block, or of a cluster, as fibers, and the order they run in.
//
// A thread runs until it has to wait; then the next one of the order runs. The order is the
// natural one for seed 0 and a fresh permutation after every round for any other.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "barriers.hpp"
#include "clocks.hpp"
#include "cluster.hpp"
#include "fiber.hpp"
#include "gemmgen_emulator.hpp"
#include "memory.hpp"
#include "races.hpp"

namespace gemmgen {

inline uint64_t launch_seed = 0;

// splitmix64: a good generator in three lines.
struct Random {
  uint64_t state;

  uint64_t next() {
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
};

class Scheduler {
 public:
  // The running thread waits for what `number` stands for, until `release`.
  void wait_for(State state, unsigned number, unsigned line) {
    running_->barrier = number;
    wait(state, line);
  }

  // Who waits so, and for that number, goes on.
  void release(State state, unsigned number) {
    for (unsigned t = 0; t < count_; ++t)
      if (states_[t] == state && threads_[t].barrier == number) become(t, State::ready);
  }

  unsigned random(unsigned below) { return unsigned(random_.next() % below); }

  bool in_kernel() const { return running_ != nullptr; }
  Thread& running() { return *running_; }
  unsigned index() const { return running_index_; }
  unsigned lane() const { return index() % WARP; }
  bool on_stack(const unsigned char* address) const { return stacks_.near(address); }
  std::string where() const { return cluster.where(index()); }

 protected:
  // All threads of the cluster, each of which is to run `entry`.
  void start_threads(FiberEntry entry, uint64_t seed) {
    const unsigned index = cluster.first_block, threads = cluster.count();
    if (stacks_.data == nullptr) stacks_ = map_private("the stack", MAX_THREADS * stack_stride());
    if (threads_.size() < threads) grow(threads);
    if (count_ != threads || !natural_order_) {
      order_.resize(threads);
      std::iota(order_.begin(), order_.end(), 0u);
    }
    natural_order_ = seed == 0;
    random_ = {seed * 0x2545F4914F6CDD1Du + index};
    count_ = threads;
    rank_ = 0;
    blockIdx = {index, 0, 0};
    for (unsigned t = 0; t < threads; ++t) {
      become(t, cluster.has(t) ? State::ready : State::exited);
      threads_[t].votes = threads_[t].arrival = 0;
      threads_[t].syncs = false;
      prepare(threads_[t].fiber, stacks_.data + (t + 1) * stack_stride() - stack_offset(t), entry);
    }
  }

  // A stack grows down onto a page of its own that no access survives.
  void grow(unsigned threads) {
    for (std::size_t t = threads_.size(); t < threads; ++t)
      mprotect(stacks_.data + t * stack_stride(), page_bytes(), PROT_NONE);
    threads_.resize(threads);
  }

  static std::size_t stack_stride() { return STACK_BYTES + page_bytes(); }

  // The tops of stacks lie in different sets of the processor's cache, of which a page has one of each.
  static std::size_t stack_offset(unsigned thread) { return thread % 32 * 128; }

  void shuffle_order() {
    for (std::size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[random_.next() % (i + 1)]);
  }

  bool run_ready_threads() {
    next_ = 0;
    const bool progress = take_next();
    if (progress) switch_fiber(scheduler_, running_->fiber);
    running_ = nullptr;
    return progress;
  }

  // Makes the next one of the order that is ready the running thread; false where this round has none left.
  bool take_next() {
    while (next_ < count_) {
      const unsigned t = order_[next_++];
      if (states_[t] != State::ready) continue;
      running_ = &threads_[t];
      running_index_ = t;
      clocks.run(t);
      threadIdx.x = t;
      if (cluster.ranks > 1) enter_block(t);
      return true;
    }
    return false;
  }

  // That of a thread.
  void enter_block(unsigned thread) {
    const unsigned rank = cluster.rank_of(thread);
    threadIdx.x = cluster.in_block(thread);
    if (rank == rank_) return;
    rank_ = rank;
    blockIdx.x = cluster.block_of(thread);
    races.select(rank);
  }

  // The running thread goes on when its turn has come again: the next one runs, or the round ends.
  void hand_over() {
    Fiber& from = running_->fiber;
    switch_fiber(from, take_next() ? running_->fiber : scheduler_);
  }

  void become(unsigned thread, State state) {
    states_[thread] = state;
    uint32_t& ready = ready_[thread / WARP];
    const uint32_t lane = 1u << thread % WARP;
    ready = state == State::ready ? ready | lane : ready & ~lane;
  }

  void wait(State state, unsigned line) {
    become(index(), state);
    running_->line = line;
    hand_over();
  }

  unsigned lane_mask() const { return 1u << lane(); }

  std::vector<Thread> threads_;  // of the largest block or cluster so far; the first `count_` are this one's
  State states_[MAX_THREADS] = {};  // by thread, apart from the rest of them: most of the time nothing else is asked
  uint32_t ready_[MAX_WARPS] = {};  // by warp: the lanes whose state is `ready`
  Thread* running_ = nullptr;
  unsigned rank_ = 0;  // of the block that runs
  unsigned count_ = 0;

 private:
  std::vector<unsigned> order_;
  Fiber scheduler_;
  unsigned running_index_ = 0;
  Region stacks_;
  Random random_{0};
  unsigned next_ = 0;  // of the order, in this round
  bool natural_order_ = false;
};

}  // namespace gemmgen
