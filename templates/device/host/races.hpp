// Data races on shared memory, on C and on the workspace, and values that nobody has set there: found exactly,
// whatever order the threads run in. So are accesses that leave the elements of an operand, whatever stands beside them.
//
// The compiler announces every access of a kernel (-fsanitize=thread; its library is not linked, the calls end in
// race_callbacks.hpp). Two accesses race where nothing orders them and at least one writes:
//
//     clocks.hpp           says which accesses of a block come before which
//     shared_races.hpp     judges those of shared memory, cp.async's among them
//     global_races.hpp     judges those of C and of the workspace, where two blocks may meet
//
// and here is decided whose an access is. One that lies beside an array or an operand, by a byte, or in the padding between
// a matrix's lines, is refused.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "access.hpp"
#include "accumulators.hpp"
#include "clocks.hpp"
#include "cluster.hpp"
#include "failure.hpp"
#include "fiber.hpp"
#include "gemmgen_emulator.hpp"
#include "global_races.hpp"
#include "grid_dependency.hpp"
#include "launch.hpp"
#include "memory.hpp"
#include "shared_memory.hpp"
#include "shared_races.hpp"

namespace gemmgen {

// Whether the kernel's accesses are announced. Otherwise cp.async alone is known, and nothing is judged.
inline bool watching = false;

class Races {
 public:
  // Shared memory holds elements of `element_bytes`. `dependent`: see grid_dependency.hpp.
  void start_launch(std::size_t element_bytes, bool dependent) {
    dependency_.start_launch(dependent);
    if (!watching) return;
    shared_.start_launch(element_bytes);
    global_.start_launch();
    spans_.clear();
    for (const Operand& operand : operands) spans_.push_back({operand.region.band_start, operand.region.mapped_bytes()});
  }

  // Of the block, or cluster, that comes next.
  void start_block() {
    clocks.start_block();
    select(0);
    dependency_.start_block();
    if (!watching) return;
    shared_.start_block();
    global_.start_block();
  }

  // From now on shared memory is that of this block of the cluster.
  void select(unsigned rank) {
    shared_memory.select(rank);
    if (watching) shared_.select();
  }

  void finish_block() { shared_.tell_unset_read(); }

  void pass_block_barrier() {
    shared_.tell_unset_read();
    clocks.pass_block_barrier();
  }

  void read(const void* raw_address, std::size_t bytes, Place place) {
    const auto* const address = static_cast<const unsigned char*>(raw_address);
    const std::size_t offset = shared_.offset_of(address);
    if (offset == SharedRaces::ELSEWHERE) return access_elsewhere(address, bytes, place, Kind::read);
    if (!shared_.is_settled(offset, bytes)) read_unsettled(address, offset, bytes, place);
  }

  // Of shared memory of the selected block, by a thread of another one.
  void read_from_afar(const unsigned char* address, std::size_t bytes, Place place) {
    if (watching) shared_.read_from_afar(shared_.offset_of(address), bytes, place);
  }

  void write(const void* raw_address, std::size_t bytes, Place place, Kind kind = Kind::write) {
    const auto* const address = static_cast<const unsigned char*>(raw_address);
    const std::size_t offset = shared_.offset_of(address);
    if (offset == SharedRaces::ELSEWHERE) return access_elsewhere(address, bytes, place, kind);
    check_shared(address, bytes, place, kind);
    shared_.write(offset, bytes, place, kind);
  }

  void start_copy(const void* address, std::size_t bytes, Place place) {
    if (watching) write(address, bytes, place, Kind::copy);
  }

  // Whether nobody has written any of these bytes of shared memory.
  bool unset(const unsigned char* address, std::size_t bytes) const {
    return shared_.unset(shared_.offset_of(address), bytes);
  }

  // What TMA or wgmma read in shared memory: see SharedRaces.
  void read_by_proxy(const unsigned char* address, std::size_t bytes, Place place, Kind kind, const Clock& proxied,
                     unsigned reader, bool may_be_unset = false) {
    check_shared(address, bytes, place, kind);
    shared_.read_by_proxy(shared_.offset_of(address), bytes, place, kind, proxied, reader, may_be_unset);
  }

  // What a cp.async, or TMA, reads.
  void read_global(const unsigned char* address, std::size_t bytes, Place place) {
    if (watching) access_elsewhere(address, bytes, place, Kind::read);
  }

  void fence(Scope scope) {
    if (watching && !is_of_block(of(scope))) global_.fence();
  }

  void pass_cluster_barrier(const std::shared_ptr<const Clock>& past) {
    if (watching) global_.pass_cluster_barrier(past);
  }

  void wait_for_grid_before() { dependency_.wait(); }

  // `counts`: what it finds there tells which atomics came before it, as that of a counter does and a sum of floats does not.
  void atomic(const unsigned char* address, std::size_t bytes, Place place, bool counts, Scope scope) {
    if (!watching || shared_atomic(address, bytes, place)) return;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].written && operands[i].region.contains(address, bytes))
        global_.atomic(i, address, bytes, place, counts, of(scope));
  }

  // A read by a cache that does not see what the launch writes.
  void read_only(const unsigned char* address, std::size_t bytes, Place place) {
    if (!watching) return;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].written && operands[i].region.contains(address, bytes)) global_.read_only(i, address, bytes, place);
  }

  // An atomic that nothing is ordered by.
  void reduction(const unsigned char* address, std::size_t bytes, Place place, Scope scope = Scope::gpu) {
    if (!watching || shared_atomic(address, bytes, place)) return;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].written && operands[i].region.contains(address, bytes)) global_.reduction(i, address, bytes, place, of(scope));
  }

  // A load that is relaxed, or acquires.
  void strong_read(const unsigned char* address, std::size_t bytes, Place place, Scope scope) {
    if (!watching) return;
    const Kind kind = is_of_block(of(scope)) ? Kind::block_read : Kind::strong_read;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].written && operands[i].region.contains(address, bytes))
        return global_.strong_read(i, address, bytes, place, kind);
    read(address, bytes, place);
  }

 private:
  // A cluster's scope is the block's where the block is alone in it, and the GPU's else: the clusters' are not told apart.
  static Kind of(Scope scope) {
    const bool of_block = scope == Scope::block || (scope == Scope::cluster && cluster.ranks == 1);
    return of_block ? Kind::block_atomic : Kind::atomic;
  }

  // Whether an atomic is one on shared memory, which is then judged.
  bool shared_atomic(const unsigned char* address, std::size_t bytes, Place place) {
    const std::size_t offset = shared_.offset_of(address);
    if (offset == SharedRaces::ELSEWHERE) return false;
    check_shared(address, bytes, place, Kind::atomic);
    shared_.atomic(offset, bytes, place);
    return true;
  }

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
    if (is_local(address)) {
      if (accumulators.in_flight()) check_flight(address, bytes, place, kind);
      return;
    }
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      if (std::size_t(address - spans_[i].start) >= spans_[i].bytes) continue;
      const Region& region = operands[i].region;
      if (!region.contains(address, bytes)) refuse_outside(region.describe(address), place, kind);
      if (!region.on_elements(address, bytes)) refuse_outside(region.describe_padding(address), place, kind);
      if (!dependency_.is_over()) refuse_early(region.describe(address), place, kind);
      if (operands[i].written) global_.access(i, address, bytes, place, kind);
      return;
    }
    if (const Region* const array = region_near(address)) {
      if (!array->contains(address, bytes)) refuse_outside(array->describe(address), place, kind);
    } else if (shared_memory.is_beside(address)) {
      refuse_outside(shared_memory.describe(address), place, kind);
    }
  }

  __attribute__((noinline)) static void check_flight(const unsigned char* address, std::size_t bytes, Place place, Kind kind) {
    const unsigned line = accumulators.met(clocks.thread(), address, bytes, kind);
    if (line != 0)
      fail("race", place.location(), "%s%sregisters in flight: those of the wgmma at %s, not waited for yet",
           cluster.where(clocks.thread()).c_str(), verb(kind), Place::line(line).text().c_str());
  }

  // On the running thread's stack, above the frames of what judges it.
  static bool is_local(const unsigned char* address) {
    const auto* const frame = static_cast<const unsigned char*>(__builtin_frame_address(0));
    return address >= frame && address < frame + STACK_BYTES;
  }

  [[noreturn]] __attribute__((noinline)) void refuse_outside(const std::string& where, Place place, Kind kind) const {
    fail("crash", place.location(), "%s%s%s", cluster.where(clocks.thread()).c_str(), verb(kind), where.c_str());
  }

  [[noreturn]] __attribute__((noinline)) void refuse_early(const std::string& where, Place place, Kind kind) const {
    fail("race", place.location(), "%s%s%s before it has waited for the kernel ahead on the stream, which may still write or "
         "read it: no grid_dependency_wait", cluster.where(clocks.thread()).c_str(), verb(kind), where.c_str());
  }

  // Of an operand with the bands beside it: all of them in few lines of the cache, as each access looks through them.
  struct Span {
    const unsigned char* start;
    std::size_t bytes;
  };

  SharedRaces shared_;
  GlobalRaces global_;
  GridDependency dependency_;
  std::vector<Span> spans_;
};

inline Races races;

// While it lives, shared memory is that of another block of the cluster.
class Elsewhere {
 public:
  explicit Elsewhere(unsigned rank) { races.select(rank); }
  ~Elsewhere() { races.select(own_); }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;

 private:
  unsigned own_ = shared_memory.selected();
};

}  // namespace gemmgen
