// A launch as the driver sends it: the request on standard input, and what launch.hpp says follows it. Included once.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <vector>

#include "kernel_entry.hpp"
#include "launch.hpp"

namespace gemmgen {

inline Request request;
inline std::vector<Placement> placements;
inline std::vector<Parameter> parameters;
inline std::vector<unsigned char> arguments;

inline bool receive(void* data, std::size_t bytes) {
  std::size_t received = 0;
  while (received < bytes) {
    const ssize_t some = read(STDIN_FILENO, static_cast<char*>(data) + received, bytes - received);
    if (some <= 0) return false;
    received += std::size_t(some);
  }
  return true;
}

template <typename T>
bool receive(std::vector<T>& items, std::size_t count) {
  items.resize(count);
  return receive(items.data(), count * sizeof(T));
}

inline bool receive_request() {
  if (!receive(&request, sizeof request)) return false;
  return receive(placements, request.operand_count) && receive(parameters, request.argument_count) &&
         receive(arguments, request.argument_bytes);
}

inline const Entry& launched() { return gemmgen_entries[request.entry]; }

}  // namespace gemmgen
