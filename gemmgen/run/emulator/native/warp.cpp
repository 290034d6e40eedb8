#include "warp.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "coverage.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"

namespace gemmgen {

namespace {

constexpr std::size_t UNIT_BYTES = 128;
constexpr unsigned TURN = 256;   // back edges that a warp may take in a turn, at most
constexpr unsigned HOLD = 64;    // labels at which a split that others made wait is kept
constexpr unsigned SELDOM = 8;   // one of so many choices is not the usual one, where a seed says so

template <typename T>
void broadcast(T* to, uint64_t value) {
  std::fill_n(to, WARP, T(value));
}

}  // namespace

void Warp::Free::operator()(unsigned char* file) const { std::free(file); }

Warp::Warp(Machine& machine, Block& block, const Kernel& kernel, unsigned number)
    : machine_(machine), block_(block), number_(number), known_(kernel.units) {
  const std::size_t bytes = (kernel.units + 2) * UNIT_BYTES;
  file_.reset(static_cast<unsigned char*>(std::aligned_alloc(UNIT_BYTES, bytes)));
  if (file_ == nullptr) throw std::bad_alloc();
  std::memset(file_.get(), 0, bytes);
  for (const Constant& constant : kernel.constants) {
    const uint64_t value = constant.value + (constant.dynamic ? machine.dynamic_start() : 0);
    switch (constant.bits) {
      case 1: predicate(constant.unit) = uint32_t(value); break;
      case 16: broadcast(reg<uint16_t>(constant.unit), value); break;
      case 32: broadcast(reg<uint32_t>(constant.unit), value); break;
      default: broadcast(reg<uint64_t>(constant.unit), value);
    }
  }
}

void Warp::start(const Kernel& kernel) {
  std::fill(known_.begin(), known_.end(), 0u);
  for (const Constant& constant : kernel.constants) known_[constant.unit] = ALL_LANES;
  for (const SpecialUnit& special : kernel.specials) fill(special);
  poisons_.clear();
  flights_.clear();
  flying_copies_.clear();
  const unsigned threads = machine_.launch().threads, here = std::min(WARP, threads - first_thread());
  alive_ = here == WARP ? ALL_LANES : (1u << here) - 1;
  splits_.clear();
  splits_.push_back({alive_, kernel.code.data()});
  lanes_ = alive_;
  hold_ = 0;
  copies_.start();
}

void Warp::fill(const SpecialUnit& special) {
  known_[special.unit] = ALL_LANES;
  const Launch& launch = machine_.launch();
  const unsigned ranks = machine_.ranks();
  const auto of = [&](unsigned lane) -> uint64_t {
    switch (special.which) {
      case Special::tid_x: return first_thread() + lane;
      case Special::ntid_x: return launch.threads;
      case Special::ctaid_x: return block_.index;
      case Special::nctaid_x: return launch.grid;
      case Special::laneid: return lane;
      case Special::nwarpid: return 64;
      case Special::nsmid: return 132;
      case Special::lanemask_eq: return uint64_t(1) << lane;
      case Special::lanemask_lt: return (uint64_t(1) << lane) - 1;
      case Special::lanemask_le: return (uint64_t(2) << lane) - 1;
      case Special::lanemask_ge: return ALL_LANES & ~((uint64_t(1) << lane) - 1);
      case Special::lanemask_gt: return ALL_LANES & ~((uint64_t(2) << lane) - 1);
      case Special::cluster_ctaid_x:
      case Special::cluster_ctarank: return block_.rank;
      case Special::cluster_nctaid_x:
      case Special::cluster_nctarank: return ranks;
      case Special::clusterid_x: return block_.index / ranks;
      case Special::nclusterid_x: return launch.grid / ranks;
      case Special::is_explicit_cluster: return ranks > 1;
      case Special::dynamic_smem_size: return launch.shared_bytes;
      case Special::ntid_y: case Special::ntid_z: case Special::nctaid_y: case Special::nctaid_z:
      case Special::cluster_nctaid_y: case Special::cluster_nctaid_z: case Special::nclusterid_y: case Special::nclusterid_z:
        return 1;
      default: return 0;
    }
  };
  for (unsigned lane = 0; lane < WARP; ++lane) {
    if (special.bits == 64) reg<uint64_t>(special.unit)[lane] = of(lane);
    else if (special.bits == 16) reg<uint16_t>(special.unit)[lane] = uint16_t(of(lane));
    else reg<uint32_t>(special.unit)[lane] = uint32_t(of(lane));
  }
}

bool Warp::run() {
  if (alive_ == 0) return false;
  Random& random = machine_.random();
  patience_ = machine_.launch().seed == 0 ? TURN : 1 + random.below(TURN);
  const bool held = hold_ > 0 && splits_[current_].state == State::ready;
  const Instruction* i = held ? resume(current_) : pick(false);
  if (i == nullptr) return false;
  while (i != nullptr) {
    active = lanes_;
    if (i->guard != NO_UNIT) {
      require_known(i, i->guard, "as a condition");
      active &= i->guard_negated ? ~predicate(i->guard) : predicate(i->guard);
      if (active == 0) {
        note_skipped(*this, i);
        ++i;
        continue;
      }
    }
    i = i->run(*this, i);
  }
  return true;
}

void Warp::wake(State state, uint32_t number) {
  for (Split& split : splits_)
    if (split.state == state && split.number == number) {
      split.state = State::ready;
      split.passed = split.asks;
    }
}

const Instruction* Warp::diverge(const Instruction* next, const Instruction* target) {
  Split taken;
  taken.lanes = active;
  taken.at = target;
  splits_.push_back(taken);
  lanes_ &= ~active;
  splits_[current_].lanes = lanes_;
  return reselect(next);
}

const Instruction* Warp::reselect(const Instruction* at) {
  save(at);
  if (splits_.size() > 1) merge();
  if (hold_ > 0 && splits_[current_].state == State::ready) {
    --hold_;
    return resume(current_);
  }
  return pick(false);
}

// Takes a back edge.
const Instruction* Warp::loop(const Instruction* target) {
  if (patience_-- != 0) return target;
  save(target);
  machine_.poll(*this, target);
  if (splits_.size() > 1) {
    merge();
    pick(true);
    hold_ = HOLD;
  }
  return nullptr;
}

const Instruction* Warp::exit(const Instruction* i) {
  copies_.wait_all(active);
  alive_ &= ~active;
  lanes_ &= ~active;
  for (Split& split : splits_)
    if (split.state == State::converging) split.state = State::ready;  // it may have waited for these lanes
  machine_.threads_exit(*this);
  const unsigned count = unsigned(std::popcount(active));
  const Instruction* next = nullptr;
  if (lanes_ != 0) {
    splits_[current_].lanes = lanes_;
    next = i + 1;
  } else {
    splits_.erase(splits_.begin() + std::ptrdiff_t(current_));
    current_ = 0;
  }
  block_.threads_exit(count);
  machine_.cluster_barrier().threads_exit(*this, active);
  return lanes_ != 0 ? next : pick(false);
}

void Warp::keep_alike(const Instruction* i, Unit mask) {
  const uint32_t* const masks = reg<uint32_t>(mask);
  const uint32_t first = masks[first_of(active)];
  uint32_t others = 0;
  each_of(active, [&](unsigned lane) { others |= uint32_t(masks[lane] != first) << lane; });
  if (others == 0) return;
  Split apart;
  apart.lanes = others;
  apart.at = i;
  splits_.push_back(apart);
  active &= ~others;
  lanes_ &= ~others;
  splits_[current_].lanes = lanes_;
}

bool Warp::converge(const Instruction* i, uint32_t needed) {
  if (active != lanes_) {  // of those that a guard leaves out this instruction asks nothing
    Split others;
    others.lanes = lanes_ & ~active;
    others.at = i + 1;
    splits_.push_back(others);
    lanes_ = active;
    splits_[current_].lanes = lanes_;
  }
  needed &= alive_;
  if ((needed & ~lanes_) == 0) return true;
  for (std::size_t other = splits_.size(); other-- > 0;) {
    if (other == current_ || splits_[other].at != i || splits_[other].state != State::converging || (splits_[other].lanes & ~needed) != 0) continue;
    lanes_ |= splits_[other].lanes;
    splits_.erase(splits_.begin() + std::ptrdiff_t(other));
    if (other < current_) --current_;
  }
  splits_[current_].lanes = active = lanes_;
  return (needed & ~lanes_) == 0;
}

const Instruction* Warp::wait(State state, uint32_t number, const Instruction* resume, bool asks) {
  save(resume);
  splits_[current_].state = state;
  splits_[current_].number = number;
  splits_[current_].asks = asks;
  splits_[current_].passed = false;
  hold_ = 0;
  return pick(false);
}

bool Warp::passed() { return std::exchange(splits_[current_].passed, false); }

void Warp::save(const Instruction* at) {
  splits_[current_].at = at;
  splits_[current_].lanes = lanes_;
}

const Instruction* Warp::resume(std::size_t split) {
  current_ = split;
  lanes_ = splits_[split].lanes;
  return splits_[split].at;
}

// Merges splits that are ready at the same place.
void Warp::merge() {
  for (std::size_t one = 0; one < splits_.size(); ++one)
    for (std::size_t other = splits_.size(); --other > one;) {
      Split &a = splits_[one], &b = splits_[other];
      if (a.at != b.at || a.state != State::ready || b.state != State::ready || a.passed || b.passed) continue;
      a.lanes |= b.lanes;
      splits_.erase(splits_.begin() + std::ptrdiff_t(other));
      if (current_ == other) current_ = one;
      else if (current_ > other) --current_;
    }
  lanes_ = splits_[current_].lanes;
}

// Picks the split that runs next, and its place; null if none is ready.
const Instruction* Warp::pick(bool another) {
  if (splits_.size() == 1) return splits_[0].state == State::ready ? resume(0) : nullptr;
  std::size_t ready = 0, least = splits_.size();
  for (std::size_t one = 0; one < splits_.size(); ++one) {
    if (splits_[one].state != State::ready || (another && one == current_)) continue;
    ++ready;
    if (least == splits_.size() || splits_[one].at < splits_[least].at) least = one;
  }
  if (ready == 0) return another && splits_[current_].state == State::ready ? resume(current_) : nullptr;
  Random& random = machine_.random();
  if (ready > 1 && (another || (machine_.launch().seed != 0 && random.below(SELDOM) == 0))) {
    std::size_t chosen = random.below(uint32_t(ready));
    for (std::size_t one = 0; one < splits_.size(); ++one) {
      if (splits_[one].state != State::ready || (another && one == current_)) continue;
      if (chosen-- == 0) return resume(one);
    }
  }
  return resume(least);
}

void Warp::poison(Unit unit, uint32_t lanes, Poison why) {
  known_[unit] &= ~lanes;
  poisons_[unit] = std::move(why);
}

void Warp::pass_poison(Unit from, Unit to) {
  if (const auto found = poisons_.find(from); found != poisons_.end()) poisons_[to] = Poison(found->second);
}

const Poison* Warp::poison_of(Unit unit) const {
  const auto found = poisons_.find(unit);
  return found == poisons_.end() ? nullptr : &found->second;
}

void Warp::start_flight(Unit unit, const Instruction* by) {
  const auto [found, is_new] = flights_.try_emplace(unit, Flight{by, by, waits_});
  if (known_[unit] != 0) found->second.first = by;
  found->second.by = by, found->second.waits = waits_;
  known_[unit] = 0;
  flying_copies_.erase(unit);
}

void Warp::end_flight(const Instruction* i, Unit unit) {
  const auto found = flights_.find(unit);
  if (found == flights_.end()) return;
  if (known_[unit] != 0)
    fail("race", "%s writes registers in flight: those of the wgmma at %s, not waited for before %s", where(known_[unit]).c_str(),
         machine_.place(found->second.by).c_str(), machine_.place(i).c_str());
  flights_.erase(found);
  known_[unit] = ALL_LANES;
}

Unit Warp::origin(Unit unit) const {
  const auto found = flying_copies_.find(unit);
  return found == flying_copies_.end() || found->second.lanes != ALL_LANES ? unit : found->second.of;
}

void Warp::end_copies() {
  std::erase_if(flying_copies_, [this](const auto& copy) {
    const auto& [to, made] = copy;
    if (flights_.contains(made.of)) return false;
    flights_.erase(to);
    const uint32_t lanes = made.lanes & ~known_[to];  // the others have been written since
    each_of(lanes, [this, to, from = made.of](unsigned lane) { reg<uint32_t>(to)[lane] = reg<uint32_t>(from)[lane]; });
    known_[to] |= lanes & known_[made.of];
    return true;
  });
}

void Warp::inherit(const Instruction* i) {
  const auto is_flying = [this](Unit unit) {
    return unit != NO_UNIT && (active & ~known_[unit]) != 0 ? flights_.find(unit) : flights_.end();
  };
  if (!flights_.empty() && is_copy(i))
    if (const auto found = is_flying(i->a); found != flights_.end()) {
      const Flight flight = found->second;
      require_free(i, flight);
      const auto copied = flying_copies_.find(i->a);  // by the active lanes at least, as they have no value there
      const Unit of = copied == flying_copies_.end() ? i->a : copied->second.of;
      const auto before = flying_copies_.find(i->d);
      const uint32_t lanes = before != flying_copies_.end() && before->second.of == of ? before->second.lanes : 0;
      flying_copies_[i->d] = {of, lanes | active};
      flights_[i->d] = flight;
      return;
    }
  if (!flights_.empty())
    for (const Unit unit : {i->a, i->b, i->c})
      if (const auto found = is_flying(unit); found != flights_.end())
        fail("race", "%s reads registers in flight: those of the wgmma at %s, not waited for yet (%s)", where().c_str(),
             machine_.place(found->second.by).c_str(), machine_.place(i).c_str());
  for (const Unit unit : {i->a, i->b, i->c})
    if ((active & ~known_[unit]) != 0 && unit != NO_UNIT)
      if (const auto found = poisons_.find(unit); found != poisons_.end()) {
        const Poison why = found->second;
        poisons_[i->d] = why;
        return;
      }
  poisons_.erase(i->d);
}

void Warp::require_free(const Instruction* copy, const Flight& flight) {
  if (flight.waits == waits_) return;
  for (const Instruction* const product : {flight.first, flight.by}) {
    const std::vector<Unit>& sums = product->detail->units;
    if (std::find(sums.begin(), sums.end(), copy->d) != sums.end()) continue;
    if (const Instruction* const reader = machine_.program().liveness().reader(machine_.kernel(), product, copy->d))
      fail("race",
           "%s copies registers in flight, those of the wgmma at %s, to a register that still holds a value, read after that wgmma at %s: "
           "they cannot share a machine register, so the copy reads sums that are not waited for yet (%s)",
           where().c_str(), machine_.place(product).c_str(), machine_.place(reader).c_str(), machine_.place(copy).c_str());
  }
}

void Warp::refuse_in_flight(const Instruction* i, Unit unit) const {
  if (const auto flight = flights_.find(unit); flight != flights_.end() && (active & ~known_[unit]) != 0)
    fail("race", "%s reads registers in flight: those of the wgmma at %s, not waited for yet (%s)", where(active & ~known_[unit]).c_str(),
         machine_.place(flight->second.by).c_str(), machine_.place(i).c_str());
}

void Warp::refuse_unknown(const Instruction* i, Unit unit, const char* use) {
  const uint32_t lanes = active & ~known_[unit];
  refuse_in_flight(i, unit);
  const auto found = poisons_.find(unit);
  if (found != poisons_.end()) {
    const bool stores = std::strcmp(use, "as what it stores") == 0;  // a race with a write to come would say more
    if (!stores || !machine_.tells_later(found->second)) fail(found->second.kind, "%s", found->second.text.c_str());
    known_[unit] |= lanes;
    return;
  }
  fail("crash", "%s uses a value that nobody has given %s (%s)", where(lanes).c_str(), use, machine_.place(i).c_str());
}

std::string Warp::where(uint32_t lanes) const {
  return machine_.where(block_, first_thread() + (lanes == 0 ? 0 : first_of(lanes)));
}

const Instruction* label(Warp& warp, const Instruction* i) { return warp.alone() ? i + 1 : warp.reselect(i + 1); }

const Instruction* exit_lanes(Warp& warp, const Instruction* i) { return warp.exit(i); }

}  // namespace gemmgen
