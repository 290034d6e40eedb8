// The words of a PTX text, and the names of registers.
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "failure.hpp"

namespace gemmgen {

inline bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }

// Registers by name: `%r<37>` declares %r0 to %r36 at once.
class Scope {
 public:
  void add(std::string_view name, uint32_t number) { single_[name] = number; }
  void add(std::string_view prefix, uint32_t first, uint32_t count) { ranges_.push_back({prefix, first, count}); }

  // Its number, or ~0.
  uint32_t find(std::string_view name) const {
    if (!single_.empty())
      if (const auto found = single_.find(name); found != single_.end()) return found->second;
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    if (digits == 0 || digits == name.size()) return ~0u;
    uint32_t index = 0;
    std::from_chars(name.data() + digits, name.data() + name.size(), index);
    for (const Range& range : ranges_)
      if (range.prefix == name.substr(0, digits) && index < range.count) return range.first + index;
    return ~0u;
  }

 private:
  struct Range {
    std::string_view prefix;
    uint32_t first, count;
  };
  std::unordered_map<std::string_view, uint32_t> single_;
  std::vector<Range> ranges_;
};

// Goes through a text once.
class Lexer {
 protected:
  explicit Lexer(std::string_view text) : at_(text.data()), end_(at_ + text.size()) {}

  void skip() {
    while (at_ < end_) {
      if (*at_ == '\n') ++line_, ++at_;
      else if (std::isspace(static_cast<unsigned char>(*at_))) ++at_;
      else if (*at_ == '/' && at_ + 1 < end_ && at_[1] == '/') while (at_ < end_ && *at_ != '\n') ++at_;
      else if (*at_ == '/' && at_ + 1 < end_ && at_[1] == '*') skip_comment();
      else return;
    }
  }

  void skip_comment() {
    for (at_ += 2; at_ + 1 < end_ && !(at_[0] == '*' && at_[1] == '/'); ++at_) line_ += *at_ == '\n';
    at_ = std::min(at_ + 2, end_);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    const char* stop = at_;
    while (stop < end_ && *stop != '\n' && stop - at_ < 60) ++stop;
    fail("unjudged", "line %u of the PTX: %s at `%s`", line_, what.c_str(), std::string(at_, stop).c_str());
  }

  char peek() {
    skip();
    return at_ < end_ ? *at_ : '\0';
  }

  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!take(c)) refuse(std::string("no `") + c + "`");
  }

  // Letters, digits, _, $ and %.
  std::string_view word() {
    skip();
    const char* start = at_;
    while (at_ < end_ && is_word(*at_)) ++at_;
    if (at_ == start) refuse("no name");
    return {start, std::size_t(at_ - start)};
  }

  // `.word`, where the dot is next.
  std::string_view directive() {
    expect('.');
    return word();
  }

  uint64_t number() {
    const bool negative = take('-');
    const std::string_view digits = word();
    const uint64_t value = integer(digits);
    return negative ? -value : value;
  }

  uint64_t integer(std::string_view digits) {
    if (!digits.empty() && (digits.back() == 'U' || digits.back() == 'u')) digits.remove_suffix(1);
    int base = 10;
    if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) base = 16, digits.remove_prefix(2);
    else if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'b' || digits[1] == 'B')) base = 2, digits.remove_prefix(2);
    else if (digits.size() > 1 && digits[0] == '0') base = 8;
    uint64_t value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc() || stop != digits.data() + digits.size()) refuse("`" + std::string(digits) + "` is no number");
    return value;
  }

  std::string_view quoted() {
    expect('"');
    const char* start = at_;
    while (at_ < end_ && *at_ != '"') line_ += *at_++ == '\n';
    if (at_ == end_) refuse("a string without end");
    return {start, std::size_t(at_++ - start)};
  }

  void skip_line() {
    while (at_ < end_ && *at_ != '\n') ++at_;
  }

  void skip_statement() {
    while (at_ < end_ && *at_ != ';') line_ += *at_++ == '\n';
    expect(';');
  }

  void skip_section() {
    skip();
    while (at_ < end_ && *at_ != '{') line_ += *at_++ == '\n';
    while (at_ < end_ && *at_ != '}') line_ += *at_++ == '\n';
    expect('}');
  }

  void skip_brackets(char open, char close) {
    expect(open);
    while (at_ < end_ && *at_ != close) line_ += *at_++ == '\n';
    expect(close);
  }

  const char* at_;
  const char* const end_;
  uint32_t line_ = 1;
};

}  // namespace gemmgen
