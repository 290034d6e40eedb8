#include "shared_watch.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cell_scans.hpp"
#include "failure.hpp"
#include "machine.hpp"

namespace gemmgen {

namespace {

constexpr uint32_t INSIDE = (1u << RANK_SHIFT) - 1;

}  // namespace

// The places of an access's lanes: a mask from `low` on, one bit per lane's width, if that fits 64 bits; else lane by lane.
struct SharedWatch::Runs {
  uint32_t low = ~0u, high = 0;
  uint64_t mask = 0;  // 0: lane by lane

  Runs(const Event& event) {
    const uint32_t* const offsets = event.offsets;
    const unsigned shift = unsigned(std::countr_zero(event.bytes));
    if (event.lanes == ALL_LANES) {
      for (unsigned lane = 0; lane < WARP; ++lane) {
        low = std::min(low, offsets[lane]);
        high = std::max(high, offsets[lane]);
      }
      if ((high - low) >> shift >= 64) return;
      uint64_t some[WARP];
      for (unsigned lane = 0; lane < WARP; ++lane) some[lane] = uint64_t(1) << ((offsets[lane] - low) >> shift);
      for (unsigned lane = 0; lane < WARP; ++lane) mask |= some[lane];
      return;
    }
    each_of(event.lanes, [&](unsigned lane) {
      low = std::min(low, offsets[lane]);
      high = std::max(high, offsets[lane]);
    });
    if ((high - low) >> shift >= 64) return;
    each_of(event.lanes, [&](unsigned lane) { mask |= uint64_t(1) << ((offsets[lane] - low) >> shift); });
  }

  // Calls `visit` with the first part and the number of parts of each run of them, until it says no.
  template <typename Visit>
  bool each(Visit visit) const {
    for (uint64_t left = mask; left != 0;) {
      const auto first = unsigned(std::countr_zero(left)), count = unsigned(std::countr_one(left >> first));
      if (!visit(first, count)) return false;
      if (first + count == 64) return true;
      left &= ~uint64_t(0) << (first + count);
    }
    return true;
  }
};

SharedWatch::SharedWatch(Machine& machine, Clocks& clocks)
    : machine_(machine), clocks_(clocks), ranks_(machine.ranks()), warps_((machine.launch().threads + WARP - 1) / WARP),
      window_(machine.kernel().shared_end + 4096), shift_(unsigned(std::countr_zero(std::bit_floor(std::max(machine.launch().element_bytes, 1u))))),
      cells_((window_ >> shift_) + 16), writes_(cells_ * ranks_), latest_(cells_ * ranks_), block_known_(ranks_), verdicts_(ranks_ * warps_) {
  for (unsigned warp = 0; warp < warps_; ++warp) reads_.emplace_back(cells_ * ranks_);
}

void SharedWatch::start_cluster() {
  read_log_.clear();
  write_log_.clear();
  operations_.clear();
  copies_.clear();
  spoiled_.clear();
  far_reads_.clear();
  proxy_agents_ = {};
  std::fill(block_known_.begin(), block_known_.end(), 0);
  for (auto& verdicts : verdicts_) verdicts.fill({});
}

// Copies that all of their threads have waited for are writes like others.
void SharedWatch::pass_barrier_of_all() {
  read_log_.clear();
  std::size_t kept = 0;
  for (const uint32_t time : copies_) {
    const Event& event = *find(write_log_, time);
    bool known = true;
    each_of(event.lanes, [&](unsigned lane) { known &= clocks_.known_of_copies(event.warp * WARP + lane) > time; });
    if (!known) {
      copies_[kept++] = time;
      continue;
    }
    const std::size_t first = event.warp / warps_ * cells_;
    each_of(event.lanes, [&](unsigned lane) {
      int32_t* const cells = writes_.cells() + first + (event.offsets[lane] >> shift_);
      for (unsigned c = 0; c < event.bytes >> shift_; ++c)
        if (cells[c] == -int32_t(time)) cells[c] = int32_t(time);
    });
  }
  copies_.resize(kept);
}

int32_t SharedWatch::known(const Block& owner) const { return std::max(int32_t(clocks_.known_of_threads()), block_known_[owner.rank]); }
std::size_t SharedWatch::first_cell(const Block& owner) const { return owner.rank * cells_; }
uint16_t SharedWatch::warp_of(const Warp& warp) const { return uint16_t(const_cast<Warp&>(warp).block().rank * warps_ + warp.number()); }
unsigned SharedWatch::thread_of(const Warp& warp, unsigned lane) const { return warp_of(warp) * WARP + lane; }
uint32_t SharedWatch::key(const Block& owner, uint32_t offset) const { return owner.rank << RANK_SHIFT | offset; }

// Splits cells into cells of `bytes`, a power of two; each inherits the state of the larger one.
void SharedWatch::split(unsigned bytes) {
  const auto shift = unsigned(std::countr_zero(bytes)), parts = 1u << (shift_ - shift);
  const std::size_t before = cells_;
  cells_ = (window_ >> shift) + 16 * parts;
  const auto spread = [&](Plane& plane) {
    if (!plane.exists()) return;
    Plane made(cells_ * ranks_);
    for (unsigned rank = 0; rank < ranks_; ++rank)
      for (std::size_t c = 0; c < before; ++c)
        if (const int32_t number = plane.cells()[rank * before + c]; number != 0)
          std::fill_n(made.cells() + rank * cells_ + c * parts, parts, number);
    plane = std::move(made);
  };
  spread(writes_), spread(latest_);
  for (Plane& plane : reads_) spread(plane);
  for (Plane& plane : proxies_) spread(plane);
  std::unordered_map<uint32_t, std::vector<Trace>> far_reads;
  for (const auto& [place, reads] : far_reads_)
    for (unsigned part = 0; part < parts; ++part) far_reads[place + part * bytes] = reads;
  far_reads_ = std::move(far_reads);
  shift_ = shift;
}

SharedWatch::Event& SharedWatch::record(std::vector<Event>& log, Warp& warp, const Access& access, const uint64_t (&addresses)[WARP],
                                        Deed deed) {
  Event& event = log.emplace_back();
  event.time = clocks_.tick();
  event.at = uint32_t(access.at - machine_.kernel().code.data());
  event.lanes = warp.active;
  event.warp = warp_of(warp);
  event.deed = deed;
  event.merged = false;
  event.bytes = access.bytes;
  for (unsigned lane = 0; lane < WARP; ++lane) event.offsets[lane] = uint32_t(addresses[lane]) & INSIDE;
  return event;
}

const SharedWatch::Event* SharedWatch::find(const std::vector<Event>& log, uint32_t time) const {
  const auto found = std::lower_bound(log.begin(), log.end(), time, [](const Event& event, uint32_t when) { return event.time < when; });
  return found == log.end() || found->time != time ? nullptr : &*found;
}

const Trace* SharedWatch::find_operation(uint32_t time) const {
  const auto found = std::lower_bound(operations_.begin(), operations_.end(), time, [](const Trace& trace, uint32_t when) { return trace.time < when; });
  return found == operations_.end() || found->time != time ? nullptr : &*found;
}

Trace SharedWatch::trace_of(const Event& event, unsigned lane) const {
  const unsigned thread = event.warp * WARP + lane;
  return {event.merged ? event.offsets[lane] : event.time, event.at, uint16_t(event.deed == Deed::copy ? clocks_.copies_of(thread) : thread), event.deed};
}

uint32_t SharedWatch::lanes_at(const Event& event, uint32_t offset) {
  if (event.merged) return event.lanes;
  uint32_t found = 0;
  for (unsigned lane = 0; lane < WARP; ++lane) found |= uint32_t(offset - event.offsets[lane] < event.bytes) << lane;
  return found & event.lanes;
}

// Whether all accesses behind a number happen before the next ones of the active lanes.
bool SharedWatch::settled(Warp& warp, const std::vector<Event>& log, int32_t number) {
  const uint16_t its_warp = warp_of(warp);
  Verdict& verdict = verdicts_[its_warp][(uint32_t(number) * 0x9E3779B1u) >> 26];
  if (verdict.number == number && (warp.active & ~verdict.lanes) == 0) return true;
  const auto time = uint32_t(std::abs(number));
  if (number < 0 && !spoiled_.empty() && spoiled_.contains(time)) return false;
  bool before = true;
  if (const Event* const event = find(log, time)) {
    const bool is_copy = event->deed == Deed::copy;
    const unsigned group = is_copy ? clocks_.copies_of(event->warp * WARP) / WARP : event->warp;
    before = clocks_.known_to_lanes(its_warp, warp.active, group, event->lanes) > time;
    if (!before && is_copy) {
      before = true;
      each_of(event->lanes, [&](unsigned lane) { before &= clocks_.known_of_copies(event->warp * WARP + lane) > time; });
    } else if (!before) {
      before = time < clocks_.known_of_threads() || (event->warp / warps_ == its_warp / warps_ && int32_t(time) < block_known_[its_warp / warps_]);
    }
  } else if (const Trace* const operation = find_operation(time)) {
    each_of(warp.active, [&](unsigned lane) { before &= clocks_.before(*operation, thread_of(warp, lane)); });
  } else {
    return false;
  }
  if (before) verdict = {number, warp.active};
  return before;
}

// The short check of a warp's reads: whether the cells need no closer look.
bool SharedWatch::settle_reads(Warp& warp, std::size_t cell, unsigned count, const Event& event, int32_t known, int32_t& write, int32_t& read) {
  const int32_t first = start(), id = int32_t(event.time);
  const int32_t* const writes = writes_.cells() + cell;
  const int32_t* const reads = reads_[warp.number()].cells() + cell;
  for (unsigned c = 0; c < count; ++c) {
    if (const int32_t number = writes[c]; (number < first || number >= known) && number != write) {
      if (std::abs(number) < first || !settled(warp, write_log_, number)) return false;
      write = number;
    }
    if (const int32_t number = reads[c]; number >= known && number != read && number != id) {
      const Event* const earlier = find(read_log_, uint32_t(number));
      if (earlier == nullptr) return false;
      const bool same = !earlier->merged && earlier->bytes == event.bytes && (earlier->lanes & ~event.lanes) == 0 && earlier->deed == event.deed &&
                        std::memcmp(earlier->offsets, event.offsets, sizeof event.offsets) == 0;
      if (!same && !settled(warp, read_log_, number)) return false;
      read = number;
    }
  }
  return true;
}

uint32_t SharedWatch::read(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], Block& owner, Poison& why) {
  fit(access.bytes);
  if (&owner != &warp.block()) return read_from_afar(warp, access, addresses, owner, why);
  const Event& event = record(read_log_, warp, access, addresses, access.use == Use::strong_read ? Deed::strong_read : Deed::read);
  const std::size_t number = read_log_.size() - 1, base = first_cell(owner);
  const auto id = int32_t(event.time);
  const unsigned cells = access.bytes >> shift_;
  int32_t* const reads = reads_[warp.number()].cells();
  Limits limits = {start(), known(owner), Limits::NONE, Limits::NONE, id};
  const auto pass = [&](std::size_t cell, unsigned count) {
    if (!may_read(writes_.cells() + cell, reads + cell, count, limits) &&
        !settle_reads(warp, cell, count, read_log_[number], limits.high, limits.write, limits.read))
      return false;
    set(reads + cell, count, id);
    set(latest_.cells() + cell, count, id);
    return true;
  };
  const Runs runs(event);
  if (runs.mask != 0) {
    const std::size_t low = base + (runs.low >> shift_);
    if (runs.each([&](unsigned first, unsigned count) { return pass(low + std::size_t(first) * cells, count * cells); })) return 0;
  } else {
    uint32_t left = warp.active, before = ~0u;
    bool all = true;
    for (; left != 0; left &= left - 1) {
      const uint32_t offset = event.offsets[first_of(left)];
      if (offset == before) continue;
      before = offset;
      if (!pass(base + (offset >> shift_), cells)) {
        all = false;
        break;
      }
    }
    if (all) return 0;
  }
  uint32_t poisoned = 0;
  each_of(warp.active, [&](unsigned lane) {
    const uint32_t offset = read_log_[number].offsets[lane];
    for (unsigned c = 0; c < cells; ++c) {
      Poison its;
      if (read_lane(warp, base + (offset >> shift_) + c, lane, number, owner, its) == 0) continue;
      if (poisoned == 0) why = std::move(its);  // the first lane's, and its first byte's
      poisoned |= 1u << lane;
    }
  });
  return poisoned;
}

uint32_t SharedWatch::read_lane(Warp& warp, std::size_t cell, unsigned lane, std::size_t event, Block& owner, Poison& why) {
  const int32_t write = writes_.cells()[cell];
  const auto offset = uint32_t((cell - first_cell(owner)) << shift_);
  bool good = true;
  if (write < start() || write >= known(owner)) {
    const Trace now = trace_of(read_log_[event], lane);
    good = check_value(write, offset, now, now.agent, owner, why);
  }
  note_read(warp, cell, offset, event);
  return good ? 0 : 1u << lane;
}

bool SharedWatch::check_value(int32_t number, uint32_t offset, const Trace& now, unsigned thread, Block& owner, Poison& why) {
  const auto time = std::abs(number);
  if (time < start()) {
    why = {"crash", unset_text(offset, now, thread, owner)};
    return false;
  }
  bool good = true;
  each_trace(write_log_, number, offset, [&](const Trace& first) {
    const bool own_block = !clocks_.is_hired(first.agent) && first.agent < clocks_.copies_of(0) && clocks_.rank_of(first.agent) == clocks_.rank_of(thread);
    if (!good || clocks_.before(first, thread) || (is_strong(first.deed) && is_strong(now.deed))) return;
    if (own_block && int32_t(first.time) < block_known_[clocks_.rank_of(thread)]) return;
    why = {"race", race(first, offset, now, thread, owner)};
    good = false;
  });
  if (!good || number > 0) return good;
  const auto spoiled = spoiled_.find(uint32_t(time));
  if (spoiled == spoiled_.end()) return true;
  const Event* const event = find(write_log_, uint32_t(time));
  if (event == nullptr || (lanes_at(*event, offset) & spoiled->second.lanes) == 0) return true;
  why = spoiled->second.why;
  return false;
}

void SharedWatch::note_read(Warp& warp, std::size_t cell, uint32_t offset, std::size_t event) {
  int32_t& number = reads_[warp.number()].cells()[cell];
  const Event now = read_log_[event];
  const auto id = int32_t(now.time);
  latest_.cells()[cell] = std::max(latest_.cells()[cell], id);
  if (number == id) return;
  const Event* const found = number < known(warp.block()) ? nullptr : find(read_log_, uint32_t(number));
  const uint32_t lanes = lanes_at(now, offset);
  if (found == nullptr || settled(warp, read_log_, number)) {
    number = id;
    return;
  }
  const Event earlier = *found;
  const uint32_t before = lanes_at(earlier, offset);
  if ((before & ~lanes) == 0 && (earlier.deed == now.deed || earlier.deed == Deed::strong_read)) {
    number = id;
    return;
  }
  bool has_all = earlier.merged;
  each_of(lanes, [&](unsigned lane) { has_all &= (earlier.lanes >> lane & 1) != 0 && earlier.offsets[lane] == now.time; });
  if (has_all) return;
  Event merged = now;
  merged.time = clocks_.tick();
  merged.merged = true;
  merged.lanes = before | lanes;
  if (earlier.deed == Deed::read) merged.deed = Deed::read;
  each_of(merged.lanes, [&](unsigned lane) {
    merged.offsets[lane] = (lanes >> lane & 1) != 0 ? now.time : earlier.merged ? earlier.offsets[lane] : earlier.time;
  });
  read_log_.push_back(merged);
  number = latest_.cells()[cell] = int32_t(merged.time);
}

// A read by threads of another block of the cluster.
uint32_t SharedWatch::read_from_afar(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], Block& owner, Poison& why) {
  uint32_t poisoned = 0;
  const Trace now = {clocks_.tick(), uint32_t(access.at - machine_.kernel().code.data()), 0, access.use == Use::strong_read ? Deed::strong_read : Deed::read};
  each_of(warp.active, [&](unsigned lane) {
    Trace its = now;
    const unsigned thread = thread_of(warp, lane);
    its.agent = uint16_t(thread);
    const uint32_t start = uint32_t(addresses[lane]) & INSIDE;
    for (uint32_t offset = start; offset < start + access.bytes; offset += cell_bytes()) {
      if (!check_value(writes_.cells()[first_cell(owner) + (offset >> shift_)], offset, its, thread, owner, why)) poisoned |= 1u << lane;
      // Reads that happen before this one can be dropped: they precede all that it precedes.
      std::vector<Trace>& reads = far_reads_[key(owner, offset)];
      std::erase_if(reads, [&](const Trace& read) { return clocks_.before(read, thread); });
      reads.push_back(its);
    }
  });
  return poisoned;
}

void SharedWatch::write(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], Block& owner, Deed deed) {
  fit(access.bytes);
  record(write_log_, warp, access, addresses, deed);
  const std::size_t base = first_cell(owner);
  const unsigned cells = access.bytes >> shift_;
  const Event& event = write_log_.back();
  const bool far = &owner != &warp.block();
  const auto id = int32_t(event.time), number = far || deed == Deed::copy ? -id : id;
  if (deed == Deed::copy) copies_.push_back(event.time);
  bool proxies = !far_reads_.empty();
  for (const Plane& plane : proxies_) proxies |= plane.exists();
  Limits limits = {start(), far ? int32_t(clocks_.known_of_threads()) : known(owner), Limits::NONE, Limits::NONE, id};
  const auto may = [&](std::size_t cell, unsigned count) {
    if (may_write(writes_.cells() + cell, latest_.cells() + cell, count, limits)) return true;
    for (unsigned c = 0; c < count; ++c) {
      if (latest_.cells()[cell + c] >= limits.high) return false;
      const int32_t its = writes_.cells()[cell + c];
      if ((its > -limits.low && its < limits.high) || its == limits.write) continue;
      if (std::abs(its) == id || !settled(warp, write_log_, its)) return false;
      limits.write = its;
    }
    return true;
  };
  const auto by_lane = [&](unsigned lane) {
    const std::size_t cell = base + (event.offsets[lane] >> shift_);
    if (!proxies && may(cell, cells)) return set(writes_.cells() + cell, cells, number);
    for (unsigned c = 0; c < cells; ++c) write_lane(warp, cell + c, lane, event, number, owner);
  };
  const Runs runs(event);
  const bool apart = runs.mask != 0 && std::popcount(runs.mask) == std::popcount(event.lanes);
  const std::size_t low = base + (runs.low >> shift_);
  const auto each_run = [&](auto visit) {
    return runs.each([&](unsigned first, unsigned count) { return visit(low + std::size_t(first) * cells, count * cells); });
  };
  if (apart && !proxies && each_run(may)) {
    each_run([&](std::size_t cell, unsigned count) {
      set(writes_.cells() + cell, count, number);
      return true;
    });
    return;
  }
  each_of(event.lanes, by_lane);
}

void SharedWatch::write_lane(Warp& warp, std::size_t cell, unsigned lane, const Event& event, int32_t number, Block& owner) {
  const Trace now = trace_of(event, lane);
  const auto offset = uint32_t((cell - first_cell(owner)) << shift_);
  const unsigned thread = thread_of(warp, lane);
  int32_t& write = writes_.cells()[cell];
  const bool far = &owner != &warp.block();
  const int32_t know = far ? int32_t(clocks_.known_of_threads()) : known(owner);
  if (write == number) {
    if (!is_update(now.deed)) {
      const uint32_t others = lanes_at(event, offset) & ((1u << lane) - 1);
      if (others != 0) fail("race", "%s", race(trace_of(event, first_of(others)), offset, now, thread, owner).c_str());
    }
  } else if ((write <= -start() || write >= know) && !settled(warp, write_log_, write)) {
    each_trace(write_log_, write, offset, [&](const Trace& first) {
      if (clocks_.before(first, thread) || (is_strong(first.deed) && is_strong(now.deed))) return;
      const bool own = first.agent < clocks_.copies_of(0) && clocks_.rank_of(first.agent) == clocks_.rank_of(thread);
      if (own && int32_t(first.time) < block_known_[clocks_.rank_of(thread)]) return;
      fail("race", "%s", race(first, offset, now, thread, owner).c_str());
    });
  }
  if (latest_.cells()[cell] >= know) check_readers(cell, offset, now, thread, owner);
  check_proxy_readers(cell, offset, now, thread, owner);
  write = number;
}

void SharedWatch::check_readers(std::size_t cell, uint32_t offset, const Trace& now, unsigned thread, Block& owner) {
  const bool own_block = clocks_.rank_of(thread) == owner.rank;
  const int32_t know = own_block ? known(owner) : int32_t(clocks_.known_of_threads());
  for (const Plane& plane : reads_) {
    const int32_t read = plane.cells()[cell];
    if (read < know) continue;
    each_trace(read_log_, read, offset, [&](const Trace& first) {
      if (clocks_.before(first, thread) || (own_block && int32_t(first.time) < know) || (is_strong(first.deed) && is_strong(now.deed))) return;
      fail("race", "%s", race(first, offset, now, thread, owner).c_str());
    });
  }
}

void SharedWatch::check_proxy_readers(std::size_t cell, uint32_t offset, const Trace& now, unsigned thread, Block& owner) {
  for (unsigned reader = 0; reader < PROXY_READERS; ++reader) {
    if (!proxies_[reader].exists()) continue;
    int32_t& read = proxies_[reader].cells()[cell];
    if (read < start()) continue;
    if (const Trace* const first = find_operation(uint32_t(read)); first != nullptr && !clocks_.before(*first, thread))
      fail("race", "%s", race(*first, offset, now, thread, owner).c_str());
    read = 0;
  }
  if (far_reads_.empty()) return;
  const auto reads = far_reads_.find(key(owner, offset));
  if (reads == far_reads_.end()) return;
  for (const Trace& first : reads->second)
    if (!clocks_.before(first, thread)) fail("race", "%s", race(first, offset, now, thread, owner).c_str());
  far_reads_.erase(reads);
}

void SharedWatch::spoil(Warp&, const uint64_t (&addresses)[WARP], Block& owner, unsigned from, unsigned bytes, uint32_t lanes, const Poison& why) {
  if (write_log_.empty()) return;
  const uint32_t time = write_log_.back().time;
  fit(bytes);
  each_of(lanes, [&](unsigned lane) {
    const std::size_t cell = first_cell(owner) + (((uint32_t(addresses[lane]) & INSIDE) + from) >> shift_);
    for (unsigned c = 0; c < bytes >> shift_; ++c) {
      int32_t& number = writes_.cells()[cell + c];
      if (uint32_t(std::abs(number)) == time) number = -int32_t(time);
    }
  });
  Spoiled& spoiled = spoiled_.try_emplace(time, Spoiled{0, why}).first->second;
  spoiled.lanes |= lanes;
}

bool SharedWatch::unset(Block& owner, uint32_t offset, uint32_t bytes) const {
  const int32_t* const cells = writes_.cells() + first_cell(owner) + (offset >> shift_);
  for (unsigned c = 0; c < bytes >> shift_; ++c)
    if (std::abs(cells[c]) >= start()) return false;
  return true;
}

std::string SharedWatch::where(unsigned thread) const {
  return machine_.where(machine_.block(clocks_.rank_of(thread)), thread % clocks_.stride());
}

std::string SharedWatch::describe(Block& owner, uint32_t offset) const { return describe_address(*owner.warps[0], Space::shared, offset); }

std::string SharedWatch::place(uint32_t at) const { return machine_.place(&machine_.kernel().code[at]); }

std::string SharedWatch::race(const Trace& first, uint32_t offset, const Trace& now, unsigned thread, Block& owner) const {
  const bool under_way = clocks_.is_hired(first.agent) || (first.deed == Deed::copy && !clocks_.completed(first));
  const unsigned earlier = clocks_.thread_of(first);
  const std::string second = clocks_.rank_of(thread) == clocks_.rank_of(earlier) ? "thread " + std::to_string(thread % clocks_.stride()) : where(thread);
  return "data race on shared memory: " + where(earlier) + verb(first.deed) + describe(owner, offset) + " at " + place(first.at) + ", " + second +
         verb(now.deed) + "it at " + place(now.at) + ", " + (under_way ? "not waited for yet" : "no barrier between");
}

std::string SharedWatch::unset_text(uint32_t offset, const Trace& now, unsigned thread, Block& owner) const {
  return where(thread) + verb(now.deed) + describe(owner, offset) + " at " + place(now.at) + ", which no thread has written";
}

}  // namespace gemmgen
