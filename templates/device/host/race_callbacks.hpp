// What the compiler calls before every access of a kernel (-fsanitize=thread). The names are the
// compilers' published interface to their ThreadSanitizer library, which is not linked.
#pragma once

#include <cstddef>
#include <cstring>

#include "races.hpp"

#define GEMMGEN_HERE gemmgen::Place::instruction(__builtin_return_address(0))
#define GEMMGEN_ACCESS(name, method, bytes) \
  void __tsan_##name(void* address) { gemmgen::races.method(address, bytes, GEMMGEN_HERE); }
#define GEMMGEN_ACCESSES(bytes)                          \
  GEMMGEN_ACCESS(read##bytes, read, bytes)               \
  GEMMGEN_ACCESS(write##bytes, write, bytes)             \
  GEMMGEN_ACCESS(unaligned_read##bytes, read, bytes)     \
  GEMMGEN_ACCESS(unaligned_write##bytes, write, bytes)

extern "C" {

GEMMGEN_ACCESSES(1)
GEMMGEN_ACCESSES(2)
GEMMGEN_ACCESSES(4)
GEMMGEN_ACCESSES(8)
GEMMGEN_ACCESSES(16)

void __tsan_read_range(void* address, unsigned long bytes) { gemmgen::races.read(address, bytes, GEMMGEN_HERE); }
void __tsan_write_range(void* address, unsigned long bytes) { gemmgen::races.write(address, bytes, GEMMGEN_HERE); }

void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) {
  gemmgen::races.read(from, bytes, GEMMGEN_HERE);
  gemmgen::races.write(to, bytes, GEMMGEN_HERE);
  return std::memcpy(to, from, bytes);
}

void* __tsan_memmove(void* to, const void* from, std::size_t bytes) {
  gemmgen::races.read(from, bytes, GEMMGEN_HERE);
  gemmgen::races.write(to, bytes, GEMMGEN_HERE);
  return std::memmove(to, from, bytes);
}

void* __tsan_memset(void* to, int value, std::size_t bytes) {
  gemmgen::races.write(to, bytes, GEMMGEN_HERE);
  return std::memset(to, value, bytes);
}

void __tsan_init() { gemmgen::watching = true; }  // before main, where a kernel was compiled so
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

}  // extern "C"

#undef GEMMGEN_ACCESSES
#undef GEMMGEN_ACCESS
#undef GEMMGEN_HERE
