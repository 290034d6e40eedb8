// Which accesses of a block come before which, whatever order its threads run in here: by vector clocks. The blocks of a
// cluster, which run at once, are one block here.
//
// A component of a clock stands for an agent, whose accesses have an order of their own: a thread, or the cp.asyncs of a
// thread. Time counts synchronisations and is the same for all of them. A thread's clock says of each agent which of its
// accesses come before the thread's own: those before a time.
//
//     a barrier of the block      each thread knows all that any thread knew or did: one number says so
//     a meeting of lanes          __syncwarp or a warp collective: these lanes know what any of them knew or did
//     release and acquire         the halves of every other synchronisation, with a clock in between
//     complete                    a thread has waited for copies of its own; others learn of it as of all that it did
//
// Agents of other kinds are hired as a block first needs them: an mbarrier, in whose phases bytes of TMA loads arrive; a
// warpgroup's wgmmas; a thread's TMA stores. Who waits for them acquires their time, a load's being that when the phase it
// arrived in was complete.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "access.hpp"
#include "cluster.hpp"

namespace gemmgen {

constexpr unsigned MAX_THREADS = 4096;  // of the blocks that run at once
constexpr unsigned MAX_WARPS = MAX_THREADS / WARP;

// Agents, in groups of a warp's.
constexpr unsigned COPIES = MAX_THREADS;  // of thread 0; those of thread t are agent COPIES + t
constexpr unsigned HIRED = 2 * MAX_THREADS;  // the first of the others
constexpr unsigned MAX_HIRED = 512;
constexpr unsigned AGENTS = HIRED + MAX_HIRED;
constexpr unsigned GROUPS = AGENTS / WARP;

using Times = std::array<uint32_t, WARP>;  // of the agents of a group

inline void join(Times& times, const Times& others) {
  for (unsigned i = 0; i < WARP; ++i) times[i] = std::max(times[i], others[i]);
}

// Groups of agents.
struct Groups {
  uint64_t some[(GROUPS + 63) / 64] = {};

  static Groups only(unsigned group) {
    Groups groups;
    groups.add(group);
    return groups;
  }
  void add(unsigned group) { some[group / 64] |= uint64_t(1) << group % 64; }

  template <typename Visit>
  void each(Visit visit) const {
    for (unsigned word = 0; word < (GROUPS + 63) / 64; ++word)
      for (uint64_t left = some[word]; left != 0; left &= left - 1) visit(64 * word + unsigned(__builtin_ctzll(left)));
  }
};

// What a thread releases, for others to acquire: a clock of one block.
struct Clock {
  uint32_t threads = 0;             // of every thread
  std::map<unsigned, Times> later;  // of agents that are known of beyond that, by group

  bool covers(const Access& access) const {
    if (access.agent < COPIES && access.time < threads) return true;
    const auto group = later.find(access.agent / WARP);
    return group != later.end() && group->second[access.agent % WARP] > access.time;
  }

};

inline void join(Clock& clock, const Clock& other) {
  clock.threads = std::max(clock.threads, other.threads);
  for (const auto& [group, times] : other.later) join(clock.later[group], times);
}

class Clocks {
 public:
  void start_block() {
    start_of_block_ = time_ + 1;
    hired_.clear();
    arrivals_.clear();
    pass_block_barrier();
  }

  void pass_block_barrier() {
    threads_known_ = ++time_;
    for (unsigned thread : completed_) {
      copies_known_[thread] = known(thread, COPIES + thread);
      copies_told_[thread] = time_;
    }
    completed_.clear();
    tell_all_of_hired();
    for (unsigned warp = 0; warp < cluster.warps(); ++warp) groups_[warp] = Groups::only(warp);
    renew();
  }

  // `thread` goes on.
  void run(unsigned thread) { thread_ = agent_ = thread; }

  // The lanes of `mask` have met.
  void pass_warp_barrier(unsigned first_thread, unsigned mask) {
    const unsigned warp = first_thread / WARP;
    since_[warp] = ++time_;
    groups_[warp].each([&](unsigned group) {
      Known& known = known_[warp][group];
      Times all = {};
      for (unsigned lane = 0; lane < WARP; ++lane)
        if (mask >> lane & 1) join(all, known[lane]);
      for (unsigned lane = 0; lane < WARP && group == warp; ++lane)
        if (mask >> lane & 1) all[lane] = time_;
      for (unsigned lane = 0; lane < WARP; ++lane)
        if (mask >> lane & 1) known[lane] = all;
    });
  }

  // Adds to `clock` what the running thread knows and what it has done, but not what it does from now on.
  void release(Clock& clock) {
    since_[warp()] = ++time_;
    clock.threads = std::max(clock.threads, threads_known_);
    groups_[warp()].each([&](unsigned group) { join(clock.later[group], known_[warp()][group][lane()]); });
    clock.later[warp()][lane()] = time_;
  }

  // `thread` knows from now on what `clock` does.
  void acquire(unsigned thread, const Clock& clock) {
    for (const auto& [group, times] : clock.later) {
      groups_[thread / WARP].add(group);
      join(known_[thread / WARP][group][thread % WARP], times);
    }
  }

  // The running thread has waited for its copies of before `time`.
  void complete_copies(uint32_t time) {
    const unsigned group = COPIES / WARP + warp();
    groups_[warp()].add(group);
    known_[warp()][group][lane()][lane()] = time;
    completed_.push_back(thread_);
  }

  // A new agent, in whose name `thread` acts or who answers for it. `arrives`: its accesses are complete one by one, see
  // `complete_load`. Returns 0 where there are too many.
  unsigned hire(unsigned thread, bool arrives) {
    if (hired_.size() == MAX_HIRED) return 0;
    hired_.push_back({thread, arrives, 0});
    return HIRED + unsigned(hired_.size()) - 1;
  }

  // What the running thread does up to `end_operation` an agent does, at a time of its own, which this returns.
  uint32_t begin_operation(unsigned agent) {
    agent_ = agent;
    if (hired_[agent - HIRED].arrives) arrivals_[++time_] = {thread_, 0};
    else ++time_;
    return time_;
  }

  void end_operation() { agent_ = thread_; }

  // The running thread has waited for what `agent` did before `time`.
  void complete(unsigned agent, uint32_t time) {
    groups_[warp()].add(agent / WARP);
    uint32_t& known = known_[warp()][agent / WARP][lane()][agent % WARP];
    known = std::max(known, time);
  }

  // The operation of that time has come to its end, which who acquires `clock` knows.
  void complete_load(uint32_t operation, unsigned agent, Clock& clock) {
    arrivals_[operation].complete = ++time_;
    uint32_t& known = clock.later[agent / WARP][agent % WARP];
    known = time_ + 1;
    ++time_;
  }

  // The thread that an access is told of.
  unsigned thread_of(const Access& access) const {
    if (access.agent < HIRED) return access.agent % MAX_THREADS;
    const auto arrival = arrivals_.find(access.time);
    if (arrival != arrivals_.end()) return arrival->second.thread;
    return of_this_block(access) ? hired_[access.agent - HIRED].thread : 0;  // who it was nobody knows any more
  }

  // What is settled (see shared_races.hpp) is so no more.
  void renew() {
    ++time_;
    std::fill_n(since_, cluster.warps(), time_);
  }

  // What comes from now on is later, though nothing is synchronised. Returns that time.
  uint32_t tick() { return ++time_; }

  // Whether an access comes before the running thread's next.
  bool before(const Access& access) const { return known_to_block(access) || comes_before(access, thread_); }

  // Whether all threads know of it, by a barrier of the block, or of the cluster.
  bool known_to_all(const Access& access) const { return known_to_block(access); }

  // Whether it comes before the next access of each lane of the running warp.
  bool before_warp(const Access& access) const {
    if (known_to_block(access)) return true;
    for (unsigned lane = 0; lane < WARP; ++lane)
      if (!comes_before(access, warp() * WARP + lane)) return false;
    return true;
  }

  // Whether a cp.async was told to the whole block by a barrier that `clock` knows of: it names threads alone.
  bool told_before(const Access& access, const Clock& clock) const {
    if (access.kind != Kind::copy || !known_to_block(access)) return false;
    return clock.threads >= copies_told_[access.agent - COPIES];
  }

  // Whether the thread of a cp.async has waited for it.
  bool completed(const Access& copy) const { return known(copy.agent - COPIES, copy.agent) > copy.time; }

  Access now(Place place, Kind kind) const {
    return {time_, place, uint16_t(kind == Kind::copy ? COPIES + thread_ : agent_), kind};
  }

  uint32_t time() const { return time_; }
  uint32_t start_of_block() const { return start_of_block_; }
  bool of_this_block(const Access& access) const { return access.time >= start_of_block_; }

  unsigned thread() const { return thread_; }  // that runs
  unsigned warp() const { return thread_ / WARP; }

  // Since when no lane of the running warp has released anything: its reads of a word since then are as good as one.
  uint32_t since() const { return since_[warp()]; }

 private:
  using Known = std::array<Times, WARP>;  // by lane

  struct Hired {
    unsigned thread;
    bool arrives;
    uint32_t known;  // to every thread
  };

  struct Arrival {
    unsigned thread;
    uint32_t complete;  // when; 0 while it is under way
  };

  // At a barrier of the block.
  void tell_all_of_hired() {
    for (unsigned i = 0; i < hired_.size(); ++i)
      for (unsigned thread = 0; thread < cluster.count(); ++thread)
        hired_[i].known = std::max(hired_[i].known, known(thread, HIRED + i));
  }

  unsigned lane() const { return thread_ % WARP; }

  uint32_t known(unsigned thread, unsigned agent) const {
    return known_[thread / WARP][agent / WARP][thread % WARP][agent % WARP];
  }

  bool known_to_block(const Access& access) const {
    return access.time < (access.agent < COPIES  ? threads_known_
                          : access.agent < HIRED ? copies_known_[access.agent - COPIES]
                                                 : 0);
  }

  __attribute__((noinline)) bool comes_before(const Access& access, unsigned thread) const {
    if (!of_this_block(access) || access.agent == thread) return true;
    return access.agent < HIRED ? known(thread, access.agent) > access.time : hired_before(access, thread);
  }

  bool hired_before(const Access& access, unsigned thread) const {
    const Hired& agent = hired_[access.agent - HIRED];
    const uint32_t known_time = std::max(agent.known, known(thread, access.agent));
    if (!agent.arrives) return known_time > access.time;
    const uint32_t complete = arrivals_.at(access.time).complete;
    return complete != 0 && known_time > complete;
  }

  uint32_t time_ = 0;  // synchronisations and blocks so far; it only grows, so that nothing is ever cleared
  uint32_t start_of_block_ = 0;
  uint32_t threads_known_ = 0;              // to every thread
  uint32_t copies_known_[MAX_THREADS] = {};  // likewise, by thread,
  uint32_t copies_told_[MAX_THREADS] = {};   // since this barrier
  std::vector<unsigned> completed_;         // threads that have waited for copies since the last barrier of the block
  unsigned thread_ = 0;
  unsigned agent_ = 0;  // that acts: the thread, or one that is hired
  std::vector<Hired> hired_;
  std::unordered_map<uint32_t, Arrival> arrivals_;  // by the time of the operation
  uint32_t since_[MAX_WARPS] = {};
  Groups groups_[MAX_WARPS];                // that lanes know of beyond what is known to every thread, their own among them
  // Never cleared, as time only grows. Without an initialiser, which would touch 140 MB: what is static begins as zeros.
  Known known_[MAX_WARPS][GROUPS];
};

inline Clocks clocks;

}  // namespace gemmgen
