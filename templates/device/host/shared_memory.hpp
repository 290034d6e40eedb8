// The shared memory of the block that runs: static arrays, gathered in a section by the linker,
// and dynamic memory, whose end touches a band.
#pragma once

#include <cstddef>
#include <cstring>

#include "failure.hpp"
#include "memory.hpp"

extern "C" unsigned char __start_gemmgen_shared[] __attribute__((weak));
extern "C" unsigned char __stop_gemmgen_shared[] __attribute__((weak));

namespace gemmgen {

class SharedMemory {
 public:
  static constexpr std::size_t ALIGNMENT = 128;
  static constexpr std::size_t MAX_DYNAMIC_BYTES = 256 * 1024;

  void resize_dynamic(std::size_t bytes) {
    if (bytes > MAX_DYNAMIC_BYTES)
      fail("launch", {}, "%zu bytes of dynamic shared memory are more than %zu", bytes, MAX_DYNAMIC_BYTES);
    if (pages_.data == nullptr) pages_ = map_private("dynamic shared memory", MAX_DYNAMIC_BYTES);
    const std::size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    dynamic_ = pages_;
    dynamic_.data = pages_.data + pages_.bytes - whole;
    dynamic_.bytes = bytes;
  }

  void poison() {
    std::memset(__start_gemmgen_shared, POISON, static_bytes());
    std::memset(dynamic_.data, POISON, std::size_t(pages_.data + pages_.bytes - dynamic_.data));
  }

  bool contains(const unsigned char* start, std::size_t bytes) const {
    return within(start, bytes, __start_gemmgen_shared, static_bytes()) ||
           within(start, bytes, dynamic_.data, dynamic_.bytes);
  }

  const Region& dynamic() const { return dynamic_; }
  const unsigned char* end_of_pages() const { return pages_.data + pages_.bytes; }  // after slack beyond dynamic()

  static std::size_t static_bytes() { return std::size_t(__stop_gemmgen_shared - __start_gemmgen_shared); }

 private:

  static bool within(const unsigned char* start, std::size_t bytes, const unsigned char* outer,
                     std::size_t outer_bytes) {
    return start >= outer && start + bytes <= outer + outer_bytes;
  }

  Region pages_;
  Region dynamic_;
};

inline SharedMemory shared_memory;

}  // namespace gemmgen
