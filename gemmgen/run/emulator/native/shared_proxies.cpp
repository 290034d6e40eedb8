// Accesses of TMA and wgmma to shared memory: see shared_watch.hpp.
#include <array>
#include <cstdlib>

#include "cell_scans.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "shared_watch.hpp"

namespace gemmgen {

void SharedWatch::load(Block& owner, uint32_t offset, uint32_t bytes, const Trace& trace, unsigned thread) {
  operations_.push_back(trace);
  const std::size_t base = first_cell(owner) + (offset >> shift_);
  const auto count = unsigned(bytes >> shift_);
  int32_t* const writes = writes_.cells() + base;
  const int32_t* const latest = latest_.cells() + base;
  const bool own_block = clocks_.rank_of(thread) == owner.rank;
  const int32_t know = own_block ? known(owner) : int32_t(clocks_.known_of_threads());
  const auto place = [&](unsigned c) { return offset + (c << shift_); };
  int32_t fine = 0;  // of writes, one by whoever
  for (unsigned c = 0; c < count; ++c) {
    const int32_t number = writes[c];
    if ((number > -start() && number < know) || number == fine) continue;
    bool whole = true;
    each_trace(write_log_, number, place(c), [&](const Trace& first) {
      if (!clocks_.before(first, thread) && !(own_block && first.agent < clocks_.copies_of(0) && int32_t(first.time) < know && clocks_.rank_of(first.agent) == owner.rank))
        fail("race", "%s", race(first, place(c), trace, thread, owner).c_str());
      whole &= clocks_.is_hired(first.agent);
    });
    if (whole) fine = number;
  }
  for (unsigned c = 0; c < count; ++c)
    if (latest[c] >= know) check_readers(base + c, place(c), trace, thread, owner);
  for (unsigned reader = 0; reader < PROXY_READERS; ++reader) {
    if (!proxies_[reader].exists()) continue;
    const int32_t* const reads = proxies_[reader].cells() + base;
    std::array<int32_t, 16> checked = {};
    for (unsigned c = 0; c < count; ++c) {
      const int32_t number = reads[c];
      if (number < start()) continue;
      int32_t& known_number = checked[(uint32_t(number) * 0x9E3779B1u) >> 28];
      if (known_number == number) continue;
      if (const Trace* const first = find_operation(uint32_t(number)); first != nullptr && !clocks_.before(*first, thread))
        fail("race", "%s", race(*first, place(c), trace, thread, owner).c_str());
      known_number = number;
    }
    set(proxies_[reader].cells() + base, count, 0);
  }
  if (!far_reads_.empty())
    for (unsigned c = 0; c < count; ++c) check_proxy_readers(base + c, place(c), trace, thread, owner);
  set(writes, count, -int32_t(trace.time));
}

void SharedWatch::read_by_proxy(Block& owner, uint32_t offset, uint32_t bytes, const Trace& trace, const unsigned* threads, unsigned count,
                                const Clock& proxied, unsigned reader, bool may_be_unset) {
  if (!proxies_[reader].exists()) proxies_[reader] = Plane(cells_ * ranks_);
  const std::size_t base = first_cell(owner) + (offset >> shift_);
  const auto cells = unsigned(bytes >> shift_);
  if (checked_by_ != trace.time) checked_by_ = trace.time, checked_.fill(0);
  for (unsigned c = 0; c < cells; ++c) {
    const int32_t number = writes_.cells()[base + c], time = std::abs(number);
    int32_t& checked = checked_[(uint32_t(number) * 0x9E3779B1u) >> 27];
    if (checked == number && number != 0) continue;
    const uint32_t place = offset + (c << shift_);
    if (time < start()) {
      if (!may_be_unset) fail("crash", "%s", unset_text(place, trace, threads[0], owner).c_str());
      continue;
    }
    const auto later = [&](const Trace& first, unsigned thread) {
      const bool own = first.agent < clocks_.copies_of(0) && clocks_.rank_of(first.agent) == clocks_.rank_of(thread);
      return (own && int32_t(first.time) < block_known_[clocks_.rank_of(thread)]) || clocks_.before(first, thread);
    };
    const auto fenced = [&](const Trace& first) {
      return first.deed == Deed::load || clocks_.covers(proxied, first) || clocks_.told_before(first, proxied);
    };
    const auto check = [&](const Trace& first) {
      for (unsigned t = 0; t < count; ++t)
        if (!later(first, threads[t])) fail("race", "%s", race(first, place, trace, threads[t], owner).c_str());
      if (!fenced(first)) fail("race", "%s", unfenced(first, place, trace, threads[0], owner).c_str());
    };
    if (number < 0 && !spoiled_.empty())
      if (const auto spoiled = spoiled_.find(uint32_t(time)); spoiled != spoiled_.end())
        fail(spoiled->second.why.kind, "%s", spoiled->second.why.text.c_str());
    if (const Event* const event = find(write_log_, uint32_t(time))) {
      bool all = true;
      each_of(event->lanes, [&](unsigned lane) {
        const Trace first = trace_of(*event, lane);
        for (unsigned t = 0; t < count; ++t) all = all && later(first, threads[t]);
        all = all && fenced(first);
      });
      if (!all) {
        each_trace(write_log_, number, place, check);
        continue;
      }
    } else {
      each_trace(write_log_, number, place, check);
    }
    if (spoiled_.empty()) checked = number;
  }
  set(proxies_[reader].cells() + base, cells, int32_t(trace.time));
}

std::string SharedWatch::unfenced(const Trace& first, uint32_t offset, const Trace& now, unsigned thread, Block& owner) const {
  const unsigned earlier = clocks_.thread_of(first);
  const std::string second = clocks_.rank_of(thread) == clocks_.rank_of(earlier) ? "thread " + std::to_string(thread % clocks_.stride()) : where(thread);
  return "data race on shared memory: " + where(earlier) + verb(first.deed) + describe(owner, offset) + " at " + place(first.at) + ", " + second +
         verb(now.deed) + "it at " + place(now.at) + " by the async proxy, without a proxy fence between";
}

}  // namespace gemmgen
