// An access to memory as the runtime remembers it: what it was, where in the .cu, by which thread and when.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "failure.hpp"

namespace gemmgen {

// Where the .cu makes an access: an instruction (the executable lies below 2 GiB) or, for a cp_async, a line.
class Place {
 public:
  static Place instruction(const void* return_address) { return Place(uint32_t(uintptr_t(return_address)) - 1); }
  static Place line(unsigned number) { return Place(number | LINE); }
  Place() = default;

  Location location() const {
    if (code_ & LINE) return {code_ & ~LINE};
    return {0, reinterpret_cast<const void*>(uintptr_t(code_))};
  }

  // For the driver, which puts the file and the line in its stead.
  std::string text() const {
    char text[32];
    std::snprintf(text, sizeof text, code_ & LINE ? "@{%u}" : "@{0x%x}", code_ & ~LINE);
    return text;
  }

 private:
  static constexpr uint32_t LINE = 1u << 31;
  explicit Place(uint32_t code) : code_(code) {}
  uint32_t code_ = 0;
};

// `load` and `store` are TMA's, in shared memory; `product` reads operands of a wgmma there. `strong_read` is a load that
// is relaxed or acquires. Atomics and such loads do not race with each other, but those of the block's scope with others'.
enum class Kind : uint8_t { read, write, copy, atomic, block_atomic, strong_read, block_read, load, store, product };

inline bool is_update(Kind kind) { return kind == Kind::atomic || kind == Kind::block_atomic; }
inline bool is_of_block(Kind kind) { return kind == Kind::block_atomic || kind == Kind::block_read; }
inline bool is_strong(Kind kind) { return is_update(kind) || kind == Kind::strong_read || kind == Kind::block_read; }

// What stands in a message between the thread and the place in memory.
inline const char* verb(Kind kind) {
  switch (kind) {
    case Kind::read: case Kind::strong_read: return " reads ";
    case Kind::block_read: return ", in its own block's scope, reads ";
    case Kind::write: return " writes ";
    case Kind::atomic: return "'s atomic updates ";
    case Kind::block_atomic: return "'s atomic of its own block's scope updates ";
    case Kind::load: return "'s TMA load writes ";
    case Kind::store: return "'s TMA store reads ";
    case Kind::product: return "'s wgmma reads ";
    case Kind::copy: break;
  }
  return "'s cp_async writes ";
}

struct Access {
  uint32_t time = 0;  // of its agent's clock; 0 where there was none
  Place place;
  uint16_t agent = 0;  // see clocks.hpp
  Kind kind = Kind::read;
};

}  // namespace gemmgen
