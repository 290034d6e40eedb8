#include "clocks.hpp"

#include <algorithm>

namespace gemmgen {

const char* verb(Deed deed) {
  switch (deed) {
    case Deed::read: case Deed::strong_read: return " reads ";
    case Deed::block_read: return ", in its own block's scope, reads ";
    case Deed::write: return " writes ";
    case Deed::atomic: return "'s atomic updates ";
    case Deed::block_atomic: return "'s atomic of its own block's scope updates ";
    case Deed::load: return "'s TMA load writes ";
    case Deed::store: return "'s TMA store reads ";
    case Deed::product: return "'s wgmma reads ";
    case Deed::copy: break;
  }
  return "'s cp_async writes ";
}

void join(Clock& clock, const Clock& other) {
  clock.threads = std::max(clock.threads, other.threads);
  for (const auto& [group, times] : other.later) join(clock.later[group], times);
}

Clocks::Clocks(unsigned ranks, unsigned warps)
    : stride_(warps * WARP), threads_(ranks * stride_), warps_(ranks * warps), groups_(2 * warps_ + MOST_HIRED / WARP),
      copies_known_(threads_), copies_told_(threads_), since_(warps_), some_(warps_), known_(std::size_t(warps_) * groups_) {}

Clocks::Known& Clocks::place(unsigned warp, unsigned group) {
  std::unique_ptr<Known>& place = known_[warp * groups_ + group];
  if (place == nullptr) place = std::make_unique<Known>();
  some_[warp].add(group);
  return *place;
}

void Clocks::start_cluster() {
  start_ = time_ + 1;
  hired_.clear();
  arrivals_.clear();
  pass_barrier_of_all();
}

void Clocks::pass_barrier_of_all() {
  threads_known_ = ++time_;
  for (unsigned thread : completed_) {
    copies_known_[thread] = known(thread, threads_ + thread);
    copies_told_[thread] = time_;
  }
  completed_.clear();
  for (unsigned i = 0; i < hired_.size(); ++i)
    for (unsigned thread = 0; thread < threads_; ++thread)
      hired_[i].known = std::max(hired_[i].known, known(thread, 2 * threads_ + i));
  for (Groups& some : some_) some = {};
  ++time_;
  std::fill(since_.begin(), since_.end(), time_);
}

void Clocks::meet(unsigned warp, uint32_t lanes) {
  since_[warp] = ++time_;
  place(warp, warp);
  some_[warp].each([&](unsigned group) {
    Known& known = *known_[warp * groups_ + group];
    Times all = {};
    each_of(lanes, [&](unsigned lane) { join(all, known[lane]); });
    if (group == warp) each_of(lanes, [&](unsigned lane) { all[lane] = time_; });
    each_of(lanes, [&](unsigned lane) { known[lane] = all; });
  });
}

void Clocks::release_quietly(unsigned thread, Clock& clock) {
  ++time_;
  const unsigned warp = thread / WARP;
  clock.threads = std::max(clock.threads, threads_known_);
  some_[warp].each([&](unsigned group) { join(clock.later[group], (*known_[warp * groups_ + group])[thread % WARP]); });
  clock.later[warp][thread % WARP] = time_;
}

void Clocks::release(unsigned thread, Clock& clock) {
  release_quietly(thread, clock);
  since_[thread / WARP] = time_;
}

void Clocks::acquire(unsigned thread, const Clock& clock) {
  for (const auto& [group, times] : clock.later) join(place(thread / WARP, group)[thread % WARP], times);
}

void Clocks::complete_copies(unsigned thread, uint32_t time) {
  complete(thread, threads_ + thread, time);
  completed_.push_back(thread);
}

unsigned Clocks::hire(unsigned thread, bool arrives) {
  if (hired_.size() == MOST_HIRED) return 0;
  hired_.push_back({thread, arrives, 0});
  const auto agent = 2 * threads_ + unsigned(hired_.size()) - 1;
  return agent <= 0xFFFF ? agent : 0;
}

uint32_t Clocks::begin_operation(unsigned agent, unsigned thread) {
  ++time_;
  if (arrives(agent)) arrivals_[time_] = {thread, 0};
  return time_;
}

void Clocks::complete(unsigned thread, unsigned agent, uint32_t time) {
  uint32_t& known = place(thread / WARP, agent / WARP)[thread % WARP][agent % WARP];
  known = std::max(known, time);
}

void Clocks::complete_load(uint32_t operation, unsigned agent, Clock& clock) {
  arrivals_[operation].complete = ++time_;
  clock.later[agent / WARP][agent % WARP] = time_ + 1;
  ++time_;
}

uint32_t Clocks::known_to_lanes(unsigned warp, uint32_t lanes, unsigned group, uint32_t agents) const {
  const auto& found = known_[warp * groups_ + group];
  if (found == nullptr) return 0;
  Times least;
  least.fill(~0u);
  each_of(lanes, [&](unsigned lane) {
    const Times& its = (*found)[lane];
    for (unsigned i = 0; i < WARP; ++i) least[i] = std::min(least[i], its[i]);
  });
  uint32_t result = ~0u;
  each_of(agents, [&](unsigned agent) { result = std::min(result, least[agent]); });
  return result;
}

bool Clocks::covers(const Clock& clock, const Trace& trace) const {
  if (trace.agent < threads_ && trace.time < clock.threads) return true;
  const auto group = clock.later.find(trace.agent / WARP);
  return group != clock.later.end() && group->second[trace.agent % WARP] > trace.time;
}

bool Clocks::told_before(const Trace& trace, const Clock& clock) const {
  if (trace.deed != Deed::copy || !known_to_all(trace)) return false;
  return clock.threads >= copies_told_[trace.agent - threads_];
}

unsigned Clocks::thread_of(const Trace& trace) const {
  if (!is_hired(trace.agent)) return trace.agent % threads_;
  const auto arrival = arrivals_.find(trace.time);
  if (arrival != arrivals_.end()) return arrival->second.thread;
  return of_this_cluster(trace) && trace.agent - 2 * threads_ < hired_.size() ? hired_[trace.agent - 2 * threads_].thread : 0;
}

bool Clocks::comes_before(const Trace& trace, unsigned thread) const {
  if (!of_this_cluster(trace) || trace.agent == thread) return true;
  if (!is_hired(trace.agent)) return known(thread, trace.agent) > trace.time;
  const Hired& agent = hired_[trace.agent - 2 * threads_];
  const uint32_t known_time = std::max(agent.known, known(thread, trace.agent));
  if (!agent.arrives) return known_time > trace.time;
  const auto arrival = arrivals_.find(trace.time);
  return arrival != arrivals_.end() && arrival->second.complete != 0 && known_time > arrival->second.complete;
}

}  // namespace gemmgen
