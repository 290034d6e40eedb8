#include "program.hpp"

#include <algorithm>
#include <cstring>

#include "decoder.hpp"
#include "failure.hpp"

namespace gemmgen {

Program::Program(std::string ptx, std::string name, std::string_view instruction_table)
    : module_(parse(std::move(ptx))), name_(std::move(name)), instructions_(InstructionTable::parse(instruction_table)) {
  place_globals();
}

// Globals lie so far apart that an access behind one does not reach another.
void Program::place_globals() {
  constexpr uint64_t GAP = 4096;
  uint64_t end = 0;
  std::map<std::string_view, uint64_t> places;
  for (const Variable& one : module_->globals) {
    end = (end + GAP + one.alignment - 1) / one.alignment * one.alignment;
    places[one.name] = end;
    end += one.bytes;
  }
  if (end > uint64_t(1) << 30) fail("unjudged", "variables of more than 1 GiB");
  memory_ = std::make_unique<unsigned char[]>(end + 2 * GAP);
  auto* const start = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(memory_.get()) + GAP - 1) / GAP * GAP);
  for (const Variable& one : module_->globals) {
    unsigned char* const at = start + places[one.name];
    std::memcpy(at, one.initial.data(), one.initial.size());
    globals_[one.name] = {&one, at};
  }
}

const Kernel& Program::kernel(std::string_view name) {
  if (const auto found = kernels_.find(name); found != kernels_.end()) return *found->second;
  const Function* const function = module_->find(name);
  if (function == nullptr || !function->is_entry)
    fail("launch", "the PTX has no kernel %s", std::string(name).c_str());
  auto made = std::make_unique<Kernel>();
  Decoder(*this, *function, *made).run();
  return *kernels_.emplace(name, std::move(made)).first->second;
}

std::string Program::place(uint32_t location) const {
  return module_->locations[location].line == 0 ? "an unknown line" : name_ + ".cu:" + lines(location);
}

std::string Program::lines(uint32_t location) const {
  const SourceLocation* at = &module_->locations[location];
  const SourceLocation* outer = at;
  while (outer->caller != 0) outer = &module_->locations[outer->caller];
  while (at->file != outer->file) at = &module_->locations[at->caller];  // out of CUDA's headers
  std::string text = std::to_string(at->line);
  for (; at->caller != 0; text += ", called from line " + std::to_string(at->line)) at = &module_->locations[at->caller];
  return text;
}

}  // namespace gemmgen
