#include "mbarriers.hpp"

#include <cstdlib>
#include <cstring>

#include "decoder.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "watch.hpp"

namespace gemmgen {

namespace {

constexpr uint32_t MOST_ARRIVALS = (1 << 20) - 1;
constexpr int64_t MOST_TRANSACTION_BYTES = (1 << 20) - 1;
constexpr uint64_t CONTENT = 0x6D62617272696572;  // what stands there, as nobody else stores it

void check_place(Warp& warp, const Instruction* i, Block& owner, uint32_t offset) {
  Machine& machine = warp.machine();
  if (offset % MBARRIER_BYTES != 0 || !holds_shared(machine, offset, MBARRIER_BYTES))
    fail("crash", "%s: an mbarrier that is no 8 aligned bytes of shared memory (%s) (%s)", warp.where().c_str(),
         describe_address(*owner.warps[0], Space::shared, offset).c_str(), machine.place(i).c_str());
}

}  // namespace

std::string Mbarriers::place(const Mbarrier& barrier) const {
  Warp& any = *machine_.block(barrier.rank).warps[0];
  return "the mbarrier at " + describe_address(any, Space::shared, barrier.offset);
}

void Mbarriers::init(Warp& warp, const Instruction* i, Block& owner, uint32_t offset, uint32_t count) {
  check_place(warp, i, owner, offset);
  if (count < 1 || count > MOST_ARRIVALS)
    fail("crash", "%s: an mbarrier of %d arrivals (%s)", warp.where().c_str(), int(count), machine_.place(i).c_str());
  for (const Mbarrier& one : all_)
    if (one.rank == owner.rank && one.offset == offset && one.count != 0)
      fail("crash", "%s initialises %s once more (%s)", warp.where().c_str(), place(one).c_str(), machine_.place(i).c_str());
  const uint64_t content = CONTENT + all_.size();
  std::memcpy(owner.shared() + offset, &content, sizeof content);
  Mbarrier made;
  made.number = unsigned(all_.size());
  made.rank = owner.rank, made.offset = offset, made.count = made.missing = count;
  all_.push_back(made);
  if (Watch* const watch = machine_.watch()) watch->init_mbarrier(warp, i, owner, made);
}

void Mbarriers::invalidate(Warp& warp, const Instruction* i, Block& owner, uint32_t offset) {
  at(warp, i, owner, offset).count = 0;
}

Mbarrier& Mbarriers::at(Warp& warp, const Instruction* i, Block& owner, uint32_t offset) {
  check_place(warp, i, owner, offset);
  for (Mbarrier& one : all_) {
    if (one.rank != owner.rank || one.offset != offset || one.count == 0) continue;
    const uint64_t content = CONTENT + one.number;
    if (std::memcmp(owner.shared() + offset, &content, sizeof content) != 0)
      fail("crash", "%s uses %s, where something else has been stored since (%s)", warp.where().c_str(), place(one).c_str(),
           machine_.place(i).c_str());
    if (Watch* const watch = machine_.watch()) watch->use_mbarrier(warp, i, owner, one);
    return one;
  }
  fail("crash", "%s uses the mbarrier at %s, which no thread has initialised (%s)", warp.where().c_str(),
       describe_address(*owner.warps[0], Space::shared, offset).c_str(), machine_.place(i).c_str());
}

void Mbarriers::arrive(Warp& warp, const Instruction* i, Mbarrier& barrier, uint32_t arrivals) {
  if (barrier.missing < arrivals)
    fail("crash", "%s arrives at %s, where all %u have in its phase %u: one arrival too many (%s)", warp.where().c_str(),
         place(barrier).c_str(), barrier.count, barrier.phase, machine_.place(i).c_str());
  if (Watch* const watch = machine_.watch()) watch->arrive(warp, i, barrier);
  barrier.missing -= arrivals;
  settle(barrier);
}

uint32_t Mbarriers::expect(const Instruction* i, Mbarrier& barrier, int64_t bytes) {
  const uint32_t phase = barrier.phase;
  barrier.bytes += bytes;
  if (std::abs(barrier.bytes) > MOST_TRANSACTION_BYTES)
    fail("crash", "%lld bytes are more than an mbarrier counts (%s)", static_cast<long long>(std::abs(barrier.bytes)),
         machine_.place(i).c_str());
  if (bytes < 0) settle(barrier);
  return phase;
}

// Completes the phase if nothing is pending.
void Mbarriers::settle(Mbarrier& barrier) {
  if (barrier.missing > 0 || barrier.bytes != 0) return;
  if (Watch* const watch = machine_.watch()) watch->complete_phase(barrier);
  barrier.missing = barrier.count;
  ++barrier.phase;
  machine_.wake(State::at_mbarrier, barrier.number);
}

std::string Mbarriers::describe(unsigned number) const {
  const Mbarrier& barrier = all_[number];
  std::string text = "phase " + std::to_string(barrier.phase) + " (parity " + std::to_string(barrier.parity()) + ") of " + place(barrier);
  text += ", where " + std::to_string(barrier.missing) + " of " + std::to_string(barrier.count) + " arrivals";
  if (barrier.bytes > 0) text += " and " + std::to_string(barrier.bytes) + " bytes";
  text += " are missing";
  if (barrier.bytes < 0) text += ", and " + std::to_string(-barrier.bytes) + " bytes came that it does not expect";
  return text;
}

namespace {

// Calls `visit` with each lane's block and the offset of its mbarrier there.
template <typename Visit>
void each_mbarrier(Warp& warp, const Instruction* i, Visit visit) {
  uint64_t addresses[WARP];
  gather_addresses(warp, i, i->a, i->smaller != 0, addresses);
  const uint32_t all = warp.active;
  each_of(all, [&](unsigned lane) {
    warp.active = 1u << lane;
    const uint64_t address = addresses[lane];
    if ((address & SPACE_MASK) != 0 && (address & SPACE_MASK) != SHARED_SPACE)
      fail("crash", "%s: an mbarrier that is not in shared memory (%s)", warp.where().c_str(), warp.machine().place(i).c_str());
    visit(lane, warp.machine().owner(warp, i, uint32_t(address)), uint32_t(address) & ((1u << RANK_SHIFT) - 1));
  });
  warp.active = all;
}

const Instruction* init(Warp& warp, const Instruction* i) {
  warp.require_known(i, i->b, "as a number of arrivals");
  const uint32_t* const counts = warp.reg<uint32_t>(i->b);
  each_mbarrier(warp, i, [&](unsigned lane, Block& owner, uint32_t offset) {
    warp.machine().mbarriers().init(warp, i, owner, offset, counts[lane]);
  });
  return i + 1;
}

const Instruction* invalidate(Warp& warp, const Instruction* i) {
  each_mbarrier(warp, i, [&](unsigned, Block& owner, uint32_t offset) { warp.machine().mbarriers().invalidate(warp, i, owner, offset); });
  return i + 1;
}

enum class Arrival : uint8_t { arrive, arrive_expecting, expect, complete };

// b: arrivals or bytes. d: the state, whose phase a wait may name.
const Instruction* arrive(Warp& warp, const Instruction* i) {
  Mbarriers& all = warp.machine().mbarriers();
  warp.require_known(i, i->b, "at an mbarrier");
  const uint32_t* const numbers = warp.reg<uint32_t>(i->b);
  uint64_t* const states = warp.reg<uint64_t>(i->d);
  each_mbarrier(warp, i, [&](unsigned lane, Block& owner, uint32_t offset) {
    Mbarrier& barrier = all.at(warp, i, owner, offset);
    const auto number = int64_t(int32_t(numbers[lane]));
    if (number < 0) fail("crash", "%s expects %lld bytes (%s)", warp.where().c_str(), static_cast<long long>(number), warp.machine().place(i).c_str());
    states[lane] = barrier.phase;
    switch (Arrival(i->small)) {
      case Arrival::arrive: all.arrive(warp, i, barrier, uint32_t(number)); break;
      case Arrival::arrive_expecting:
        all.expect(i, barrier, number);
        all.arrive(warp, i, barrier, 1);
        break;
      case Arrival::expect: all.expect(i, barrier, number); break;
      case Arrival::complete: all.expect(i, barrier, -number); break;
    }
  });
  warp.set_known(i->d, ALL_LANES);
  return i + 1;
}

// Whether a phase is complete, given by parity (`small`) or by a state. With TRIES, lanes that cannot go on wait.
template <bool TRIES>
const Instruction* test(Warp& warp, const Instruction* i) {
  Mbarriers& all = warp.machine().mbarriers();
  warp.require_known(i, i->b, "as a phase");
  uint32_t complete = 0;
  unsigned waits_for = 0;
  each_mbarrier(warp, i, [&](unsigned lane, Block& owner, uint32_t offset) {
    Mbarrier& barrier = all.at(warp, i, owner, offset);
    bool done;
    if (i->small != 0) {
      const uint32_t parity = warp.reg<uint32_t>(i->b)[lane];
      if (parity > 1)
        fail("crash", "%s waits for parity %u of %s (%s)", warp.where().c_str(), parity, all.place(barrier).c_str(), warp.machine().place(i).c_str());
      done = barrier.parity() != parity;
    } else {
      done = barrier.phase != uint32_t(warp.reg<uint64_t>(i->b)[lane]);
    }
    if (done) {
      complete |= 1u << lane;
      barrier.acquired = barrier.phase;
      if (Watch* const watch = warp.machine().watch()) watch->acquire_phases(warp, barrier);
    } else {
      waits_for = barrier.number;
    }
  });
  if (TRIES && complete == 0) return warp.wait(State::at_mbarrier, waits_for, i);
  warp.set_predicate(i->d, complete);
  warp.set_known(i->d, ALL_LANES);
  return i + 1;
}

void decode_arrival(Decoder& to, const Statement& from, Arrival kind) {
  const bool gives = kind == Arrival::arrive || kind == Arrival::arrive_expecting;
  const bool has_state = gives && to.at(0).kind != Operand::Kind::address;
  const unsigned first = has_state ? 1 : 0;
  if (from.has("noComplete")) to.refuse("it is not emulated");
  const Unit d = has_state ? to.destination(0) : NO_UNIT;
  const auto [base, bits, offset] = to.address(to.at(first));
  const Unit number = to.count() > first + 1 ? to.source(first + 1, Type::u32) : to.constant(1, 32);
  Instruction& i = to.emit(arrive);
  i.d = d, i.a = base, i.b = number, i.immediate = offset, i.smaller = bits == 64, i.small = uint8_t(kind);
}

}  // namespace

void decode_mbarrier(Decoder& to, const Statement& from) {
  const std::string_view what = from.words.empty() ? "" : from.words[0];
  if (what == "init" || what == "inval") {
    const auto [base, bits, offset] = to.address(to.at(0));
    const Unit count = what == "init" ? to.source(1, Type::u32) : NO_UNIT;
    Instruction& i = to.emit(what == "init" ? init : invalidate);
    i.a = base, i.b = count, i.immediate = offset, i.smaller = bits == 64;
  } else if (what == "arrive") {
    decode_arrival(to, from, from.has("expect_tx") ? Arrival::arrive_expecting : Arrival::arrive);
  } else if (what == "expect_tx") {
    decode_arrival(to, from, Arrival::expect);
  } else if (what == "complete_tx") {
    decode_arrival(to, from, Arrival::complete);
  } else if (what == "test_wait" || what == "try_wait") {
    const bool by_parity = from.has("parity");
    const Unit d = to.destination(0), phase = to.source(2, by_parity ? Type::u32 : Type::u64);
    const auto [base, bits, offset] = to.address(to.at(1));
    Instruction& i = to.emit(what == "try_wait" ? test<true> : test<false>);
    i.d = d, i.a = base, i.b = phase, i.immediate = offset, i.smaller = bits == 64, i.small = by_parity;
  } else {
    to.refuse("it is not emulated");
  }
}

}  // namespace gemmgen
