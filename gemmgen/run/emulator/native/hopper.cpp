// Clusters of blocks, dependent launches, and the decoders of sm_90's instructions.
#include "decoder.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "watch.hpp"

namespace gemmgen {

namespace {

const Instruction* fence_proxies(Warp& warp, const Instruction* i) {
  if (Watch* const watch = warp.machine().watch()) watch->fence_proxies(warp);
  return i + 1;
}

const Instruction* fence_inits(Warp& warp, const Instruction* i) {
  if (Watch* const watch = warp.machine().watch()) watch->fence_inits(warp);
  return i + 1;
}

const Instruction* wait_for_grid(Warp& warp, const Instruction* i) {
  if (Watch* const watch = warp.machine().watch()) watch->wait_for_grid(warp);
  return i + 1;
}

const Instruction* wait_at_cluster(Warp& warp, const Instruction* i);

const Instruction* arrive_at_cluster(Warp& warp, const Instruction* i) {
  if (i->smaller != 0 && !warp.converge(i, ALL_LANES)) return warp.wait(State::converging, 0, i);
  if (Watch* const watch = warp.machine().watch()) watch->arrive_at_cluster(warp, (i + 1)->run == wait_at_cluster);
  warp.machine().cluster_barrier().arrive(warp, i);
  return i + 1;
}

const Instruction* wait_at_cluster(Warp& warp, const Instruction* i) {
  if (i->smaller != 0 && !warp.converge(i, ALL_LANES)) return warp.wait(State::converging, 0, i);
  if (!warp.machine().cluster_barrier().pass(warp, i)) return warp.wait(State::at_cluster_barrier, 0, i);
  if (Watch* const watch = warp.machine().watch()) watch->wait_at_cluster(warp);
  return i + 1;
}

// mapa: the same place in another block's window.
template <typename T>
const Instruction* map_address(Warp& warp, const Instruction* i) {
  const T* const a = warp.reg<T>(i->a);
  const uint32_t* const ranks = warp.reg<uint32_t>(i->b);
  warp.require_known(i, i->b, "as the rank of a block");
  each_of(warp.active, [&](unsigned lane) {
    if (ranks[lane] >= warp.machine().ranks())
      fail("crash", "%s maps an address to shared memory of rank %u in a cluster of %u blocks (%s)", warp.where(1u << lane).c_str(), ranks[lane],
           warp.machine().ranks(), warp.machine().place(i).c_str());
  });
  each_lane<T>(warp, i->d, [=](unsigned lane) { return T((a[lane] & ~(T(0xFF) << RANK_SHIFT)) | T(ranks[lane] + 1) << RANK_SHIFT); });
  warp.settle(i, warp.known(i->a));
  return i + 1;
}

const Instruction* rank_of(Warp& warp, const Instruction* i) {
  const uint32_t own = warp.block().rank;
  const bool wide = i->small == 64;
  const uint32_t* const narrow = warp.reg<uint32_t>(i->a);
  const uint64_t* const whole = warp.reg<uint64_t>(i->a);
  each_lane<uint32_t>(warp, i->d, [=](unsigned lane) {
    const uint32_t window = (wide ? uint32_t(whole[lane]) : narrow[lane]) >> RANK_SHIFT;
    return window == 0 ? own : window - 1;
  });
  warp.settle(i, warp.known(i->a));
  return i + 1;
}

// isspacep: whether a generic address is in a space.
const Instruction* is_in_space(Warp& warp, const Instruction* i) {
  const uint64_t* const a = warp.reg<uint64_t>(i->a);
  const auto space = uint64_t(i->immediate);
  const uint32_t made = lanes_where([=](unsigned lane) { return (a[lane] & SPACE_MASK) == space; });
  warp.set_predicate(i->d, made);
  warp.settle(i, warp.known(i->a));
  return i + 1;
}

}  // namespace

void ClusterBarrier::start() {
  phase_ = arrived_ = 0;
  for (auto& of_rank : arrivals_) of_rank.fill(0);
}

void ClusterBarrier::arrive(Warp& warp, const Instruction* i) {
  each_of(warp.active, [&](unsigned lane) {
    uint32_t& arrival = arrivals_[warp.block().rank][warp.first_thread() + lane];
    if (arrival != 0)
      fail("crash", "%s arrives at the cluster's barrier once more, before it has waited there (%s)", warp.where(1u << lane).c_str(),
           warp.machine().place(i).c_str());
    arrival = phase_ + 1;
    ++arrived_;
  });
  settle(warp.machine());
}

bool ClusterBarrier::pass(Warp& warp, const Instruction* i) {
  auto& arrivals = arrivals_[warp.block().rank];
  bool complete = true;
  each_of(warp.active, [&](unsigned lane) {
    const uint32_t arrival = arrivals[warp.first_thread() + lane];
    if (arrival == 0)
      fail("crash", "%s waits at the cluster's barrier, where it has not arrived (%s)", warp.where(1u << lane).c_str(),
           warp.machine().place(i).c_str());
    complete &= phase_ >= arrival;
  });
  if (complete) each_of(warp.active, [&](unsigned lane) { arrivals[warp.first_thread() + lane] = 0; });
  return complete;
}

void ClusterBarrier::threads_exit(Warp& warp, uint32_t lanes) {
  each_of(lanes, [&](unsigned lane) {
    if (arrivals_[warp.block().rank][warp.first_thread() + lane] == phase_ + 1) --arrived_;
  });
  settle(warp.machine());
}

void ClusterBarrier::settle(Machine& machine) {
  unsigned alive = 0;
  for (unsigned rank = 0; rank < machine.ranks(); ++rank) alive += machine.block(rank).alive;
  if (arrived_ == 0 || arrived_ < alive) return;
  arrived_ = 0;
  ++phase_;
  if (Watch* const watch = machine.watch()) watch->complete_cluster_phase(alive);
  machine.wake(State::at_cluster_barrier, 0);
}

void decode_cluster_barrier(Decoder& to, const Statement& from) {
  Instruction& i = to.emit(from.has("arrive") ? arrive_at_cluster : wait_at_cluster);
  i.smaller = from.has("aligned");
}

void decode_proxy_fence(Decoder& to, const Statement& from) {
  to.emit(from.has("mbarrier_init") ? fence_inits : from.has("proxy::async") || from.has("async") ? fence_proxies : nothing);
}

void add_hopper(Decoders& all) {
  all["mbarrier"] = decode_mbarrier;
  all["wgmma"] = decode_wgmma;
  all["setmaxnreg"] = decode_registers;
  all["griddepcontrol"] = [](Decoder& to, const Statement& from) { to.emit(from.has("wait") ? wait_for_grid : nothing); };
  all["mapa"] = [](Decoder& to, const Statement& from) {
    const bool wide = bits_of(from.type()) == 64;
    const Unit d = to.destination(0), a = to.source(1, from.type()), b = to.source(2, Type::u32);
    Instruction& i = to.emit(wide ? map_address<uint64_t> : map_address<uint32_t>);
    i.d = d, i.a = a, i.b = b;
  };
  all["getctarank"] = [](Decoder& to, const Statement& from) {
    const Unit d = to.destination(0), a = to.source(1, from.type());
    Instruction& i = to.emit(rank_of);
    i.d = d, i.a = a, i.small = uint8_t(bits_of(from.type()));
  };
  all["isspacep"] = [](Decoder& to, const Statement& from) {
    const Unit d = to.destination(0), a = to.source(1, Type::u64);
    Instruction& i = to.emit(is_in_space);
    i.d = d, i.a = a;
    i.immediate = int64_t(from.has("local") ? LOCAL_SPACE : from.has("global") || from.has("const") ? 0 : from.has("param") ? PARAMETER_SPACE : SHARED_SPACE);
  };
}

}  // namespace gemmgen
