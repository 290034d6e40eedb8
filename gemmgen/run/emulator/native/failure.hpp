// How a run ends badly: thrown by whoever finds it, told to the driver by main.cpp.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>

namespace gemmgen {

// kind    "launch", "crash", "race", "timeout", "unjudged", or "room": the machine lacks memory or addresses
// reason  one sentence for a person
struct Failure : std::exception {
  std::string kind;
  std::string reason;

  Failure(std::string its_kind, std::string its_reason) : kind(std::move(its_kind)), reason(std::move(its_reason)) {}
  const char* what() const noexcept override { return reason.c_str(); }
};

[[noreturn]] __attribute__((format(printf, 2, 3))) inline void fail(const char* kind, const char* format, ...) {
  std::va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string reason(std::size_t(length < 0 ? 0 : length), '\0');
  std::vsnprintf(reason.data(), reason.size() + 1, format, again);
  va_end(again);
  throw Failure(kind, std::move(reason));
}

}  // namespace gemmgen
