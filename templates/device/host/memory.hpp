// Memory between two bands that no access survives: operands, dynamic shared memory, stacks.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "failure.hpp"

namespace gemmgen {

constexpr std::size_t BAND_BYTES = std::size_t(64) << 20;  // a row or two past the end still lands in it
constexpr int POISON = 0xFF;                               // bytes of it are a NaN

// "8 bytes after the end of A" or "byte 8 of A", for an address in or beside what begins at `start`.
inline std::string relation(const unsigned char* address, const unsigned char* start, std::size_t bytes,
                            const std::string& name) {
  if (address < start) return std::to_string(start - address) + " bytes before the start of " + name;
  const std::size_t offset = std::size_t(address - start);
  if (offset < bytes) return "byte " + std::to_string(offset) + " of " + name;
  return std::to_string(offset - bytes) + " bytes after the end of " + name;
}

// Where the matrices of a batch of pointers lie, all of one operand in its region: what is between them is no operand's.
struct Matrices {
  struct Matrix {
    unsigned char* start;
    std::size_t product;  // the first one that it serves
  };
  std::vector<Matrix> by_address;
  std::size_t bytes = 0;  // of each

  const Matrix& nearest(const unsigned char* address) const {
    const auto starts_later = [](const unsigned char* place, const Matrix& matrix) { return place < matrix.start; };
    auto after = std::upper_bound(by_address.begin(), by_address.end(), address, starts_later);
    if (after == by_address.begin()) return *after;
    const auto before = after - 1;
    if (after == by_address.end() || address < before->start + bytes) return *before;
    return address - (before->start + bytes) < after->start - address ? *before : *after;
  }
};

// `data` lies between `band_start` and `band_end`; what the pages hold beside it is slack.
struct Region {
  std::string name;
  unsigned char* band_start = nullptr;
  unsigned char* band_end = nullptr;
  unsigned char* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const Matrices> matrices;  // where an access has to stay inside one of these

  bool near(const unsigned char* address) const { return address >= band_start && address < band_end; }
  bool contains(const unsigned char* address, std::size_t some) const {
    const unsigned char* const start = matrices == nullptr ? data : matrices->nearest(address).start;
    return address >= start && address + some <= start + (matrices == nullptr ? bytes : matrices->bytes);
  }
  std::string describe(const unsigned char* address) const {
    if (matrices == nullptr) return relation(address, data, bytes, name);
    const Matrices::Matrix& matrix = matrices->nearest(address);
    return relation(address, matrix.start, matrices->bytes, "matrix " + std::to_string(matrix.product) + " of " + name);
  }
  std::size_t mapped_bytes() const { return std::size_t(band_end - band_start); }
};

inline std::size_t page_bytes() { return std::size_t(sysconf(_SC_PAGESIZE)); }

inline void* map(void* address, std::size_t bytes, int protection, int flags, int file = -1, off_t offset = 0) {
  void* mapped = mmap(address, bytes, protection, flags, file, offset);
  if (mapped == MAP_FAILED) fail("launch", {}, "the emulator cannot map %zu bytes: %s", bytes, std::strerror(errno));
  return mapped;
}

inline unsigned char* map_bands(std::size_t bytes) {
  return static_cast<unsigned char*>(
      map(nullptr, bytes + 2 * BAND_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE));
}

// Maps `segment_bytes` of `file` between bands; the operand starts `skew` bytes into them.
inline Region map_operand(const std::string& name, int file, off_t offset, std::size_t segment_bytes, std::size_t skew,
                          std::size_t bytes, bool writable) {
  unsigned char* start = map_bands(segment_bytes);
  unsigned char* segment = start + BAND_BYTES;
  if (segment_bytes > 0)
    map(segment, segment_bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_FIXED, file, offset);
  return {name, start, segment + segment_bytes + BAND_BYTES, segment + skew, bytes, nullptr};
}

inline void unmap(Region& region) {
  if (region.band_start != nullptr) munmap(region.band_start, region.mapped_bytes());
  region = {};
}

// Private zeroed memory between bands.
inline Region map_private(const std::string& name, std::size_t bytes) {
  unsigned char* start = map_bands(bytes);
  unsigned char* data = start + BAND_BYTES;
  map(data, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE);
  return {name, start, data + bytes + BAND_BYTES, data, bytes, nullptr};
}

}  // namespace gemmgen
