// The arguments of a launch: those that the kernel takes, with addresses in them. Included once.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "failure.hpp"
#include "kernel_entry.hpp"
#include "launch.hpp"
#include "request.hpp"

namespace gemmgen {

// "p8 i4 s128": the kinds and the bytes of a signature.
inline std::string signature(const Parameter* parameters, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += (i == 0 ? "" : " ") + std::string(1, parameters[i].kind == 'm' ? 's' : parameters[i].kind) +
            std::to_string(parameters[i].bytes);
  return text;
}

inline void check_parameters() {
  const std::string takes = signature(launched().parameters, launched().parameter_count);
  const std::string given = signature(parameters.data(), request.argument_count);
  if (takes != given)
    fail("launch", {}, "the kernel takes the parameters \"%s\" and is launched with \"%s\" (p(ointer), i(nteger), f(loat) or "
                       "s(truct) with its bytes)", takes.c_str(), given.c_str());
  for (unsigned i = 0; i < request.argument_count; ++i)
    if (launched().parameters[i].alignment != parameters[i].alignment)
      fail("launch", {}, "the kernel aligns parameter %u to %u bytes, the launch to %u", i,
           launched().parameters[i].alignment, parameters[i].alignment);
}

// Puts addresses in the place of operands' numbers; a tensor map begins with one.
inline void place_pointers() {
  for (unsigned i = 0; i < request.argument_count; ++i) {
    if (parameters[i].kind != 'p' && parameters[i].kind != 'm') continue;
    unsigned char* const place = arguments.data() + offset_of(parameters.data(), i);
    uint64_t number;
    std::memcpy(&number, place, sizeof number);
    unsigned char* const pointer = operands[number].pointer();
    std::memcpy(place, &pointer, sizeof pointer);
  }
}

}  // namespace gemmgen
