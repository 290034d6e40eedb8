// How a run ends badly: one line to the driver, then the end of the process.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "descriptors.hpp"

namespace gemmgen {

// Where in the .cu: a line that is known, or the address of the instruction, for the driver to look up.
struct Location {
  unsigned line = 0;
  const void* instruction = nullptr;
};

constexpr int REPORTED = 3;  // exit status of a process that has sent its diagnosis

// Replies "kind <tab> line <tab> instruction <tab> reason". Short enough to be written atomically,
// so that the replies of processes that fail together do not mix; the driver takes the first.
[[noreturn]] __attribute__((format(printf, 3, 4))) inline void fail(const char* kind, Location location,
                                                                    const char* format, ...) {
  char reply[2048];
  int length = std::snprintf(reply, sizeof reply, "%s\t%u\t%p\t", kind, location.line, location.instruction);
  std::va_list arguments;
  va_start(arguments, format);
  length += std::vsnprintf(reply + length, sizeof reply - std::size_t(length), format, arguments);
  va_end(arguments);
  if (length > int(sizeof reply) - 1) length = int(sizeof reply) - 1;
  reply[length++] = '\n';
  if (write(REPLIES, reply, std::size_t(length)) != length) _exit(1);
  _exit(REPORTED);
}

inline void reply_success() {
  if (write(REPLIES, "ok\n", 3) != 3) _exit(1);
}

}  // namespace gemmgen
