// Data races on shared memory, on C and on the workspace, and unset values in shared memory: found exactly,
// whatever order the threads run in.
//
// The compiler announces every access of a kernel (-fsanitize=thread; its library is not linked, the calls end in
// race_callbacks.hpp). Two accesses race where nothing orders them and at least one writes:
//
//     order.hpp            says which accesses of a block come before which
//     shared_races.hpp     judges those of shared memory, cp.async's among them
//     global_races.hpp     judges those of C and of the workspace, where two blocks may meet
//
// and here is decided whose an access is. One that lies beside an array or an operand, by a byte, is refused.
#pragma once

#include <cstddef>
#include <string>

#include "access.hpp"
#include "failure.hpp"
#include "gemmgen_emulator.hpp"
#include "global_races.hpp"
#include "launch.hpp"
#include "memory.hpp"
#include "order.hpp"
#include "shared_memory.hpp"
#include "shared_races.hpp"

namespace gemmgen {

// Whether the kernel's accesses are announced. Otherwise cp.async alone is known, and nothing is judged.
inline bool watching = false;

class Races {
 public:
  void start_launch() {
    if (watching) global_.start_launch();
  }

  void start_block() {
    order.start_block();
    shared_.start_block();
    if (watching) global_.start_block();
  }

  void finish_block() { shared_.finish_epoch(); }

  void pass_block_barrier() {
    shared_.finish_epoch();
    order.start_epoch();
    shared_.start_epoch();
  }

  // `thread` goes on.
  void run(unsigned thread) { order.run(thread); }

  // The lanes of `mask` have met.
  void pass_warp_barrier(unsigned first_thread, unsigned mask) {
    order.pass_warp_barrier(first_thread, mask);
    shared_.pass_warp_barrier(first_thread / WARP);
  }

  void read(const void* raw_address, std::size_t bytes, Place place) {
    const auto* const address = static_cast<const unsigned char*>(raw_address);
    const std::size_t offset = shared_.offset_of(address);
    if (offset == SharedRaces::ELSEWHERE) return access_elsewhere(address, bytes, place, Kind::read);
    if (!shared_.is_settled(offset, bytes)) read_unsettled(address, offset, bytes, place);
  }

  void write(const void* raw_address, std::size_t bytes, Place place, Kind kind = Kind::write) {
    const auto* const address = static_cast<const unsigned char*>(raw_address);
    const std::size_t offset = shared_.offset_of(address);
    if (offset == SharedRaces::ELSEWHERE) return access_elsewhere(address, bytes, place, kind);
    check_shared(address, bytes, place, kind);
    shared_.write(offset, bytes, place, kind);
  }

  void start_copy(const void* address, std::size_t bytes, Place place) {
    if (watching) write(address, bytes, place, Kind::copy_under_way);
  }

  // The running thread has waited for its copy to these bytes.
  void complete_copy(const void* address, std::size_t bytes) {
    if (!watching) return;
    const std::size_t offset = shared_.offset_of(static_cast<const unsigned char*>(address));
    if (offset != SharedRaces::ELSEWHERE) shared_.complete_copy(offset, bytes);
  }

  void fence() {
    if (watching) global_.fence();
  }

  void atomic(const void* address, std::size_t bytes, Place place) {
    if (watching) global_.atomic(address, bytes, place);
  }

 private:
  // Out of line: most reads are settled, and that is all that the compiler shall inline.
  __attribute__((noinline)) void read_unsettled(const unsigned char* address, std::size_t offset, std::size_t bytes,
                                                Place place) {
    check_shared(address, bytes, place, Kind::read);
    shared_.read(offset, bytes, place);
  }

  // An access that starts in shared memory must be inside of an array, or of dynamic memory, to the byte.
  void check_shared(const unsigned char* address, std::size_t bytes, Place place, Kind kind) const {
    if (!shared_memory.contains(address, bytes)) refuse_outside(shared_memory.describe(address), place, kind);
  }

  // An access that starts elsewhere: to an operand it must be inside of it, to the byte.
  void access_elsewhere(const unsigned char* address, std::size_t bytes, Place place, Kind kind) {
    global_.access(address, bytes, place, kind);
    if (const Region* const region = region_near(address)) {
      if (region->contains(address, bytes)) return;
      refuse_outside(region->describe(address), place, kind);
    }
    if (shared_memory.is_beside(address)) refuse_outside(shared_memory.describe(address), place, kind);
  }

  [[noreturn]] __attribute__((noinline)) void refuse_outside(const std::string& where, Place place, Kind kind) const {
    fail("crash", place.location(), "block %u, thread %u%s%s", blockIdx.x, order.thread(), verb(kind), where.c_str());
  }

  SharedRaces shared_;
  GlobalRaces global_;
};

inline Races races;

}  // namespace gemmgen
