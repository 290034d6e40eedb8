// Which accesses of a cluster come before which, whatever order its warps run in here: by vector clocks.
//
// A component of a clock stands for an agent, whose accesses have an order of their own: a thread, the cp.asyncs of a thread, or
// one that is hired: an mbarrier, in whose phases bytes of TMA loads arrive; a warpgroup's wgmmas; a thread's TMA stores. Time
// counts accesses and synchronisations and is the same for all of them. A thread's clock says of each agent which of its
// accesses come before the thread's own: those before a time.
//
//     a barrier of the block      each thread knows all that any thread knew or did: one number says so
//     a meeting of lanes          bar.warp.sync or a warp collective: these lanes know what any of them knew or did
//     release and acquire         the halves of every other synchronisation, with a clock in between
//     complete                    a thread has waited for copies of its own; others learn of it as of all that it did
//
// Who waits for what an agent does acquires its time, a TMA load's being that when the phase it arrived in was complete.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "lanes.hpp"
#include "warp.hpp"

namespace gemmgen {

// `load` and `store` are TMA's, in shared memory; `product` reads operands of a wgmma there. `strong_read` is a load that is
// relaxed, acquires or is volatile. Atomics and such loads do not race with each other, but those of the block's scope with others'.
enum class Deed : uint8_t { read, write, copy, atomic, block_atomic, strong_read, block_read, load, store, product };

inline bool is_update(Deed deed) { return deed == Deed::atomic || deed == Deed::block_atomic; }
inline bool is_of_block(Deed deed) { return deed == Deed::block_atomic || deed == Deed::block_read; }
inline bool is_strong(Deed deed) { return is_update(deed) || deed == Deed::strong_read || deed == Deed::block_read; }

// What stands in a message between the thread and the place in memory.
const char* verb(Deed deed);

// An access as it is remembered.
struct Trace {
  uint32_t time = 0;  // 0 where there was none
  uint32_t at = 0;    // the instruction's number
  uint16_t agent = 0;
  Deed deed = Deed::read;
};

using Times = std::array<uint32_t, WARP>;  // of the agents of a group, which are as many as a warp's lanes

inline void join(Times& times, const Times& others) {
  for (unsigned i = 0; i < WARP; ++i) times[i] = times[i] < others[i] ? others[i] : times[i];
}

// What threads release, for others to acquire.
struct Clock {
  uint32_t threads = 0;             // of every thread
  std::map<unsigned, Times> later;  // of agents that are known of beyond that, by group
};

void join(Clock& clock, const Clock& other);

class Clocks {
 public:
  // Of `ranks` blocks of so many warps each.
  Clocks(unsigned ranks, unsigned warps);

  void start_cluster();
  // Of the whole cluster, where each thread waits.
  void pass_barrier_of_all();
  // The lanes of a warp have met.
  void meet(unsigned warp, uint32_t lanes);

  // Adds to `clock` what a thread knows and what it has done, but not what it does from now on.
  void release(unsigned thread, Clock& clock);
  // The same where others learn of it by nothing but `clock`, which the thread may do again and again while it spins.
  void release_quietly(unsigned thread, Clock& clock);
  void acquire(unsigned thread, const Clock& clock);

  // A thread has waited for its copies of before `time`.
  void complete_copies(unsigned thread, uint32_t time);

  // A new agent, in whose name `thread` acts or who answers for it. `arrives`: its accesses are complete one by one, see
  // `complete_load`. Returns 0 where there are too many.
  unsigned hire(unsigned thread, bool arrives);
  // The time of what `agent` does for a thread.
  uint32_t begin_operation(unsigned agent, unsigned thread);
  // A thread has waited for what `agent` did before `time`.
  void complete(unsigned thread, unsigned agent, uint32_t time);
  // The operation of that time has come to its end, which who acquires `clock` knows.
  void complete_load(uint32_t operation, unsigned agent, Clock& clock);

  // What comes from now on is later. Returns that time.
  uint32_t tick() { return ++time_; }
  uint32_t time() const { return time_; }
  uint32_t start_of_cluster() const { return start_; }
  bool of_this_cluster(const Trace& trace) const { return trace.time >= start_; }

  // Whether an access comes before a thread's next.
  bool before(const Trace& trace, unsigned thread) const { return known_to_all(trace) || comes_before(trace, thread); }
  // Whether all threads know of it, by a barrier of all.
  bool known_to_all(const Trace& trace) const {
    return trace.time < (trace.agent < threads_ ? threads_known_ : trace.agent < 2 * threads_ ? copies_known_[trace.agent - threads_] : 0);
  }
  uint32_t known_of_threads() const { return threads_known_; }
  uint32_t known_of_copies(unsigned thread) const { return copies_known_[thread]; }
  // What a thread knows of an agent's accesses: those before the result.
  uint32_t known(unsigned thread, unsigned agent) const {
    const auto& place = known_[thread / WARP * groups_ + agent / WARP];
    return place == nullptr ? 0 : (*place)[thread % WARP][agent % WARP];
  }
  // All that the agents of a group did before this, each of so many lanes of a warp knows. 0: it says nothing.
  uint32_t known_to_lanes(unsigned warp, uint32_t lanes, unsigned group, uint32_t agents) const;

  bool covers(const Clock& clock, const Trace& trace) const;
  // Whether a cp.async was told to the whole block by a barrier that `clock` knows of: it names threads alone.
  bool told_before(const Trace& trace, const Clock& clock) const;
  // Whether the thread of a cp.async has waited for it.
  bool completed(const Trace& copy) const { return known(copy.agent - threads_, copy.agent) > copy.time; }

  bool is_hired(unsigned agent) const { return agent >= 2 * threads_; }
  bool arrives(unsigned agent) const { return is_hired(agent) && hired_[agent - 2 * threads_].arrives; }
  // The agent that makes a thread's copies.
  unsigned copies_of(unsigned thread) const { return threads_ + thread; }
  // The thread that an access is told of.
  unsigned thread_of(const Trace& trace) const;

  // Since when no lane of a warp has released anything.
  uint32_t since(unsigned warp) const { return since_[warp]; }

  unsigned stride() const { return stride_; }  // threads of a block, as they are numbered
  unsigned rank_of(unsigned thread) const { return thread / stride_; }

 private:
  static constexpr unsigned MOST_HIRED = 2048, MOST_GROUPS = 2 * 16 * 32 + MOST_HIRED / WARP;
  using Known = std::array<Times, WARP>;  // by lane
  struct Groups {
    std::array<uint64_t, MOST_GROUPS / 64> some = {};
    void add(unsigned group) { some[group / 64] |= uint64_t(1) << group % 64; }
    template <typename Visit>
    void each(Visit visit) const {
      for (unsigned word = 0; word < some.size(); ++word)
        for (uint64_t left = some[word]; left != 0; left &= left - 1) visit(64 * word + unsigned(std::countr_zero(left)));
    }
  };
  struct Hired {
    unsigned thread;
    bool arrives;
    uint32_t known;  // to every thread
  };
  struct Arrival {
    unsigned thread;
    uint32_t complete;  // when; 0 while it is under way
  };

  Known& place(unsigned warp, unsigned group);
  bool comes_before(const Trace& trace, unsigned thread) const;

  const unsigned stride_, threads_, warps_, groups_;
  uint32_t time_ = 0;  // it only grows, so that nothing is ever cleared
  uint32_t start_ = 0;
  uint32_t threads_known_ = 0;                        // to every thread
  std::vector<uint32_t> copies_known_, copies_told_;  // likewise, by thread, and since which barrier
  std::vector<unsigned> completed_;                   // threads that have waited for copies since the last barrier of all
  std::vector<Hired> hired_;
  std::unordered_map<uint32_t, Arrival> arrivals_;    // by the time of the operation
  std::vector<uint32_t> since_;                       // by warp
  std::vector<Groups> some_;                          // by warp: what lanes know of beyond what is known to every thread
  std::vector<std::unique_ptr<Known>> known_;         // by warp and group
};

}  // namespace gemmgen
