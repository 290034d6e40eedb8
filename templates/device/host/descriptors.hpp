// The files that an emulator starts with.
#pragma once

namespace gemmgen {

constexpr int FIRST_PASSED = 3;
constexpr int ARENA = 3;
constexpr int REPLIES = 4;
constexpr int NOWHERE = 5;  // /dev/null
constexpr int PROGRAM = 6;  // its own
constexpr int SITES = 7;    // of probes
constexpr int PASSED = 5;

}  // namespace gemmgen
