// One thread block, or those of a cluster: their threads as fibers, the barriers where they meet and the order they run in.
//
// A thread runs until it has to wait; then the next one of the order runs. The order is the
// natural one for seed 0 and a fresh permutation after every round for any other.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "async_copy.hpp"
#include "asynchronous.hpp"
#include "barriers.hpp"
#include "clocks.hpp"
#include "cluster.hpp"
#include "deadlock.hpp"
#include "failure.hpp"
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

class Block {
 public:
  // Runs `entry` (which must end in `exit_thread`) as every thread of the cluster.
  void run(FiberEntry entry, uint64_t seed) {
    start(entry, seed);
    while (true) {
      if (seed != 0) shuffle_order();
      const bool progress = run_ready_threads();
      finish_blocks();
      if (alive_ == 0) return races.finish_block();
      if (release_block_barriers() || release_active_masks()) continue;
      if (!progress && !(asynchronous != nullptr && asynchronous->proceed())) report_deadlock();
    }
  }

  [[noreturn]] void exit_thread() {
    running_->copies.finish();
    if (asynchronous != nullptr) asynchronous->exit_thread();
    become(index(), State::exited);
    --alive_;
    --own().alive;
    release_warp_barrier(lane_mask());
    leave_cluster_barrier();
    hand_over();
    std::abort();  // an exited thread is never resumed
  }

  void block_barrier(unsigned line) {
    ++own().waiting;
    wait(State::at_syncthreads, line);
  }

  // A barrier that counts the threads which say yes.
  unsigned block_vote(bool vote, unsigned line) {
    running_->votes = vote;
    block_barrier(line);
    const unsigned votes = running_->votes;
    running_->votes = 0;
    return votes;
  }

  // The running thread arrives at barrier `number` of `threads`, and may wait there for all of them.
  void named_barrier(unsigned number, unsigned threads, bool waits, unsigned line) {
    check_named_barrier(number, threads, line);
    NamedBarrier& barrier = own().barriers[number];
    barrier.threads = threads;
    barrier.arrived.push_back(index());
    clocks.release(barrier.clock);
    if (waits) become(index(), State::at_named_barrier);
    running_->barrier = number;
    running_->line = line;
    if (barrier.arrived.size() == threads) release_named_barrier(number);
    if (states_[index()] != State::ready) wait(State::at_named_barrier, line);
  }

  // The running thread arrives at the cluster's barrier, and goes on.
  void cluster_arrive(unsigned line) {
    arrive_at_cluster(line);
    clocks.release(cluster_barrier_.released);
    release_cluster_barrier();
  }

  // It waits there for all threads to have arrived.
  void cluster_wait(unsigned line) {
    if (running_->arrival == 0)
      fail("crash", {line}, "%s waits at the cluster's barrier, where it has not arrived", where().c_str());
    if (cluster_barrier_.phase < running_->arrival) wait(State::at_cluster_barrier, line);
    running_->arrival = 0;
    clocks.acquire(index(), *cluster_barrier_.complete);
    races.pass_cluster_barrier(cluster_barrier_.complete);
  }

  // Both at once.
  void cluster_sync(unsigned line) {
    arrive_at_cluster(line);
    ++cluster_barrier_.syncs;
    running_->syncs = true;
    running_->line = line;
    become(index(), State::at_cluster_barrier);
    release_cluster_barrier();
    if (states_[index()] != State::ready) hand_over();
    running_->arrival = 0;
    if (cluster_barrier_.complete != nullptr) races.pass_cluster_barrier(cluster_barrier_.complete);
  }

  // The lanes of `mask` meet; `combine` sees what each of them brings as `operand` and leaves it changed.
  void warp_collective(unsigned mask, void* operand, Combine combine, unsigned line, Order order = Order::lanes) {
    if ((mask & lane_mask()) == 0)
      fail("crash", {line}, "%s is not in the mask 0x%08x of its warp collective", where().c_str(), mask);
    running_->mask = mask;
    running_->operand = operand;
    running_->combine = combine;
    running_->order = order;
    running_->line = line;
    become(index(), State::at_warp_barrier);
    WholeWarp& warp = whole_warps_[index() / WARP];
    if (mask == WholeWarp::ALL && warp.complete(lane(), operand, combine, line)) return release_whole_warp(warp);
    release_warp_barrier(mask);
    if (states_[index()] != State::ready) hand_over();
  }

  // The lanes of the running thread's warp that are at this line, too, once no other lane of it can run: GPUs promise
  // less, and mostly give that.
  unsigned active_mask(unsigned line) {
    ++at_active_mask_;
    wait(State::at_active_mask, line);
    return running_->mask;
  }

  // The threads of the running one's warpgroup come to an instruction; the last one makes them `act`.
  void warpgroup_collective(void* operand, WarpgroupAct act, unsigned line) {
    const unsigned number = index() / WARPGROUP, first = number * WARPGROUP;
    const unsigned start = rank_ * cluster.stride(), end = start + cluster.threads;
    if (first < start || first + WARPGROUP > end)
      fail("crash", {line}, "%s: an instruction of a warpgroup, and threads %u to %u are none", where().c_str(),
           std::max(first, start) - start, std::min(first + WARPGROUP, end) - start - 1);
    Warpgroup& group = warpgroups_[number];
    if (group.arrived == 0) {
      group.line = line;
      group.act = act;
    } else if (group.line != line || group.act != act) {
      fail("crash", {line}, "%s: others of its warpgroup are at the instruction of line %u", where().c_str(), group.line);
    }
    group.operands[index() - first] = operand;
    if (++group.arrived < WARPGROUP) return wait(State::at_warpgroup, line);
    group.arrived = 0;
    act(group.operands, first);
    for (unsigned t = first; t < first + WARPGROUP; ++t)
      if (states_[t] == State::at_warpgroup) become(t, State::ready);
  }

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

  bool has_exited(unsigned rank) const { return blocks_[rank].alive == 0; }
  unsigned random(unsigned below) { return unsigned(random_.next() % below); }

  bool in_kernel() const { return running_ != nullptr; }
  Thread& running() { return *running_; }
  unsigned index() const { return running_index_; }
  unsigned lane() const { return index() % WARP; }
  bool on_stack(const unsigned char* address) const { return stacks_.near(address); }
  std::string where() const { return cluster.where(index()); }

 private:
  // Of the threads of one block.
  struct OfBlock {
    unsigned alive = 0;
    unsigned waiting = 0;  // at __syncthreads
    bool finished = false;
    std::array<NamedBarrier, NAMED_BARRIERS> barriers;
  };

  OfBlock& own() { return blocks_[rank_]; }

  void start(FiberEntry entry, uint64_t seed) {
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
    alive_ = cluster.ranks * cluster.threads;
    rank_ = at_active_mask_ = 0;
    blockIdx = {index, 0, 0};
    for (unsigned rank = 0; rank < cluster.ranks; ++rank) {
      blocks_[rank] = {};
      blocks_[rank].alive = cluster.threads;
    }
    cluster_barrier_ = {};
    for (Warpgroup& group : warpgroups_) group.arrived = 0;
    for (WholeWarp& warp : whole_warps_) warp.arrived = 0;
    races.start_block();
    if (asynchronous != nullptr) asynchronous->start_block();
    for (unsigned t = 0; t < threads; ++t) {
      become(t, cluster.has(t) ? State::ready : State::exited);
      threads_[t].votes = threads_[t].arrival = 0;
      threads_[t].syncs = false;
      prepare(threads_[t].fiber, stacks_.data + (t + 1) * stack_stride() - stack_offset(t), entry);
    }
  }

  // Those whose threads have exited.
  void finish_blocks() {
    for (unsigned rank = 0; rank < cluster.ranks; ++rank) {
      OfBlock& one = blocks_[rank];
      if (one.alive > 0 || one.finished) continue;
      one.finished = true;
      if (asynchronous != nullptr) asynchronous->finish_block(rank);
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

  // Those of blocks whose threads all wait at a __syncthreads; whether there was one.
  bool release_block_barriers() {
    bool released = false;
    for (unsigned rank = 0; rank < cluster.ranks; ++rank) {
      OfBlock& one = blocks_[rank];
      if (one.alive == 0 || one.waiting < one.alive) continue;
      one.waiting = 0;
      release_block_barrier(rank * cluster.stride());
      released = true;
    }
    return released;
  }

  // Of warps that have no thread left that runs; whether there was one.
  bool release_active_masks() {
    bool released = false;
    for (unsigned warp = 0; at_active_mask_ > 0 && warp < count_; warp += WARP) {
      if (ready_[warp / WARP] != 0) continue;
      const unsigned end = std::min(count_, warp + WARP);
      for (unsigned t = warp; t < end; ++t)
        if (states_[t] == State::at_active_mask) released = release_active_mask(t, end) || released;
    }
    return released;
  }

  // Those from thread `first` to `end` that wait at its line.
  bool release_active_mask(unsigned first, unsigned end) {
    const auto is_there = [&](unsigned t) {
      return states_[t] == State::at_active_mask && threads_[t].line == threads_[first].line;
    };
    unsigned mask = 0;
    for (unsigned t = first; t < end; ++t) mask |= unsigned(is_there(t)) << t % WARP;
    for (unsigned t = end; t-- > first;) {
      if (!is_there(t)) continue;
      threads_[t].mask = mask;
      become(t, State::ready);
      --at_active_mask_;
    }
    return true;
  }

  // CUDA asks that all threads of the block come to the same __syncthreads. `first` is the first of them.
  void release_block_barrier(unsigned first) {
    const unsigned end = first + cluster.threads, line = threads_[first].line;
    for (unsigned t = first; t < end; ++t)
      if (states_[t] != State::at_syncthreads || threads_[t].line != line) report_deadlock();
    unsigned votes = 0;
    for (unsigned t = first; t < end; ++t) {
      votes += threads_[t].votes;
      become(t, State::ready);
    }
    for (unsigned t = first; votes > 0 && t < end; ++t) threads_[t].votes = votes;
    if (cluster.ranks == 1) return races.pass_block_barrier();
    Clock clock;
    for (unsigned t = first; t < end; ++t) release_for(t, clock);
    for (unsigned t = first; t < end; ++t) clocks.acquire(t, clock);
  }

  // What a thread knows that waits.
  static void release_for(unsigned thread, Clock& clock) {
    const unsigned running = clocks.thread();
    clocks.run(thread);
    clocks.release(clock);
    clocks.run(running);
  }

  void arrive_at_cluster(unsigned line) {
    if (running_->arrival != 0)
      fail("crash", {line}, "%s arrives at the cluster's barrier once more, before it has waited there", where().c_str());
    ++cluster_barrier_.arrived;
    running_->arrival = cluster_barrier_.phase + 1;
  }

  // The running thread exits: nobody waits for it.
  void leave_cluster_barrier() {
    if (running_->arrival == cluster_barrier_.phase + 1) --cluster_barrier_.arrived;
    if (alive_ > 0) release_cluster_barrier();
  }

  // Where all have arrived.
  void release_cluster_barrier() {
    ClusterBarrier& barrier = cluster_barrier_;
    if (barrier.arrived < alive_) return;
    if (barrier.syncs == alive_) {
      races.pass_block_barrier();
      barrier.complete = nullptr;
    } else {
      complete_cluster_phase();
    }
    for (unsigned t = 0; t < count_; ++t) {
      threads_[t].syncs = false;
      if (states_[t] == State::at_cluster_barrier) become(t, State::ready);
    }
    barrier = {barrier.phase + 1, 0, 0, {}, std::move(barrier.complete)};
  }

  // Of which threads that wait since they arrived have to tell, and to be told, what others do themselves.
  void complete_cluster_phase() {
    ClusterBarrier& barrier = cluster_barrier_;
    for (unsigned t = 0; t < count_; ++t)
      if (threads_[t].syncs) release_for(t, barrier.released);
    for (unsigned t = 0; t < count_; ++t)
      if (threads_[t].syncs) clocks.acquire(t, barrier.released);
    barrier.complete = std::make_shared<const Clock>(std::move(barrier.released));
  }

  void check_named_barrier(unsigned number, unsigned threads, unsigned line) const {
    const auto refuse = [&](const std::string& why) {
      fail("crash", {line}, "%s comes to barrier %u %s", where().c_str(), number, why.c_str());
    };
    if (number == 0 || number >= NAMED_BARRIERS)
      refuse("of 1 to " + std::to_string(NAMED_BARRIERS - 1) + ": 0 is that of __syncthreads");
    const std::string of_threads = "of " + std::to_string(threads) + " threads";
    if (threads == 0 || threads % WARP != 0) refuse(of_threads + ", which are no whole warps");
    if (threads > cluster.threads) refuse(of_threads + " in a block of " + std::to_string(cluster.threads));
    const NamedBarrier& barrier = blocks_[rank_].barriers[number];
    if (barrier.threads != 0 && barrier.threads != threads)
      refuse(of_threads + ", where others came to one of " + std::to_string(barrier.threads));
    if (std::find(barrier.arrived.begin(), barrier.arrived.end(), index()) != barrier.arrived.end())
      refuse("again, before all of its " + std::to_string(threads) + " threads have come once");
  }

  void release_named_barrier(unsigned number) {
    const NamedBarrier barrier = std::exchange(own().barriers[number], {});
    for (unsigned t : barrier.arrived) {
      if (states_[t] != State::at_named_barrier || threads_[t].barrier != number) continue;
      become(t, State::ready);
      clocks.acquire(t, barrier.clock);
    }
  }

  void release_whole_warp(WholeWarp& warp) {
    const unsigned number = index() / WARP;
    warp.arrived = 0;
    ready_[number] = WholeWarp::ALL;
    std::fill_n(states_ + number * WARP, WARP, State::ready);
    if (warp.combine != nullptr) warp.combine(warp.operands);
    if (running_->order == Order::lanes) clocks.pass_warp_barrier(number * WARP, WholeWarp::ALL);
  }

  // Releases the running thread's warp barrier once all lanes of `mask` that still run are there.
  void release_warp_barrier(unsigned mask) {
    const unsigned warp = index() & ~(WARP - 1);
    if (ready_[warp / WARP] & mask) return;
    const unsigned lanes = std::min(WARP, count_ - warp);
    unsigned arrived = 0;
    const Thread* first = nullptr;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const Thread& thread = threads_[warp + lane];
      if (states_[warp + lane] != State::at_warp_barrier || (thread.mask & mask) == 0) continue;
      if (first == nullptr) first = &thread;
      const bool same = thread.mask == first->mask && thread.line == first->line && thread.combine == first->combine;
      if (same) arrived |= 1u << lane;
    }
    if (first == nullptr) return;
    for (unsigned lane = 0; lane < lanes; ++lane)
      if ((first->mask >> lane & 1) && !(arrived >> lane & 1) && states_[warp + lane] != State::exited) return;
    void* operands[WARP] = {};
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (!(arrived >> lane & 1)) continue;
      operands[lane] = threads_[warp + lane].operand;
      become(warp + lane, State::ready);
    }
    whole_warps_[warp / WARP].arrived &= ~arrived;
    if (first->combine != nullptr) first->combine(operands);
    if (first->order == Order::lanes) clocks.pass_warp_barrier(warp, arrived);
  }

  // Threads that can never meet: says how many wait where, with a few of them by number.
  [[noreturn]] void report_deadlock() {
    Stops stops;
    bool waits = false;  // for something asynchronous
    for (unsigned t = 0; t < count_; ++t) {
      if (!cluster.has(t)) continue;
      const Stop stop = stop_of(t);
      waits |= stop.waits();
      stops[stop].push_back(cluster.in_block(t));
    }
    const auto at = std::find_if(stops.begin(), stops.end(), [](const auto& stop) { return stop.first.line != 0; });
    const unsigned line = at == stops.end() ? 0 : at->first.line;
    fail("crash", {line}, "%s in %s: %s", waits ? "deadlock" : "barrier divergence", cluster.text().c_str(),
         described(stops).c_str());
  }

  // Where a thread waits, and how many of how many have come there.
  Stop stop_of(unsigned t) const {
    const Thread& thread = threads_[t];
    Stop stop = {cluster.rank_of(t), states_[t], states_[t] == State::exited ? 0 : thread.line};
    if (stop.numbered()) stop.barrier = thread.barrier;
    if (stop.state == State::at_named_barrier) {
      const NamedBarrier& barrier = blocks_[stop.rank].barriers[thread.barrier];
      stop.come = unsigned(barrier.arrived.size());
      stop.awaited = barrier.threads;
    } else if (stop.state == State::at_cluster_barrier) {
      stop.come = cluster_barrier_.arrived;
      stop.awaited = alive_;
    }
    return stop;
  }

  std::vector<Thread> threads_;  // of the largest block or cluster so far; the first `count_` are this one's
  std::vector<unsigned> order_;
  std::array<OfBlock, MAX_RANKS> blocks_;
  ClusterBarrier cluster_barrier_;
  std::array<Warpgroup, MAX_THREADS / WARPGROUP> warpgroups_;
  std::array<WholeWarp, MAX_WARPS> whole_warps_;
  State states_[MAX_THREADS] = {};  // by thread, apart from the rest of them: most of the time nothing else is asked
  Fiber scheduler_;
  Thread* running_ = nullptr;
  unsigned running_index_ = 0;
  Region stacks_;
  Random random_{0};
  uint32_t ready_[MAX_WARPS] = {};  // by warp: the lanes whose state is `ready`
  unsigned rank_ = 0;  // of the block that runs
  unsigned count_ = 0;
  unsigned alive_ = 0;
  unsigned at_active_mask_ = 0;  // threads
  unsigned next_ = 0;  // of the order, in this round
  bool natural_order_ = false;
};

inline Block block;

}  // namespace gemmgen
