// The matrix instructions of an architecture. gemmgen/run/emulator/instructions.py renders them; nothing is derived here.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

namespace gemmgen {

enum class Element : uint8_t { s4, u4, s8, u8, s32, e4m3, e5m2, f16, bf16, tf32, f32, f64 };

inline std::optional<Element> element_named(std::string_view name) {
  constexpr std::string_view NAMES[] = {"s4", "u4", "s8", "u8", "s32", "e4m3", "e5m2", "f16", "bf16", "tf32", "f32", "f64"};
  for (unsigned i = 0; i < std::size(NAMES); ++i)
    if (NAMES[i] == name) return Element(i);
  return std::nullopt;
}

constexpr unsigned bits_of(Element element) {
  switch (element) {
    case Element::s4:
    case Element::u4: return 4;
    case Element::s8:
    case Element::u8:
    case Element::e4m3:
    case Element::e5m2: return 8;
    case Element::f16:
    case Element::bf16: return 16;
    case Element::f64: return 64;
    default: return 32;
  }
}

// An mma.sync, a wgmma, or the half of a wmma that an mma.sync of 8 columns computes alike. `products`, `fraction` and `kept`
// are those of Sums in gemmgen/problem/mma.py; 0 where sums are exact.
struct MatrixInstruction {
  unsigned m = 0, n = 0, k = 0;
  Element a = {}, b = {}, accumulator = {};
  unsigned products = 0;
  int fraction = 0, kept = 0;
  bool saturates = false;  // .satfinite of integers
  bool ring = false;       // ring mode: floating-point numbers are integers
};

class InstructionTable {
 public:
  // Throws std::invalid_argument for a line that is no instruction.
  static InstructionTable parse(std::string_view text);

  // The instruction with this opcode, such as "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32". Null: not emulated.
  const MatrixInstruction* find(std::string_view opcode) const {
    const auto found = by_key_.find(key_of(opcode));
    return found == by_key_.end() ? nullptr : &found->second;
  }

  std::size_t size() const { return by_key_.size(); }
  bool in_ring() const { return ring_; }

 private:
  // What tells instructions apart: without .sync.aligned, without the layouts of wmma, and .satfinite last.
  static std::string key_of(std::string_view opcode) {
    const bool wmma = opcode.starts_with("wmma.");
    std::string key;
    bool saturates = false;
    while (!opcode.empty()) {
      const std::size_t end = std::min(opcode.find('.'), opcode.size());
      const std::string_view word = opcode.substr(0, end);
      opcode.remove_prefix(std::min(end + 1, opcode.size()));
      if (word == "satfinite") saturates = true;
      if (word == "sync" || word == "aligned" || word == "satfinite" || (wmma && (word == "row" || word == "col"))) continue;
      key.append(key.empty() ? "" : ".").append(word);
    }
    return saturates ? key + ".satfinite" : key;
  }

  bool ring_ = false;
  std::unordered_map<std::string, MatrixInstruction> by_key_;
};

inline InstructionTable InstructionTable::parse(std::string_view text) {
  InstructionTable table;
  const auto next = [](std::string_view& from, char separator) {
    const std::size_t end = std::min(from.find(separator), from.size());
    const std::string_view part = from.substr(0, end);
    from.remove_prefix(std::min(end + 1, from.size()));
    return part;
  };
  const auto refuse = [](std::string_view line) { throw std::invalid_argument("no matrix instruction: " + std::string(line)); };
  while (!text.empty()) {
    const std::string_view line = next(text, '\n');
    if (line.empty()) continue;
    if (line == "ring") {  // before all others
      table.ring_ = true;
      continue;
    }
    std::string_view rest = line;
    const auto number = [&] {
      const std::string_view word = next(rest, ' ');
      int value = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error != std::errc() || end != word.data() + word.size() || value < 0) refuse(line);
      return value;
    };
    const auto element = [&] {
      const std::optional<Element> found = element_named(next(rest, ' '));
      if (!found) refuse(line);
      return *found;
    };
    const std::string_view opcode = next(rest, ' ');
    MatrixInstruction one;
    one.m = unsigned(number()), one.n = unsigned(number()), one.k = unsigned(number());
    one.a = element(), one.b = element(), one.accumulator = element();
    one.products = unsigned(number()), one.fraction = number(), one.kept = number();
    if (!rest.empty()) refuse(line);
    one.ring = table.ring_ && one.accumulator != Element::s32;
    table.by_key_.emplace(key_of(opcode), one);
    if (one.accumulator != Element::s32) continue;
    one.saturates = true;
    table.by_key_.emplace(key_of(opcode) + ".satfinite", one);
  }
  return table;
}

}  // namespace gemmgen
