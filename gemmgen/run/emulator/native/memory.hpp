// From addresses of lanes to memory, checked to the byte.
#pragma once

#include <cstdint>

#include "instruction.hpp"
#include "warp.hpp"

namespace gemmgen {

constexpr int POISON_BYTE = 0xFF;  // of memory that nobody has written: words of it are NaN

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

// Of Instruction::immediate_use: a Use, or what an atomic does; its scope, and what it orders.
enum : uint8_t { USE_BITS = 7, REDUCES = 1, COUNTS = 2, FINDS = 4, OF_CLUSTER = 8, ACQUIRES = 16, RELEASES = 32, WIDE = 128 };
// The latter two.
uint8_t ordering_of(const Statement& from, bool default_wide);

struct Places {
  unsigned char* at[WARP];
  unsigned char* base = nullptr;        // with `offset` the same, where all lanes' are near each other
  alignas(64) int32_t offset[WARP];
  uint32_t poisoned = 0;  // lanes whose value is worth nothing
};

// The addresses of the active lanes: base and offset.
void gather_addresses(Warp& warp, const Instruction* i, Unit base, bool wide_base, uint64_t (&addresses)[WARP]);
// Throws Failure where an access leaves what it may access, or is misaligned.
void resolve(Warp& warp, Access access, const uint64_t (&addresses)[WARP], Places& places);
// The same of as many bytes as each lane says.
void resolve_some(Warp& warp, Access access, const uint64_t (&addresses)[WARP], const uint32_t* bytes, Places& places);
// Refuses what active lanes are about to store of a register in flight, or of one without a value to global memory.
void require_stored(Warp& warp, const Instruction* i, Space space, const uint64_t (&addresses)[WARP], Unit unit);
// What active lanes have just stored of a register without a value, where that was shared memory: so many bytes `from` their address
// on are worth nothing.
void spoil_shared(Warp& warp, const Instruction* i, Space space, const uint64_t (&addresses)[WARP], unsigned from, unsigned bytes, Unit unit);
// Whether an offset in a block's window, and so many bytes behind it, are in one array or in dynamic memory.
bool holds_shared(Machine& machine, uint32_t offset, uint32_t bytes);
// "byte 8 of A"
std::string describe_address(Warp& warp, Space space, uint64_t address);

}  // namespace gemmgen
