#include "coverage.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "decoder.hpp"
#include "failure.hpp"
#include "lanes.hpp"

namespace gemmgen {

namespace {

Site UNCOUNTED = {.ran = {1, 1}};  // what is not counted has met all that it can
constexpr uint8_t HAS_CODE = 1, HAS_RUN = 2;
constexpr unsigned MOST_JOINED = 64;  // predicates that one condition joins

constexpr std::string_view NAMES[] = {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

uint8_t operation_of(const Statement& setp) {
  for (std::string_view word : setp.words) {
    if (const auto found = std::find(std::begin(NAMES), std::end(NAMES), word); found != std::end(NAMES))
      return uint8_t(found - NAMES);
    if (word == "lo" || word == "ls" || word == "hi" || word == "hs")
      return uint8_t(2 + (word == "lo" ? 0 : word == "ls" ? 1 : word == "hi" ? 2 : 3));
  }
  return Site::NO_COMPARISON;
}

bool ends_flow(const Statement& one) { return one.opcode == "ret" || one.opcode == "exit" || one.opcode == "trap"; }

// Instructions that a compiler leaves at a line whose work it has moved.
bool is_filling(const Statement& one) {
  return one.vague || ends_flow(one) || one.opcode == "mov" || one.opcode == "bra";
}

// The location of a statement, or of the call in which it is inlined: a helper runs where its callers do, or its own
// conditions show that.
const SourceLocation& outermost(const Module& module, const Statement& one) {
  const SourceLocation* at = &module.locations[one.location];
  while (at->caller != 0) at = &module.locations[at->caller];
  return *at;
}

// The definitions of a function's predicates.
class Predicates {
 public:
  explicit Predicates(const Function& function) : function_(function), definitions_(function.registers.size(), NONE) {
    for (uint32_t i = 0; i < function.statements.size(); ++i) {
      const Statement& one = function.statements[i];
      if (one.operands.empty() || one.opcode == "st" || one.opcode == "bra") continue;
      define(one.operands[0], i);
    }
  }

  // The only statement that sets a register; null if there is none.
  const Statement* definition(const Operand& of) const {
    if (of.kind != Operand::Kind::reg || definitions_[of.reg] >= SEVERAL) return nullptr;
    return &function_.statements[definitions_[of.reg]];
  }

  bool constant(const Operand& of) const {
    if (of.kind == Operand::Kind::immediate) return true;
    const Statement* const by = definition(of);
    return by != nullptr && by->opcode == "mov" && by->operands.size() == 2 && by->operands[1].kind == Operand::Kind::immediate;
  }

  // The number of an operand, or of a register's definition; NaN if there is none.
  double number(const Operand& of) const {
    const Statement* const by = of.kind == Operand::Kind::immediate ? nullptr : definition(of);
    const Operand* at = &of;
    if (by != nullptr && by->opcode == "mov" && by->operands.size() == 2) at = &by->operands[1];
    if (at->kind != Operand::Kind::immediate) return std::numeric_limits<double>::quiet_NaN();
    if (at->literal == Type::f32) return std::bit_cast<float>(uint32_t(at->bits));
    return at->literal == Type::f64 ? std::bit_cast<double>(at->bits) : double(int64_t(at->bits));
  }

  // Calls `visit` with each setp that defines a predicate, and whether it is negated.
  template <typename Visit>
  void each(const Operand& predicate, bool negated, Visit visit, unsigned depth = 0) const {
    const Statement* const by = definition(predicate);
    if (by == nullptr || depth > MOST_JOINED) return;
    if (by->opcode == "setp") return visit(*by, negated);
    const bool flips = by->opcode == "not";
    if (!flips && by->opcode != "and" && by->opcode != "or" && by->opcode != "xor" && by->opcode != "mov") return;
    for (std::size_t i = 1; i < by->operands.size(); ++i)
      each(by->operands[i], negated != (flips != by->operands[i].negated), visit, depth + 1);
  }

  // Finds how setp instructions define a predicate; false if others are involved.
  bool trace(const Operand& predicate, bool negated, Joined& into) const {
    const Statement* const by = definition(predicate);
    if (by == nullptr || into.steps.size() > MOST_JOINED) return false;
    if (by->opcode == "setp") {
      into.steps.push_back(uint32_t(2 * into.leaves.size() + (negated ? 1 : 0)));
      into.leaves.push_back(by);
      return by->operands.size() == 3 && by->operands[0].kind == Operand::Kind::reg;
    }
    const bool flips = by->opcode == "not", both = by->opcode == "and";
    if (flips || by->opcode == "mov") return trace(by->operands[1], negated != (flips != by->operands[1].negated), into);
    if ((!both && by->opcode != "or") || by->operands.size() != 3) return false;
    for (const std::size_t i : {1, 2})
      if (!trace(by->operands[i], negated != by->operands[i].negated, into)) return false;
    into.steps.push_back(both != negated ? Joined::BOTH : Joined::EITHER);
    return true;
  }

  // Whether a predicate joins several by `and`, or else by `or`, and whether the result is negated.
  std::pair<bool, bool> join(const Operand& predicate, bool negated) const {
    const Operand* at = &predicate;
    for (unsigned depth = 0; depth < MOST_JOINED; ++depth) {
      const Statement* const by = definition(*at);
      if (by == nullptr || (by->opcode != "not" && by->opcode != "mov")) return {by != nullptr && by->opcode == "and", negated};
      at = &by->operands[1];
      negated = negated != ((by->opcode == "not") != at->negated);
    }
    return {false, negated};
  }

 private:
  static constexpr uint32_t NONE = ~0u, SEVERAL = ~1u;

  void define(const Operand& to, uint32_t by) {
    if (to.kind == Operand::Kind::reg) definitions_[to.reg] = definitions_[to.reg] == NONE ? by : SEVERAL;
    for (const Operand& part : to.parts)
      if (to.kind == Operand::Kind::vector || to.kind == Operand::Kind::pair) define(part, by);
  }

  const Function& function_;
  std::vector<uint32_t> definitions_;
};

class Table {
 public:
  Table(const Module& module, Site* sites, std::unordered_map<const Statement*, Joined>& joined)
      : module_(module), sites_(sites), joined_(joined) {}

  // Describes a function's sites; `numbers` has their numbers.
  void describe(const Function& function, const std::unordered_map<const Statement*, uint32_t>& numbers) {
    const Predicates predicates(function);
    for (const Statement& one : function.statements) {
      const auto found = numbers.find(&one);
      if (found == numbers.end()) continue;
      Site& site = sites_[found->second];
      site.locked = 0;
      site.kind = one.opcode == "setp" ? Site::comparison : one.opcode == "bra" ? Site::branch : Site::none;
      site.operation = Site::NO_COMPARISON;
      site.flags = site.index = 0;
      site.user_line = site.user_column = 0;
      place(one, site.line, site.column);
      if (site.kind == Site::comparison) compare(predicates, one, site);
    }
    for (const Statement& one : function.statements) {
      const bool selects = one.opcode == "selp" && one.operands.size() == 4;
      if (one.guard == Statement::UNGUARDED && !selects) continue;
      Operand guard;
      guard.kind = Operand::Kind::reg;
      guard.reg = one.guard;
      use(predicates, one, selects ? one.operands[3] : guard, numbers);
    }
    for (const Statement& one : function.statements) {
      const auto found = numbers.find(&one);
      if (found == numbers.end()) continue;
      Site& site = sites_[found->second];
      if (site.line == 0) site.line = site.user_line, site.column = site.user_column;
      if (site.line == 0) site.kind = Site::none;
    }
  }

 private:
  void compare(const Predicates& predicates, const Statement& one, Site& site) {
    site.operation = operation_of(one);
    if (one.operands.size() < 3) return;
    const bool left = predicates.constant(one.operands[1]), right = predicates.constant(one.operands[2]);
    site.flags = uint8_t((left ? Site::CONSTANT_LEFT : 0) | (right ? Site::CONSTANT_RIGHT : 0));
    if (left && right) site.kind = Site::none;
    for (const std::size_t side : {0, 1}) site.operands[side] = predicates.number(one.operands[side + 1]);
  }

  void use(const Predicates& predicates, const Statement& by, const Operand& predicate,
           const std::unordered_map<const Statement*, uint32_t>& numbers) {
    unsigned count = 0;
    Site* last = nullptr;
    bool inverted = false;
    predicates.each(predicate, by.opcode != "selp" && by.guard_negated, [&](const Statement& setp, bool negated) {
      Site& site = sites_[numbers.at(&setp)];
      if (site.user_line == 0) {
        place(by, site.user_line, site.user_column);
        site.index = uint8_t(std::min(count, 255u));
      }
      ++count;
      last = &site;
      inverted = negated;
    });
    const auto found = numbers.find(&by);
    if (found == numbers.end() || (by.opcode != "bra" && count < 2)) return;
    if (count == 0) return;
    Site& site = sites_[found->second];
    if (count > 1) {
      const auto [all, negated] = predicates.join(predicate, by.opcode != "selp" && by.guard_negated);
      site.operation = all ? Site::ALL_OF : Site::ANY_OF;
      site.flags = negated ? Site::INVERTED : 0;
      Joined joined;
      if (!predicates.trace(predicate, by.opcode != "selp" && by.guard_negated, joined)) return;
      joined_[&by] = std::move(joined);
      site.kind = Site::branch;
      return;
    }
    site.operation = last->operation;
    site.flags = uint8_t((last->flags & ~Site::INVERTED) | (inverted ? Site::INVERTED : 0));
    site.user_line = last->line;
    site.user_column = last->column;
  }

  // Zeros for a statement from a header, or without a line.
  void place(const Statement& one, uint32_t& line, uint32_t& column) const {
    const SourceLocation& here = module_.locations[one.location];
    const SourceLocation* outer = &here;
    for (unsigned depth = 0; outer->caller != 0 && depth < 100; ++depth) outer = &module_.locations[outer->caller];
    line = here.file == outer->file && !one.vague ? here.line : 0;
    column = here.column;
  }

  const Module& module_;
  Site* const sites_;
  std::unordered_map<const Statement*, Joined>& joined_;
};

}  // namespace

Coverage::~Coverage() {
  if (mapped_ != nullptr) munmap(mapped_, bytes_);
}

void Coverage::share(const Module& module, int file) {
  const off_t bytes = lseek(file, 0, SEEK_END);
  if (bytes <= 0) return;
  for (const Function& function : module.functions)
    for (const Statement& one : function.statements)
      if (one.opcode == "setp" || one.opcode == "selp" || (one.opcode == "bra" && one.guard != Statement::UNGUARDED))
        numbers_.emplace(&one, uint32_t(numbers_.size()));
  bytes_ = std::size_t(bytes);
  if (sizeof(Header) + numbers_.size() * sizeof(Site) >= bytes_) fail("unjudged", "the driver expects fewer branches than the PTX has");
  line_count_ = uint32_t(bytes_ - sizeof(Header) - numbers_.size() * sizeof(Site));
  mapped_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped_ == MAP_FAILED) {
    mapped_ = nullptr;
    fail("unjudged", "the interpreter cannot map the memory that it counts in");
  }
  module_ = &module;
  auto* const header = static_cast<Header*>(mapped_);
  sites_ = reinterpret_cast<Site*>(header + 1);
  lines_ = reinterpret_cast<uint8_t*>(sites_ + numbers_.size());
  Table table(module, sites_, joined_);
  for (const Function& function : module.functions) {
    table.describe(function, numbers_);
    const uint32_t main = function.statements.empty() ? 0 : module.locations[function.statements[0].location].file;
    for (const Statement& one : function.statements) {
      const SourceLocation& here = outermost(module, one);
      if (here.file == main && here.line < line_count_ && !is_filling(one)) lines_[here.line] |= HAS_CODE;
    }
  }
  *header = {uint32_t(numbers_.size()), line_count_, {}};
}

int64_t Coverage::hook(const Statement& statement) {
  const auto found = numbers_.find(&statement);
  const bool counts = found != numbers_.end() && (statement.opcode == "bra" || sites_[found->second].kind != Site::none);
  return reinterpret_cast<int64_t>(counts ? &sites_[found->second] : &UNCOUNTED);
}

void Coverage::hook_joined(Decoder& to, Instruction& of, const Statement& statement) {
  const auto found = joined_.find(&statement);
  if (found == joined_.end()) return;
  Detail& detail = to.detail(of);
  std::vector<RegisterUse>& uses = to.kernel().uses;
  const std::size_t before = uses.size();
  for (const Statement* setp : found->second.leaves) {
    const Type type = setp->type();
    detail.units.push_back(to.destination(setp->operands[0]));
    detail.more.push_back(to.source(setp->operands[1], type));
    detail.third.push_back(to.source(setp->operands[2], type));
    detail.fourth.push_back(numbers_.at(setp) + 1);
    detail.types.push_back(uint8_t(type));
  }
  uses.resize(before);  // it is the setps that use these
  detail.fourth.insert(detail.fourth.end(), found->second.steps.begin(), found->second.steps.end());
}

void Coverage::join(const Function& entry) {
  if (module_ == nullptr) return;
  auto met = reinterpret_cast<std::size_t>(&entry);
  for (std::size_t i = 0; i < numbers_.size(); ++i)
    if (sites_[i].kind != Site::comparison) met += 1000003u * (sites_[i].ran[0] + 2u * sites_[i].ran[1]) * (i + 1);
  if (met == edges_) return;
  edges_ = met;
  std::unordered_map<const Function*, std::vector<bool>> ran;
  std::vector<std::pair<const Function*, uint32_t>> starts = {{&entry, 0}};
  while (!starts.empty()) {
    auto [function, at] = starts.back();
    starts.pop_back();
    std::vector<bool>& here = ran.try_emplace(function, function->statements.size()).first->second;
    for (; at < here.size() && !here[at]; ++at) {
      const Statement& one = function->statements[at];
      here[at] = true;
      reach(one);
      const bool guarded = one.guard != Statement::UNGUARDED;
      if (ends_flow(one) && !guarded) break;
      if (one.opcode == "call") {
        for (const Operand& operand : one.operands)
          if (const Function* const callee = module_->find(operand.name); callee != nullptr) starts.push_back({callee, 0});
      }
      if (one.opcode != "bra") continue;
      const Site* const site = guarded ? &sites_[numbers_.at(&one)] : &UNCOUNTED;
      const auto target = function->labels.find(one.operands[0].name);
      if (site->ran[1] != 0 && target != function->labels.end()) starts.push_back({function, target->second});
      if (!guarded || site->ran[0] == 0) break;
    }
  }
}

void Coverage::reach(const Statement& one) {
  const uint32_t line = outermost(*module_, one).line;
  if (!one.vague && line < line_count_ && lines_[line] != 0) lines_[line] = HAS_CODE | HAS_RUN;
}

void note_joined(Warp& warp, const Instruction* i) {
  const Detail& detail = *i->detail;
  const std::size_t leaves = detail.units.size();
  const auto outcome = [&](std::size_t turned) {
    uint32_t stack[2 * MOST_JOINED];
    std::size_t top = 0;
    for (std::size_t step = leaves; step < detail.fourth.size(); ++step) {
      const uint32_t what = detail.fourth[step];
      if (what < Joined::BOTH) {
        const uint32_t made = warp.predicate(detail.units[what / 2]);
        stack[top++] = ((what % 2 != 0) != (what / 2 == turned)) ? ~made : made;
        continue;
      }
      --top;
      stack[top - 1] = what == Joined::BOTH ? stack[top - 1] & stack[top] : stack[top - 1] | stack[top];
    }
    return stack[0];
  };
  const uint32_t usual = outcome(leaves);
  for (std::size_t leaf = 0; leaf < leaves; ++leaf) {
    const Unit left = detail.more[leaf], right = detail.third[leaf];
    const uint32_t lanes = warp.lanes() & (outcome(leaf) ^ usual) & warp.known(left) & warp.known(right);
    if (lanes == 0) continue;
    const auto note = [&]<typename T>(Tag<T>) {
      note_near(*site_of(i), lanes, warp.reg<T>(left), warp.reg<T>(right), detail.fourth[leaf]);
    };
    switch (const Type type = Type(detail.types[leaf])) {
      case Type::f32: note(Tag<float>()); break;
      case Type::f64: note(Tag<double>()); break;
      case Type::f16: case Type::bf16: case Type::f16x2: case Type::bf16x2: break;
      default: with_integer(type, note);
    }
  }
}

void keep_near(Site& site, double distance, double left, double right, uint32_t leaf) {
  const auto closer = [&] {
    return site.near == 0 || std::tie(distance, left, right) < std::tie(site.distance, site.operands[0], site.operands[1]);
  };
  if (!closer()) return;
  std::atomic_ref<uint8_t> locked(site.locked);
  while (locked.exchange(1) != 0) {
  }
  if (closer()) {
    site.distance = distance;
    site.operands[0] = left;
    site.operands[1] = right;
    if (site.kind == Site::branch) site.user_line = leaf;
    site.near = 1;
  }
  locked.store(0);
}

}  // namespace gemmgen
