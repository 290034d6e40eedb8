// Branches, ends and barriers of blocks and warps.
#include "coverage.hpp"
#include "decoder.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "watch.hpp"

namespace gemmgen {

namespace {

const Instruction* branch(Warp& warp, const Instruction* i) {
  note_taken(warp, i, warp.active != warp.lanes());
  if (warp.active != warp.lanes()) return warp.diverge(i + 1, i->target);
  return i->target > i ? i->target : warp.loop(i->target);
}

void decode_branch(Decoder& to, const Statement& from) {
  const Operand& where = to.at(0);
  if (where.kind != Operand::Kind::symbol) to.refuse("it leads to no label");
  Instruction& i = to.emit(branch);
  i.immediate = to.program().coverage().hook(from);
  to.program().coverage().hook_joined(to, i, from);
  to.branch_to(i, where.name);
}

const Instruction* trap(Warp& warp, const Instruction* i) {
  fail("crash", "%s comes to a trap (%s)", warp.where().c_str(), warp.machine().place(i).c_str());
}

// bar and barrier.cta. `small`: it waits; `smaller`: all lanes of a warp arrive together. b: the number of threads, if given.
template <bool COUNTED>
const Instruction* barrier(Warp& warp, const Instruction* i) {
  if (i->smaller != 0 && !warp.converge(i, ALL_LANES)) return warp.wait(State::converging, COUNTED ? OF_BARRIER : OF_BLOCK, i);
  warp.require_known(i, i->a, "as the number of a barrier");
  const unsigned lane = first_of(warp.active);
  const uint32_t number = warp.reg<uint32_t>(i->a)[lane];
  if (COUNTED) warp.require_known(i, i->b, "as the threads of a barrier");
  const uint32_t threads = COUNTED ? warp.reg<uint32_t>(i->b)[lane] : 0;
  if (Watch* const watch = warp.machine().watch()) watch->come_to_barrier(warp, number, i->small != 0);
  const bool complete = warp.block().arrive(warp, i, number, threads, !COUNTED);
  if (complete || i->small == 0) return i + 1;
  return warp.wait(State::at_barrier, number, i + 1);
}

// bar.red: the reduction of all threads' votes.
enum class Reduction : uint8_t { count, all, any };

const Instruction* vote_at_barrier(Warp& warp, const Instruction* i) {
  if (!warp.passed()) {
    if (!warp.converge(i, ALL_LANES)) return warp.wait(State::converging, i->b != NO_UNIT ? OF_BARRIER : OF_BLOCK, i);
    warp.require_known(i, i->c, "as a vote");
    const uint32_t number = warp.reg<uint32_t>(i->a)[first_of(warp.active)];
    if (number >= BARRIERS) fail("crash", "%s comes to barrier %u of 0 to 15", warp.where().c_str(), number);
    const uint32_t votes = i->smaller != 0 ? ~warp.predicate(i->c) : warp.predicate(i->c);
    const bool counted = i->b != NO_UNIT;
    warp.block().barrier(number).votes += uint32_t(std::popcount(votes & warp.active));
    warp.block().barrier(number).voters += uint32_t(std::popcount(warp.active));
    const uint32_t threads = counted ? warp.reg<uint32_t>(i->b)[first_of(warp.active)] : 0;
    if (Watch* const watch = warp.machine().watch()) watch->come_to_barrier(warp, number, true);
    if (!warp.block().arrive(warp, i, number, threads, !counted)) return warp.wait(State::at_barrier, number, i, true);
  }
  const Barrier& barrier = warp.block().barrier(warp.reg<uint32_t>(i->a)[first_of(warp.active)]);
  const uint32_t count = barrier.result;
  switch (Reduction(i->small)) {
    case Reduction::count: each_lane<uint32_t>(warp, i->d, [=](unsigned) { return count; }); break;
    default: {
      const bool yes = Reduction(i->small) == Reduction::any ? count > 0 : count == barrier.result_voters;
      warp.set_predicate(i->d, yes ? ALL_LANES : 0);
    }
  }
  warp.set_known(i->d, ALL_LANES);
  return i + 1;
}

void decode_barrier(Decoder& to, const Statement& from) {
  if (from.has("warp")) {
    const Unit mask = to.source(0, Type::b32);
    to.emit(meet).a = mask;
    return;
  }
  if (from.has("cluster")) return decode_cluster_barrier(to, from);
  const bool aligned = from.opcode == "bar" || from.has("aligned");
  if (from.has("red")) {
    const Unit d = to.destination(0), number = to.source(1, Type::u32);
    const bool counted = to.count() == 4;
    const Unit threads = counted ? to.source(2, Type::u32) : NO_UNIT, vote = to.source(to.count() - 1, Type::pred);
    Instruction& i = to.emit(vote_at_barrier);
    i.d = d, i.a = number, i.b = threads, i.c = vote;
    i.small = uint8_t(from.has("popc") ? Reduction::count : from.has("and") ? Reduction::all : Reduction::any);
    i.smaller = to.at(to.count() - 1).negated;
    return;
  }
  const Unit number = to.source(0, Type::u32), threads = to.count() > 1 ? to.source(1, Type::u32) : NO_UNIT;
  Instruction& i = to.emit(to.count() > 1 ? barrier<true> : barrier<false>);
  i.a = number, i.b = threads;
  i.small = from.has("arrive") ? 0 : 1;
  i.smaller = aligned;
}

const Instruction* fence(Warp& warp, const Instruction* i) {
  if (Watch* const watch = warp.machine().watch()) watch->fence(warp, i->small == 2 || (i->small == 1 && warp.machine().ranks() > 1));
  return i + 1;
}

void decode_fence(Decoder& to, const Statement& from) {
  if (from.has("proxy") || from.has("mbarrier_init")) return decode_proxy_fence(to, from);
  Instruction& i = to.emit(fence);
  i.small = from.has("cta") ? 0 : from.has("cluster") ? 1 : 2;
}

}  // namespace

const Instruction* nothing(Warp&, const Instruction* i) { return i + 1; }

bool whole_warp(Warp& warp, const Instruction* i, const Instruction*& next) {
  if (!warp.converge(i, ALL_LANES)) {
    next = warp.wait(State::converging, 0, i);
    return false;
  }
  if (warp.active != ALL_LANES)
    fail("crash", "%s: an instruction of a whole warp by %d lanes: the others have exited (%s)", warp.where().c_str(),
         std::popcount(warp.active), warp.machine().place(i).c_str());
  return true;
}

// A forward branch that is not a condition in the kernel's text.
const Instruction* jump(Warp& warp, const Instruction* i) {
  return warp.active != warp.lanes() ? warp.diverge(i + 1, i->target) : i->target;
}

// The lanes of a mask meet.
const Instruction* meet(Warp& warp, const Instruction* i) {
  warp.require_known(i, i->a, "as a mask of lanes");
  const uint32_t mask = warp.reg<uint32_t>(i->a)[first_of(warp.active)];
  warp.keep_alike(i, i->a);
  require_in_mask(warp, i, mask);
  if (!warp.converge(i, mask)) return warp.wait(State::converging, 0, i);
  if (Watch* const watch = warp.machine().watch()) watch->meet(warp);
  return i + 1;
}

void require_in_mask(Warp& warp, const Instruction* i, uint32_t mask) {
  if ((warp.active & ~mask) != 0)
    fail("crash", "%s is not in the mask 0x%08x of its warp collective (%s)", warp.where(warp.active & ~mask).c_str(), mask,
         warp.machine().place(i).c_str());
}

void add_control(Decoders& all) {
  all["bra"] = decode_branch;
  all["exit"] = [](Decoder& to, const Statement&) { to.emit(exit_lanes); };
  all["ret"] = [](Decoder& to, const Statement&) { to.emit_return(); };
  all["trap"] = all["brkpt"] = [](Decoder& to, const Statement&) { to.emit(trap); };
  all["bar"] = all["barrier"] = decode_barrier;
  all["membar"] = all["fence"] = decode_fence;
  for (const char* name : {"nanosleep", "pmevent", "prefetch", "prefetchu", "applypriority", "discard"})
    all[name] = [](Decoder& to, const Statement&) { to.emit(nothing); };
}

}  // namespace gemmgen
