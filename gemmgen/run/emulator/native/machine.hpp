// Runs the blocks of a launch: one cluster of them at a time for each machine, and a machine for each thread of the process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launch.hpp"
#include "mbarriers.hpp"
#include "products.hpp"
#include "program.hpp"
#include "tma.hpp"
#include "warp.hpp"
#include "warpgroups.hpp"

namespace gemmgen {

// splitmix64.
struct Random {
  uint64_t state;

  uint64_t next() {
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint32_t below(uint32_t bound) { return uint32_t((next() >> 32) * bound >> 32); }
};

// A barrier of a block: the phase that some threads complete, not all of which wait for that.
struct Barrier {
  uint32_t expected = 0;  // threads; 0 where none has arrived
  uint32_t arrived = 0;
  uint32_t votes = 0, voters = 0;
  bool whole_block = false;
  uint32_t location = 0;  // of the last who came
  uint32_t result = 0, result_voters = 0;  // votes of the phase before
  std::vector<uint32_t> lanes;  // that have arrived, by warp
};

class Watch;

constexpr unsigned BARRIERS = 16;

class Block {
 public:
  Block(Machine& machine, unsigned rank);
  ~Block();
  Block(const Block&) = delete;

  void start(uint32_t index);
  // So many threads of a warp have exited.
  void threads_exit(unsigned count);

  // Arrives with the active lanes of a warp; whether that completes the phase.
  bool arrive(Warp& warp, const Instruction* i, uint32_t number, uint32_t threads, bool whole_block);
  Barrier& barrier(uint32_t number) { return barriers_[number]; }
  // What threads wait for at a barrier.
  std::string waits_for(uint32_t number) const;

  void wake(State state, uint32_t number);

  unsigned char* shared() { return shared_; }  // the start of the window
  unsigned char* local(unsigned thread) { return local_.data() + std::size_t(thread) * local_stride_; }

  uint32_t index = 0;  // in the grid
  const unsigned rank;
  unsigned alive = 0;  // threads
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<std::unique_ptr<Warpgroup>> groups;  // of four whole warps
  RegisterPool registers;

 private:
  void complete(uint32_t number);

  Machine& machine_;
  unsigned char* shared_ = nullptr;
  std::size_t shared_bytes_ = 0;
  std::vector<unsigned char> local_;
  std::size_t local_stride_ = 0;
  std::array<Barrier, BARRIERS> barriers_;
};

// barrier.cluster.arrive and wait, of all threads of the cluster that have not exited.
class ClusterBarrier {
 public:
  void start();
  void arrive(Warp& warp, const Instruction* i);
  // Whether all have arrived in the phase in which the active lanes have.
  bool pass(Warp& warp, const Instruction* i);
  void threads_exit(Warp& warp, uint32_t lanes);

 private:
  void settle(Machine& machine);

  static constexpr unsigned MOST_RANKS = 16, MOST_THREADS = 1024;
  uint32_t phase_ = 0, arrived_ = 0;
  // By rank and thread: one more than the phase that it has arrived in and not waited for, or 0.
  std::array<std::array<uint32_t, MOST_THREADS>, MOST_RANKS> arrivals_ = {};
};

class Machine {
 public:
  Machine(Program& program, const Kernel& kernel, Launch& launch);
  ~Machine();

  // Takes clusters that no other machine has taken, until there are none or it has had so many.
  void run(std::atomic<std::size_t>& next, std::size_t most = ~std::size_t(0));

  Program& program() { return program_; }
  const Kernel& kernel() const { return kernel_; }
  Launch& launch() { return launch_; }
  Random& random() { return random_; }
  WarpProducts& products() { return products_; }
  WarpgroupProduct& warpgroup_product() { return warpgroup_product_; }
  Mbarriers& mbarriers() { return mbarriers_; }
  Tma& tma() { return tma_; }
  ClusterBarrier& cluster_barrier() { return cluster_barrier_; }
  // Warps of the cluster that wait so go on.
  void wake(State state, uint32_t number);
  // The active lanes of a warp exit.
  void threads_exit(Warp& warp);
  Block& block(unsigned rank) { return *blocks_[rank]; }
  unsigned ranks() const { return unsigned(blocks_.size()); }
  uint32_t first_block() const { return first_block_; }

  // The operand that an instruction accessed last.
  const Allocation*& hint(const Instruction* i) { return hints_[std::size_t(i - kernel_.code.data())]; }
  // The block in whose window a shared address lies. Throws Failure where there is none.
  Block& owner(Warp& warp, const Instruction* i, uint32_t address);
  // Why the values that an access read are worth nothing.
  const Poison& why_poisoned() const { return why_poisoned_; }
  void set_why_poisoned(Poison why) { why_poisoned_ = std::move(why); }
  // Judges races; null where nobody watches.
  Watch* watch() { return watch_.get(); }
  // Whether a poison that was used is told at the block's next barrier.
  bool tells_later(const Poison& why);

  uint32_t dynamic_start() const { return dynamic_start_; }
  // Each value that a clock gives is later than those before.
  uint64_t tick() { return clock_ += 1 + random_.below(4); }
  void poll(const Warp& warp, const Instruction* i);
  std::string place(const Instruction* i) const { return program_.place(i->location); }
  std::string where(const Block& block, unsigned thread) const;

 private:
  void run_cluster(uint32_t first);
  std::string waits_for(const Block& block, const Split& split);
  [[noreturn]] void refuse_deadlock();

  Program& program_;
  const Kernel& kernel_;
  Launch& launch_;
  Random random_{0};
  WarpProducts products_;
  WarpgroupProduct warpgroup_product_;
  Mbarriers mbarriers_{*this};
  Tma tma_{*this};
  ClusterBarrier cluster_barrier_;
  std::vector<std::unique_ptr<Block>> blocks_;
  uint32_t first_block_ = 0, dynamic_start_ = FIRST_SHARED;
  uint64_t clock_ = 0;
  std::vector<const Allocation*> hints_;
  Poison why_poisoned_;
  std::unique_ptr<Watch> watch_;
};

// What main.cpp calls. Both throw Failure.
std::unique_ptr<Program> load_program(std::string_view ptx, std::string_view name, std::string_view instruction_table);
void run_launch(Program& program, Launch& launch);

}  // namespace gemmgen
