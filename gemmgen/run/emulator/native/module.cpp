#include "module.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace gemmgen {

namespace {

constexpr std::pair<std::string_view, Type> TYPES[] = {
    {"pred", Type::pred}, {"b8", Type::b8}, {"b16", Type::b16}, {"b32", Type::b32}, {"b64", Type::b64}, {"b128", Type::b128},
    {"u8", Type::u8}, {"u16", Type::u16}, {"u32", Type::u32}, {"u64", Type::u64},
    {"s8", Type::s8}, {"s16", Type::s16}, {"s32", Type::s32}, {"s64", Type::s64},
    {"f16", Type::f16}, {"bf16", Type::bf16}, {"f16x2", Type::f16x2}, {"bf16x2", Type::bf16x2}, {"tf32", Type::tf32},
    {"f32", Type::f32}, {"f64", Type::f64}, {"e4m3", Type::e4m3}, {"e5m2", Type::e5m2}, {"e4m3x2", Type::e4m3x2},
    {"e5m2x2", Type::e5m2x2}, {"e2m1x2", Type::e2m1x2}, {"e2m3x2", Type::e2m3x2}, {"e3m2x2", Type::e3m2x2},
    {"ue8m0x2", Type::ue8m0x2},
};

}  // namespace

Type type_named(std::string_view word) {
  for (const auto& [name, type] : TYPES)
    if (name == word) return type;
  return Type::none;
}

bool Statement::has(std::string_view word) const { return std::find(words.begin(), words.end(), word) != words.end(); }

std::string Statement::text() const {
  std::string made(opcode);
  for (std::string_view word : words) made.append(".").append(word);
  return made;
}

Type Statement::type(unsigned before) const {
  for (auto word = words.rbegin(); word != words.rend(); ++word)
    if (const Type found = type_named(*word); found != Type::none && before-- == 0) return found;
  return Type::none;
}

std::string plain_name(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return std::string(symbol);
  std::string_view last = symbol;
  for (std::size_t at = 2; at < symbol.size();) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(symbol.data() + at, symbol.data() + symbol.size(), length);
    const auto start = std::size_t(end - symbol.data());
    if (error != std::errc() || length == 0 || length > symbol.size() - start) {
      ++at;
      continue;
    }
    last = symbol.substr(start, length);
    at = start + length;
  }
  return std::string(last);
}

const Function* Module::find(std::string_view name) const {
  for (const Function& one : functions)
    if (one.name == name) return &one;
  return nullptr;
}

}  // namespace gemmgen
