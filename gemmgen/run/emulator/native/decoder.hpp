// From statements to instructions: decoders by opcode, and what they have in common.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "instruction.hpp"
#include "program.hpp"

namespace gemmgen {

class Decoder;
using Decode = void (*)(Decoder&, const Statement&);
using Decoders = std::unordered_map<std::string_view, Decode>;

void add_integers(Decoders&);
void add_floats(Decoders&);
void add_conversions(Decoders&);
void add_moves(Decoders&);
void add_control(Decoders&);
void add_memory(Decoders&);
void add_atomics(Decoders&);
void add_collectives(Decoders&);
void add_matrices(Decoders&);
void add_copies(Decoders&);
void add_hopper(Decoders&);
void add_calls(Decoders&);
void add_ring(Decoders&);  // replaces decoders of floating-point instructions
const Decoders& decoders_of_floats();

// Of a type that is no floating-point number.
void decode_integer_add(Decoder&, const Statement&);
void decode_integer_subtract(Decoder&, const Statement&);
void decode_integer_multiply(Decoder&, const Statement&);
void decode_integer_divide(Decoder&, const Statement&);
void decode_integer_least(Decoder&, const Statement&);
void decode_integer_greatest(Decoder&, const Statement&);
void decode_integer_negate(Decoder&, const Statement&);
void decode_integer_magnitude(Decoder&, const Statement&);
void decode_cluster_barrier(Decoder&, const Statement&);
void decode_proxy_fence(Decoder&, const Statement&);
void decode_bulk(Decoder&, const Statement&);
void decode_mbarrier(Decoder&, const Statement&);
void decode_wgmma(Decoder&, const Statement&);
void decode_registers(Decoder&, const Statement&);

class Decoder {
 public:
  Decoder(Program& program, const Function& function, Kernel& kernel);

  void run();
  // Whether some statement gives this register a value.
  bool is_given(const Operand& reg) const { return given_[reg.reg]; }
  // The instructions of a function in the place of its call, whose `arguments` and `results` are variables of this one.
  void inline_call(const Function& callee, const std::vector<Operand>& results, const std::vector<Operand>& arguments);
  // A return: to behind the call, or the end of the kernel.
  void emit_return();
  // Where a .param variable of this function lies in local memory; ~0 for what is none.
  uint32_t local(std::string_view name) const;

  // A new instruction that the current statement gives. It moves with the next one: take what is needed first.
  Instruction& emit(Handler handler);
  Detail& detail(Instruction& of);

  // The unit of a source: a register, or a constant of `type`.
  Unit source(const Operand& operand, Type type);
  Unit source(std::size_t operand, Type type) { return source(at(operand), type); }
  // Of a destination; NO_UNIT for `_`.
  Unit destination(const Operand& operand);
  Unit destination(std::size_t operand) { return destination(at(operand)); }
  Unit constant(uint64_t value, unsigned bits, bool dynamic = false);
  Unit special(Special which, unsigned bits);
  Unit temporary(unsigned bits);
  // The carry of add.cc and its like.
  Unit carry();

  const Operand& at(std::size_t operand) const;
  std::size_t count() const { return statement_->operands.size(); }
  // Of a register or a constant of that type, as it lies in the file.
  unsigned bits(const Operand& operand, Type type) const;
  Type type_of(const Operand& operand) const;

  // Base and offset of an address.
  struct Address {
    Unit base;
    unsigned bits;  // of the base
    int64_t offset;
  };
  Address address(const Operand& operand);

  // Where a label leads.
  void branch_to(Instruction& from, std::string_view label);

  [[noreturn]] void refuse(const std::string& what) const;
  Program& program() { return program_; }
  const Function& function() const { return function_; }
  const Statement& statement() const { return *statement_; }
  Kernel& kernel() { return kernel_; }
  unsigned target() const { return program_.module().target; }

 private:
  // A jump from one instruction to another, by their numbers: the code moves while it grows.
  struct Jump {
    uint32_t from, to;
  };

  Decoder(Decoder& caller, const Function& callee);

  void place_shared();
  void place(const Variable& shared);
  void place_registers();
  void place_locals();
  void decode_statements();
  Unit symbol(const Operand& operand, unsigned bits);
  Unit ring_constant(const Operand& operand, unsigned bits);
  // Of a register that the current statement reads or writes, which is put down in the kernel's uses.
  Unit used(const Operand& reg, bool writes);

  Program& program_;
  const Function& function_;
  Kernel& kernel_;
  const Statement* statement_ = nullptr;
  uint32_t first_ = 0;  // the number of its first instruction
  std::vector<Unit> registers_;  // by number
  std::vector<bool> given_;      // likewise: whether a statement may give it a value
  std::map<std::tuple<uint64_t, unsigned, bool>, Unit> constants_;
  std::map<std::pair<Special, unsigned>, Unit> specials_;
  std::map<std::string_view, std::pair<uint32_t, bool>> shared_;  // offset, and whether it is dynamic
  std::map<std::string_view, uint32_t> locals_;
  Unit carry_ = NO_UNIT;
  std::vector<std::pair<uint32_t, std::string_view>> branches_;
  std::vector<uint32_t> starts_;  // the first instruction of each statement
  std::vector<uint32_t> returns_;
  std::vector<Jump>& jumps_;
  std::vector<Jump> own_jumps_;  // of a kernel, and all that it calls
  const Decoder* const caller_ = nullptr;
  const unsigned depth_ = 0;
};

}  // namespace gemmgen
