// One thread block, or those of a cluster: the barriers where all of their threads meet, and how they end.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "asynchronous.hpp"
#include "barriers.hpp"
#include "clocks.hpp"
#include "cluster.hpp"
#include "deadlock.hpp"
#include "failure.hpp"
#include "fiber.hpp"
#include "races.hpp"
#include "warps.hpp"

namespace gemmgen {

class Block : public Warps {
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

  // The running thread arrives at barrier `number` of `threads`, and may wait there for all of them. Where `aligned` its
  // whole warp does, by one instruction: as bar.sync asks, and barrier.sync does not.
  void named_barrier(unsigned number, unsigned threads, bool waits, unsigned line, bool aligned) {
    check_named_barrier(number, threads, line);
    if (aligned) warp_collective(WholeWarp::ALL, nullptr, come_together, line, Order::none);
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

  bool has_exited(unsigned rank) const { return blocks_[rank].alive == 0; }

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
    start_threads(entry, seed);
    alive_ = cluster.ranks * cluster.threads;
    for (unsigned rank = 0; rank < cluster.ranks; ++rank) {
      blocks_[rank] = {};
      blocks_[rank].alive = cluster.threads;
    }
    cluster_barrier_ = {};
    start_warps();
    races.start_block();
    if (asynchronous != nullptr) asynchronous->start_block();
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

  // Of the lanes that come to a barrier by one instruction nothing is asked but that they meet.
  static void come_together(void* const*) {}

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

  std::array<OfBlock, MAX_RANKS> blocks_;
  ClusterBarrier cluster_barrier_;
  unsigned alive_ = 0;  // threads
};

inline Block block;

}  // namespace gemmgen
