// The operands of a launch where the kernel finds them: mapped from the file that it shares with the driver. Included once.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "descriptors.hpp"
#include "kernel_entry.hpp"
#include "launch.hpp"
#include "memory.hpp"
#include "pointer_arrays.hpp"
#include "request.hpp"

namespace gemmgen {

inline Region map_placement(const Placement& place) {
  const auto offset = off_t(place.offset);
  if (!place.in_pieces())
    return map_operand(place.name, ARENA, offset, place.segment_bytes, place.skew, place.bytes, place.written != 0,
                       place.before);
  const Pieces pieces = {place.matrices,    place.lines, place.stride_bytes, place.ld_bytes, place.file_stride_bytes,
                         place.file_ld_bytes};
  return map_pieces(place.name, ARENA, offset, place.segment_bytes, place.skew, place.bytes, place.written != 0, pieces);
}

inline void map_operands() {
  for (const Placement& place : placements) {
    Region region = map_placement(place);
    const uint64_t stride_bytes = place.array ? 0 : place.stride_bytes;  // each matrix of an array is one by itself
    if (place.line_bytes > 0)
      region.geometry = {place.element_bytes, place.line_bytes, place.ld_bytes, place.span_bytes, stride_bytes,
                         place.by_rows != 0};
    operands.push_back({std::move(region), {}, place.element_bytes, place.written != 0, place.holds_values != 0,
                        place.before});
  }
  for (unsigned i = 0; i < gemmgen_device_variable_count; ++i) {
    const DeviceVariable& variable = gemmgen_device_variables[i];
    auto* const start = static_cast<unsigned char*>(variable.address);
    Region region = {variable.name, start, start + variable.bytes, start, variable.bytes, nullptr, {}};
    operands.push_back({std::move(region), {}, variable.bytes & -variable.bytes, variable.written, true, 0});
  }
  if (request.products == 0) return;
  const auto has_array = [](const Placement& place) { return place.array != 0; };
  const auto arrays = std::size_t(std::count_if(placements.begin(), placements.end(), has_array));
  const std::size_t bytes = arrays * request.products * sizeof(uint64_t);
  void* const table = map(nullptr, bytes, PROT_READ, MAP_SHARED, ARENA, off_t(request.matrices_offset));
  const auto* offsets = static_cast<const uint64_t*>(table);
  for (std::size_t i = 0; i < placements.size(); ++i) {
    if (!has_array(placements[i])) continue;
    map_pointers(operands[i], placements[i].matrix_bytes, offsets, request);
    offsets += request.products;
  }
  munmap(table, bytes);
}

inline void unmap_operands() {
  for (std::size_t i = 0; i < placements.size(); ++i) {  // what follows are the kernel's own variables
    unmap(operands[i].region);
    unmap(operands[i].array);
  }
  operands.clear();
}

}  // namespace gemmgen
