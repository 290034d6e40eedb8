// What a watched launch is judged by: races on shared and global memory, memory that nobody has set, fences between proxies, and
// accesses that come before what they have to wait for. Handlers tell it what is accessed, released and waited for; it throws
// Failure, or says which values are worth nothing.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "clocks.hpp"
#include "global_watch.hpp"
#include "shared_watch.hpp"

namespace gemmgen {

struct Box;
struct Descriptor;
struct Mbarrier;

// Proxy fences: what ordinary stores have written TMA and wgmma see once a fence has covered it, in the thread that stored or in
// one that came after it.
class ProxyFences {
 public:
  explicit ProxyFences(Clocks& clocks) : clocks_(clocks) {}
  void start() { fences_.clear(), told_ = {}; }
  void fence(unsigned thread);
  // What the fences covered that come before the thread's next access.
  Clock covered(unsigned thread) const;
  // Fences that all threads know of need not be told apart.
  void pass_barrier_of_all();

 private:
  struct Fence {
    Trace at;
    Clock past;
  };
  Clocks& clocks_;
  std::vector<Fence> fences_;
  Clock told_;
};

// What threads do in the shared memory of other blocks of their cluster: it has to come before these blocks end.
class FromOutside {
 public:
  // The latest of each thread counts.
  void note(const Trace& trace) { latest_[trace.agent] = trace; }
  // A thread of the block exits: what it knows of has come before its block ends.
  void exit_thread(const Clocks& clocks, unsigned thread) {
    std::erase_if(latest_, [&](const auto& one) { return clocks.before(one.second, thread); });
  }
  void clear() { latest_.clear(); }
  bool empty() const { return latest_.empty(); }
  const Trace& any() const { return latest_.begin()->second; }

 private:
  std::unordered_map<uint16_t, Trace> latest_;
};

class Watch {
 public:
  explicit Watch(Machine& machine);

  void start_cluster();
  void finish_cluster() { tell(); }
  void exit_threads(Warp& warp);
  void finish_block(unsigned rank);

  // By the active lanes. Returns those whose values are worth nothing.
  uint32_t access_shared(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], Block& owner);
  // Of what the active lanes have just stored to shared memory: a part of each is worth nothing for some of them.
  void spoil(Warp& warp, const Instruction* i, const uint64_t (&addresses)[WARP], unsigned from, unsigned bytes, uint32_t lanes, Unit unit);
  // `whole` holds all that is accessed; null: nobody knows.
  void access_global(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], const Allocation* whole);
  // Whether a poison that was used is told at the next barrier: a write until then is a race with the read, which says more.
  bool tells_later(const Poison& why);

  void meet(Warp& warp) { clocks_.meet(warp_of(warp), warp.active); }
  void come_to_barrier(Warp& warp, uint32_t number, bool waits);
  void complete_barrier(Block& block, uint32_t number);
  void fence(Warp& warp, bool wide);

  void commit_copies(Warp& warp);
  void wait_for_copies(Warp& warp, uint32_t left);
  void wait_for_all_copies(Warp& warp);

  // Of the one active lane.
  void init_mbarrier(Warp& warp, const Instruction* i, Block& owner, const Mbarrier& barrier);
  void use_mbarrier(Warp& warp, const Instruction* i, Block& owner, const Mbarrier& barrier);
  void arrive(Warp& warp, const Instruction* i, const Mbarrier& barrier);
  void acquire_phases(Warp& warp, const Mbarrier& barrier);
  void complete_phase(const Mbarrier& barrier);

  // Its time: of Box::operation.
  uint32_t start_load(Warp& warp, unsigned lane, const Box& box, const Mbarrier& barrier);
  void land(const Box& box, const Mbarrier& barrier) { mbarriers_[number_of(barrier)].landed.push_back(operation_of(box)); }
  void start_store(Warp& warp, unsigned lane, const Box& box);
  void commit_stores(Warp& warp);
  void wait_for_stores(Warp& warp, uint32_t left, bool read);

  void fence_products(Warp& warp);
  // Of all four warps, of which `last` came last. What A is read from, or null; bytes of its elements and whether it is transposed.
  struct Factor {
    const Descriptor* at;
    unsigned lines, bytes;
    bool transposed;
  };
  void multiply(Block& block, Warp& last, unsigned group, const Instruction* i, const Factor& a, const Factor& b);
  void commit_products(Warp& warp);
  void wait_for_products(Warp& warp, uint32_t left);

  void arrive_at_cluster(Warp& warp, bool waits_next);
  void complete_cluster_phase(unsigned alive);
  void wait_at_cluster(Warp& warp);

  void fence_proxies(Warp& warp) { each_thread(warp, [this](unsigned thread) { fences_.fence(thread); }); }
  void fence_inits(Warp& warp) { each_thread(warp, [this](unsigned thread) { init_fences_.fence(thread); }); }
  void wait_for_grid(Warp& warp);

 private:
  struct OfMbarrier {
    unsigned agent;  // of the loads whose bytes it counts
    Trace init;
    Clock released;  // in the phase that runs
    Clock complete;  // in those before
    std::vector<uint32_t> landed;  // loads whose bytes came in this phase, by their times
    FromOutside from_outside;      // arrivals by other blocks, of which no thread of its own that has exited knew
  };
  struct OfBarrier {
    std::vector<uint32_t> waiting;  // lanes, by warp
    bool some_arrive = false;       // and do not wait
    Clock arrived;                  // what these release
  };
  // Of a thread's TMA stores.
  struct OfStores {
    unsigned reads = 0, writes = 0;    // their agents
    std::vector<uint32_t> group_ends;
  };
  struct OfGroup {
    struct Member {
      uint32_t issued = 0, waited = 0;
      std::vector<std::pair<uint32_t, uint32_t>> groups;  // the product behind the last of each, and its time
      Clock past;                                         // before its last fence
    };
    unsigned agent = 0;
    uint32_t issued = 0;
    std::array<Member, 4> members;
    std::map<uint32_t, Clock> loads;  // what threads did before the fences of products of registers, by the products' numbers
  };

  template <typename Visit>
  void each_thread(Warp& warp, Visit visit) {
    const unsigned first = warp_of(warp) * WARP;
    each_of(warp.active, [&](unsigned lane) { visit(first + lane); });
  }
  unsigned warp_of(Warp& warp) const;
  unsigned thread_of(Warp& warp, unsigned lane) const { return warp_of(warp) * WARP + lane; }
  uint32_t at(const Instruction* i) const;
  Trace now(unsigned thread, const Instruction* i, Deed deed) const { return {clocks_.time(), at(i), uint16_t(thread), deed}; }
  static unsigned number_of(const Mbarrier& barrier);
  static uint32_t operation_of(const Box& box);
  OfGroup& group_of(Warp& warp);
  void pass_barrier_of_all();
  bool waited_for_grid(unsigned thread);
  void access_by(const Allocation& operand, uint64_t address, uint64_t bytes, const Doer& doer);
  [[noreturn]] void refuse_early(const Allocation& operand, uint64_t address, const Doer& doer);
  void tell();

  Machine& machine_;
  const unsigned warps_;  // of a block
  Clocks clocks_;
  SharedWatch shared_;
  GlobalWatch global_;
  ProxyFences fences_{clocks_}, init_fences_{clocks_};
  std::vector<OfMbarrier> mbarriers_;              // by number
  std::vector<std::array<OfBarrier, 16>> barriers_;  // by rank and number
  std::vector<std::vector<uint32_t>> copy_groups_;   // by thread: when each was committed
  std::unordered_map<unsigned, OfStores> stores_;    // by thread
  std::vector<OfGroup> groups_;                      // by warp of the cluster / 4, of each block
  std::vector<FromOutside> reads_from_outside_;      // by rank
  // The cluster's barrier.
  Clock cluster_released_;
  std::shared_ptr<const Clock> cluster_complete_;    // of the phase before; null where all threads know of all
  std::vector<unsigned> cluster_waits_;              // threads that wait as soon as they have arrived
  // Launches that may start before the kernel ahead of them on the stream has ended: until a thread has waited for it.
  std::vector<Trace> grid_waits_;
  std::vector<bool> waited_for_grid_;                // by thread
  Poison untold_;
  bool has_untold_ = false;
};

}  // namespace gemmgen
