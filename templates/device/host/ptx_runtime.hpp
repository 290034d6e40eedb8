// The runtime's side of ptx_memory.hpp: addresses of shared memory as a GPU counts them. Included once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "block.hpp"
#include "failure.hpp"
#include "faults.hpp"
#include "gemmgen_emulator.hpp"
#include "operand_access.hpp"
#include "shared_memory.hpp"
#include "tma.hpp"

namespace gemmgen {

constexpr uint32_t STATIC_WINDOW = 0x01000000;  // dynamic shared memory lies below
constexpr uint32_t NO_WINDOW = 0xF0000000;

// Of what is no shared memory it is no address that an access takes.
unsigned shared_window(const void* shared) {
  const auto* const address = static_cast<const unsigned char*>(shared);
  if (shared_memory.dynamic().near(address)) return window_address(address);
  if (SharedMemory::static_bytes() > 0 && address >= __start_gemmgen_shared && address <= __stop_gemmgen_shared)
    return STATIC_WINDOW + uint32_t(address - __start_gemmgen_shared);
  return NO_WINDOW | (uint32_t(reinterpret_cast<uintptr_t>(address)) & 0xFFFFFF);
}

inline unsigned char* of_shared(uint64_t address, int line) {
  if (address < STATIC_WINDOW && shared_memory.dynamic().bytes > 0) return of_window(uint32_t(address));
  if (address >= STATIC_WINDOW && address < STATIC_WINDOW + SharedMemory::static_bytes() + GEMMGEN_SPACING)
    return __start_gemmgen_shared + (address - STATIC_WINDOW);
  fail("crash", {unsigned(line)}, "%s: 0x%llx is no address of shared memory, which __cvta_generic_to_shared gives",
       block.where().c_str(), static_cast<unsigned long long>(address));
}

void* address_in(char space, uint64_t address, unsigned bytes, int line) {
  unsigned char* const place = space == 's' ? of_shared(address, line) : reinterpret_cast<unsigned char*>(address);
  if (space == 'g' && shared_memory.contains(place, 1))
    fail("crash", {unsigned(line)}, "%s accesses %s as global memory", block.where().c_str(), shared_memory.describe(place).c_str());
  if (!aligned(place, int(bytes)))
    fail("crash", {unsigned(line)}, "%s: an access of %u bytes at a misaligned address (%s)", block.where().c_str(), bytes,
         describe_address(place).c_str());
  return place;
}

unsigned shared_bytes(bool dynamic) {
  const std::size_t all = shared_memory.dynamic().bytes;
  return unsigned(dynamic ? all : all + SharedMemory::static_bytes());
}

}  // namespace gemmgen
