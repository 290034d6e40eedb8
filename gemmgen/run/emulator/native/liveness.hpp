// Liveness of registers: which instruction reads a value that is there now. Asked seldom, so it is searched for on demand.
#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "instruction.hpp"

namespace gemmgen {

// Answers for all kernels of a program, kept. Thread-safe.
class Liveness {
 public:
  // An instruction that reads what `unit` holds right behind `from`, on some path; null if it is dead there.
  const Instruction* reader(const Kernel& kernel, const Instruction* from, Unit unit);

 private:
  std::mutex mutex_;
  std::map<std::pair<const Instruction*, Unit>, const Instruction*> known_;
};

}  // namespace gemmgen
