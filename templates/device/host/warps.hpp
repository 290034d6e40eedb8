// Where threads of a warp, or of a warpgroup, meet: collectives, and what __activemask says.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "barriers.hpp"
#include "clocks.hpp"
#include "cluster.hpp"
#include "failure.hpp"
#include "scheduler.hpp"

namespace gemmgen {

class Warps : public Scheduler {
 public:
  // The lanes of `mask` meet; `combine` sees what each of them brings as `operand` and leaves it changed.
  void warp_collective(unsigned mask, void* operand, Combine combine, unsigned line, Order order = Order::lanes) {
    if ((mask & lane_mask()) == 0)
      fail("crash", {line}, "%s is not in the mask 0x%08x of its warp collective", where().c_str(), mask);
    running_->mask = mask;
    running_->operand = operand;
    running_->combine = combine;
    running_->order = order;
    running_->line = line;
    become(index(), State::at_warp_barrier);
    WholeWarp& warp = whole_warps_[index() / WARP];
    if (mask == WholeWarp::ALL && warp.complete(lane(), operand, combine, line)) return release_whole_warp(warp);
    release_warp_barrier(mask);
    if (states_[index()] != State::ready) hand_over();
  }

  // The lanes of the running thread's warp that are at this line, too, once no other lane of it can run: GPUs promise
  // less, and mostly give that.
  unsigned active_mask(unsigned line) {
    ++at_active_mask_;
    wait(State::at_active_mask, line);
    return running_->mask;
  }

  // The threads of the running one's warpgroup come to an instruction; the last one makes them `act`.
  void warpgroup_collective(void* operand, WarpgroupAct act, unsigned line) {
    const unsigned number = index() / WARPGROUP, first = number * WARPGROUP;
    const unsigned start = rank_ * cluster.stride(), end = start + cluster.threads;
    if (first < start || first + WARPGROUP > end)
      fail("crash", {line}, "%s: an instruction of a warpgroup, and threads %u to %u are none", where().c_str(),
           std::max(first, start) - start, std::min(first + WARPGROUP, end) - start - 1);
    Warpgroup& group = warpgroups_[number];
    if (group.arrived == 0) {
      group.line = line;
      group.act = act;
    } else if (group.line != line || group.act != act) {
      fail("crash", {line}, "%s: others of its warpgroup are at the instruction of line %u", where().c_str(), group.line);
    }
    group.operands[index() - first] = operand;
    if (++group.arrived < WARPGROUP) return wait(State::at_warpgroup, line);
    group.arrived = 0;
    act(group.operands, first);
    for (unsigned t = first; t < first + WARPGROUP; ++t)
      if (states_[t] == State::at_warpgroup) become(t, State::ready);
  }

 protected:
  void start_warps() {
    at_active_mask_ = 0;
    for (Warpgroup& group : warpgroups_) group.arrived = 0;
    for (WholeWarp& warp : whole_warps_) warp.arrived = 0;
  }

  // Of warps that have no thread left that runs; whether there was one.
  bool release_active_masks() {
    bool released = false;
    for (unsigned warp = 0; at_active_mask_ > 0 && warp < count_; warp += WARP) {
      if (ready_[warp / WARP] != 0) continue;
      const unsigned end = std::min(count_, warp + WARP);
      for (unsigned t = warp; t < end; ++t)
        if (states_[t] == State::at_active_mask) released = release_active_mask(t, end) || released;
    }
    return released;
  }

  // Those from thread `first` to `end` that wait at its line.
  bool release_active_mask(unsigned first, unsigned end) {
    const auto is_there = [&](unsigned t) {
      return states_[t] == State::at_active_mask && threads_[t].line == threads_[first].line;
    };
    unsigned mask = 0;
    for (unsigned t = first; t < end; ++t) mask |= unsigned(is_there(t)) << t % WARP;
    for (unsigned t = end; t-- > first;) {
      if (!is_there(t)) continue;
      threads_[t].mask = mask;
      become(t, State::ready);
      --at_active_mask_;
    }
    return true;
  }

  void release_whole_warp(WholeWarp& warp) {
    const unsigned number = index() / WARP;
    warp.arrived = 0;
    ready_[number] = WholeWarp::ALL;
    std::fill_n(states_ + number * WARP, WARP, State::ready);
    if (warp.combine != nullptr) warp.combine(warp.operands);
    if (running_->order == Order::lanes) clocks.pass_warp_barrier(number * WARP, WholeWarp::ALL);
  }

  // Releases the running thread's warp barrier once all lanes of `mask` that still run are there.
  void release_warp_barrier(unsigned mask) {
    const unsigned warp = index() & ~(WARP - 1);
    if (ready_[warp / WARP] & mask) return;
    const unsigned lanes = std::min(WARP, count_ - warp);
    unsigned arrived = 0;
    const Thread* first = nullptr;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const Thread& thread = threads_[warp + lane];
      if (states_[warp + lane] != State::at_warp_barrier || (thread.mask & mask) == 0) continue;
      if (first == nullptr) first = &thread;
      const bool same = thread.mask == first->mask && thread.line == first->line && thread.combine == first->combine;
      if (same) arrived |= 1u << lane;
    }
    if (first == nullptr) return;
    for (unsigned lane = 0; lane < lanes; ++lane)
      if ((first->mask >> lane & 1) && !(arrived >> lane & 1) && states_[warp + lane] != State::exited) return;
    void* operands[WARP] = {};
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (!(arrived >> lane & 1)) continue;
      operands[lane] = threads_[warp + lane].operand;
      become(warp + lane, State::ready);
    }
    whole_warps_[warp / WARP].arrived &= ~arrived;
    if (first->combine != nullptr) first->combine(operands);
    if (first->order == Order::lanes) clocks.pass_warp_barrier(warp, arrived);
  }

 private:
  std::array<Warpgroup, MAX_THREADS / WARPGROUP> warpgroups_;
  std::array<WholeWarp, MAX_WARPS> whole_warps_;
  unsigned at_active_mask_ = 0;  // threads
};

}  // namespace gemmgen
