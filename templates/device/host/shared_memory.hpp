// The shared memory of the blocks that run at once. Static arrays, gathered in a section by the linker and far from one
// another: a cluster has none. Dynamic memory of each block, whose end touches a band. What asks for it without saying
// whose means that of the selected block, which is mostly the one that runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include <string>
#include <vector>

#include "cluster.hpp"
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
  static constexpr unsigned WINDOW = 1024;  // a GPU's first shared address: what lies below is the system's

  // For each block of the cluster. By some seeds it begins where it has just the alignment that its text asks for.
  void resize_dynamic(std::size_t bytes, uint64_t seed) {
    if (bytes > MAX_DYNAMIC_BYTES)
      fail("launch", {}, "%zu bytes of dynamic shared memory are more than %zu", bytes, MAX_DYNAMIC_BYTES);
    const bool just_aligned = seed / 8 % 2 == 1;
    for (unsigned rank = 0; rank < cluster.ranks; ++rank) resize_dynamic(blocks_[rank], bytes, just_aligned);
    const unsigned alignment = gemmgen_dynamic_alignment;
    window_start_ = just_aligned && alignment < WINDOW ? WINDOW + alignment : WINDOW;
    select(0);
  }

  // Where dynamic memory begins, as a GPU counts shared addresses.
  unsigned window_start() const { return window_start_; }

  // Of the blocks that start.
  void poison() {
    for (const Variable& array : arrays_) std::memset(array.start, POISON, array.bytes);
    for (unsigned rank = 0; rank < cluster.ranks; ++rank) {
      const Dynamic& block = blocks_[rank];
      std::memset(block.region.data, POISON, std::size_t(block.end() - block.region.data));
      if (cluster.ranks > 1)
        blocks_[rank].region.name = "the dynamic shared memory of block " + std::to_string(cluster.first_block + rank);
    }
  }

  // Whether the static arrays are as `poison` left them.
  bool is_static_untouched() const {
    return std::all_of(arrays_.begin(), arrays_.end(), [](const Variable& array) {
      return std::all_of(array.start, array.start + array.bytes, [](unsigned char byte) { return byte == POISON; });
    });
  }

  void select(unsigned rank) { selected_ = &blocks_[rank]; }
  unsigned selected() const { return unsigned(selected_ - blocks_.data()); }

  bool contains(const unsigned char* start, std::size_t bytes) const {
    for (const Variable& array : arrays_)
      if (start >= array.start && start + bytes <= array.start + array.bytes) return true;
    return dynamic().contains(start, bytes);
  }

  // Where `address`, in or beside an array or dynamic memory, lies: "byte 132 of As"; empty if it is far from all.
  std::string describe(const unsigned char* address) const {
    if (const Region* const region = dynamic_near(address)) return region->describe(address);
    const Variable* nearest = nullptr;
    for (const Variable& array : arrays_)
      if (nearest == nullptr || array.distance(address) < nearest->distance(address)) nearest = &array;
    if (nearest == nullptr || nearest->distance(address) > GEMMGEN_SPACING) return "";
    return relation(address, nearest->start, nearest->bytes, nearest->name);
  }

  // Whether `address`, which is in none of them, lies beside an array or dynamic memory and in no variable that a
  // kernel may use: `threadIdx`, or one of its own, but none of the runtime's.
  bool is_beside(const unsigned char* address) const {
    if (dynamic_near(address) != nullptr) return true;
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

  const Region& dynamic() const { return selected_->region; }
  const unsigned char* end_of_pages() const { return selected_->end(); }  // after slack beyond dynamic()
  const Region& dynamic_of(unsigned rank) const { return blocks_[rank].region; }

  // Where a block has what the selected one has at `address`.
  unsigned char* counterpart(const void* address, unsigned rank) const {
    return dynamic_of(rank).data + (static_cast<const unsigned char*>(address) - dynamic().data);
  }

  static std::size_t static_bytes() { return std::size_t(__stop_gemmgen_shared - __start_gemmgen_shared); }

 private:
  // Of a block.
  struct Dynamic {
    Region pages, region;

    const unsigned char* end() const { return pages.data + pages.bytes; }
  };

  static void resize_dynamic(Dynamic& block, std::size_t bytes, bool just_aligned) {
    const std::size_t alignment = gemmgen_dynamic_alignment;
    Region& pages = block.pages;
    if (pages.data == nullptr) pages = map_private("dynamic shared memory", MAX_DYNAMIC_BYTES);
    std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
    const bool odd = uintptr_t(pages.data + pages.bytes - whole) / alignment % 2 == 1;
    if (just_aligned && !odd && whole + alignment <= pages.bytes) whole += alignment;
    block.region = pages;
    block.region.data = pages.data + pages.bytes - whole;
    block.region.bytes = bytes;
    const std::size_t unused = (pages.bytes - whole) / page_bytes() * page_bytes();
    mprotect(pages.data, unused, PROT_NONE);
    mprotect(pages.data + unused, pages.bytes - unused, PROT_READ | PROT_WRITE);
  }

  const Region* dynamic_near(const unsigned char* address) const {
    for (unsigned rank = 0; rank < cluster.ranks; ++rank)
      if (blocks_[rank].region.near(address)) return &blocks_[rank].region;
    return nullptr;
  }

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
  std::array<Dynamic, MAX_RANKS> blocks_;  // of the cluster
  Dynamic* selected_ = blocks_.data();
  unsigned window_start_ = WINDOW;
};

inline SharedMemory shared_memory;

}  // namespace gemmgen
