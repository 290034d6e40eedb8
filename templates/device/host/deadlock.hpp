// What is said of threads that can never meet.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "asynchronous.hpp"
#include "barriers.hpp"
#include "cluster.hpp"

namespace gemmgen {

// Where threads of a block wait.
struct Stop {
  unsigned rank;  // of the block
  State state;
  unsigned line;
  unsigned barrier = 0;            // its number, where it has one
  unsigned come = 0, awaited = 0;  // threads at a barrier that not all of the block pass

  // For something asynchronous, or for another block.
  bool waits() const { return asynchronously() || state == State::at_cluster_barrier; }
  bool numbered() const { return asynchronously() || state == State::at_named_barrier; }

  bool operator<(const Stop& other) const {
    return std::tie(rank, state, line, barrier) < std::tie(other.rank, other.state, other.line, other.barrier);
  }

  std::string text() const {
    const std::string of_line = " of line " + std::to_string(line);
    const std::string counted = ", where " + std::to_string(come) + " of " + std::to_string(awaited) + " threads have ";
    switch (state) {
      case State::at_syncthreads: return "wait at the __syncthreads" + of_line;
      case State::at_named_barrier: return "wait at barrier " + std::to_string(barrier) + of_line + counted + "come";
      case State::at_warpgroup: return "wait at the warpgroup's instruction" + of_line;
      case State::at_mbarrier:
      case State::at_registers: return "wait at line " + std::to_string(line) + " for " + asynchronous->describe(state, barrier);
      case State::at_cluster_barrier: return "wait at the cluster's barrier" + of_line + counted + "arrived";
      case State::at_warp_barrier: return "wait at the warp collective" + of_line;
      case State::at_active_mask: return "wait at the __activemask" + of_line;
      case State::exited: return "have exited";
      case State::ready: break;
    }
    return "run";
  }

 private:
  bool asynchronously() const { return state == State::at_mbarrier || state == State::at_registers; }
};

using Stops = std::map<Stop, std::vector<unsigned>>;  // the threads at each, by their number in the block

inline std::string listed(const std::vector<unsigned>& members) {
  constexpr std::size_t SOME = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(SOME, members.size()); ++i) text += (i == 0 ? "" : ", ") + std::to_string(members[i]);
  return members.size() > SOME ? text + ", ..." : text;
}

inline std::string described(const Stops& stops) {
  std::string text;
  for (const auto& [stop, members] : stops) {
    if (!text.empty()) text += "; ";
    text += std::to_string(members.size()) + " of " + std::to_string(cluster.threads) + " threads ";
    if (cluster.ranks > 1) text += "of block " + std::to_string(cluster.first_block + stop.rank) + " ";
    text += stop.text() + " (" + listed(members) + ")";
  }
  return text;
}

}  // namespace gemmgen
