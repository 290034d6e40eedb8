#include "watch.hpp"

#include <algorithm>
#include <iterator>

#include "failure.hpp"
#include "machine.hpp"
#include "mbarriers.hpp"
#include "tma.hpp"
#include "warpgroup_product.hpp"

namespace gemmgen {

void ProxyFences::fence(unsigned thread) {
  const Trace at = {clocks_.time(), 0, uint16_t(thread), Deed::read};
  Clock past;
  clocks_.release_quietly(thread, past);
  if (!fences_.empty() && fences_.back().at.agent == thread && fences_.back().at.time >= clocks_.since(thread / WARP)) fences_.pop_back();
  fences_.push_back({at, std::move(past)});
}

Clock ProxyFences::covered(unsigned thread) const {
  Clock all = told_;
  for (const Fence& fence : fences_)
    if (clocks_.before(fence.at, thread)) join(all, fence.past);
  return all;
}

void ProxyFences::pass_barrier_of_all() {
  for (const Fence& fence : fences_) join(told_, fence.past);
  fences_.clear();
}

Watch::Watch(Machine& machine)
    : machine_(machine), warps_((machine.launch().threads + WARP - 1) / WARP), clocks_(machine.ranks(), warps_), shared_(machine, clocks_),
      global_(machine, clocks_), barriers_(machine.ranks()), copy_groups_(machine.ranks() * warps_ * WARP),
      groups_(machine.ranks() * (warps_ / 4 + 1)), reads_from_outside_(machine.ranks()), waited_for_grid_(machine.ranks() * warps_ * WARP) {}

void Watch::start_cluster() {
  clocks_.start_cluster();
  shared_.start_cluster();
  global_.start_cluster();
  fences_.start();
  init_fences_.start();
  mbarriers_.clear();
  for (auto& of_rank : barriers_)
    for (OfBarrier& barrier : of_rank) barrier = {std::vector<uint32_t>(warps_), false, {}};
  for (auto& groups : copy_groups_) groups.clear();
  stores_.clear();
  for (OfGroup& group : groups_) group = {};
  for (FromOutside& reads : reads_from_outside_) reads.clear();
  cluster_released_ = {};
  cluster_complete_ = nullptr;
  cluster_waits_.clear();
  grid_waits_.clear();
  waited_for_grid_.assign(waited_for_grid_.size(), false);
  has_untold_ = false;
}

unsigned Watch::warp_of(Warp& warp) const { return warp.block().rank * warps_ + warp.number(); }
uint32_t Watch::at(const Instruction* i) const { return uint32_t(i - machine_.kernel().code.data()); }
unsigned Watch::number_of(const Mbarrier& barrier) { return barrier.number; }
uint32_t Watch::operation_of(const Box& box) { return box.operation; }

bool Watch::tells_later(const Poison& why) {
  if (std::string_view(why.kind) != "crash") return false;
  if (!has_untold_) untold_ = why;
  return has_untold_ = true;
}

void Watch::tell() {
  if (has_untold_) fail(untold_.kind, "%s", untold_.text.c_str());
}

uint32_t Watch::access_shared(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], Block& owner) {
  if (&owner != &warp.block())
    each_thread(warp, [&](unsigned thread) { reads_from_outside_[owner.rank].note(now(thread, access.at, Deed::read)); });
  switch (access.use) {
    case Use::write: shared_.write(warp, access, addresses, owner, Deed::write); return 0;
    case Use::strong_write: case Use::atomic: shared_.write(warp, access, addresses, owner, Deed::atomic); return 0;
    case Use::copy: shared_.write(warp, access, addresses, owner, Deed::copy); return 0;
    default: break;
  }
  Poison why;
  const uint32_t poisoned = shared_.read(warp, access, addresses, owner, why);
  if (poisoned != 0) machine_.set_why_poisoned(std::move(why));
  return poisoned;
}

void Watch::spoil(Warp& warp, const Instruction* i, const uint64_t (&addresses)[WARP], unsigned from, unsigned bytes, uint32_t lanes, Unit unit) {
  Block& owner = machine_.owner(warp, i, uint32_t(addresses[first_of(lanes)]));
  if (const Poison* const why = warp.poison_of(unit)) return shared_.spoil(warp, addresses, owner, from, bytes, lanes, *why);
  const Poison why = {"crash", warp.where(lanes) + " stores a value that nobody has given to " +
                                   describe_address(warp, Space::shared, addresses[first_of(lanes)]) + " (" + machine_.place(i) + ")"};
  shared_.spoil(warp, addresses, owner, from, bytes, lanes, why);
}

void Watch::access_global(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], const Allocation* whole) {
  const bool dependent = machine_.launch().dependent;
  if (whole != nullptr && !whole->written && !dependent) return;
  const uint8_t how = access.at->immediate_use;
  const bool wide = (how & WIDE) != 0 && ((how & OF_CLUSTER) == 0 || machine_.ranks() > 1);
  const bool ordered = access.use == Use::atomic || access.use == Use::strong_read || access.use == Use::strong_write;
  Deed deed = Deed::read;
  switch (access.use) {
    case Use::write: deed = Deed::write; break;
    case Use::atomic: case Use::strong_write: deed = wide ? Deed::atomic : Deed::block_atomic; break;
    case Use::strong_read: deed = wide ? Deed::strong_read : Deed::block_read; break;
    default: break;
  }
  const uint32_t instruction = at(access.at);
  const uint32_t time = clocks_.tick();
  each_of(warp.active, [&](unsigned lane) {
    const uint64_t address = addresses[lane];
    const Allocation* const operand = whole != nullptr ? whole : machine_.launch().allocations.find(address);
    if (operand == nullptr) return;
    const unsigned thread = thread_of(warp, lane);
    const Doer doer = {thread, {ordered ? clocks_.time() : time, instruction, uint16_t(thread), deed}};
    if (dependent && !operand->is_variable && !waited_for_grid(thread)) refuse_early(*operand, address, doer);
    if (!operand->written || &operand->at(address) != &operand->region) return;
    if (!ordered) {
      if (access.use == Use::read_only) global_.read_only(*operand, address, access.bytes, doer);
      return global_.access(*operand, address, access.bytes, doer);
    }
    if (wide && (how & RELEASES) != 0) global_.fence(thread);
    const Doer after = {thread, {clocks_.time(), instruction, uint16_t(thread), deed}};
    if (access.use == Use::strong_read) global_.strong_read(*operand, address, access.bytes, after);
    else if (access.use == Use::strong_write) global_.atomic(*operand, address, access.bytes, after, true, false);
    else if ((how & REDUCES) != 0) global_.access(*operand, address, access.bytes, after), clocks_.tick();
    else global_.atomic(*operand, address, access.bytes, after, (how & COUNTS) != 0, (how & FINDS) != 0);
    if (wide && (how & ACQUIRES) != 0) global_.fence(thread);
  });
}

// An access by an agent of TMA.
void Watch::access_by(const Allocation& operand, uint64_t address, uint64_t bytes, const Doer& doer) {
  if (machine_.launch().dependent && !operand.is_variable && !waited_for_grid(doer.thread)) refuse_early(operand, address, doer);
  if (operand.written) global_.access(operand, address, bytes, doer);
}

void Watch::refuse_early(const Allocation& operand, uint64_t address, const Doer& doer) {
  fail("race", "%s%s%s before it has waited for the kernel ahead on the stream, which may still write or read it: no grid_dependency_wait (%s)",
       shared_.where(doer.thread).c_str(), verb(doer.trace.deed), operand.at(address).describe(address).c_str(),
       machine_.place(&machine_.kernel().code[doer.trace.at]).c_str());
}

void Watch::wait_for_grid(Warp& warp) {
  if (!machine_.launch().dependent) return;
  each_thread(warp, [&](unsigned thread) {
    grid_waits_.push_back({clocks_.time(), 0, uint16_t(thread), Deed::read});
    waited_for_grid_[thread] = true;
  });
}

bool Watch::waited_for_grid(unsigned thread) {
  if (waited_for_grid_[thread]) return true;
  for (const Trace& wait : grid_waits_)
    if (clocks_.before(wait, thread)) return waited_for_grid_[thread] = true;
  return false;
}

void Watch::pass_barrier_of_all() {
  clocks_.pass_barrier_of_all();
  shared_.pass_barrier_of_all();
  fences_.pass_barrier_of_all();
  init_fences_.pass_barrier_of_all();
}

void Watch::come_to_barrier(Warp& warp, uint32_t number, bool waits) {
  if (number >= BARRIERS) return;
  OfBarrier& barrier = barriers_[warp.block().rank][number];
  if (waits) {
    barrier.waiting[warp.number()] |= warp.active;
    return;
  }
  barrier.some_arrive = true;
  each_thread(warp, [&](unsigned thread) { clocks_.release(thread, barrier.arrived); });
}

// A waiting thread has done nothing since it arrived.
void Watch::complete_barrier(Block& block, uint32_t number) {
  tell();
  OfBarrier& barrier = barriers_[block.rank][number];
  unsigned count = 0;
  for (const uint32_t lanes : barrier.waiting) count += unsigned(std::popcount(lanes));
  const bool of_all = !barrier.some_arrive && count == block.alive;
  if (of_all && machine_.ranks() == 1) {
    pass_barrier_of_all();
  } else {
    const auto each = [&](auto visit) {
      for (unsigned warp = 0; warp < warps_; ++warp)
        each_of(barrier.waiting[warp], [&](unsigned lane) { visit((block.rank * warps_ + warp) * WARP + lane); });
    };
    each([&](unsigned thread) { clocks_.release(thread, barrier.arrived); });
    each([&](unsigned thread) { clocks_.acquire(thread, barrier.arrived); });
    if (of_all) shared_.pass_block_barrier(block.rank);
  }
  std::fill(barrier.waiting.begin(), barrier.waiting.end(), 0u);
  barrier.some_arrive = false;
  barrier.arrived = {};
}

void Watch::fence(Warp& warp, bool wide) {
  if (wide) each_thread(warp, [&](unsigned thread) { global_.fence(thread); });
}

void Watch::commit_copies(Warp& warp) {
  const uint32_t time = clocks_.tick();
  each_thread(warp, [&](unsigned thread) { copy_groups_[thread].push_back(time); });
  clocks_.tick();
}

void Watch::wait_for_copies(Warp& warp, uint32_t left) {
  each_thread(warp, [&](unsigned thread) {
    const std::vector<uint32_t>& groups = copy_groups_[thread];
    if (groups.size() > left) clocks_.complete_copies(thread, groups[groups.size() - 1 - left]);
  });
}

void Watch::wait_for_all_copies(Warp& warp) {
  const uint32_t time = clocks_.tick();
  each_thread(warp, [&](unsigned thread) { clocks_.complete_copies(thread, time); });
}

namespace {

// An access to a whole mbarrier.
Access mbarrier_access(const Instruction* i, Use use) { return {i, Space::shared, use, MBARRIER_BYTES, false}; }

}  // namespace

void Watch::init_mbarrier(Warp& warp, const Instruction* i, Block& owner, const Mbarrier& barrier) {
  const unsigned thread = thread_of(warp, first_of(warp.active));
  const unsigned agent = clocks_.hire(thread, true);
  if (agent == 0) fail("unjudged", "more mbarriers in a block than the emulator follows (%s)", machine_.place(i).c_str());
  uint64_t addresses[WARP];
  std::fill_n(addresses, WARP, barrier.offset);
  shared_.write(warp, mbarrier_access(i, Use::write), addresses, owner, Deed::write);
  mbarriers_.push_back({agent, now(thread, i, Deed::write), {}, {}, {}, {}});
}

void Watch::use_mbarrier(Warp& warp, const Instruction* i, Block& owner, const Mbarrier& barrier) {
  const unsigned thread = thread_of(warp, first_of(warp.active));
  const OfMbarrier& its = mbarriers_[barrier.number];
  if (!clocks_.before(its.init, thread))
    fail("race", "%s uses %s, and nothing orders that after its initialisation at %s (%s)", warp.where().c_str(),
         machine_.mbarriers().place(barrier).c_str(), machine_.place(&machine_.kernel().code[its.init.at]).c_str(), machine_.place(i).c_str());
  uint64_t addresses[WARP];
  std::fill_n(addresses, WARP, barrier.offset);
  shared_.write(warp, mbarrier_access(i, Use::atomic), addresses, owner, Deed::atomic);  // ordinary accesses race with it
}

void Watch::arrive(Warp& warp, const Instruction* i, const Mbarrier& barrier) {
  const unsigned thread = thread_of(warp, first_of(warp.active));
  OfMbarrier& its = mbarriers_[barrier.number];
  const Trace arrival = now(thread, i, Deed::atomic);
  clocks_.release(thread, its.released);
  if (barrier.rank != warp.block().rank) its.from_outside.note(arrival);
}

void Watch::acquire_phases(Warp& warp, const Mbarrier& barrier) {
  clocks_.acquire(thread_of(warp, first_of(warp.active)), mbarriers_[barrier.number].complete);
}

void Watch::complete_phase(const Mbarrier& barrier) {
  OfMbarrier& its = mbarriers_[barrier.number];
  for (const uint32_t operation : its.landed) clocks_.complete_load(operation, its.agent, its.released);
  join(its.complete, its.released);
  its.released = {};
  its.landed.clear();
}

void Watch::exit_threads(Warp& warp) {
  const unsigned rank = warp.block().rank;
  for (unsigned number = 0; number < mbarriers_.size(); ++number)
    if (machine_.mbarriers()[number].rank == rank && !mbarriers_[number].from_outside.empty())
      each_thread(warp, [&](unsigned thread) { mbarriers_[number].from_outside.exit_thread(clocks_, thread); });
  if (!reads_from_outside_[rank].empty()) each_thread(warp, [&](unsigned thread) { reads_from_outside_[rank].exit_thread(clocks_, thread); });
}

// Ends a block all of whose threads have exited.
void Watch::finish_block(unsigned rank) {
  const unsigned exited = machine_.block(rank).index;
  const auto place = [&](const Trace& trace) { return machine_.place(&machine_.kernel().code[trace.at]); };
  for (unsigned number = 0; number < mbarriers_.size(); ++number) {
    const Mbarrier& barrier = machine_.mbarriers()[number];
    if (barrier.rank != rank || mbarriers_[number].from_outside.empty()) continue;
    const Trace& first = mbarriers_[number].from_outside.any();
    fail("crash", "%s arrives at %s, and nothing orders that before block %u exits: its shared memory may be another block's by then (%s)",
         shared_.where(clocks_.thread_of(first)).c_str(), machine_.mbarriers().place(barrier).c_str(), exited, place(first).c_str());
  }
  if (reads_from_outside_[rank].empty()) return;
  const Trace& first = reads_from_outside_[rank].any();
  fail("crash", "%s reads shared memory of block %u, and nothing orders that before block %u exits: it may be another block's by then (%s)",
       shared_.where(clocks_.thread_of(first)).c_str(), exited, exited, place(first).c_str());
}

uint32_t Watch::start_load(Warp& warp, unsigned lane, const Box& box, const Mbarrier& barrier) {
  const unsigned thread = thread_of(warp, lane);
  const OfMbarrier& its = mbarriers_[barrier.number];
  if (!clocks_.covers(init_fences_.covered(thread), its.init) && !clocks_.covers(fences_.covered(thread), its.init))
    fail("race", "%s: TMA uses %s, whose initialisation at %s no fence_mbarrier_init covers (%s)", warp.where().c_str(),
         machine_.mbarriers().place(barrier).c_str(), machine_.place(&machine_.kernel().code[its.init.at]).c_str(), machine_.place(box.at).c_str());
  const Trace trace = {clocks_.begin_operation(its.agent, thread), at(box.at), uint16_t(its.agent), Deed::load};
  shared_.load(machine_.block(box.rank), box.offset, box.map.box_bytes(), trace, thread);
  Trace read = trace;
  read.deed = Deed::read;
  const Allocation* operand = nullptr;
  box.each_chunk([&](const unsigned char*, uint64_t from, unsigned bytes) {
    if (from == 0) return;
    if (operand == nullptr || !operand->region.near(from)) operand = machine_.launch().allocations.find(from);
    if (operand != nullptr && (operand->written || machine_.launch().dependent)) access_by(*operand, from, bytes, {thread, read});
  });
  return trace.time;
}

void Watch::start_store(Warp& warp, unsigned lane, const Box& box) {
  const unsigned thread = thread_of(warp, lane);
  OfStores& stores = stores_[thread];
  if (stores.reads == 0) {
    stores.reads = clocks_.hire(thread, false);
    stores.writes = clocks_.hire(thread, false);
    if (stores.writes == 0) fail("unjudged", "more threads of a block store by TMA than the emulator follows (%s)", machine_.place(box.at).c_str());
  }
  const Clock proxied = fences_.covered(thread);
  const Trace reads = {clocks_.begin_operation(stores.reads, thread), at(box.at), uint16_t(stores.reads), Deed::store};
  shared_.note_operation(reads);
  Block& owner = machine_.block(box.rank);
  box.each_chunk([&](const unsigned char* from, uint64_t to, unsigned bytes) {
    if (to != 0) shared_.read_by_proxy(owner, uint32_t(from - box.window), bytes, reads, &thread, 1, proxied, SharedWatch::STORE_READER, false);
  });
  const Trace writes = {clocks_.begin_operation(stores.writes, thread), at(box.at), uint16_t(stores.writes), Deed::write};
  box.each_chunk([&](const unsigned char*, uint64_t to, unsigned bytes) {
    const Allocation* const operand = to == 0 ? nullptr : machine_.launch().allocations.find(to);
    if (operand != nullptr) access_by(*operand, to, bytes, {thread, writes});
  });
}

void Watch::commit_stores(Warp& warp) {
  each_thread(warp, [&](unsigned thread) { stores_[thread].group_ends.push_back(clocks_.tick()); });
}

void Watch::wait_for_stores(Warp& warp, uint32_t left, bool read) {
  each_thread(warp, [&](unsigned thread) {
    const OfStores& stores = stores_[thread];
    if (stores.group_ends.size() <= left || stores.reads == 0) return;
    const uint32_t time = stores.group_ends[stores.group_ends.size() - 1 - left];
    clocks_.complete(thread, stores.reads, time);
    if (!read) clocks_.complete(thread, stores.writes, time);
  });
}

Watch::OfGroup& Watch::group_of(Warp& warp) { return groups_[warp.block().rank * (warps_ / 4 + 1) + warp.number() / 4]; }

// The warp's loads to registers are complete from now on: a product of these registers comes after them.
void Watch::fence_products(Warp& warp) {
  Clock& past = group_of(warp).members[warp.number() % 4].past;
  past = {};
  each_thread(warp, [&](unsigned thread) { clocks_.release(thread, past); });
}

void Watch::multiply(Block& block, Warp& last, unsigned group, const Instruction* i, const Factor& a, const Factor& b) {
  OfGroup& its = groups_[block.rank * (warps_ / 4 + 1) + group];
  const unsigned first = (block.rank * warps_ + 4 * group) * WARP;
  if (its.agent == 0) its.agent = clocks_.hire(first, false);
  if (its.agent == 0) fail("unjudged", "more agents in a block than the emulator follows (%s)", machine_.place(i).c_str());
  const Clock proxied = fences_.covered(thread_of(last, 0));
  const Trace trace = {clocks_.begin_operation(its.agent, first), at(i), uint16_t(its.agent), Deed::product};
  shared_.note_operation(trace);
  const unsigned leaders[4] = {first, first + WARP, first + 2 * WARP, first + 3 * WARP};
  for (const Factor& factor : {a, b}) {
    if (factor.at == nullptr) continue;
    // Lines that a product reads and nobody has written: tiles that an edge of the matrix cuts may leave them out, as long
    // as no sum of theirs is stored. They hold poison (NaN, -1 or 255), and the comparison finds such sums.
    std::vector<bool> unset(factor.lines, !factor.transposed);
    if (!factor.transposed)
      factor.at->each_chunk(factor.lines, factor.bytes, false, [&](uint32_t address, unsigned line, unsigned) {
        if (unset[line] && !shared_.unset(block, address, WGMMA_CHUNK_BYTES)) unset[line] = false;
      });
    factor.at->each_chunk(factor.lines, factor.bytes, factor.transposed, [&](uint32_t address, unsigned line, unsigned) {
      shared_.read_by_proxy(block, address, WGMMA_CHUNK_BYTES, trace, leaders, 4, proxied, group, unset[line]);
    });
  }
  ++its.issued;
  for (OfGroup::Member& member : its.members) member.issued = its.issued;
  if (a.at != nullptr) return;
  // A thread that waits for this product knows that all of its threads have loaded their operands.
  Clock& all = its.loads[its.issued];
  if (its.loads.size() > 1) all = std::prev(its.loads.end(), 2)->second;
  for (const OfGroup::Member& member : its.members) join(all, member.past);
}

void Watch::commit_products(Warp& warp) {
  OfGroup::Member& member = group_of(warp).members[warp.number() % 4];
  member.groups.push_back({member.issued, clocks_.tick()});
}

void Watch::wait_for_products(Warp& warp, uint32_t left) {
  OfGroup& group = group_of(warp);
  OfGroup::Member& member = group.members[warp.number() % 4];
  if (member.groups.size() <= left) return;
  const auto [end, time] = member.groups[member.groups.size() - 1 - left];
  if (end <= member.waited) return;
  member.waited = end;
  const auto later = group.loads.upper_bound(end);
  each_thread(warp, [&](unsigned thread) {
    clocks_.complete(thread, group.agent, time);
    if (later != group.loads.begin()) clocks_.acquire(thread, std::prev(later)->second);
  });
}

void Watch::arrive_at_cluster(Warp& warp, bool waits_next) {
  each_thread(warp, [&](unsigned thread) {
    if (waits_next) cluster_waits_.push_back(thread);
    else clocks_.release(thread, cluster_released_);
  });
}

// Threads that have waited since they arrived must publish and acquire here, which other threads do themselves.
void Watch::complete_cluster_phase(unsigned alive) {
  tell();
  if (cluster_waits_.size() == alive) {
    pass_barrier_of_all();
    cluster_complete_ = nullptr;
  } else {
    for (const unsigned thread : cluster_waits_) clocks_.release(thread, cluster_released_);
    for (const unsigned thread : cluster_waits_) clocks_.acquire(thread, cluster_released_);
    cluster_complete_ = std::make_shared<const Clock>(std::move(cluster_released_));
  }
  cluster_released_ = {};
  cluster_waits_.clear();
}

void Watch::wait_at_cluster(Warp& warp) {
  if (cluster_complete_ == nullptr) return;
  each_thread(warp, [&](unsigned thread) {
    clocks_.acquire(thread, *cluster_complete_);
    global_.pass_cluster_barrier(thread, cluster_complete_);
  });
}

}  // namespace gemmgen
