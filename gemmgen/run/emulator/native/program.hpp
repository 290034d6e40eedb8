// A PTX module, ready to run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "coverage.hpp"
#include "instruction.hpp"
#include "liveness.hpp"
#include "module.hpp"
#include "products.hpp"

namespace gemmgen {

class Program {
 public:
  // Throws Failure (unjudged) for PTX that it does not know.
  Program(std::string ptx, std::string name, std::string_view instruction_table);

  const Module& module() const { return *module_; }
  const InstructionTable& instructions() const { return instructions_; }
  // Ring mode: floating-point numbers are integers. See ring_numbers.hpp.
  bool in_ring() const { return instructions_.in_ring(); }
  Coverage& coverage() { return coverage_; }
  Liveness& liveness() { return liveness_; }

  // Decoded when it is asked for first. Throws Failure.
  const Kernel& kernel(std::string_view name);

  // "name.cu:12", with the lines that call what is inlined there.
  std::string place(uint32_t location) const;
  // "12, called from line 34, called from line 56".
  std::string lines(uint32_t location) const;

  // Variables of the module in global and constant memory.
  struct Global {
    const Variable* variable;
    unsigned char* start;
  };
  const std::map<std::string_view, Global>& globals() const { return globals_; }

 private:
  void place_globals();

  std::unique_ptr<const Module> module_;
  std::string name_;
  InstructionTable instructions_;
  Coverage coverage_;
  Liveness liveness_;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
  std::map<std::string_view, Global> globals_;
  std::unique_ptr<unsigned char[]> memory_;
};

}  // namespace gemmgen
