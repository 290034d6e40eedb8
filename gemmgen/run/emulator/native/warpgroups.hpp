// Warpgroups: asynchronous products of 128 threads, and the registers that they give to each other.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "instruction.hpp"
#include "warp.hpp"
#include "warpgroup_product.hpp"

namespace gemmgen {

// Of a block, or one of several that a block has. Operands are read where descriptors say, and sums kept apart, from the issue
// to the wait that demands them; the products are computed at the first or at the last possible moment.
class Warpgroup {
 public:
  Warpgroup(Machine& machine, unsigned number) : machine_(machine), number_(number) {}

  void start();
  // The running warp has come to a wgmma, or another instruction of all four. Whether it was the last one.
  bool gather(Warp& warp, const Instruction* i);
  // `last` is the warp that came last.
  void issue(Block& block, Warp& last, const Instruction* i);
  void fence(Warp& warp);
  void commit(Warp& warp);
  void wait(Warp& warp, const Instruction* i, uint32_t left);
  void exit_threads(Warp& warp);
  unsigned number() const { return number_; }

 private:
  // Of a warp, whose lanes do all of this together.
  struct Member {
    uint32_t issued = 0, waited = 0;
    uint32_t fences = 0;
    std::vector<uint32_t> groups;  // the product behind the last of each
  };

  // Sums by the units where warps have them, while no product is in flight.
  struct Sums {
    const Instruction* at = nullptr;  // the last product
    MatrixInstruction of;
    std::array<std::vector<Unit>, WGMMA_WARPS> units;
    std::array<uint32_t, WGMMA_WARPS> pending = {};  // one more than the last product that a warp has not waited for; 0: none
    std::array<uint32_t, WGMMA_WARPS> fences = {};   // of a warp when it had its sums last
    WarpgroupSums values;
  };

  struct Product {
    const Instruction* at;
    WarpgroupInstruction instruction;
    uint64_t a, b;
    bool accumulate;
    bool from_registers;
    FactorRegisters fragments;
    Sums* sums;
  };

  void execute(uint32_t end);
  Sums& take_sums(Block& block, const Instruction* i, const MatrixInstruction& of);
  void check_operand(Block& block, const Instruction* i, Descriptor at, unsigned lines, unsigned bytes, bool transposed, const char* name);
  Warp& warp(Block& block, unsigned member);
  static unsigned member_of(const Warp& warp) { return warp.number() % WGMMA_WARPS; }

  Machine& machine_;
  const unsigned number_;  // in its block
  uint32_t arrived_ = 0;   // warps
  const Instruction* at_ = nullptr;
  std::array<Member, WGMMA_WARPS> members_;
  std::deque<std::unique_ptr<Product>> queue_;  // not computed yet
  uint32_t issued_ = 0, computed_ = 0;
  std::vector<std::unique_ptr<Sums>> sums_;
  Block* block_ = nullptr;
};

// Registers that the warpgroups of a block give to each other by setmaxnreg.
class RegisterPool {
 public:
  void start(unsigned groups, unsigned threads);
  // Whether the group has so many now; else it waits.
  bool set(Warp& warp, const Instruction* i, unsigned group, unsigned count, bool more);
  bool grant(unsigned group);
  std::string describe(unsigned group) const;
  bool waits(unsigned group) const { return wanted_[group] != 0; }

 private:
  std::vector<unsigned> held_, wanted_;  // of a thread; 0: nothing
  unsigned free_ = 0;                    // for each thread of a warpgroup
};

}  // namespace gemmgen
