#include "warpgroups.hpp"

#include <algorithm>
#include <cstring>

#include "decoder.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "watch.hpp"

namespace gemmgen {

namespace {

constexpr unsigned REGISTERS_PER_BLOCK = 65536, MOST_REGISTERS = 256;

// Numbers of a wgmma's Detail.
enum : unsigned { A_DESCRIPTOR = 0, B_DESCRIPTOR = 1, SCALE = 2 };  // of `fourth`
enum : unsigned { TRANS_A = 1, TRANS_B = 2, NEGATE_A = 4, NEGATE_B = 8, FROM_REGISTERS = 16 };  // of numbers[0]

}  // namespace

void Warpgroup::start() {
  arrived_ = 0;
  for (Member& member : members_) member = {};
  queue_.clear();
  sums_.clear();
  issued_ = computed_ = 0;
}

Warp& Warpgroup::warp(Block& block, unsigned member) { return *block.warps[WGMMA_WARPS * number_ + member]; }

bool Warpgroup::gather(Warp& warp, const Instruction* i) {
  if (arrived_ == 0) {
    at_ = i;
  } else if (at_ != i) {
    fail("crash", "%s: others of its warpgroup are at the instruction of line %s (%s)", warp.where().c_str(),
         machine_.program().lines(at_->location).c_str(), machine_.place(i).c_str());
  }
  arrived_ |= 1u << member_of(warp);
  if (arrived_ != (1u << WGMMA_WARPS) - 1) return false;
  arrived_ = 0;
  return true;
}

void Warpgroup::fence(Warp& warp) { ++members_[member_of(warp)].fences; }

void Warpgroup::check_operand(Block& block, const Instruction* i, Descriptor at, unsigned lines, unsigned bytes, bool transposed,
                              const char* name) {
  Warp& first = warp(block, 0);
  const auto refuse = [&](const std::string& why) {
    fail("crash", "%s: the descriptor of a wgmma's %s %s (%s)", first.where(1).c_str(), name, why.c_str(), machine_.place(i).c_str());
  };
  if (at.base_offset != 0) fail("unjudged", "a descriptor with a base offset is not emulated (%s)", machine_.place(i).c_str());
  const uint32_t pattern = 8 * at.swizzle;
  if (at.swizzle != 0 && (at.start & (pattern - 1) & ~(at.swizzle - 1)) != 0)
    refuse("starts at shared address " + std::to_string(at.start) + ", inside a pattern of " + std::to_string(pattern) +
           " bytes: stages have to start at multiples of that");
  at.each_chunk(lines, bytes, transposed, [&](uint32_t address, unsigned, unsigned) {
    if (!holds_shared(machine_, address, WGMMA_CHUNK_BYTES))
      refuse("leads to shared address " + std::to_string(address) + " (" + describe_address(first, Space::shared, address) + ")");
  });
}

// The sums that these registers hold, or those of products in flight.
Warpgroup::Sums& Warpgroup::take_sums(Block& block, const Instruction* i, const MatrixInstruction& of) {
  const std::vector<Unit>& units = i->detail->units;
  const auto refuse = [&](unsigned member, const char* why) {
    fail("race", "%s: %s (%s)", warp(block, member).where(1).c_str(), why, machine_.place(i).c_str());
  };
  std::vector<Unit> origins;
  for (const Unit unit : units) origins.push_back(warp(block, 0).origin(unit));
  const auto known = std::find_if(sums_.begin(), sums_.end(), [&](const auto& sums) { return sums->units[0].front() == origins.front(); });
  const bool is_new = known == sums_.end();
  Sums& sums = is_new ? *sums_.emplace_back(std::make_unique<Sums>()) : **known;
  const bool another = !is_new && (sums.units[0] != origins || sums.of.accumulator != of.accumulator);
  for (unsigned member = 0; member < WGMMA_WARPS; ++member) {
    if (sums.pending[member] != 0) {
      if (another) refuse(member, "a wgmma of another shape takes accumulators that are in flight");
      if (sums.units[member] != units)
        for (const Unit unit : sums.units[member]) warp(block, member).leave_flight(unit);
      sums.units[member] = units;
      continue;
    }
    if (members_[member].fences == 0) refuse(member, "no wgmma_fence comes before its first wgmma");
    Warp& its = warp(block, member);
    const uint32_t* registers[WGMMA_COLUMNS / 2];
    for (std::size_t r = 0; r < units.size(); ++r) registers[r] = its.reg<uint32_t>(units[r]);
    if (!is_new && !another && sums.fences[member] == members_[member].fences && sums.values.differ(of, member, registers))
      refuse(member, "accumulators of a wgmma have been written since the last wgmma_fence");
    sums.units[member] = units;
    sums.values.load(of, member, registers);
  }
  sums.of = of;
  return sums;
}

void Warpgroup::issue(Block& block, Warp& last, const Instruction* i) {
  block_ = &block;
  const Detail& detail = *i->detail;
  const uint64_t flags = detail.numbers[0];
  auto product = std::make_unique<Product>();
  product->at = i;
  product->instruction = {*detail.product, (flags & TRANS_A) != 0, (flags & TRANS_B) != 0, (flags & NEGATE_A) != 0, (flags & NEGATE_B) != 0};
  product->from_registers = (flags & FROM_REGISTERS) != 0;
  const MatrixInstruction& of = *detail.product;
  const Unit b_unit = detail.fourth[B_DESCRIPTOR], a_unit = detail.fourth[A_DESCRIPTOR], scale = detail.fourth[SCALE];
  Warp& first = warp(block, 0);
  product->b = first.reg<uint64_t>(b_unit)[0];
  product->a = product->from_registers ? 0 : first.reg<uint64_t>(a_unit)[0];
  product->accumulate = first.predicate(scale) & 1;
  bool sums_known = true;
  for (unsigned member = 0; member < WGMMA_WARPS; ++member) {
    Warp& its = warp(block, member);
    its.active = ALL_LANES;
    its.require_known(i, b_unit, "as a descriptor");
    its.require_known(i, scale, "as scale-d");
    if (!product->from_registers) its.require_known(i, a_unit, "as a descriptor");
    const uint32_t differing = lanes_where([&](unsigned lane) {
      return its.reg<uint64_t>(b_unit)[lane] != product->b || (!product->from_registers && its.reg<uint64_t>(a_unit)[lane] != product->a) ||
             (its.predicate(scale) >> lane & 1) != product->accumulate;
    });
    if (differing != 0)
      fail("crash", "%s brings another descriptor or scale-d to a wgmma than thread %u (%s)", its.where(differing).c_str(),
           first.first_thread(), machine_.place(i).c_str());
    for (unsigned r = 0; product->from_registers && r < 4; ++r) {
      std::memcpy(product->fragments[member][r], its.reg<uint32_t>(detail.more[r]), sizeof product->fragments[member][r]);
      its.require_known(i, detail.more[r], "as A of a wgmma");
    }
    if (product->accumulate)
      for (const Unit unit : detail.units) sums_known &= its.known(unit) == ALL_LANES;
  }
  if (!product->from_registers) check_operand(block, i, Descriptor(product->a), WGMMA_ROWS, bits_of(of.a) / 8, flags & TRANS_A, "A");
  check_operand(block, i, Descriptor(product->b), of.n, bits_of(of.b) / 8, flags & TRANS_B, "B");
  if (Watch* const watch = machine_.watch()) {
    const Descriptor a(product->a), b(product->b);
    watch->multiply(block, last, number_, i, {product->from_registers ? nullptr : &a, WGMMA_ROWS, bits_of(of.a) / 8, (flags & TRANS_A) != 0},
                    {&b, of.n, bits_of(of.b) / 8, (flags & TRANS_B) != 0});
  }
  Sums& sums = take_sums(block, i, of);
  sums.at = i;
  product->sums = &sums;
  queue_.push_back(std::move(product));
  ++issued_;
  for (unsigned member = 0; member < WGMMA_WARPS; ++member) {
    members_[member].issued = issued_;
    sums.pending[member] = issued_;
    Warp& its = warp(block, member);
    for (const Unit unit : detail.units) its.start_flight(unit, i);
  }
  if (machine_.launch().seed / 4 % 2 != 0) execute(issued_);
}

void Warpgroup::commit(Warp& warp) {
  Member& member = members_[member_of(warp)];
  member.groups.push_back(member.issued);
}

void Warpgroup::wait(Warp& warp, const Instruction* i, uint32_t left) {
  warp.count_wait();
  const unsigned number = member_of(warp);
  Member& member = members_[number];
  const uint32_t committed = member.groups.empty() ? 0 : member.groups.back();
  if (committed == member.waited && member.issued > committed)
    fail("crash", "%s waits for no wgmma: no wgmma_commit follows those that it has issued (%s)", warp.where().c_str(),
         machine_.place(i).c_str());
  if (member.groups.size() <= left) return;
  const uint32_t end = member.groups[member.groups.size() - 1 - left];
  if (end <= member.waited) return;
  member.waited = end;
  execute(end);
  for (const auto& sums : sums_) {
    if (sums->pending[number] == 0 || sums->pending[number] > end) continue;
    sums->pending[number] = 0;
    sums->fences[number] = member.fences;
    uint32_t* registers[WGMMA_COLUMNS / 2];
    const std::vector<Unit>& units = sums->units[number];
    for (std::size_t r = 0; r < units.size(); ++r) {
      warp.end_flight(i, units[r]);
      registers[r] = warp.reg<uint32_t>(units[r]);
    }
    sums->values.store(sums->of, number, registers);
    warp.end_copies();
  }
}

void Warpgroup::exit_threads(Warp& warp) {
  const Member& member = members_[member_of(warp)];
  if (member.waited < member.issued)
    fail("crash", "%s exits while wgmmas of it are under way, which no wgmma_wait<0> ends", warp.where().c_str());
}

// Executes all products before number `end`.
void Warpgroup::execute(uint32_t end) {
  for (; computed_ < end; ++computed_) {
    const Product& next = *queue_.front();
    machine_.warpgroup_product().run(next.instruction, block_->shared(), next.a, next.from_registers ? &next.fragments : nullptr, next.b,
                                     next.accumulate, next.sums->values);
    queue_.pop_front();
  }
}

void RegisterPool::start(unsigned groups, unsigned threads) {
  held_.assign(groups, std::min(REGISTERS_PER_BLOCK / threads / 8 * 8, MOST_REGISTERS));
  wanted_.assign(groups, 0);
  free_ = 0;
}

bool RegisterPool::set(Warp& warp, const Instruction* i, unsigned group, unsigned count, bool more) {
  unsigned& held = held_[group];
  if (more ? count < held : count > held)
    fail("crash", "%s: setmaxnreg_%s<%u> of a warpgroup whose threads have %u registers (%s)", warp.where().c_str(), more ? "inc" : "dec",
         count, held, warp.machine().place(i).c_str());
  if (more) {
    wanted_[group] = count;
  } else {
    free_ += held - count;
    held = count;
  }
  return more ? grant(group) : true;
}

bool RegisterPool::grant(unsigned group) {
  if (wanted_[group] == 0) return true;
  if (wanted_[group] - held_[group] > free_) return false;
  free_ -= wanted_[group] - held_[group];
  held_[group] = wanted_[group];
  wanted_[group] = 0;
  return true;
}

std::string RegisterPool::describe(unsigned group) const {
  return std::to_string(wanted_[group]) + " registers a thread, where it has " + std::to_string(held_[group]) + " and others leave " +
         std::to_string(free_);
}

namespace {

Warpgroup& group_of(Warp& warp, const Instruction* i) {
  Block& block = warp.block();
  const unsigned number = warp.number() / WGMMA_WARPS;
  if (number >= block.groups.size())
    fail("crash", "%s: an instruction of a warpgroup, and threads %u to %u are none (%s)", warp.where().c_str(), number * 128,
         warp.machine().launch().threads - 1, warp.machine().place(i).c_str());
  return *block.groups[number];
}

// An instruction that all four warps must reach. `act` is called when the last one arrives.
template <typename Act>
const Instruction* together(Warp& warp, const Instruction* i, Act act) {
  if (warp.passed()) return i + 1;
  const Instruction* next = nullptr;
  if (!whole_warp(warp, i, next)) return next;
  Warpgroup& group = group_of(warp, i);
  if (!group.gather(warp, i)) return warp.wait(State::at_warpgroup, group.number(), i, true);
  act(group);
  warp.block().wake(State::at_warpgroup, group.number());
  return i + 1;
}

const Instruction* multiply(Warp& warp, const Instruction* i) {
  return together(warp, i, [&](Warpgroup& group) { group.issue(warp.block(), warp, i); });
}

const Instruction* fence(Warp& warp, const Instruction* i) {
  const Instruction* next = nullptr;
  if (!whole_warp(warp, i, next)) return next;
  group_of(warp, i).fence(warp);
  if (Watch* const watch = warp.machine().watch()) watch->fence_products(warp);
  return i + 1;
}

const Instruction* commit(Warp& warp, const Instruction* i) {
  const Instruction* next = nullptr;
  if (!whole_warp(warp, i, next)) return next;
  group_of(warp, i).commit(warp);
  if (Watch* const watch = warp.machine().watch()) watch->commit_products(warp);
  return i + 1;
}

const Instruction* wait(Warp& warp, const Instruction* i) {
  const Instruction* next = nullptr;
  if (!whole_warp(warp, i, next)) return next;
  group_of(warp, i).wait(warp, i, uint32_t(i->immediate));
  if (Watch* const watch = warp.machine().watch()) watch->wait_for_products(warp, uint32_t(i->immediate));
  return i + 1;
}

// setmaxnreg: each warp of the group arrives, the last one sets the number, and all wait until so many registers are free.
const Instruction* set_registers(Warp& warp, const Instruction* i) {
  Block& block = warp.block();
  const unsigned number = warp.number() / WGMMA_WARPS;
  const bool more = i->small != 0;
  if (!warp.passed()) {
    const Instruction* next = nullptr;
    if (!whole_warp(warp, i, next)) return next;
    Warpgroup& group = group_of(warp, i);
    if (!group.gather(warp, i)) return warp.wait(State::at_warpgroup, number, i, true);
    block.registers.set(warp, i, number, unsigned(i->immediate), more);
    block.wake(State::at_warpgroup, number);
    for (auto& other : block.groups)
      if (block.registers.grant(other->number())) block.wake(State::at_registers, other->number());
  }
  if (block.registers.waits(number)) return warp.wait(State::at_registers, number, i, true);
  return i + 1;
}

void decode_product(Decoder& to, const Statement& from) {
  const MatrixInstruction* const product = to.program().instructions().find(from.text());
  if (product == nullptr) to.refuse("it is no wgmma of " + std::string(to.program().module().target_name) + " that is emulated");
  const Operand &d = to.at(0), &a = to.at(1);
  if (d.kind != Operand::Kind::vector) to.refuse("its sums are no registers");
  Detail made;
  for (const Operand& part : d.parts) {
    to.source(part, Type::b32);  // it adds to them
    made.units.push_back(to.destination(part));
  }
  if (made.units.size() != WarpgroupSums::registers_of(*product)) to.refuse("sums in another number of registers");
  const bool from_registers = a.kind == Operand::Kind::vector;
  if (from_registers)
    for (const Operand& part : a.parts) made.more.push_back(to.source(part, Type::b32));
  if (from_registers && made.more.size() != 4) to.refuse("A in another number of registers than 4");
  made.fourth = {from_registers ? NO_UNIT : to.source(1, Type::b64), to.source(2, Type::b64), to.source(3, Type::pred)};
  const auto number = [&](std::size_t operand) -> int64_t {
    if (operand >= to.count()) return 1;
    if (to.at(operand).kind != Operand::Kind::immediate) to.refuse("a scale or a transposition that is no number");
    return int64_t(to.at(operand).bits);
  };
  uint64_t flags = from_registers ? FROM_REGISTERS : 0;
  if (to.count() > 4) flags |= (number(4) < 0 ? NEGATE_A : 0) | (number(5) < 0 ? NEGATE_B : 0);
  if (from_registers && to.count() > 6) flags |= number(6) != 0 ? TRANS_B : 0;
  if (!from_registers && to.count() > 7) flags |= (number(6) != 0 ? TRANS_A : 0) | (number(7) != 0 ? TRANS_B : 0);
  made.numbers[0] = flags;
  made.product = product;
  Instruction& i = to.emit(multiply);
  i.d = NO_UNIT;
  to.detail(i) = std::move(made);
}

}  // namespace

void decode_wgmma(Decoder& to, const Statement& from) {
  if (from.has("mma_async")) {
    if (from.has("sp")) to.refuse("it is not emulated");
    decode_product(to, from);
  } else if (from.has("fence")) {
    to.emit(fence);
  } else if (from.has("commit_group")) {
    to.emit(commit);
  } else if (from.has("wait_group")) {
    if (to.at(0).kind != Operand::Kind::immediate) to.refuse("it waits for no number of groups");
    const auto left = int64_t(to.at(0).bits);
    to.emit(wait).immediate = left;
  } else {
    to.refuse("it is not emulated");
  }
}

void decode_registers(Decoder& to, const Statement& from) {
  if (to.at(0).kind != Operand::Kind::immediate) to.refuse("a number of registers that is no number");
  const auto count = int64_t(to.at(0).bits);
  Instruction& i = to.emit(set_registers);
  i.immediate = count, i.small = from.has("inc");
}

}  // namespace gemmgen
