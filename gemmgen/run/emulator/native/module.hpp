// A PTX text, parsed: its kernels and functions, statement by statement, and its variables.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "types.hpp"

namespace gemmgen {

struct Operand {
  enum class Kind : uint8_t {
    nothing,  // `_`
    reg,
    immediate,
    symbol,   // a variable, a parameter, a function, or a special register
    label,
    address,  // [base + offset], where `parts` has the base and whatever follows it in the brackets
    vector,   // {parts}
    pair,     // destination | predicate
  };
  Kind kind = Kind::nothing;
  bool negated = false;  // !p
  Type literal = Type::none;  // of an immediate: f32 or f64 where it is written as one, else none
  uint32_t reg = 0;      // its number in the function
  uint64_t bits = 0;     // of an immediate
  int64_t offset = 0;
  std::string_view name;
  std::vector<Operand> parts;
};

struct Statement {
  static constexpr uint32_t UNGUARDED = ~0u;
  std::string_view opcode;              // "ld"
  std::vector<std::string_view> words;  // "global", "v4", "f32"
  std::vector<Operand> operands;
  uint32_t guard = UNGUARDED;  // a predicate's number
  bool guard_negated = false;
  uint32_t line = 0;      // of the PTX
  uint32_t location = 0;  // a number of Module::locations
  bool vague = false;     // it comes from several lines: the location is that of what stands before

  bool has(std::string_view word) const;
  std::string text() const;  // "ld.global.v4.f32"
  // The last word that names a type; `before` counts from the end.
  Type type(unsigned before = 0) const;
};

// A place in the source: a line of a file, and where that is inlined.
struct SourceLocation {
  uint32_t file = 0, line = 0, column = 0;
  uint32_t caller = 0;  // a number of Module::locations; 0: none
};

struct Variable {
  std::string_view name;
  Type type = Type::none;  // of its elements
  uint64_t alignment = 1, bytes = 0;
  bool external = false;  // dynamic shared memory
  bool constant = false;
  uint64_t offset = 0;    // of a parameter
  std::vector<unsigned char> initial;
};

struct Register {
  std::string_view name;
  Type type = Type::none;
};

struct Function {
  std::string_view name;
  bool is_entry = false;
  std::vector<Variable> results, parameters;
  uint64_t parameter_bytes = 0;
  std::vector<Register> registers;
  std::vector<Variable> locals, shared;  // declared inside
  std::vector<Statement> statements;
  std::unordered_map<std::string_view, uint32_t> labels;  // the statement that follows; names are those of `unique_labels`
  std::vector<std::unique_ptr<std::string>> unique_labels;  // of labels in braces, which may repeat
  unsigned most_threads = 0, cluster = 0;  // 0: not said
};

struct Module {
  std::string text;  // what all names are parts of
  unsigned target = 0;  // 90
  std::string_view target_name;  // "sm_90a"
  std::vector<Function> functions;
  std::vector<Variable> globals, shared;
  std::vector<std::string> files;  // by their numbers in .loc
  std::vector<SourceLocation> locations;

  const Function* find(std::string_view name) const;
};

// What the text calls the variable of a symbol: As, for _ZZ6kernelE2As. Other symbols are names already.
std::string plain_name(std::string_view symbol);

// Throws Failure (unjudged) with the line of the PTX.
std::unique_ptr<const Module> parse(std::string text);

}  // namespace gemmgen
