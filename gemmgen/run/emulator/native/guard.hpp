// What the process may do, which interprets a program that a stranger may have written: compute in memory that is bounded, with
// threads. It opens no file and starts no process. What the system lacks of this is left out, and the driver says so.
#pragma once

namespace gemmgen {

// From now on and for good. `passed` are the numbers of the files of descriptors.hpp; false where one of them is none.
bool guard(char** passed);

// Prints what this system has: "landlock" and "seccomp".
void probe();

}  // namespace gemmgen
