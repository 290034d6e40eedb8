// Collective operations of a warp's lanes: shuffles, votes, matches, reductions.
#include <algorithm>

#include "decoder.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "watch.hpp"

namespace gemmgen {

namespace {

enum class Shuffle : uint8_t { up, down, butterfly, index };

// Takes the mask of an instruction's lanes; whether all of them are here. If not, `next` is where they wait.
bool gather(Warp& warp, const Instruction* i, Unit unit, const Instruction*& next) {
  warp.require_known(i, unit, "as a mask of lanes");
  const uint32_t mask = warp.reg<uint32_t>(unit)[first_of(warp.active)];
  warp.keep_alike(i, unit);
  require_in_mask(warp, i, mask);
  if (warp.converge(i, mask)) {
    if (Watch* const watch = warp.machine().watch()) watch->meet(warp);
    return true;
  }
  next = warp.wait(State::converging, 0, i);
  return false;
}

const Instruction* shuffle(Warp& warp, const Instruction* i) {
  const Instruction* next = nullptr;
  const Unit mask = i->detail->units[0], in_range = i->detail->units[1];
  if (!gather(warp, i, mask, next)) return next;
  warp.require_known(i, i->b, "as a lane");
  const uint32_t *const a = warp.reg<uint32_t>(i->a), *const b = warp.reg<uint32_t>(i->b), *const c = warp.reg<uint32_t>(i->c);
  uint32_t received[WARP], inside = 0, known = 0;
  each_of(warp.active, [&](unsigned lane) {
    const uint32_t segment = c[lane] >> 8 & 31, clamp = c[lane] & 31, by = b[lane] & 31;
    const uint32_t last = (lane & segment) | (clamp & ~segment), first = lane & segment;
    uint32_t source = 0;
    bool valid = false;
    switch (Shuffle(i->small)) {
      case Shuffle::up: source = lane - by, valid = int32_t(source) >= int32_t(last); break;
      case Shuffle::down: source = lane + by, valid = source <= last; break;
      case Shuffle::butterfly: source = lane ^ by, valid = source <= last; break;
      case Shuffle::index: source = first | (by & ~segment), valid = source <= last; break;
    }
    if (!valid) source = lane;
    inside |= uint32_t(valid) << lane;
    received[lane] = a[source];
    known |= (warp.known(i->a) & warp.active) >> source % WARP & 1 ? 1u << lane : 0;  // of a lane that is not here nothing is
  });
  each_lane<uint32_t>(warp, i->d, [&](unsigned lane) { return received[lane]; });
  warp.settle(i, known);
  if (in_range != NO_UNIT) {
    warp.set_predicate(in_range, inside);
    warp.set_known(in_range, ALL_LANES);
  }
  return i + 1;
}

void decode_shuffle(Decoder& to, const Statement& from) {
  const Operand& first = to.at(0);
  const bool two = first.kind == Operand::Kind::pair;
  const Unit d = to.destination(two ? first.parts[0] : first), in_range = two ? to.destination(first.parts[1]) : NO_UNIT;
  const Unit a = to.source(1, Type::b32), b = to.source(2, Type::b32), c = to.source(3, Type::b32);
  const Unit mask = to.count() > 4 ? to.source(4, Type::b32) : to.constant(ALL_LANES, 32);
  Instruction& i = to.emit(shuffle);
  i.d = d, i.a = a, i.b = b, i.c = c;
  i.small = uint8_t(from.has("up") ? Shuffle::up : from.has("down") ? Shuffle::down : from.has("bfly") ? Shuffle::butterfly : Shuffle::index);
  to.detail(i).units = {mask, in_range};
}

enum class Vote : uint8_t { all, any, uniform, ballot };

const Instruction* vote(Warp& warp, const Instruction* i) {
  const Instruction* next = nullptr;
  if (!gather(warp, i, i->b, next)) return next;
  warp.require_known(i, i->a, "as a vote");
  const uint32_t yes = (i->smaller != 0 ? ~warp.predicate(i->a) : warp.predicate(i->a)) & warp.active;
  if (Vote(i->small) == Vote::ballot) {
    each_lane<uint32_t>(warp, i->d, [=](unsigned) { return yes; });
  } else {
    const bool all = yes == warp.active, any = yes != 0;
    const bool made = Vote(i->small) == Vote::all ? all : Vote(i->small) == Vote::any ? any : all || !any;
    warp.set_predicate(i->d, made ? ALL_LANES : 0);
  }
  warp.settle(i, ALL_LANES);
  return i + 1;
}

void decode_vote(Decoder& to, const Statement& from) {
  const Unit d = to.destination(0), a = to.source(1, Type::pred), mask = to.count() > 2 ? to.source(2, Type::b32) : to.constant(ALL_LANES, 32);
  Instruction& i = to.emit(vote);
  i.d = d, i.a = a, i.b = mask;
  i.small = uint8_t(from.has("ballot") ? Vote::ballot : from.has("all") ? Vote::all : from.has("any") ? Vote::any : Vote::uniform);
  i.smaller = to.at(1).negated;
}

// activemask: the lanes that are here at the moment.
const Instruction* active_mask(Warp& warp, const Instruction* i) {
  const uint32_t here = warp.active;
  each_lane<uint32_t>(warp, i->d, [=](unsigned) { return here; });
  warp.settle(i, ALL_LANES);
  return i + 1;
}

template <typename T>
const Instruction* match(Warp& warp, const Instruction* i) {
  const Instruction* next = nullptr;
  if (!gather(warp, i, i->b, next)) return next;
  warp.require_known(i, i->a, "to be matched");
  const T* const a = warp.reg<T>(i->a);
  uint32_t same[WARP] = {};
  bool all = true;
  each_of(warp.active, [&](unsigned lane) {
    each_of(warp.active, [&](unsigned other) { same[lane] |= uint32_t(a[lane] == a[other]) << other; });
    all &= same[lane] == warp.active;
  });
  const bool of_all = i->small != 0;
  const uint32_t here = warp.active;
  each_lane<uint32_t>(warp, i->d, [&](unsigned lane) { return of_all ? (all ? here : 0) : same[lane]; });
  warp.settle(i, ALL_LANES);
  if (i->c != NO_UNIT) {
    warp.set_predicate(i->c, all ? ALL_LANES : 0);
    warp.set_known(i->c, ALL_LANES);
  }
  return i + 1;
}

void decode_match(Decoder& to, const Statement& from) {
  const Operand& first = to.at(0);
  const bool two = first.kind == Operand::Kind::pair;
  const Unit d = to.destination(two ? first.parts[0] : first), p = two ? to.destination(first.parts[1]) : NO_UNIT;
  const Unit a = to.source(1, from.type()), mask = to.source(2, Type::b32);
  Instruction& i = to.emit(bits_of(from.type()) == 64 ? match<uint64_t> : match<uint32_t>);
  i.d = d, i.a = a, i.b = mask, i.c = p, i.small = from.has("all");
}

enum class Redux : uint8_t { add, least, greatest, conjunction, disjunction, difference };

template <typename T>
const Instruction* reduce(Warp& warp, const Instruction* i) {
  const Instruction* next = nullptr;
  if (!gather(warp, i, i->b, next)) return next;
  const T* const a = warp.reg<T>(i->a);
  T made = a[first_of(warp.active)];
  each_of(warp.active & (warp.active - 1), [&](unsigned lane) {
    switch (Redux(i->small)) {
      case Redux::add: made = T(uint32_t(made) + uint32_t(a[lane])); break;
      case Redux::least: made = std::min(made, a[lane]); break;
      case Redux::greatest: made = std::max(made, a[lane]); break;
      case Redux::conjunction: made &= a[lane]; break;
      case Redux::disjunction: made |= a[lane]; break;
      case Redux::difference: made ^= a[lane]; break;
    }
  });
  const bool known = (warp.active & ~warp.known(i->a)) == 0;
  each_lane<T>(warp, i->d, [=](unsigned) { return made; });
  warp.settle(i, known ? ALL_LANES : 0);
  return i + 1;
}

void decode_reduce(Decoder& to, const Statement& from) {
  if (is_floating(from.type())) to.refuse("it is not emulated");
  const Unit d = to.destination(0), a = to.source(1, Type::b32), mask = to.source(2, Type::b32);
  Instruction& i = to.emit(is_signed(from.type()) ? reduce<int32_t> : reduce<uint32_t>);
  i.d = d, i.a = a, i.b = mask;
  i.small = uint8_t(from.has("add") ? Redux::add : from.has("min") ? Redux::least : from.has("max") ? Redux::greatest
                    : from.has("and") ? Redux::conjunction : from.has("or") ? Redux::disjunction : Redux::difference);
}

// elect.sync: one lane of the mask, the same one each time; the seed chooses it.
const Instruction* elect(Warp& warp, const Instruction* i) {
  const Instruction* next = nullptr;
  if (!gather(warp, i, i->b, next)) return next;
  unsigned skip = unsigned(Random{warp.machine().launch().seed}.next() % unsigned(std::popcount(warp.active)));
  if (warp.machine().launch().seed == 0) skip = 0;
  uint32_t left = warp.active;
  for (; skip > 0; --skip) left &= left - 1;
  const unsigned elected = first_of(left);
  if (i->d != NO_UNIT) {
    each_lane<uint32_t>(warp, i->d, [=](unsigned) { return elected; });
    warp.settle(i, ALL_LANES);
  }
  warp.set_predicate(i->c, 1u << elected);
  warp.set_known(i->c, ALL_LANES);
  return i + 1;
}

void decode_elect(Decoder& to, const Statement&) {
  const Operand& first = to.at(0);
  if (first.kind != Operand::Kind::pair) to.refuse("it gives a lane and a predicate");
  const Unit d = to.destination(first.parts[0]), p = to.destination(first.parts[1]), mask = to.source(1, Type::b32);
  Instruction& i = to.emit(elect);
  i.d = d, i.c = p, i.b = mask;
}

}  // namespace

void add_collectives(Decoders& all) {
  all["shfl"] = decode_shuffle;
  all["vote"] = decode_vote;
  all["match"] = decode_match;
  all["redux"] = decode_reduce;
  all["elect"] = decode_elect;
  all["activemask"] = [](Decoder& to, const Statement&) {
    const Unit d = to.destination(0);
    to.emit(active_mask).d = d;
  };
}

}  // namespace gemmgen
