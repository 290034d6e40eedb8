// One thread block: its threads as fibers, the barriers where they meet and the order they run in.
//
// A thread runs until it has to wait; then the next one of the order runs. The order is the
// natural one for seed 0 and a fresh permutation after every round for any other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "async_copy.hpp"
#include "failure.hpp"
#include "fiber.hpp"
#include "gemmgen_emulator.hpp"
#include "memory.hpp"
#include "races.hpp"

namespace gemmgen {

constexpr std::size_t STACK_BYTES = 64 * 1024;

enum class State { ready, at_syncthreads, at_warp_barrier, exited };

struct Thread {
  Fiber fiber;
  State state = State::ready;
  unsigned line = 0;  // of the barrier where it waits
  unsigned mask = 0;  // lanes that meet at the warp barrier where it waits
  unsigned source_lane = 0;
  uint64_t offered = 0;   // to the lanes that it meets there
  uint64_t received = 0;  // from its source lane
  AsyncCopies copies;
};

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

class Block {
 public:
  // Runs `entry` (which must end in `exit_thread`) as every thread of block `index`.
  void run(FiberEntry entry, unsigned index, unsigned threads, uint64_t seed) {
    start(entry, index, threads, seed);
    while (true) {
      if (seed != 0) shuffle_order();
      const bool progress = run_ready_threads();
      if (alive_ == 0) return races.finish_block();
      if (waiting_ == alive_) release_block_barrier();
      else if (!progress) report_deadlock();
    }
  }

  [[noreturn]] void exit_thread() {
    running_->copies.finish();
    running_->state = State::exited;
    --alive_;
    release_warp_barrier(lane_mask());
    switch_fiber(running_->fiber, scheduler_);
    std::abort();  // an exited thread is never resumed
  }

  void block_barrier(unsigned line) {
    ++waiting_;
    wait(State::at_syncthreads, line);
  }

  void warp_barrier(unsigned mask, unsigned line) {
    if ((mask & lane_mask()) == 0)
      fail("crash", {line}, "%s is not in the mask 0x%08x of its warp collective", where().c_str(), mask);
    running_->mask = mask;
    running_->state = State::at_warp_barrier;
    running_->line = line;
    release_warp_barrier(mask);
    if (running_->state != State::ready) wait(State::at_warp_barrier, line);
  }

  // Gives every lane of `mask` the value of its `source_lane`; poison if that lane takes no part.
  uint64_t warp_exchange(unsigned mask, uint64_t value, unsigned source_lane, unsigned line) {
    running_->offered = value;
    running_->source_lane = source_lane;
    warp_barrier(mask, line);
    return running_->received;
  }

  bool in_kernel() const { return running_ != nullptr; }
  Thread& running() { return *running_; }
  unsigned index() const { return unsigned(running_ - threads_.data()); }
  unsigned lane() const { return index() % WARP; }
  bool on_stack(const unsigned char* address) const { return stacks_.near(address); }
  std::string where() const { return "block " + std::to_string(blockIdx.x) + ", thread " + std::to_string(index()); }

 private:
  void start(FiberEntry entry, unsigned index, unsigned threads, uint64_t seed) {
    if (stacks_.data == nullptr) stacks_ = map_private("the stack", MAX_THREADS * stack_stride());
    if (threads_.size() < threads) grow(threads);
    if (count_ != threads || !natural_order_) {
      order_.resize(threads);
      std::iota(order_.begin(), order_.end(), 0u);
    }
    natural_order_ = seed == 0;
    random_ = {seed * 0x2545F4914F6CDD1Du + index};
    count_ = alive_ = threads;
    waiting_ = 0;
    blockIdx = {index, 0, 0};
    races.start_block();
    for (unsigned t = 0; t < threads; ++t) {
      threads_[t].state = State::ready;
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
    bool progress = false;
    for (unsigned t : order_) {
      if (threads_[t].state != State::ready) continue;
      running_ = &threads_[t];
      races.run(t);
      threadIdx.x = t;
      switch_fiber(scheduler_, running_->fiber);
      progress = true;
    }
    running_ = nullptr;
    return progress;
  }

  void wait(State state, unsigned line) {
    running_->state = state;
    running_->line = line;
    switch_fiber(running_->fiber, scheduler_);
  }

  unsigned lane_mask() const { return 1u << lane(); }

  // CUDA asks that all threads of the block come to the same __syncthreads.
  void release_block_barrier() {
    const unsigned line = threads_[order_[0]].line;
    const bool same = std::all_of(threads_.begin(), threads_.begin() + count_, [line](const Thread& thread) {
      return thread.state == State::at_syncthreads && thread.line == line;
    });
    if (!same) report_deadlock();
    for (unsigned t = 0; t < count_; ++t) threads_[t].state = State::ready;
    waiting_ = 0;
    races.pass_block_barrier();
  }

  // Releases the running thread's warp barrier once all lanes of `mask` that still run are there.
  void release_warp_barrier(unsigned mask) {
    const unsigned warp = index() & ~(WARP - 1);
    const unsigned lanes = std::min(WARP, count_ - warp);
    for (unsigned lane = lanes; lane-- > 0;)  // most arrivals are not the last one, which a look at a few lanes tells
      if ((mask >> lane & 1) && threads_[warp + lane].state == State::ready) return;
    unsigned arrived = 0;
    const Thread* first = nullptr;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const Thread& thread = threads_[warp + lane];
      if (thread.state != State::at_warp_barrier || (thread.mask & mask) == 0) continue;
      if (first == nullptr) first = &thread;
      if (thread.mask == first->mask && thread.line == first->line) arrived |= 1u << lane;
    }
    if (first == nullptr) return;
    for (unsigned lane = 0; lane < lanes; ++lane)
      if ((first->mask >> lane & 1) && !(arrived >> lane & 1) && threads_[warp + lane].state != State::exited) return;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (!(arrived >> lane & 1)) continue;
      Thread& thread = threads_[warp + lane];
      const bool takes_part = thread.source_lane < lanes && (arrived >> thread.source_lane & 1);
      thread.received = takes_part ? threads_[warp + thread.source_lane].offered : ~uint64_t(0);
      thread.state = State::ready;
    }
    races.pass_warp_barrier(warp, arrived);
  }

  // Threads that can never meet: says how many wait where, with a few of them by number.
  [[noreturn]] void report_deadlock() {
    std::map<std::pair<State, unsigned>, std::vector<unsigned>> groups;
    for (unsigned t = 0; t < count_; ++t) {
      const Thread& thread = threads_[t];
      groups[{thread.state, thread.state == State::exited ? 0 : thread.line}].push_back(t);
    }
    std::string text;
    unsigned barrier_line = 0;
    for (const auto& [place, members] : groups) {
      if (!text.empty()) text += "; ";
      text += std::to_string(members.size()) + " of " + std::to_string(count_) + " threads " + describe(place);
      text += " (" + list_some(members) + ")";
      if (barrier_line == 0) barrier_line = place.second;
    }
    fail("crash", {barrier_line}, "barrier divergence in block %u: %s", blockIdx.x, text.c_str());
  }

  static std::string describe(std::pair<State, unsigned> place) {
    const std::string line = " of line " + std::to_string(place.second);
    switch (place.first) {
      case State::at_syncthreads: return "wait at the __syncthreads" + line;
      case State::at_warp_barrier: return "wait at the warp collective" + line;
      case State::exited: return "have exited";
      case State::ready: break;
    }
    return "run";
  }

  static std::string list_some(const std::vector<unsigned>& members) {
    constexpr std::size_t SOME = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(SOME, members.size()); ++i)
      text += (i == 0 ? "" : ", ") + std::to_string(members[i]);
    return members.size() > SOME ? text + ", ..." : text;
  }

  std::vector<Thread> threads_;  // of the largest block so far; the first `count_` are this block's
  std::vector<unsigned> order_;
  Fiber scheduler_;
  Thread* running_ = nullptr;
  Region stacks_;
  Random random_{0};
  unsigned count_ = 0;
  unsigned alive_ = 0;
  unsigned waiting_ = 0;  // at __syncthreads
  bool natural_order_ = false;
};

inline Block block;

}  // namespace gemmgen
