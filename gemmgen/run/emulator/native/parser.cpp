// Reads PTX as NVVM and inline assembly write it: one pass over the text.
#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "lexer.hpp"
#include "module.hpp"

namespace gemmgen {

namespace {

constexpr uint64_t MOST_REGISTERS = 1 << 20, MOST_NESTED = 64, MOST_BYTES = uint64_t(1) << 32;

class Parser : Lexer {
 public:
  explicit Parser(Module& module) : Lexer(module.text), module_(module) {
    module.locations.push_back({});
    module.files.push_back({});
  }

  void run() {
    for (skip(); at_ < end_; skip()) top();
  }

 private:
  // Directives of the module.
  void top() {
    const std::string_view name = directive();
    if (name == "version") return skip_line();
    if (name == "target") return target();
    if (name == "address_size") {
      if (number() != 64) refuse("addresses of another size than 64 bits");
      return;
    }
    if (name == "file") return file();
    if (name == "section") return skip_section();
    if (name == "loc") return location();
    if (name == "visible" || name == "extern" || name == "weak" || name == "common") {
      external_ = name == "extern";
      return;
    }
    if (name == "entry" || name == "func") return function(name == "entry");
    if (name == "global" || name == "const") return variable(module_.globals, name == "const");
    if (name == "shared") return variable(module_.shared, false);
    if (name == "pragma" || name == "alias") return skip_statement();
    refuse("`." + std::string(name) + "` is not known");
  }

  void target() {
    module_.target_name = word();
    std::string_view digits = module_.target_name;
    digits.remove_prefix(std::min(digits.find_first_of("0123456789"), digits.size()));
    std::from_chars(digits.data(), digits.data() + digits.size(), module_.target);
    skip_line();
  }

  void file() {
    const uint64_t index = number();
    if (index > 10000) refuse("so many files");
    if (module_.files.size() <= index) module_.files.resize(index + 1);
    module_.files[index] = quoted();
    skip_line();
  }

  // .loc file line column, function_name label, inlined_at file line column
  void location() {
    SourceLocation here;
    here.file = uint32_t(number());
    here.line = uint32_t(number());
    here.column = uint32_t(number());
    while (take(',')) {
      const std::string_view what = word();
      if (what == "function_name") {
        word();
        if (take('+')) number();
      } else if (what == "inlined_at") {
        const auto file = uint32_t(number()), line = uint32_t(number()), column = uint32_t(number());
        here.caller = latest_at(file, line, column);
      } else refuse("`" + std::string(what) + "` of a .loc is not known");
    }
    vague_ = here.line == 0;
    if (vague_) return;  // what follows belongs to no line: the one before says most
    const uint64_t key = (uint64_t(here.file) << 52) ^ (uint64_t(here.line) << 20) ^ here.column;
    uint32_t& latest = latest_[key];
    if (latest == 0 || module_.locations[latest].caller != here.caller) {
      latest = uint32_t(module_.locations.size());
      module_.locations.push_back(here);
    }
    location_ = latest;
  }

  uint32_t latest_at(uint32_t file, uint32_t line, uint32_t column) {
    const uint64_t key = (uint64_t(file) << 52) ^ (uint64_t(line) << 20) ^ column;
    uint32_t& latest = latest_[key];
    if (latest == 0) {
      latest = uint32_t(module_.locations.size());
      module_.locations.push_back({file, line, column, 0});
    }
    return latest;
  }

  // `.align 4 .b8 name[16] = {1, 2}, other;` behind its state space.
  void variable(std::vector<Variable>& into, bool constant) {
    Variable one;
    one.constant = constant;
    one.external = external_;
    external_ = false;
    unsigned vector = 1;
    while (peek() == '.') {
      const std::string_view what = directive();
      if (what == "align") one.alignment = number();
      else if (what == "v2") vector = 2;
      else if (what == "v4") vector = 4;
      else if (what == "attribute") skip_brackets('(', ')');
      else if (type_named(what) != Type::none) one.type = type_named(what);
      else refuse("`." + std::string(what) + "` of a variable is not known");
    }
    do {
      Variable each = one;
      each.name = word();
      declare(each, vector);
      into.push_back(std::move(each));
    } while (take(','));
    expect(';');
  }

  void declare(Variable& each, unsigned vector) {
    const uint64_t element = bytes_of(each.type) * vector;
    if (element == 0) refuse("a variable without a type");
    uint64_t count = 1;
    bool open = false;
    while (take('[')) {
      if (peek() == ']') open = true;
      else count *= std::min(number(), MOST_BYTES);
      if (count > MOST_BYTES) refuse("a variable of more than 4 GiB");
      expect(']');
    }
    each.alignment = std::max<uint64_t>(each.alignment, element);
    each.bytes = open ? 0 : count * element;
    each.external = each.external && open;
    if (!std::has_single_bit(each.alignment)) refuse("an alignment that is no power of two");
    if (each.bytes > MOST_BYTES) refuse("a variable of more than 4 GiB");
    if (take('=')) initialize(each, element);
  }

  void initialize(Variable& each, uint64_t element) {
    if (peek() == '{') {
      uint64_t depth = 0;
      do {
        if (take('{')) ++depth;
        else if (take('}')) --depth;
        else if (!take(',')) append(each, element);
      } while (depth > 0 && depth < MOST_NESTED);
    } else append(each, element);
    if (each.bytes == 0) each.bytes = each.initial.size();
    if (each.initial.size() > each.bytes) refuse("more initial values than elements");
  }

  void append(Variable& each, uint64_t element) {
    const Operand value = operand();
    if (value.kind != Operand::Kind::immediate) refuse("an initial value that is no number");
    if (each.initial.size() > MOST_BYTES / 16) refuse("so many initial values");
    for (uint64_t i = 0; i < element; ++i) each.initial.push_back(i < 8 ? (unsigned char)(value.bits >> 8 * i) : 0);
  }

  // Functions.
  void function(bool is_entry) {
    module_.functions.emplace_back();
    Function& made = module_.functions.back();
    made.is_entry = is_entry;
    external_ = false;
    uint64_t ignored = 0;
    if (peek() == '(') parameters(made.results, ignored);
    made.name = word();
    if (peek() == '(') parameters(made.parameters, made.parameter_bytes);
    while (peek() == '.') attribute(made);
    if (take(';')) {
      module_.functions.pop_back();  // a declaration
      return;
    }
    function_ = &made;
    location_ = 0;
    vague_ = false;
    body();
    function_ = nullptr;
  }

  void parameters(std::vector<Variable>& into, uint64_t& bytes) {
    expect('(');
    while (!take(')')) {
      Variable one;
      while (peek() == '.') {
        const std::string_view what = directive();
        if (what == "align") one.alignment = number();
        else if (what == "ptr" || what == "global" || what == "shared" || what == "const" || what == "local" || what == "param" ||
                 what == "reg") continue;
        else if (type_named(what) != Type::none) one.type = type_named(what);
        else refuse("`." + std::string(what) + "` of a parameter is not known");
      }
      one.name = word();
      declare(one, 1);
      one.offset = (bytes + one.alignment - 1) / one.alignment * one.alignment;
      bytes = one.offset + one.bytes;
      into.push_back(std::move(one));
      take(',');
    }
  }

  void attribute(Function& made) {
    const std::string_view what = directive();
    if (what == "maxntid" || what == "reqntid") made.most_threads = product();
    else if (what == "reqnctapercluster") made.cluster = product();
    else if (what == "maxclusterrank" || what == "minnctapersm" || what == "maxnreg" || what == "maxnctapersm") product();
    else if (what == "noreturn" || what == "explicitcluster" || what == "blocksareclusters") return;
    else if (what == "pragma") skip_statement();
    else refuse("`." + std::string(what) + "` of a function is not known");
  }

  unsigned product() {
    uint64_t all = 1;
    do all *= std::min<uint64_t>(number(), 1 << 20);
    while (all < (1u << 20) && take(','));
    return unsigned(all);
  }

  void body() {
    expect('{');
    scopes_.clear();
    scopes_.emplace_back();
    labels_.clear();
    labels_.emplace_back();
    while (true) {
      const char c = peek();
      if (c == '\0') refuse("a function without end");
      if (c == '}') {
        ++at_;
        scopes_.pop_back();
        labels_.pop_back();
        if (scopes_.empty()) return;
      } else if (c == '{') {
        ++at_;
        if (scopes_.size() > MOST_NESTED) refuse("braces too deep");
        scopes_.emplace_back();
        labels_.emplace_back();
        declare_labels();
      } else if (c == '.') {
        inner();
      } else if (c == ';') {
        ++at_;
      } else {
        statement();
      }
    }
  }

  // Labels of a scope in braces hide those outside, and may be used before their definition.
  void declare_labels() {
    int depth = 0;
    for (const char* look = at_; look < end_; ++look) {
      if (*look == '{') ++depth;
      if (*look == '}' && depth-- == 0) return;
      if (depth > 0 || *look != ':' || look[1] == ':' || look[-1] == ':') continue;
      const char* start = look;
      while (start > at_ && is_word(start[-1])) --start;
      const char* before = start;
      while (before > at_ && (before[-1] == ' ' || before[-1] == '\t')) --before;
      if (start == look || (before > at_ && before[-1] != '\n' && before[-1] != ';' && before[-1] != '{' && before[-1] != '}')) continue;
      const std::string_view name(start, std::size_t(look - start));
      function_->unique_labels.push_back(std::make_unique<std::string>(std::string(name) + "#" + std::to_string(++scope_count_)));
      labels_.back()[name] = *function_->unique_labels.back();
    }
  }

  std::string_view resolve_label(std::string_view name) const {
    for (auto scope = labels_.rbegin(); scope != labels_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return found->second;
    return name;
  }

  void inner() {
    const std::string_view name = directive();
    if (name == "loc") return location();
    if (name == "reg") return registers();
    if (name == "local") return variable(function_->locals, false);
    if (name == "shared") return variable(function_->shared, false);
    if (name == "param") return variable(function_->locals, false);
    if (name == "pragma") return skip_statement();
    refuse("`." + std::string(name) + "` in a function is not known");
  }

  void registers() {
    const std::string_view type_word = directive();
    const Type type = type_named(type_word);
    if (type == Type::none) refuse("`." + std::string(type_word) + "` is no type of a register");
    do {
      const std::string_view name = word();
      const auto first = uint32_t(function_->registers.size());
      uint64_t count = 1;
      if (take('<')) {
        count = number();
        expect('>');
        if (count + first > MOST_REGISTERS) refuse("so many registers");
        scopes_.back().add(name, first, uint32_t(count));
      } else scopes_.back().add(name, first);
      function_->registers.insert(function_->registers.end(), count, {name, type});
    } while (take(','));
    expect(';');
  }

  void statement() {
    if (*at_ == '@') return guarded();
    const char* start = at_;
    const std::string_view first = word();
    if (peek() == ':' && at_[1] != ':') {
      ++at_;
      function_->labels[resolve_label(first)] = uint32_t(function_->statements.size());
      return;
    }
    at_ = start;
    instruction(Statement::UNGUARDED, false);
  }

  void guarded() {
    ++at_;
    const bool negated = take('!');
    const std::string_view name = word();
    const uint32_t guard = find(name);
    if (guard == ~0u) refuse("the predicate " + std::string(name) + " is not declared");
    if (function_->registers[guard].type != Type::pred) refuse(std::string(name) + " is no predicate");
    skip();
    instruction(guard, negated);
  }

  void instruction(uint32_t guard, bool negated) {
    function_->statements.emplace_back();
    Statement& made = function_->statements.back();
    made.line = line_;
    made.location = location_;
    made.vague = vague_;
    made.guard = guard;
    made.guard_negated = negated;
    made.opcode = word();
    while (at_ < end_ && *at_ == '.') {
      ++at_;
      const char* start = at_;
      while (at_ < end_ && (is_word(*at_) || (at_[0] == ':' && at_ + 1 < end_ && at_[1] == ':') || (at_[0] == ':' && at_[-1] == ':'))) ++at_;
      made.words.emplace_back(start, std::size_t(at_ - start));
    }
    if (take(';')) return;
    do made.operands.push_back(operand());
    while (take(','));
    expect(';');
  }

  uint32_t find(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const uint32_t found = scope->find(name); found != ~0u) return found;
    return ~0u;
  }

  Operand operand(unsigned depth = 0) {
    if (depth > 3) refuse("operands too deep");
    Operand made;
    const char c = peek();
    if (c == '[') return address(depth);
    if (c == '{' || c == '(') return list(c == '{' ? '}' : ')', depth);
    if (c == '!') {
      ++at_;
      made = operand(depth + 1);
      made.negated = true;
      return made;
    }
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '-' || c == '+') return immediate();
    std::string_view name = word();
    while (at_ < end_ && *at_ == '.') {  // %tid.x
      ++at_;
      const std::string_view rest = word();
      name = {name.data(), std::size_t(rest.data() + rest.size() - name.data())};
    }
    made = named(name);
    if (take('|')) {
      Operand pair;
      pair.kind = Operand::Kind::pair;
      pair.parts = {made, operand(depth + 1)};
      return pair;
    }
    if (made.kind == Operand::Kind::symbol && (peek() == '+')) {
      ++at_;
      made.offset = int64_t(number());
    }
    return made;
  }

  Operand named(std::string_view name) {
    Operand made;
    made.name = name;
    if (name == "_") return made;
    if (function_ != nullptr) {
      made.reg = find(name);
      if (made.reg != ~0u) {
        made.kind = Operand::Kind::reg;
        return made;
      }
    }
    made.kind = Operand::Kind::symbol;
    made.name = resolve_label(name);
    return made;
  }

  // 12, -0x1F, 0f3F800000, 0d3FF0000000000000, 1.5
  Operand immediate() {
    Operand made;
    made.kind = Operand::Kind::immediate;
    const bool negative = *at_ == '-';
    if (*at_ == '-' || *at_ == '+') ++at_;
    skip();
    const char* start = at_;
    while (at_ < end_ && (is_word(*at_) || *at_ == '.')) ++at_;
    const std::string_view text(start, std::size_t(at_ - start));
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D')) {
      made.literal = text[1] == 'f' || text[1] == 'F' ? Type::f32 : Type::f64;
      const std::string_view digits = text.substr(2);
      const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), made.bits, 16);
      if (error != std::errc() || stop != digits.data() + digits.size()) refuse("`" + std::string(text) + "` is no number");
      if (negative) made.bits ^= made.literal == Type::f32 ? uint64_t(1) << 31 : uint64_t(1) << 63;
    } else if (text.find('.') != std::string_view::npos) {
      const double value = std::strtod(std::string(text).c_str(), nullptr);
      made.literal = Type::f64;
      made.bits = std::bit_cast<uint64_t>(negative ? -value : value);
    } else {
      made.bits = integer(text);
      if (negative) made.bits = -made.bits;
    }
    return made;
  }

  Operand list(char close, unsigned depth) {
    Operand made;
    made.kind = Operand::Kind::vector;
    ++at_;
    while (!take(close)) {
      made.parts.push_back(operand(depth + 1));
      if (made.parts.size() > 512) refuse("so many operands");
      if (!take(',') && peek() != close) refuse("no comma");
    }
    return made;
  }

  // [base], [base+offset], [base-offset], [base, {coordinates}]
  Operand address(unsigned depth) {
    Operand made;
    made.kind = Operand::Kind::address;
    ++at_;
    Operand base = operand(depth + 1);
    made.offset = base.offset;
    base.offset = 0;
    while (peek() == '+' || peek() == '-') {
      const bool minus = *at_++ == '-';
      const auto offset = int64_t(number());
      made.offset += minus ? -offset : offset;
    }
    made.parts.push_back(std::move(base));
    while (take(',')) made.parts.push_back(operand(depth + 1));
    expect(']');
    return made;
  }

  Module& module_;
  uint32_t location_ = 0;
  bool vague_ = false;
  bool external_ = false;
  Function* function_ = nullptr;
  unsigned scope_count_ = 0;
  std::vector<Scope> scopes_;
  std::vector<std::unordered_map<std::string_view, std::string_view>> labels_;
  std::unordered_map<uint64_t, uint32_t> latest_;  // location by file, line and column
};

}  // namespace

std::unique_ptr<const Module> parse(std::string text) {
  auto module = std::make_unique<Module>();
  module->text = std::move(text);
  Parser(*module).run();
  return module;
}

}  // namespace gemmgen
