// The states of threads, and the barriers and collectives where they meet.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "async_copy.hpp"
#include "clocks.hpp"
#include "fiber.hpp"
#include "gemmgen_emulator.hpp"

namespace gemmgen {

constexpr unsigned NAMED_BARRIERS = 16;

// What a warp collective orders: whether what its lanes did before comes before what any of them does after it.
enum class Order : uint8_t { lanes, none };

enum class State : uint8_t {
  ready,
  at_syncthreads,
  at_named_barrier,
  at_warp_barrier,
  at_active_mask,
  at_warpgroup,  // a product of its 128 threads, of which some have not come
  at_mbarrier,
  at_cluster_barrier,
  at_registers,  // that other warpgroups hold
  exited
};

struct alignas(64) Thread {
  Fiber fiber;
  unsigned line = 0;     // of the barrier where it waits
  unsigned barrier = 0;  // its number, where it has one
  unsigned mask = 0;     // lanes that meet at the warp collective where it waits
  void* operand = nullptr;
  Combine combine = nullptr;
  Order order = Order::lanes;
  unsigned votes = 0;    // its own at a barrier of the block, then those of all threads
  unsigned arrival = 0;  // of the cluster's barrier: one more than the phase that it has arrived in and not waited for, or 0
  bool syncs = false;    // it waits there since it arrived, and its clock is to be told yet
  AsyncCopies copies;
};

// bar.sync and bar.arrive: the phase of a barrier that some threads complete, not all of which wait for that.
struct NamedBarrier {
  unsigned threads = 0;           // that complete it; 0 where none has arrived
  std::vector<unsigned> arrived;  // their indices
  Clock clock;                    // what they release
};

// barrier.cluster.arrive and wait, of all threads of the cluster that have not exited.
struct ClusterBarrier {
  unsigned phase = 0;    // that runs
  unsigned arrived = 0;  // in it
  unsigned syncs = 0;    // of these
  Clock released;        // by the others
  std::shared_ptr<const Clock> complete;  // of the phase before; null where all threads know of all
};

// What 128 threads in a row bring to an instruction of theirs, once all have come to it.
constexpr unsigned WARPGROUP = 128;
using WarpgroupOperands = std::array<void*, WARPGROUP>;
using WarpgroupAct = void (*)(const WarpgroupOperands& operands, unsigned first_thread);

struct Warpgroup {
  unsigned arrived = 0;
  unsigned line = 0;
  WarpgroupAct act = nullptr;
  WarpgroupOperands operands;
};

// The lanes of a warp that have come to a collective of all 32, and what they bring.
struct WholeWarp {
  uint32_t arrived = 0;
  bool apart = false;  // some of them have come to another one
  unsigned line = 0;
  Combine combine = nullptr;
  void* operands[WARP];

  // Whether all have come to the same one now.
  bool complete(unsigned lane, void* operand, Combine what, unsigned where) {
    if (arrived == 0) {
      line = where;
      combine = what;
      apart = false;
    } else if (line != where || combine != what) {
      apart = true;
    }
    operands[lane] = operand;
    arrived |= 1u << lane;
    return arrived == ALL && !apart;
  }

  static constexpr uint32_t ALL = ~0u;
};

}  // namespace gemmgen
