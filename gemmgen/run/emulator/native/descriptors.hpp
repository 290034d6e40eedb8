// The files that the driver passes on, beside standard input: their numbers are the program's arguments, in this order.
#pragma once

namespace gemmgen {

constexpr int FIRST_PASSED = 3;
constexpr int ARENA = 3;
constexpr int REPLIES = 4;
constexpr int SITES = 5;  // where it counts what runs
constexpr int LINE = 6;   // which kills the process when the driver ends
constexpr int PASSED = 4;

}  // namespace gemmgen
