#include "liveness.hpp"

#include <cstdint>
#include <vector>

#include "warp.hpp"

namespace gemmgen {

namespace {

enum class Access : uint8_t { none, reads, writes };

// What each instruction does with a unit. One that reads and writes it reads first.
std::vector<Access> accesses(const Kernel& kernel, Unit unit) {
  std::vector<Access> made(kernel.code.size(), Access::none);
  for (const RegisterUse& use : kernel.uses)
    if (use.unit == unit && made[use.at] != Access::reads) made[use.at] = use.writes ? Access::writes : Access::reads;
  return made;
}

// Follows all paths from behind `from` to the first write.
const Instruction* search(const Kernel& kernel, const Instruction* from, Unit unit) {
  const std::vector<Access> by = accesses(kernel, unit);
  std::vector<bool> met(kernel.code.size());
  std::vector<const Instruction*> starts = {from + 1};
  while (!starts.empty()) {
    const Instruction* i = starts.back();
    starts.pop_back();
    for (;; ++i) {
      const auto number = std::size_t(i - kernel.code.data());
      if (met[number]) break;
      met[number] = true;
      if (by[number] == Access::reads) return i;
      if (by[number] == Access::writes) break;
      const bool always = i->guard == NO_UNIT;
      if (i->target != nullptr) starts.push_back(i->target);
      if (always && (i->target != nullptr || i->run == exit_lanes)) break;
    }
  }
  return nullptr;
}

}  // namespace

const Instruction* Liveness::reader(const Kernel& kernel, const Instruction* from, Unit unit) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = known_.try_emplace({from, unit});
  if (is_new) found->second = search(kernel, from, unit);
  return found->second;
}

}  // namespace gemmgen
