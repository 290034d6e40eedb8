#include "global_watch.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "failure.hpp"
#include "machine.hpp"

namespace gemmgen {

GlobalWatch::GlobalWatch(Machine& machine, Clocks& clocks) : machine_(machine), clocks_(clocks), shadows_(machine.launch().allocations.size()) {}

GlobalWatch::~GlobalWatch() {
  for (Shadow& shadow : shadows_) unmap(shadow);
}

GlobalWatch::Cell* GlobalWatch::map(std::size_t count) {
  void* const found = mmap(nullptr, count * sizeof(Cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) fail("unjudged", "the emulator cannot map %zu bytes to watch memory by", count * sizeof(Cell));
  return static_cast<Cell*>(found);
}

void GlobalWatch::unmap(Shadow& shadow) {
  if (shadow.cells != nullptr) munmap(shadow.cells, shadow.count * sizeof(Cell));
  shadow.cells = nullptr;
}

GlobalWatch::Shadow& GlobalWatch::shadow_of(const Allocation& operand) {
  Shadow& shadow = shadows_[operand.index];
  if (shadow.cells == nullptr) {
    shadow.cell_bytes = std::bit_floor(std::max<uint64_t>(operand.element_bytes, 1));
    shadow.count = (operand.region.bytes + shadow.cell_bytes - 1) / shadow.cell_bytes + 1;
    shadow.cells = map(shadow.count);
  }
  return shadow;
}

// Splits a cell into cells of `bytes`, a power of two; each inherits the state of the larger one.
void GlobalWatch::split(Shadow& shadow, uint64_t bytes) {
  const std::size_t parts = shadow.cell_bytes / bytes;
  Shadow made = {map(shadow.count * parts), shadow.count * parts, bytes};
  for (std::size_t i = 0; i < shadow.count; ++i) {
    const Cell& cell = shadow.cells[i];
    if (cell.write.time != 0 || cell.reads[0].time != 0 || cell.reads[1].time != 0) std::fill_n(made.cells + i * parts, parts, cell);
  }
  unmap(shadow);
  shadow = made;
}

template <typename Visit>
void GlobalWatch::each_cell(const Allocation& operand, uint64_t address, uint64_t bytes, Visit visit) {
  Shadow& shadow = shadow_of(operand);
  const uint64_t start = address - operand.region.data;
  if ((start | bytes) % shadow.cell_bytes != 0) split(shadow, (start | bytes) & -(start | bytes));
  for (uint64_t offset = start; offset < start + bytes; offset += shadow.cell_bytes)
    visit(shadow.cells[offset / shadow.cell_bytes], operand.region.data + offset);
}

void GlobalWatch::join(Past& past, const Past& other) {
  for (const auto& [start, clock] : other) gemmgen::join(past[start], clock);
}

void GlobalWatch::Location::release(const Past& past) {
  Past all = released == nullptr ? Past() : *released;
  join(all, past);
  released = std::make_shared<const Past>(std::move(all));
}

void GlobalWatch::start_cluster() {
  started_.push_back({clocks_.start_of_cluster(), machine_.first_block()});
  fences_.clear();
  found_.clear();
  acquired_.clear();
  told_.clear();
}

void GlobalWatch::pass_cluster_barrier(unsigned thread, std::shared_ptr<const Clock> past) { told_.push_back({mark(thread), std::move(past)}); }

void GlobalWatch::access(const Allocation& operand, uint64_t address, uint64_t bytes, const Doer& doer) {
  each_cell(operand, address, bytes, [&](Cell& cell, uint64_t at) { access_cell(cell, operand, at, doer); });
}

void GlobalWatch::fence(unsigned thread) {
  const Trace now = mark(thread);
  const uint32_t since = clocks_.since(thread / WARP);
  for (const Found& found : found_) {
    if (!clocks_.before(found.at, thread)) continue;
    // A spinning thread acquires the same again and again: one entry stands for all, until somebody learns of it.
    const auto again = std::find_if(acquired_.rbegin(), acquired_.rend(), [&](const Acquired& one) {
      return one.at.agent == thread && one.found.address == found.address && one.found.at.agent == found.at.agent;
    });
    if (again != acquired_.rend() && again->at.time >= since && again->found.at.time <= found.at.time) *again = {now, found};
    else if (again == acquired_.rend() || again->found.at.time != found.at.time) acquired_.push_back({now, found});
  }
  Past past;
  clocks_.release_quietly(thread, past[clocks_.start_of_cluster()]);
  for (const Acquired& acquired : acquired_)
    if (clocks_.before(acquired.at, thread) && acquired.found.past != nullptr) join(past, *acquired.found.past);
  if (!fences_.empty() && fences_.back().at.agent == thread && fences_.back().at.time >= since) fences_.back() = {now, std::move(past)};
  else fences_.push_back({now, std::move(past)});
}

void GlobalWatch::note_found(const Found& found, unsigned thread) {
  const uint32_t since = clocks_.since(thread / WARP);
  for (auto one = found_.rbegin(); one != found_.rend() && one->at.time >= since; ++one)
    if (one->at.agent == found.at.agent && one->address == found.address) {
      *one = found;
      return;
    }
  found_.push_back(found);
}

void GlobalWatch::atomic(const Allocation& operand, uint64_t address, uint64_t bytes, const Doer& doer, bool counts, bool finds) {
  Location& location = locations_[address];
  if (finds && !location.atomics.empty()) note_found({doer.trace, counts ? address : 0, location.released}, doer.thread);
  access(operand, address, bytes, doer);
  for (const Fence& fence : fences_)
    if (clocks_.before(fence.at, doer.thread)) location.release(fence.past);
  clocks_.tick();
}

void GlobalWatch::strong_read(const Allocation& operand, uint64_t address, uint64_t bytes, const Doer& doer) {
  const auto location = locations_.find(address);
  if (location != locations_.end() && !location->second.atomics.empty())
    note_found({doer.trace, address, location->second.released}, doer.thread);
  access(operand, address, bytes, doer);
}

void GlobalWatch::read_only(const Allocation& operand, uint64_t address, uint64_t bytes, const Doer& doer) {
  each_cell(operand, address, bytes, [&](Cell& cell, uint64_t at) {
    if (cell.write.time != 0)
      fail("race", "%s: __ldg reads %s, which the same launch wrote at %s: the cache that it reads by may hold what was there before (%s)",
           where(machine_.first_block(), doer.thread).c_str(), operand.region.describe(at).c_str(), place(cell.write.at).c_str(),
           place(doer.trace.at).c_str());
  });
}

void GlobalWatch::access_cell(Cell& cell, const Allocation& operand, uint64_t address, const Doer& doer) {
  const Deed deed = doer.trace.deed;
  if (!operand.holds_values && deed != Deed::write && cell.write.time == 0) refuse_unset(operand.region, address, doer);
  Location* const location = is_update(deed) || is_update(cell.write.deed) ? &locations_[address] : nullptr;
  const auto check = [&](const Trace& earlier) {
    if (earlier.time != 0 && !never_race(earlier, doer) && !before_anywhere(earlier, address, doer.thread)) refuse(earlier, operand.region, address, doer);
  };
  if (location != nullptr && (deed != Deed::atomic || location->of_block))
    for (const Trace& earlier : location->atomics) check(earlier);
  if (!is_update(cell.write.deed)) check(cell.write);
  if (deed == Deed::read || deed == Deed::strong_read || deed == Deed::block_read) return note_read(cell, address, doer);
  for (const Trace& read : cell.reads) check(read);
  if (!more_reads_.empty())
    if (const auto more = more_reads_.find(address); more != more_reads_.end()) {
      for (const Trace& read : more->second) check(read);
      more_reads_.erase(more);
    }
  if (is_update(deed)) note_atomic(*location, address, doer);
  else if (location != nullptr) location->atomics.clear(), location->of_block = false;
  cell = {doer.trace, {}};
}

// Earlier accesses that happen before this one can be dropped, as they precede all that it precedes, unless more would
// race with it.
void GlobalWatch::note_read(Cell& cell, uint64_t address, const Doer& doer) {
  const Deed deed = doer.trace.deed;
  const auto is_needed = [&](const Trace& read) {
    if (read.time == 0) return false;
    if (deed != Deed::read && deed != read.deed) return true;
    return !before_anywhere(read, address, doer.thread);
  };
  for (Trace& read : cell.reads)
    if (!is_needed(read)) {
      read = doer.trace;
      return;
    }
  std::vector<Trace>& more = more_reads_[address];
  for (Trace& read : more)
    if (!is_needed(read)) {
      read = doer.trace;
      return;
    }
  more.push_back(doer.trace);
}

void GlobalWatch::note_atomic(Location& location, uint64_t address, const Doer& doer) const {
  std::vector<Trace>& atomics = location.atomics;
  location.of_block |= is_of_block(doer.trace.deed);
  const bool follows = !atomics.empty() && before_anywhere(atomics.back(), address, doer.thread);
  if (follows) atomics.back() = doer.trace;
  else atomics.push_back(doer.trace);
}

bool GlobalWatch::never_race(const Trace& earlier, const Doer& doer) const {
  const Deed deed = doer.trace.deed;
  if (!is_strong(earlier.deed) || !is_strong(deed)) return false;
  if (!is_of_block(earlier.deed) && !is_of_block(deed)) return true;
  return clocks_.of_this_cluster(earlier) && in_own_block(earlier, doer.thread);
}

bool GlobalWatch::before_anywhere(const Trace& earlier, uint64_t address, unsigned thread) const {
  if (clocks_.of_this_cluster(earlier) && (in_own_block(earlier, thread) ? clocks_.before(earlier, thread) : is_told(earlier, thread))) return true;
  for (const Acquired& acquired : acquired_)
    if (clocks_.before(acquired.at, thread) && orders(acquired.found, earlier, address)) return true;
  return false;
}

bool GlobalWatch::in_own_block(const Trace& earlier, unsigned thread) const {
  return machine_.ranks() == 1 || clocks_.rank_of(clocks_.thread_of(earlier)) == clocks_.rank_of(thread);
}

// Whether an access by another block of the cluster is ordered before.
bool GlobalWatch::is_told(const Trace& earlier, unsigned thread) const {
  if (clocks_.known_to_all(earlier)) return true;
  for (const Told& told : told_)
    if (in_own_block(told.at, thread) && clocks_.before(told.at, thread) && clocks_.covers(*told.past, earlier)) return true;
  return false;
}

bool GlobalWatch::orders(const Found& found, const Trace& earlier, uint64_t address) const {
  if (is_update(earlier.deed) && address == found.address && earlier.time < found.at.time) return true;
  if (found.past == nullptr) return false;
  const auto after = found.past->upper_bound(earlier.time);
  return after != found.past->begin() && clocks_.covers(std::prev(after)->second, earlier);
}

std::string GlobalWatch::where(unsigned first_block, unsigned thread) const {
  return "block " + std::to_string(first_block + clocks_.rank_of(thread)) + ", thread " + std::to_string(thread % clocks_.stride());
}

std::string GlobalWatch::place(uint32_t at) const { return machine_.place(&machine_.kernel().code[at]); }

// C with beta = 0, and outputs that an epilogue only writes, are undefined until the launch has written them.
void GlobalWatch::refuse_unset(const Region& operand, uint64_t address, const Doer& doer) const {
  const bool is_matrix = operand.geometry.element > 0;
  fail("crash", "%s%s%s, which this launch has not written%s (%s)", where(machine_.first_block(), doer.thread).c_str(), verb(doer.trace.deed),
       (is_matrix ? operand.name + " at " + operand.place(address) : operand.describe(address)).c_str(),
       operand.name == "C" ? " and may not read: beta is 0, or no input" : "", place(doer.trace.at).c_str());
}

void GlobalWatch::refuse(const Trace& first, const Region& operand, uint64_t address, const Doer& doer) const {
  unsigned first_block = machine_.first_block();
  for (const Started& one : started_)
    if (one.time <= first.time) first_block = one.block;
  const unsigned earlier = clocks_.thread_of(first);
  const bool same = first_block + clocks_.rank_of(earlier) == machine_.first_block() + clocks_.rank_of(doer.thread);
  fail("race", "data race on %s: %s%s%s at %s, %s%sit at %s, %s", operand.name.c_str(), where(first_block, earlier).c_str(), verb(first.deed),
       operand.describe(address).c_str(), place(first.at).c_str(), where(machine_.first_block(), doer.thread).c_str(), verb(doer.trace.deed),
       place(doer.trace.at).c_str(), same ? "no barrier between" : "and nothing orders blocks");
}

}  // namespace gemmgen
