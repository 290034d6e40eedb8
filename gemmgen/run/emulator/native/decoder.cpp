#include "decoder.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "failure.hpp"
#include "ring_numbers.hpp"
#include "warp.hpp"

namespace gemmgen {

namespace {

constexpr std::pair<std::string_view, Special> SPECIALS[] = {
    {"%tid.x", Special::tid_x}, {"%tid.y", Special::tid_y}, {"%tid.z", Special::tid_z},
    {"%ntid.x", Special::ntid_x}, {"%ntid.y", Special::ntid_y}, {"%ntid.z", Special::ntid_z},
    {"%ctaid.x", Special::ctaid_x}, {"%ctaid.y", Special::ctaid_y}, {"%ctaid.z", Special::ctaid_z},
    {"%nctaid.x", Special::nctaid_x}, {"%nctaid.y", Special::nctaid_y}, {"%nctaid.z", Special::nctaid_z},
    {"%laneid", Special::laneid}, {"%warpid", Special::warpid}, {"%nwarpid", Special::nwarpid},
    {"%smid", Special::smid}, {"%nsmid", Special::nsmid}, {"%gridid", Special::gridid},
    {"%lanemask_eq", Special::lanemask_eq}, {"%lanemask_le", Special::lanemask_le}, {"%lanemask_lt", Special::lanemask_lt},
    {"%lanemask_ge", Special::lanemask_ge}, {"%lanemask_gt", Special::lanemask_gt},
    {"%clock", Special::clock}, {"%clock_hi", Special::clock_hi}, {"%clock64", Special::clock64},
    {"%globaltimer", Special::globaltimer}, {"%globaltimer_lo", Special::globaltimer_lo},
    {"%globaltimer_hi", Special::globaltimer_hi},
    {"%cluster_ctaid.x", Special::cluster_ctaid_x}, {"%cluster_ctaid.y", Special::cluster_ctaid_y},
    {"%cluster_ctaid.z", Special::cluster_ctaid_z}, {"%cluster_nctaid.x", Special::cluster_nctaid_x},
    {"%cluster_nctaid.y", Special::cluster_nctaid_y}, {"%cluster_nctaid.z", Special::cluster_nctaid_z},
    {"%cluster_ctarank", Special::cluster_ctarank}, {"%cluster_nctarank", Special::cluster_nctarank},
    {"%clusterid.x", Special::clusterid_x}, {"%clusterid.y", Special::clusterid_y}, {"%clusterid.z", Special::clusterid_z},
    {"%nclusterid.x", Special::nclusterid_x}, {"%nclusterid.y", Special::nclusterid_y},
    {"%nclusterid.z", Special::nclusterid_z}, {"%is_explicit_cluster", Special::is_explicit_cluster},
    {"%dynamic_smem_size", Special::dynamic_smem_size}, {"%total_smem_size", Special::total_smem_size},
    {"%aggr_smem_size", Special::aggr_smem_size},
};

const Decoders& decoders_of_ring() {
  static const Decoders all = [] {
    Decoders made = decoders_of_floats();
    add_ring(made);
    return made;
  }();
  return all;
}
unsigned units_for(unsigned bits) { return bits == 128 ? 4 : bits == 64 ? 2 : 1; }

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

uint32_t aligned(uint32_t at, uint64_t alignment) { return uint32_t((at + alignment - 1) / alignment * alignment); }

}  // namespace

const Decoders& decoders_of_floats() {
  static const Decoders all = [] {
    Decoders made;
    add_integers(made);
    add_floats(made);
    add_conversions(made);
    add_moves(made);
    add_control(made);
    add_memory(made);
    add_atomics(made);
    add_collectives(made);
    add_matrices(made);
    add_copies(made);
    add_hopper(made);
    add_calls(made);
    return made;
  }();
  return all;
}

Decoder::Decoder(Program& program, const Function& function, Kernel& kernel)
    : program_(program), function_(function), kernel_(kernel), jumps_(own_jumps_) {
  kernel.name = function.name;
  kernel.parameter_bytes = function.parameter_bytes;
  kernel.most_threads = function.most_threads;
  kernel.cluster = function.cluster;
  place_shared();
  place_locals();
  place_registers();
}

Decoder::Decoder(Decoder& caller, const Function& callee)
    : program_(caller.program_), function_(callee), kernel_(caller.kernel_), shared_(caller.shared_), jumps_(caller.jumps_),
      caller_(&caller), depth_(caller.depth_ + 1) {
  for (const Variable& one : callee.shared) place(one);
  place_locals();
  place_registers();
}

void Decoder::place_shared() {
  kernel_.shared_end = STATIC_SHARED;
  for (const Variable& one : program_.module().shared) place(one);
  for (const Variable& one : function_.shared) place(one);
}

// Static arrays lie far apart, each with exactly its own alignment and no more: an access behind one of them
// does not reach another, and one that needs a larger alignment is misaligned here, too.
void Decoder::place(const Variable& one) {
  if (one.external) {
    kernel_.dynamic_alignment = std::max(kernel_.dynamic_alignment, uint32_t(one.alignment));
    shared_[one.name] = {0, true};
    return;
  }
  const uint32_t start = aligned(kernel_.shared_end, 2 * one.alignment) + uint32_t(one.alignment);
  if (uint64_t(start) + one.bytes + 2 * SHARED_SPACING >= 1u << RANK_SHIFT) refuse("more shared memory than the emulator has addresses for");
  shared_[one.name] = {start, false};
  kernel_.arrays.push_back({plain_name(one.name), start, uint32_t(one.bytes)});
  kernel_.shared_end = aligned(start + uint32_t(one.bytes) + SHARED_SPACING, SHARED_SPACING);
}

void Decoder::place_locals() {
  uint32_t next = kernel_.local_bytes;
  std::map<std::string_view, uint64_t> sizes;  // calls declare what they pass by the same names, in braces of their own
  for (const Variable& one : function_.locals) sizes[one.name] = std::max(sizes[one.name], one.bytes);
  for (const Variable& one : function_.locals) {
    if (locals_.contains(one.name)) continue;
    next = aligned(next, std::max<uint64_t>(one.alignment, 8));
    locals_[one.name] = next;
    if (sizes[one.name] + next > 1 << 20) refuse("local memory of more than 1 MiB");
    next += uint32_t(sizes[one.name]);
  }
  kernel_.local_bytes = aligned(next, 16);
}

void Decoder::place_registers() {
  registers_.reserve(function_.registers.size());
  for (const Register& one : function_.registers) registers_.push_back(temporary(bits_of(one.type)));
  given_.resize(function_.registers.size());
  const auto give = [&](const Operand& to) {
    if (to.kind == Operand::Kind::reg) given_[to.reg] = true;
  };
  for (const Statement& one : function_.statements) {
    if (one.operands.empty()) continue;
    give(one.operands[0]);
    for (const Operand& part : one.operands[0].parts) give(part);
  }
}

Unit Decoder::temporary(unsigned bits) {
  const Unit made = kernel_.units;
  kernel_.units += units_for(bits);
  return made;
}

Unit Decoder::carry() {
  if (carry_ == NO_UNIT) carry_ = temporary(1);
  return carry_;
}

void Decoder::run() {
  decode_statements();
  if (statement_ == nullptr) fail("unjudged", "the kernel %s has no instruction", kernel_.name.c_str());
  emit(exit_lanes).guard = NO_UNIT;
  for (const auto& [from, to] : jumps_) kernel_.code[from].target = &kernel_.code[to];
}

void Decoder::inline_call(const Function& callee, const std::vector<Operand>& results, const std::vector<Operand>& arguments) {
  constexpr unsigned MOST_DEPTH = 16;
  constexpr std::size_t MOST_CODE = 1 << 20;
  if (depth_ == MOST_DEPTH) refuse("calls within calls, or a recursion, are not emulated");
  if (kernel_.code.size() > MOST_CODE) refuse("calls make the kernel longer than a million instructions");
  if (statement_->guard != Statement::UNGUARDED) refuse("a call under a predicate is not emulated");
  if (results.size() != callee.results.size() || arguments.size() != callee.parameters.size()) refuse("a call with other arguments");
  Decoder inner(*this, callee);
  const auto bind = [&](const std::vector<Operand>& given, const std::vector<Variable>& formal) {
    for (std::size_t n = 0; n < given.size(); ++n) {
      const uint32_t place = local(given[n].name);
      if (place == ~0u) refuse("an argument that is no .param variable");
      inner.locals_[formal[n].name] = place;
    }
  };
  bind(results, callee.results);
  bind(arguments, callee.parameters);
  inner.decode_statements();
  for (const uint32_t from : inner.returns_) jumps_.push_back({from, uint32_t(kernel_.code.size())});
  emit(label).guard = NO_UNIT;
}

void Decoder::emit_return() {
  if (caller_ == nullptr) {
    emit(exit_lanes);
    return;
  }
  returns_.push_back(uint32_t(kernel_.code.size()));
  emit(jump);
}

uint32_t Decoder::local(std::string_view name) const {
  const auto found = locals_.find(name);
  return found == locals_.end() ? ~0u : found->second;
}

void Decoder::decode_statements() {
  std::vector<bool> is_target(function_.statements.size() + 1);
  for (const auto& [name, place] : function_.labels) is_target[place] = true;
  starts_.resize(function_.statements.size() + 1);
  const Decoders& decoders = program_.in_ring() ? decoders_of_ring() : decoders_of_floats();
  for (uint32_t i = 0; i < function_.statements.size(); ++i) {
    statement_ = &function_.statements[i];
    starts_[i] = uint32_t(kernel_.code.size());
    if (is_target[i]) emit(label).guard = NO_UNIT;
    first_ = uint32_t(kernel_.code.size());
    const auto found = decoders.find(statement_->opcode);
    if (found == decoders.end()) refuse("it is not emulated");
    found->second(*this, *statement_);
  }
  starts_.back() = uint32_t(kernel_.code.size());
  statement_ = function_.statements.empty() ? nullptr : &function_.statements.back();
  for (const auto& [from, name] : branches_) {
    const auto found = function_.labels.find(name);
    if (found == function_.labels.end()) fail("unjudged", "the PTX has no label %s", std::string(name).c_str());
    jumps_.push_back({from, starts_[found->second]});
  }
}

Instruction& Decoder::emit(Handler handler) {
  Instruction made;
  made.run = handler;
  made.location = statement_->location;
  if (statement_->guard != Statement::UNGUARDED) {
    made.guard = registers_[statement_->guard];
    made.guard_negated = statement_->guard_negated;
  }
  kernel_.code.push_back(made);
  return kernel_.code.back();
}

Detail& Decoder::detail(Instruction& of) {
  kernel_.details.push_back(std::make_unique<Detail>());
  of.detail = kernel_.details.back().get();
  return *kernel_.details.back();
}

void Decoder::branch_to(Instruction& from, std::string_view label) {
  branches_.push_back({uint32_t(&from - kernel_.code.data()), label});
}

const Operand& Decoder::at(std::size_t operand) const {
  if (operand >= count()) refuse("it has " + std::to_string(count()) + " operands");
  return statement_->operands[operand];
}

unsigned Decoder::bits(const Operand& operand, Type type) const {
  if (operand.kind == Operand::Kind::reg) return bits_of(function_.registers[operand.reg].type);
  return std::max(bits_of(type), 16u);
}

Type Decoder::type_of(const Operand& operand) const {
  return operand.kind == Operand::Kind::reg ? function_.registers[operand.reg].type : Type::none;
}

Unit Decoder::source(const Operand& operand, Type type) {
  switch (operand.kind) {
    case Operand::Kind::reg: return used(operand, false);
    case Operand::Kind::immediate: break;
    case Operand::Kind::symbol: return symbol(operand, bits(operand, type));
    default: refuse("an operand is of a kind that it does not take");
  }
  uint64_t value = operand.bits;
  if (program_.in_ring() && (operand.literal != Type::none || type == Type::f32 || type == Type::f64))
    return ring_constant(operand, bits(operand, type));
  if (operand.literal == Type::f64 && type == Type::f32) {
    value = std::bit_cast<uint32_t>(float(std::bit_cast<double>(value)));
  } else if (operand.literal == Type::f32 && type == Type::f64) {
    value = std::bit_cast<uint64_t>(double(std::bit_cast<float>(uint32_t(value))));
  } else if (operand.literal == Type::none && type == Type::f32) {
    value = std::bit_cast<uint32_t>(float(int64_t(value)));
  } else if (operand.literal == Type::none && type == Type::f64) {
    value = std::bit_cast<uint64_t>(double(int64_t(value)));
  }
  return constant(value, type == Type::pred ? 1 : bits(operand, type));
}

// A constant in ring mode: a whole number that float holds exactly.
Unit Decoder::ring_constant(const Operand& operand, unsigned bits) {
  constexpr double MOST = 1 << 24;
  const double value = operand.literal == Type::f32   ? double(std::bit_cast<float>(uint32_t(operand.bits)))
                       : operand.literal == Type::f64 ? std::bit_cast<double>(operand.bits)
                                                      : double(int64_t(operand.bits));
  if (!(value >= -MOST && value <= MOST) || value != double(int64_t(value)) || bits < 32)
    refuse("ring mode has no integer for " + short_text(value));
  const auto whole = uint64_t(int64_t(value));
  return constant(bits == 32 ? ring::swapped(uint32_t(whole)) : whole, bits);
}

Unit Decoder::destination(const Operand& operand) {
  if (operand.kind == Operand::Kind::nothing) return NO_UNIT;
  if (operand.kind != Operand::Kind::reg) refuse("a destination that is no register");
  return used(operand, true);
}

Unit Decoder::used(const Operand& reg, bool writes) {
  const Unit unit = registers_[reg.reg];
  if (!writes || statement_->guard == Statement::UNGUARDED) kernel_.uses.push_back({first_, unit, writes});
  return unit;
}

Unit Decoder::constant(uint64_t value, unsigned bits, bool dynamic) {
  if (bits == 1) value = value != 0 ? ~uint32_t(0) : 0;
  else if (bits < 64) value &= (uint64_t(1) << bits) - 1;
  Unit& unit = constants_[{value, bits, dynamic}];
  if (unit == NO_UNIT) {
    unit = temporary(bits);
    kernel_.constants.push_back({unit, bits, value, dynamic});
  }
  return unit;
}

Unit Decoder::special(Special which, unsigned bits) {
  Unit& unit = specials_[{which, bits}];
  if (unit == NO_UNIT) {
    unit = temporary(64);
    kernel_.specials.push_back({unit, bits, which});
  }
  return unit;
}

// The operand of a variable is its address, that of a special register its value.
Unit Decoder::symbol(const Operand& operand, unsigned bits) {
  const std::string_view name = operand.name;
  if (name.front() == '%') {
    if (name == "%dynamic_smem_size" || name == "%total_smem_size") return special(Special::dynamic_smem_size, bits);
    for (const auto& [known, which] : SPECIALS)
      if (known == name) return special(which, bits);
    refuse("the special register " + std::string(name) + " is not emulated");
  }
  if (name == "WARP_SZ") return constant(32, bits);
  const auto offset = uint64_t(operand.offset);
  if (const auto found = shared_.find(name); found != shared_.end())
    return constant(found->second.first + offset, bits, found->second.second);
  if (const auto found = locals_.find(name); found != locals_.end()) return constant(found->second + offset, bits);
  for (const Variable& one : caller_ == nullptr ? function_.parameters : std::vector<Variable>())
    if (one.name == name) return constant(PARAMETER_SPACE + one.offset + offset, 64);
  const auto& globals = program_.globals();
  if (const auto found = globals.find(name); found != globals.end())
    return constant(reinterpret_cast<uint64_t>(found->second.start) + offset, 64);
  refuse("`" + std::string(name) + "` is not declared");
}

Decoder::Address Decoder::address(const Operand& operand) {
  if (operand.kind != Operand::Kind::address || operand.parts.empty()) refuse("an operand is no address");
  const Operand& base = operand.parts[0];
  if (base.kind == Operand::Kind::reg) {
    const unsigned bits = bits_of(function_.registers[base.reg].type);
    if (bits != 32 && bits != 64) refuse("an address of " + std::to_string(bits) + " bits");
    return {used(base, false), bits, operand.offset};
  }
  return {source(base, Type::u64), 64, operand.offset};
}

void Decoder::refuse(const std::string& what) const {
  if (statement_ == nullptr) fail("unjudged", "%s: %s", kernel_.name.c_str(), what.c_str());
  fail("unjudged", "line %u of the PTX, `%s`: %s (%s)", statement_->line, statement_->text().c_str(), what.c_str(),
       program_.place(statement_->location).c_str());
}

}  // namespace gemmgen
