// A warp: the registers of its 32 lanes, and where these are in the kernel.
//
// Lanes with one program counter are a split. A warp runs one split at a time, that with the least program counter first, so
// that splits merge where a branch's sides meet. A seed chooses another one now and then, and a split that goes round a loop
// many times lets others run: a lane that spins does not starve its neighbours (Volta's promise).
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "async_copies.hpp"
#include "instruction.hpp"

namespace gemmgen {

class Block;
class Machine;

constexpr unsigned WARP = 32;
constexpr uint32_t ALL_LANES = ~0u;

enum class State : uint8_t {
  ready,
  converging,  // at a collective, where lanes that take part have not come yet
  at_barrier,
  at_cluster_barrier,
  at_mbarrier,
  at_warpgroup,  // an instruction of 128 threads, of which some have not come
  at_registers,  // that other warpgroups hold
};

// Why a value is worth nothing: a failure, told where it is used.
struct Poison {
  const char* kind = "crash";
  std::string text;
};

constexpr uint32_t OF_BLOCK = 1, OF_BARRIER = 2;  // what lanes of a warp meet for before; 0: a collective

struct Split {
  uint32_t lanes = 0;
  const Instruction* at = nullptr;
  State state = State::ready;
  bool asks = false;     // whether the instruction `at` asks, when it runs again, if what it waited for has come
  bool passed = false;   // it has
  uint32_t number = 0;   // of the barrier, mbarrier or warpgroup that it waits for
};

class Warp {
 public:
  Warp(Machine& machine, Block& block, const Kernel& kernel, unsigned number);

  // Before a block's first instruction.
  void start(const Kernel& kernel);
  // Goes on until no split can, or others shall have a turn. Whether it did anything.
  bool run();
  bool exited() const { return alive_ == 0; }
  // Splits that wait so, and for that number, are ready.
  void wake(State state, uint32_t number);

  // For handlers.
  uint32_t active = 0;  // the lanes that the instruction runs for
  template <typename T>
  T* reg(Unit unit) {
    return reinterpret_cast<T*>(file_.get() + std::size_t(unit) * 128);
  }
  uint32_t& predicate(Unit unit) { return *reg<uint32_t>(unit); }
  // Of the active lanes.
  void set_predicate(Unit unit, uint32_t lanes) {
    uint32_t& held = predicate(unit);
    held = (held & ~active) | (lanes & active);
  }
  // Lanes that have a value there.
  uint32_t known(Unit unit) const { return known_[unit]; }
  void set_known(Unit unit, uint32_t lanes) { known_[unit] = (known_[unit] & ~active) | (lanes & active); }
  // What `i` writes to its destination is known of so many lanes.
  void settle(const Instruction* i, uint32_t lanes) {
    set_known(i->d, lanes);
    if ((active & ~lanes) != 0) [[unlikely]] inherit(i);
  }
  // Throws Failure where an active lane has no value there.
  void require_known(const Instruction* i, Unit unit, const char* use) {
    if ((active & ~known_[unit]) != 0) [[unlikely]] refuse_unknown(i, unit, use);
  }
  // What is in a unit is worth nothing, and why: told where it is used.
  void poison(Unit unit, uint32_t lanes, Poison why);
  // The same of one unit as of another.
  void pass_poison(Unit from, Unit to);
  // Why active lanes have no value there; null where nobody says.
  const Poison* poison_of(Unit unit) const;

  // A register that a wgmma writes at some time from now on: nobody may use it before a wait.
  // Throws Failure where the register is that of a product in flight.
  void refuse_in_flight(const Instruction* i, Unit unit) const;
  void start_flight(Unit unit, const Instruction* by);
  void end_flight(const Instruction* i, Unit unit);
  // A wgmma.wait_group, which may leave products in flight.
  void count_wait() { ++waits_; }
  // Compilers copy registers in flight from one basic block to the next, and assign both to one register of the machine. A copy is in
  // flight, too, and gets its value with what it is a copy of.
  Unit origin(Unit unit) const;
  void end_copies();
  // The register is no place of sums any more: a copy of it is.
  void leave_flight(Unit unit) { flights_.erase(unit); }

  uint32_t lanes() const { return lanes_; }
  uint32_t alive() const { return alive_; }
  const Instruction* diverge(const Instruction* next, const Instruction* target);
  const Instruction* reselect(const Instruction* at);
  const Instruction* loop(const Instruction* target);
  const Instruction* exit(const Instruction* i);
  // Whether the lanes `needed`, as far as they live, are here with the running split; else it waits for them.
  // Active lanes that have another mask than the first one meet apart: they run `i` later.
  void keep_alike(const Instruction* i, Unit mask);
  bool converge(const Instruction* i, uint32_t needed);
  // The running split waits, to go on at `resume`.
  const Instruction* wait(State state, uint32_t number, const Instruction* resume, bool asks = false);
  // Whether the running split comes back to the instruction for which it waited. Asked once.
  bool passed();
  bool alone() const { return splits_.size() == 1; }
  const std::vector<Split>& splits() const { return splits_; }

  AsyncCopies& copies() { return copies_; }

  Machine& machine() { return machine_; }
  Block& block() { return block_; }
  unsigned number() const { return number_; }           // in its block
  unsigned first_thread() const { return number_ * WARP; }
  std::string where(uint32_t lanes) const;              // "block 3, thread 12", of the first of `lanes`
  std::string where() const { return where(active); }

 private:
  struct Flight {
    const Instruction *first, *by;  // the first and the last product since the register had a value
    uint32_t waits;                 // of the warp, when the last one was issued
  };

  void inherit(const Instruction* i);
  // Throws Failure if a copy in flight cannot be coalesced: its destination holds a value that is read after a product of the flight
  // was issued. ptxas then emits a real MOV, which reads sums that are not there yet. Without a wait between product and copy ptxas
  // notices that, and waits for each product itself (C7514, "wgmma.mma_async instructions are serialized").
  void require_free(const Instruction* copy, const Flight& flight);
  void refuse_unknown(const Instruction* i, Unit unit, const char* use);
  void fill(const SpecialUnit& special);
  void save(const Instruction* at);
  const Instruction* resume(std::size_t split);
  const Instruction* pick(bool another);
  void merge();

  struct Free {
    void operator()(unsigned char* file) const;
  };

  Machine& machine_;
  Block& block_;
  const unsigned number_;
  std::unique_ptr<unsigned char[], Free> file_;
  std::vector<uint32_t> known_;  // by unit
  std::unordered_map<Unit, Poison> poisons_;
  std::unordered_map<Unit, Flight> flights_;
  uint32_t waits_ = 0;
  struct FlyingCopy {
    Unit of;
    uint32_t lanes;  // that have made it: a warp may not have converged yet
  };
  std::unordered_map<Unit, FlyingCopy> flying_copies_;
  std::vector<Split> splits_;
  std::size_t current_ = 0;
  uint32_t lanes_ = 0;  // of the running split
  uint32_t alive_ = 0;
  unsigned patience_ = 0;  // back edges until others have a turn
  AsyncCopies copies_;
  unsigned hold_ = 0;      // labels at which the running split is kept
};

// Handlers that decoder.cpp emits.
const Instruction* label(Warp&, const Instruction*);
const Instruction* exit_lanes(Warp&, const Instruction*);
const Instruction* jump(Warp&, const Instruction*);
// Whether all 32 lanes are here; what the warp does else is in `next`. Throws Failure where some have exited.
bool whole_warp(Warp&, const Instruction*, const Instruction*& next);
// What has nothing to do here.
const Instruction* nothing(Warp&, const Instruction*);
// bar.warp.sync, whose mask is in `a`.
const Instruction* meet(Warp&, const Instruction*);
// Throws Failure where an active lane is not in the mask that it names.
void require_in_mask(Warp&, const Instruction*, uint32_t mask);

}  // namespace gemmgen
