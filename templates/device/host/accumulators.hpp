// Registers that a wgmma writes at some time before its wait: until then nobody may touch them. Those of A it reads alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "access.hpp"
#include "clocks.hpp"
#include "cluster.hpp"

namespace gemmgen {

class Accumulators {
 public:
  void start_block() {
    std::for_each_n(flights_.begin(), cluster.count(), [](auto& flights) { flights.clear(); });
    count_ = 0;
  }

  // Once more where they are in flight already.
  void start_flight(unsigned thread, const unsigned char* start, std::size_t bytes, unsigned line, bool read) {
    end_flight(thread, start);
    flights_[thread].push_back({start, bytes, line, read});
    ++count_;
  }

  void end_flight(unsigned thread, const unsigned char* start) {
    std::vector<Flight>& flights = flights_[thread];
    for (std::size_t i = 0; i < flights.size(); ++i) {
      if (flights[i].start != start) continue;
      flights.erase(flights.begin() + std::ptrdiff_t(i));
      --count_;
      return;
    }
  }

  // Whether there are any.
  bool in_flight() const { return count_ > 0; }

  // Of an access of thread `thread` to its own memory: the line of the wgmma that it meets; 0 for none.
  unsigned met(unsigned thread, const unsigned char* address, std::size_t bytes, Kind kind) const {
    for (const Flight& flight : flights_[thread])
      if (address + bytes > flight.start && address < flight.start + flight.bytes && !(flight.read && kind == Kind::read))
        return flight.line;
    return 0;
  }

 private:
  struct Flight {
    const unsigned char* start;
    std::size_t bytes;
    unsigned line;
    bool read;  // by the wgmma, which does not write them
  };

  std::array<std::vector<Flight>, MAX_THREADS> flights_;
  std::size_t count_ = 0;
};

inline Accumulators accumulators;

}  // namespace gemmgen
