// What an access to an operand must hold where nothing but the runtime can tell: atomics and copies call it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "block.hpp"
#include "failure.hpp"
#include "launch.hpp"

namespace gemmgen {

inline bool aligned(const void* address, int bytes) { return reinterpret_cast<uintptr_t>(address) % unsigned(bytes) == 0; }

// To the byte: guard pages see less.
inline void check_operand(const void* raw_address, std::size_t bytes, const char* verb, int line) {
  const auto* const address = static_cast<const unsigned char*>(raw_address);
  const Region* const region = region_near(address);
  if (region != nullptr && !region->contains(address, bytes))
    fail("crash", {unsigned(line)}, "%s %s %s", block.where().c_str(), verb, region->describe(address).c_str());
}

}  // namespace gemmgen
