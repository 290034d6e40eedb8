// From addresses of lanes to memory, checked to the byte.
#pragma once

#include <cstdint>

#include "instruction.hpp"
#include "warp.hpp"

namespace gemmgen {

enum class Space : uint8_t { generic, global, shared, local, parameter };

enum class Use : uint8_t { read, read_only, strong_read, write, strong_write, atomic, copy };

// What an instruction accesses for each lane: `bytes` from `address` on.
struct Access {
  const Instruction* at;
  Space space;
  Use use;
  unsigned bytes;
  bool wide;       // scope: beyond the block
  Block* owner = nullptr;  // of shared memory
};

struct Places {
  unsigned char* at[WARP];
  uint32_t poisoned = 0;  // lanes whose value is worth nothing
};

// The addresses of the active lanes: base and offset.
void gather_addresses(Warp& warp, const Instruction* i, Unit base, bool wide_base, uint64_t (&addresses)[WARP]);
// Throws Failure where an access leaves what it may access, or is misaligned.
void resolve(Warp& warp, Access access, const uint64_t (&addresses)[WARP], Places& places);
// The same of as many bytes as each lane says.
void resolve_some(Warp& warp, Access access, const uint64_t (&addresses)[WARP], const uint32_t* bytes, Places& places);
// Whether an offset in a block's window, and so many bytes behind it, are in one array or in dynamic memory.
bool holds_shared(Machine& machine, uint32_t offset, uint32_t bytes);
// "byte 8 of A"
std::string describe_address(Warp& warp, Space space, uint64_t address);

}  // namespace gemmgen
