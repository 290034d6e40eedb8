// The runtime's side of cp.async: see async_copy.hpp. Included once.
#pragma once

#include <cstddef>
#include <cstring>

#include "async_copy.hpp"
#include "block.hpp"
#include "failure.hpp"
#include "faults.hpp"
#include "operand_access.hpp"
#include "races.hpp"
#include "shared_memory.hpp"

namespace gemmgen {

inline bool copies_land_late = true;

void commit_copies() { block.running().copies.commit(); }
void wait_for_copies(int groups_left) { block.running().copies.wait(unsigned(groups_left)); }

[[noreturn]] inline void refuse_copy(int bytes, const char* what, const void* address, int line) {
  fail("crash", {unsigned(line)}, "%s: cp_async of %d bytes %s (%s)", block.where().c_str(), bytes, what,
       describe_address(static_cast<const unsigned char*>(address)).c_str());
}

inline void check_copy(const void* shared, const void* global, int bytes, int valid_bytes, int line) {
  if (valid_bytes < 0 || valid_bytes > bytes) refuse_copy(bytes, "with a wrong count of valid bytes", global, line);
  if (!aligned(shared, bytes)) refuse_copy(bytes, "with a misaligned shared address", shared, line);
  if (!aligned(global, bytes)) refuse_copy(bytes, "with a misaligned global address", global, line);
  if (!shared_memory.contains(static_cast<const unsigned char*>(shared), std::size_t(bytes)))
    refuse_copy(bytes, "writes outside shared memory", shared, line);
  if (valid_bytes > 0) check_operand(global, std::size_t(valid_bytes), "reads", line);
}

void copy_async(void* shared, const void* global, int bytes, int valid_bytes, int line) {
  check_copy(shared, global, bytes, valid_bytes, line);
  if (valid_bytes > 0)
    races.read_global(static_cast<const unsigned char*>(global), std::size_t(valid_bytes), Place::line(unsigned(line)));
  AsyncCopy copy = {static_cast<unsigned char*>(shared), unsigned(bytes), 0, false, {}};
  runtime_line = unsigned(line);
  std::memcpy(copy.data, global, std::size_t(valid_bytes));
  runtime_line = 0;
  races.start_copy(shared, std::size_t(bytes), Place::line(unsigned(line)));
  block.running().copies.issue(copy, !copies_land_late);
}

}  // namespace gemmgen
