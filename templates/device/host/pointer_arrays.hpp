// A batch of pointers: arrays that say where each product's matrices lie, between bands of their own.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "launch.hpp"
#include "memory.hpp"

namespace gemmgen {

// No access survives the whole pages between matrices, where there are such.
inline void protect_between(const Matrices& all) {
  for (std::size_t i = 0; i + 1 < all.by_address.size(); ++i) {
    const uintptr_t page = page_bytes();
    const uintptr_t first = (uintptr_t(all.by_address[i].start) + all.bytes + page - 1) / page * page;
    const uintptr_t last = uintptr_t(all.by_address[i + 1].start) / page * page;
    if (first < last) mprotect(reinterpret_cast<void*>(first), last - first, PROT_NONE);
  }
}

// Makes `operand` matrices of `matrix_bytes` that start `offsets` from its first byte, and the array that points to them,
// which cannot be written; it touches the upper or the lower band.
inline void map_pointers(Operand& operand, std::size_t matrix_bytes, const uint64_t* offsets, const Request& request) {
  const std::size_t bytes = request.products * sizeof(void*), page = page_bytes();
  Region& array = operand.array;
  array = map_private("the pointers to " + operand.region.name, (bytes + page - 1) / page * page);
  unsigned char* const pages = array.data;
  const std::size_t mapped = array.bytes;
  array.data += request.seed % 2 == 0 ? mapped - bytes : 0;
  array.bytes = bytes;
  auto all = std::make_shared<Matrices>();
  all->bytes = matrix_bytes;
  for (std::size_t product = 0; product < request.products; ++product) {
    unsigned char* const start = operand.region.data + offsets[product];
    reinterpret_cast<unsigned char**>(array.data)[product] = start;
    all->by_address.push_back({start, product});
  }
  const auto earlier = [](const Matrices::Matrix& a, const Matrices::Matrix& b) { return a.start < b.start; };
  const auto same = [](const Matrices::Matrix& a, const Matrices::Matrix& b) { return a.start == b.start; };
  std::stable_sort(all->by_address.begin(), all->by_address.end(), earlier);
  all->by_address.erase(std::unique(all->by_address.begin(), all->by_address.end(), same), all->by_address.end());
  mprotect(pages, mapped, PROT_READ);
  protect_between(*all);
  operand.region.matrices = std::move(all);
}

}  // namespace gemmgen
