// The runtime's side of hopper.hpp: what goes on beside the threads of a block, and who waits for it. Included once.
#pragma once

#include <array>
#include <string>

#include "accumulators.hpp"
#include "block.hpp"
#include "faults.hpp"
#include "hopper.hpp"
#include "mbarriers.hpp"
#include "proxies.hpp"
#include "tma.hpp"
#include "wgmma.hpp"

namespace gemmgen {

constexpr unsigned REGISTERS_PER_BLOCK = 65536, MOST_REGISTERS = 256;
constexpr unsigned WARPGROUPS = MAX_THREADS / WARPGROUP;

// Registers that the warpgroups of a block give to each other.
class RegisterPool {
 public:
  void start_block() {
    held_.fill(std::min(REGISTERS_PER_BLOCK / cluster.threads / 8 * 8, MOST_REGISTERS));
    wanted_.fill(0);
    free_.fill(0);
  }

  // All threads of a warpgroup have come. Whether it has so many by now; else it waits.
  void set(unsigned group, unsigned count, bool more, unsigned line) {
    unsigned& held = held_[group];
    if (more ? count < held : count > held)
      fail("crash", {line}, "%s: setmaxnreg_%s<%u> of a warpgroup whose threads have %u registers", block.where().c_str(),
           more ? "inc" : "dec", count, held);
    if (more) {
      wanted_[group] = count;
    } else {
      free_[rank_of(group)] += held - count;
      held = count;
    }
    grant();
  }

  bool waits(unsigned group) const { return wanted_[group] != 0; }

  std::string describe(unsigned group) const {
    return std::to_string(wanted_[group]) + " registers a thread, where it has " + std::to_string(held_[group]) +
           " and others leave " + std::to_string(free_[rank_of(group)]);
  }

 private:
  static unsigned rank_of(unsigned group) { return cluster.rank_of(group * WARPGROUP); }

  void grant() {
    for (unsigned group = 0; group < WARPGROUPS; ++group) {
      if (wanted_[group] == 0 || wanted_[group] - held_[group] > free_[rank_of(group)]) continue;
      free_[rank_of(group)] -= wanted_[group] - held_[group];
      held_[group] = wanted_[group];
      wanted_[group] = 0;
      block.release(State::at_registers, group);
    }
  }

  std::array<unsigned, WARPGROUPS> held_, wanted_;  // of a thread; 0: nothing
  std::array<unsigned, MAX_RANKS> free_;              // of a block, for each thread of a warpgroup
};

class Hopper final : public Asynchronous {
 public:
  void start_launch(uint64_t seed) override { seed_ = seed; }

  void start_block() override {
    accumulators.start_block();
    fences.start_block();
    init_fences.start_block();
    barriers.start_block();
    tma.start_block();
    registers.start_block();
    for (WarpgroupProducts& group : products) group.start_block();
    for (FromOutside& reads : reads_from_outside) reads.clear();
  }

  bool proceed() override { return tma.land_some(barriers, seed_ == 0); }

  void exit_thread() override {
    tma.exit_thread();
    barriers.exit_thread();
    reads_from_outside[shared_memory.selected()].exit_thread();
    products[block.index() / WARPGROUP].exit_thread(block.index() % WARPGROUP);
  }

  void finish_block(unsigned rank) override {
    tma.finish_block(rank, barriers);
    barriers.finish_block(rank);
    const FromOutside& reads = reads_from_outside[rank];
    if (reads.empty()) return;
    const unsigned exited = cluster.first_block + rank;
    fail("crash", reads.any().place.location(), "%s reads shared memory of block %u, and nothing orders that before block %u "
         "exits: it may be another block's by then", cluster.where(clocks.thread_of(reads.any())).c_str(), exited, exited);
  }

  // The running thread reads what block `rank` has where its own block has what lies at `shared`.
  void load_shared_cluster(const unsigned char* shared, unsigned rank, void* values, unsigned bytes, unsigned line) {
    const auto refuse = [&](const char* why) {
      fail("crash", {line}, "%s: a load of %u bytes %s (%s)", block.where().c_str(), bytes, why, describe_address(shared).c_str());
    };
    Mbarriers::check_block(rank, "reads shared memory", line);
    if (reinterpret_cast<uintptr_t>(shared) % bytes != 0) refuse("at an address that they do not divide");
    if (!shared_memory.dynamic().contains(shared, bytes)) refuse("outside of a block's shared memory");
    const unsigned char* const there = shared_memory.counterpart(shared, rank);
    const Place place = Place::line(line);
    if (rank == shared_memory.selected()) {
      if (watching) races.read(there, bytes, place);
    } else {
      reads_from_outside[rank].note(clocks.now(place, Kind::read));
      const Elsewhere elsewhere(rank);
      races.read_from_afar(there, bytes, place);
    }
    std::memcpy(values, there, bytes);
  }

  std::string describe(State state, unsigned number) const override {
    return state == State::at_mbarrier ? barriers.describe(number) : registers.describe(number);
  }

  bool copies_late() const { return lands_late(seed_); }
  bool products_late() const { return seed_ / 4 % 2 == 0; }

  // The lane that elect.sync chooses: the same one each time.
  unsigned elected() const { return seed_ == 0 ? 0 : unsigned(Random{seed_}.next() % WARP); }

  // What initialisations, and what ordinary stores the async proxy sees that the running thread starts.
  Clock initialised() const {
    Clock all = init_fences.covered();
    join(all, fences.covered());
    return all;
  }

  ProxyFences fences, init_fences;
  Mbarriers barriers;
  Tma tma;
  RegisterPool registers;
  std::array<WarpgroupProducts, WARPGROUPS> products;
  std::array<FromOutside, MAX_RANKS> reads_from_outside;  // of shared memory, by the rank of its block

 private:
  uint64_t seed_ = 0;
};

// The one of this process, which stands by from its first use on.
inline Hopper& hopper() {
  static Hopper* const one = new Hopper;
  if (asynchronous == nullptr) {
    asynchronous = one;
    one->start_launch(launch_seed);
    one->start_block();
  }
  return *one;
}

void mbarrier_init(unsigned long long* barrier, int arrivals, int line) {
  hopper().barriers.init(barrier, arrivals, unsigned(line));
}

void mbarrier_arrive(unsigned long long* barrier, int expected_bytes, int line) {
  if (expected_bytes < 0) fail("crash", {unsigned(line)}, "%s expects %d bytes", block.where().c_str(), expected_bytes);
  hopper().barriers.arrive(barrier, expected_bytes, unsigned(line));
}

void mbarrier_arrive_cluster(unsigned long long* barrier, unsigned rank, int line) {
  hopper().barriers.arrive_at(rank, barrier, unsigned(line));
}

void mbarrier_wait(unsigned long long* barrier, unsigned parity, int line) {
  hopper().barriers.wait(barrier, parity, unsigned(line));
}

void fence_mbarrier_init() { hopper().init_fences.fence(); }
void fence_proxy_async() { hopper().fences.fence(); }

// The box that a thread asks TMA for.
inline Box checked_box(const void* map, const void* shared, unsigned rank, const int* start, int line, bool stores) {
  Box box = {};
  std::memcpy(&box.map, map, sizeof box.map);
  box.shared = static_cast<unsigned char*>(const_cast<void*>(shared));
  box.line = unsigned(line);
  box.stores = stores;
  box.rank = shared_memory.selected();
  for (unsigned i = 0; i < rank; ++i) box.start[i] = start[i];
  const auto refuse = [&](const std::string& why) {
    fail("crash", {unsigned(line)}, "%s: TMA %s", block.where().c_str(), why.c_str());
  };
  if (!box.map.is_one()) refuse("takes a tensor map that is none of the kernel's parameters");
  if (box.map.rank != rank) refuse("of " + std::to_string(rank) + " dimensions by a map of " + std::to_string(box.map.rank));
  const unsigned alignment = std::max(TMA_ALIGNMENT, 8 * box.map.swizzle);
  const std::string place = describe_address(box.shared);
  if (box.map.swizzle != 0 && !shared_memory.dynamic().contains(box.shared, 1))
    fail("unjudged", {unsigned(line)}, "a swizzled box in a static shared array is not emulated: it belongs in dynamic shared memory");
  const uintptr_t at = box.map.swizzle != 0 ? window_address(box.shared) : reinterpret_cast<uintptr_t>(box.shared);
  if (at % alignment != 0)
    refuse("of a box whose place in shared memory " + std::to_string(alignment) + " does not divide (" + place + ")");
  if (!shared_memory.contains(box.shared, box.map.box_bytes()))
    refuse("of a box of " + std::to_string(box.map.box_bytes()) + " bytes that leaves shared memory (" + place + ")");
  if (reinterpret_cast<uintptr_t>(box.map.address) % TMA_UNIT != 0)
    refuse("of a tensor whose address 16 does not divide (" + describe_address(box.map.address) + ")");
  // An H200 ends the kernel with "an illegal instruction was encountered", in whatever swizzle (recorded, tests/gpu/test_gated.py).
  if (const int64_t first = box.start[0] * int64_t(box.map.element_bytes); first % TMA_UNIT != 0)
    refuse("of a box that begins " + std::to_string(first) + " bytes into a line, no multiple of 16");
  // Zeros, elsewhere; an H200 goes to the tensor's address for such a box, which in a map of all memory is 0.
  if (box.map.address == nullptr && box.outside()) refuse("of a box that lies wholly outside of a matrix behind a pointer");
  box.each_chunk([&](const unsigned char*, const unsigned char* tensor, unsigned bytes) {
    const Region* const region = tensor == nullptr ? nullptr : region_near(tensor);
    if (tensor != nullptr && (region == nullptr || !region->contains(tensor, bytes)))
      refuse("leaves the tensor: " + describe_address(tensor));
  });
  return box;
}

void tma_load(void* shared, const void* map, unsigned long long* barrier, unsigned rank, const int* start, int line) {
  Hopper& all = hopper();
  const Box box = checked_box(map, shared, rank, start, line, false);
  all.tma.load(box, barrier, all.barriers, all.initialised(), all.copies_late());
}

void tma_load_multicast(void* shared, const void* map, unsigned long long* barrier, unsigned rank, const int* start, unsigned blocks,
                        int line) {
  Hopper& all = hopper();
  const Box box = checked_box(map, shared, rank, start, line, false);
  all.tma.load(box, barrier, blocks, all.barriers, all.initialised(), all.copies_late());
}

void tma_store(const void* map, const void* shared, unsigned rank, const int* start, int line) {
  Hopper& all = hopper();
  all.tma.store(checked_box(map, shared, rank, start, line, true), all.fences.covered(), all.copies_late());
}

void tma_store_commit() { hopper().tma.commit(); }
void tma_store_wait(unsigned groups_left, bool read, int) { hopper().tma.wait(groups_left, read); }

unsigned cluster_rank() { return cluster.rank_of(block.index()); }
void cluster_arrive(int line) { block.cluster_arrive(unsigned(line)); }
void cluster_wait(int line) { block.cluster_wait(unsigned(line)); }
void cluster_sync(int line) { block.cluster_sync(unsigned(line)); }

void load_shared_cluster(const void* shared, unsigned rank, void* values, unsigned bytes, int line) {
  hopper().load_shared_cluster(static_cast<const unsigned char*>(shared), rank, values, bytes, unsigned(line));
}

bool elect_one(int line) {
  const unsigned elected = hopper().elected();
  block.warp_collective(~0u, nullptr, nullptr, unsigned(line), Order::none);
  return block.lane() == elected;
}

struct RegisterCount {
  unsigned count;
  bool more;
  unsigned line;
};

void set_registers(unsigned count, bool more, int line) {
  Hopper& all = hopper();
  RegisterCount operand = {count, more, unsigned(line)};
  const auto act = [](const WarpgroupOperands& operands, unsigned first) {
    const auto& one = *static_cast<const RegisterCount*>(operands[0]);
    hopper().registers.set(first / WARPGROUP, one.count, one.more, one.line);
  };
  block.warpgroup_collective(&operand, act, unsigned(line));
  const unsigned group = block.index() / WARPGROUP;
  if (all.registers.waits(group)) block.wait_for(State::at_registers, group, unsigned(line));
}

inline WarpgroupProducts& own_products() { return hopper().products[block.index() / WARPGROUP]; }

void wgmma_fence() { own_products().fence(block.index() % WARPGROUP); }
void wgmma_commit() { own_products().commit(block.index() % WARPGROUP); }

void wgmma_wait(unsigned groups_left, int line) {
  const unsigned thread = block.index() % WARPGROUP;
  own_products().wait(thread, block.index() - thread, groups_left, unsigned(line));
}

void wgmma(const WgmmaInstruction& instruction, void* d, const unsigned* fragment, unsigned long long a, unsigned long long b,
           bool accumulate, int line) {
  WgmmaOperand operand = {&instruction, d, fragment, a, b, accumulate, unsigned(line)};
  const auto act = [](const WarpgroupOperands& operands, unsigned first) {
    Hopper& all = hopper();
    all.products[first / WARPGROUP].issue(operands, first, all.fences.covered(), all.products_late());
  };
  block.warpgroup_collective(&operand, act, unsigned(line));
}

unsigned shared_address(const void* shared, int line) {
  const auto* const address = static_cast<const unsigned char*>(shared);
  if (!shared_memory.dynamic().contains(address, 1))
    fail("unjudged", {unsigned(line)}, "an operand of wgmma outside dynamic shared memory is not emulated (%s)",
         describe_address(address).c_str());
  return window_address(address);
}

}  // namespace gemmgen
