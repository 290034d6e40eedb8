// What goes on beside the threads of a block.
#pragma once

#include <cstdint>
#include <string>

#include "barriers.hpp"

namespace gemmgen {

// TMA, mbarriers, wgmma. One stands by where a kernel uses them.
struct Asynchronous {
  virtual void start_launch(uint64_t seed) = 0;
  virtual void start_block() = 0;
  virtual bool proceed() = 0;  // does something that threads may wait for; whether there was anything
  virtual void exit_thread() = 0;
  virtual void finish_block(unsigned rank) = 0;  // all threads of a block have exited
  virtual std::string describe(State state, unsigned number) const = 0;  // what a thread waits for
  virtual ~Asynchronous() = default;
};

inline Asynchronous* asynchronous = nullptr;  // set by the first use

}  // namespace gemmgen
