// The shared memory of the block that runs: static arrays, gathered in a section by the linker and far from
// one another, and dynamic memory, whose end touches a band.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <string>
#include <vector>

#include "failure.hpp"
#include "gemmgen_emulator.hpp"
#include "memory.hpp"
#include "symbols.hpp"

extern "C" unsigned char __start_gemmgen_shared[] __attribute__((weak));
extern "C" unsigned char __stop_gemmgen_shared[] __attribute__((weak));

namespace gemmgen {

class SharedMemory {
 public:
  static constexpr std::size_t MAX_DYNAMIC_BYTES = 256 * 1024;

  void resize_dynamic(std::size_t bytes) {
    const std::size_t alignment = gemmgen_dynamic_alignment;
    if (bytes > MAX_DYNAMIC_BYTES)
      fail("launch", {}, "%zu bytes of dynamic shared memory are more than %zu", bytes, MAX_DYNAMIC_BYTES);
    if (pages_.data == nullptr) pages_ = map_private("dynamic shared memory", MAX_DYNAMIC_BYTES);
    const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
    dynamic_ = pages_;
    dynamic_.data = pages_.data + pages_.bytes - whole;
    dynamic_.bytes = bytes;
    const std::size_t unused = (pages_.bytes - whole) / page_bytes() * page_bytes();
    mprotect(pages_.data, unused, PROT_NONE);
    mprotect(pages_.data + unused, pages_.bytes - unused, PROT_READ | PROT_WRITE);
  }

  void poison() {
    for (const Variable& array : arrays_) std::memset(array.start, POISON, array.bytes);
    std::memset(dynamic_.data, POISON, std::size_t(pages_.data + pages_.bytes - dynamic_.data));
  }

  bool contains(const unsigned char* start, std::size_t bytes) const {
    for (const Variable& array : arrays_)
      if (start >= array.start && start + bytes <= array.start + array.bytes) return true;
    return dynamic_.contains(start, bytes);
  }

  // Where `address`, in or beside an array or dynamic memory, lies: "byte 132 of As"; empty if it is far from all.
  std::string describe(const unsigned char* address) const {
    if (dynamic_.near(address)) return dynamic_.describe(address);
    const Variable* nearest = nullptr;
    for (const Variable& array : arrays_)
      if (nearest == nullptr || array.distance(address) < nearest->distance(address)) nearest = &array;
    if (nearest == nullptr || nearest->distance(address) > GEMMGEN_SPACING) return "";
    return relation(address, nearest->start, nearest->bytes, nearest->name);
  }

  // Whether `address`, which is in none of them, lies beside an array or dynamic memory and in no variable that a
  // kernel may use: `threadIdx`, or one of its own, but none of the runtime's.
  bool is_beside(const unsigned char* address) const {
    if (dynamic_.near(address)) return true;
    if (arrays_.empty() || address < __start_gemmgen_shared - GEMMGEN_SPACING ||
        address >= __stop_gemmgen_shared + GEMMGEN_SPACING)
      return false;
    for (const Variable& variable : neighbours_)
      if (variable.contains(address)) return false;
    return true;
  }

  // No access survives the pages between arrays.
  void protect_gaps() {
    for (std::size_t i = 0; i + 1 < arrays_.size(); ++i) {
      unsigned char* const end = arrays_[i].start + arrays_[i].bytes;
      unsigned char* const gap = end + (page_bytes() - uintptr_t(end) % page_bytes()) % page_bytes();
      unsigned char* const next = arrays_[i + 1].start - uintptr_t(arrays_[i + 1].start) % page_bytes();
      if (gap < next) mprotect(gap, std::size_t(next - gap), PROT_NONE);
    }
  }

  const Region& dynamic() const { return dynamic_; }
  const unsigned char* end_of_pages() const { return pages_.data + pages_.bytes; }  // after slack beyond dynamic()

  static std::size_t static_bytes() { return std::size_t(__stop_gemmgen_shared - __start_gemmgen_shared); }

 private:
  static std::vector<Variable> kernel_variables_near_arrays() {
    if (static_bytes() == 0) return {};
    std::vector<Variable> found =
        variables_between(__start_gemmgen_shared - GEMMGEN_SPACING, __stop_gemmgen_shared + GEMMGEN_SPACING);
    const auto is_none = [](const Variable& variable) {
      if (variable.start >= __start_gemmgen_shared && variable.start < __stop_gemmgen_shared) return true;
      if (variable.file == "<stdin>" || variable.file == "-") return false;  // the kernel's, as compilers call it
      const std::string& name = variable.name;
      return name != "threadIdx" && name != "blockIdx" && name != "blockDim" && name != "gridDim";
    };
    found.erase(std::remove_if(found.begin(), found.end(), is_none), found.end());
    return found;
  }

  // Before any block runs: poison would hide where arrays begin.
  static std::vector<Variable> shared_arrays() {
    std::vector<Variable> found = variables_between(__start_gemmgen_shared, __stop_gemmgen_shared);
    std::transform(found.begin(), found.end(), found.begin(), held);
    return found;
  }

  std::vector<Variable> arrays_ = shared_arrays();
  std::vector<Variable> neighbours_ = kernel_variables_near_arrays();
  Region pages_;
  Region dynamic_;
};

inline SharedMemory shared_memory;

}  // namespace gemmgen
