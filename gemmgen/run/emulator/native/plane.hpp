#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "failure.hpp"

namespace gemmgen {

// Numbers that begin as 0, in pages that cost nothing before they are touched.
class Plane {
 public:
  Plane() = default;
  explicit Plane(std::size_t count) : bytes_(count * sizeof(int32_t)) {
    void* const found = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) fail("unjudged", "the emulator cannot map %zu bytes to watch memory by", bytes_);
    cells_ = static_cast<int32_t*>(found);
  }
  Plane(Plane&& other) noexcept : cells_(std::exchange(other.cells_, nullptr)), bytes_(other.bytes_) {}
  Plane& operator=(Plane&& other) noexcept {
    std::swap(cells_, other.cells_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Plane() {
    if (cells_ != nullptr) munmap(cells_, bytes_);
  }
  int32_t* cells() const { return cells_; }
  bool exists() const { return cells_ != nullptr; }

 private:
  int32_t* cells_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace gemmgen
