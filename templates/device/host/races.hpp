// Data races on shared memory, on C and on the workspace, and unset values in shared memory: found exactly,
// whatever order the threads run in.
//
// The compiler announces every access of a kernel (-fsanitize=thread; its library is not linked, the
// calls end in race_callbacks.hpp). A cell for each word of shared memory holds its last write and
// two of the reads since. Accesses of two threads are ordered by
//
//     a barrier of the block       which starts a new epoch for all of its threads
//     a barrier among lanes        __syncwarp and the warp collectives, for the lanes that meet
//
// and race where nothing orders them and at least one writes. A cp.async is a write that lasts from
// its issue to the issuing thread's wait: until then nobody may access its bytes, and after it the
// write counts as that thread's own at the time of the wait.
//
// The accesses of two blocks to C or to the workspace are ordered by a fence and an atomic on either side:
//
//     one writes     a barrier, a __threadfence, an atomic        what came before the fence is released
//     other reads    an atomic that finds the first one's, a __threadfence, a barrier       and acquired
//
// where the barriers may lack if one thread does both. Atomics on one word never race with each other, and each of them
// has to come before whoever reads or writes it otherwise. Blocks run one after the other here; whether they might
// have run otherwise is what fences and atomics say. What a block acquires it does not pass on to a third one,
// unless both used the same counter.
//
// Two reads suffice: they are unordered, and of different warps if any two are, so that a write
// by whichever thread races with one of them if it races with any. Only meetings of part of a warp
// can order both and leave a third one, which then goes unseen; no race is reported that is none.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "failure.hpp"
#include "gemmgen_emulator.hpp"
#include "launch.hpp"
#include "memory.hpp"
#include "shared_memory.hpp"

namespace gemmgen {

constexpr unsigned WARP = 32;
constexpr unsigned MAX_THREADS = 1024;

// Where the .cu makes an access: an instruction (the executable lies below 2 GiB) or, for a cp_async, a line.
class Place {
 public:
  static Place instruction(const void* return_address) { return Place(uint32_t(uintptr_t(return_address)) - 1); }
  static Place line(unsigned number) { return Place(number | LINE); }
  Place() = default;

  Location location() const {
    if (code_ & LINE) return {code_ & ~LINE};
    return {0, reinterpret_cast<const void*>(uintptr_t(code_))};
  }

  // For the driver, which puts the file and the line in its stead.
  std::string text() const {
    char text[32];
    std::snprintf(text, sizeof text, code_ & LINE ? "@{%u}" : "@{0x%x}", code_ & ~LINE);
    return text;
  }

 private:
  static constexpr uint32_t LINE = 1u << 31;
  explicit Place(uint32_t code) : code_(code) {}
  uint32_t code_ = 0;
};

enum class Kind : uint8_t { read, write, copy_under_way, copy_done, atomic };

struct Access {
  uint32_t epoch = 0;     // 0 where there was none
  uint32_t interval = 0;  // of the warp: barriers that its lanes have passed
  Place place;
  uint16_t thread = 0;
  Kind kind = Kind::read;
};

// Whether the kernel's accesses are announced. Otherwise cp.async alone is known, and nothing is judged.
inline bool watching = false;

class Races {
 public:
  void start_launch() {
    if (!watching) return;
    start_of_launch_ = epoch_ + 1;
    blocks_.clear();
    released_.clear();
    atomics_.clear();
    for (int i = FIRST_WRITTEN; i < OPERANDS; ++i) {
      const std::size_t needed = operands[i].bytes / 4 * sizeof(Cell);
      if (shadows_[i].bytes >= needed) continue;
      unmap(shadows_[i]);
      shadows_[i] = map_private("the shadow of an operand", needed);
    }
  }

  void start_block() {
    if (cells_ == nullptr) {
      const std::size_t most = SharedMemory::static_bytes() + SharedMemory::MAX_DYNAMIC_BYTES;
      cells_ = reinterpret_cast<Cell*>(map_private("the shadow of shared memory", most * sizeof(Cell)).data);
      settled_ = reinterpret_cast<uint32_t*>(map_private("the shadow of shared memory", most).data);
    }
    dynamic_start_ = shared_memory.dynamic().data;
    dynamic_bytes_ = std::size_t(shared_memory.end_of_pages() - dynamic_start_);
    start_epoch();
    start_of_block_ = epoch_;
    if (!watching) return;
    blocks_.push_back({epoch_, blockIdx.x});
    fences_.clear();
    found_.clear();
    acquired_.clear();
  }

  void finish_block() { refuse_unset_read(); }

  void pass_block_barrier() {
    refuse_unset_read();
    start_epoch();
  }

  void start_epoch() {
    ++epoch_;
    for (uint32_t& token : warp_tokens_) token = ++last_token_;
    epoch_token_ = ++last_token_;
  }

  // `thread` goes on.
  void run(unsigned thread) { thread_ = thread; }

  // The lanes of `mask` have met: each knows from now on what any of them knew.
  void pass_warp_barrier(unsigned first_thread, unsigned mask) {
    const uint32_t interval = ++intervals_[first_thread / WARP];
    warp_tokens_[first_thread / WARP] = ++last_token_;
    uint32_t known[WARP] = {};
    for (unsigned lane = 0; lane < WARP; ++lane) {
      if (!(mask >> lane & 1)) continue;
      for (unsigned other = 0; other < WARP; ++other)
        if (known_[first_thread + lane][other] > known[other]) known[other] = known_[first_thread + lane][other];
    }
    for (unsigned lane = 0; lane < WARP; ++lane)
      if (mask >> lane & 1) known[lane] = interval;
    for (unsigned lane = 0; lane < WARP; ++lane)
      if (mask >> lane & 1) std::memcpy(known_[first_thread + lane], known, sizeof known);
  }

  void read(const void* address, std::size_t bytes, Place place) {
    std::size_t offset = std::size_t(static_cast<const unsigned char*>(address) - __start_gemmgen_shared);
    if (offset >= SharedMemory::static_bytes()) {
      offset = std::size_t(static_cast<const unsigned char*>(address) - dynamic_start_);
      if (offset >= dynamic_bytes_) {
        access_global(address, bytes, place, Kind::read);
        return check_elsewhere(static_cast<const unsigned char*>(address), bytes, place, Kind::read);
      }
      offset += SharedMemory::static_bytes();
    }
    if (!is_settled(offset, bytes)) read_unsettled(address, bytes, place);
  }

  __attribute__((noinline)) void read_unsettled(const void* address, std::size_t bytes, Place place) {
    each_cell(address, bytes, place, Kind::read, [&](Cell& cell, std::size_t offset) {
      if (cell.write.epoch < start_of_block_) note_unset_read(offset, place);
      else if (!before(cell.write)) refuse(cell.write, offset, place, Kind::read);
      note_read(cell, place);
      settle(cell, offset);
    });
  }

  void write(const void* address, std::size_t bytes, Place place, Kind kind = Kind::write) {
    access_global(address, bytes, place, kind);
    each_cell(address, bytes, place, kind, [&](Cell& cell, std::size_t offset) {
      for (const Access* earlier : {&cell.write, &cell.reads[0], &cell.reads[1]})
        if (!before(*earlier)) refuse(*earlier, offset, place, kind);
      cell.write = now(place, kind);
      cell.reads[0] = cell.reads[1] = Access();
      settled_[offset / 4] = 0;
    });
  }

  void start_copy(const void* address, std::size_t bytes, Place place) {
    if (watching) write(address, bytes, place, Kind::copy_under_way);
  }

  // The running thread's __threadfence: releases what came before it, and acquires what its atomics have found.
  void fence() {
    if (!watching) return;
    for (const Found& found : found_)
      if (before(found.at)) acquired_.push_back({now(Place(), Kind::read), found.releases});
    Fence fence = {now(Place(), Kind::read), {}};
    std::memcpy(fence.known.data(), known_[thread_], sizeof fence.known);
    fence.known[thread_ % WARP] = ++intervals_[warp()];  // what this thread has done is before, what it does now is not
    fences_.push_back(fence);
  }

  // The running thread's atomic: finds what was released there, and releases what fences have covered.
  void atomic(const void* address, std::size_t bytes, Place place) {
    if (!watching) return;
    access_global(address, bytes, place, Kind::atomic);
    const auto released = released_.find(address);
    if (released != released_.end()) found_.push_back({now(place, Kind::atomic), &released->second});
    for (const Fence& fence : fences_) {
      if (!before(fence.at)) continue;
      std::vector<Release>& releases = released_[address];
      if (releases.empty() || releases.back().start_of_block != start_of_block_) releases.push_back({start_of_block_});
      releases.back().add(fence);
    }
  }

  // The running thread has waited for its copy to these bytes.
  void complete_copy(const void* address, std::size_t bytes) {
    if (!watching) return;
    each_cell(address, bytes, Place(), Kind::copy_done, [&](Cell& cell, std::size_t) {
      if (cell.write.kind == Kind::copy_under_way) cell.write = now(cell.write.place, Kind::copy_done);
    });
  }

 private:
  struct Cell {
    Access write;
    Access reads[2];
  };

  using Known = std::array<uint32_t, WARP>;  // by lane, the intervals that come before

  // A __threadfence: what of its thread's warp comes before it in its epoch.
  struct Fence {
    Access at;
    Known known;
  };

  // What an atomic offers of its block: the accesses that any of these fences covers.
  struct Release {
    uint32_t start_of_block;
    uint32_t epoch = 0;               // the last one with a fence: all before it is covered, and in it
    std::map<unsigned, Known> known;  // what these know, by warp

    void add(const Fence& fence) {
      if (fence.at.epoch < epoch) return;
      if (fence.at.epoch > epoch) known.clear();
      epoch = fence.at.epoch;
      Known& most = known[fence.at.thread / WARP];
      for (unsigned lane = 0; lane < WARP; ++lane) most[lane] = std::max(most[lane], fence.known[lane]);
    }

    bool covers(const Access& access) const {
      if (access.epoch != epoch) return access.epoch < epoch;
      const auto lanes = known.find(access.thread / WARP);
      return lanes != known.end() && lanes->second[access.thread % WARP] > access.interval;
    }
  };

  // What an atomic found on its word, or what a fence after it acquired: releases in the order of their blocks. Those
  // of other blocks stay as they are while this one runs.
  struct Found {
    Access at;
    const std::vector<Release>* releases;
  };

  // Elements are words; nothing is said of an access to a part of one.
  void access_global(const void* raw_address, std::size_t bytes, Place place, Kind kind) {
    for (int i = FIRST_WRITTEN; i < OPERANDS; ++i) {
      const std::size_t start = std::size_t(static_cast<const unsigned char*>(raw_address) - operands[i].data);
      if (start >= operands[i].bytes) continue;
      if (start + bytes > operands[i].bytes || (start | bytes) % 4 != 0) return;
      Cell* const cells = reinterpret_cast<Cell*>(shadows_[i].data);
      for (std::size_t offset = start; offset < start + bytes; offset += 4)
        access_word(cells[offset / 4], i, offset, place, kind);
      return;
    }
  }

  void access_word(Cell& cell, int operand, std::size_t offset, Place place, Kind kind) {
    std::vector<Access>* const atomics = kind == Kind::atomic || cell.write.kind == Kind::atomic ? &atomics_[&cell] : nullptr;
    if (kind != Kind::atomic && atomics != nullptr)
      for (const Access& earlier : *atomics)
        if (!before_anywhere(earlier)) refuse_global(earlier, operand, offset, place, kind);
    if (cell.write.kind != Kind::atomic && !before_anywhere(cell.write))
      refuse_global(cell.write, operand, offset, place, kind);
    if (kind == Kind::read) {
      if (cell.reads[0].epoch >= start_of_block_ || before_anywhere(cell.reads[0])) note_read(cell, place);
      return;
    }
    for (const Access& read : cell.reads)
      if (!before_anywhere(read)) refuse_global(read, operand, offset, place, kind);
    if (kind == Kind::atomic) note_atomic(*atomics, place);
    else if (atomics != nullptr) atomics->clear();
    cell.write = now(place, kind);
    cell.reads[0] = cell.reads[1] = Access();
  }

  // One that comes before this one in its block need not be known any more: what this one precedes it precedes, too.
  void note_atomic(std::vector<Access>& atomics, Place place) const {
    const bool follows = !atomics.empty() && atomics.back().epoch >= start_of_block_ && before(atomics.back());
    if (follows) atomics.back() = now(place, Kind::atomic);
    else atomics.push_back(now(place, Kind::atomic));
  }

  // Whether an access of any block of this launch, or of an earlier launch, comes before the running thread's next.
  bool before_anywhere(const Access& access) const {
    if (access.epoch < start_of_launch_) return true;
    return access.epoch >= start_of_block_ ? before(access) : is_acquired(access);
  }

  bool is_acquired(const Access& access) const {
    for (const Found& found : acquired_) {
      if (!before(found.at)) continue;
      const auto starts_later = [](uint32_t epoch, const Release& release) { return epoch < release.start_of_block; };
      const auto after = std::upper_bound(found.releases->begin(), found.releases->end(), access.epoch, starts_later);
      if (after != found.releases->begin() && (after - 1)->covers(access)) return true;
    }
    return false;
  }

  [[noreturn]] __attribute__((noinline)) void refuse_global(const Access& first, int operand, std::size_t offset,
                                                            Place place, Kind kind) const {
    unsigned block = 0;
    for (const StartedBlock& started : blocks_)
      if (started.epoch <= first.epoch) block = started.index;
    const std::string where = operands[operand].describe(operands[operand].data + offset);
    fail("crash", {}, "data race on %s: block %u, thread %u%s%s at %s, block %u, thread %u%sit at %s, %s",
         OPERAND_NAMES[operand], block, first.thread, verb(first.kind), where.c_str(), first.place.text().c_str(),
         blockIdx.x, thread_, verb(kind), place.text().c_str(),
         block == blockIdx.x ? "no barrier between" : "and nothing orders blocks");
  }

  // Calls `visit` with every cell of the access and its offset in shared memory; with none outside of it.
  template <typename Visit>
  void each_cell(const void* raw_address, std::size_t bytes, Place place, Kind kind, Visit visit) {
    const unsigned char* address = static_cast<const unsigned char*>(raw_address);
    std::size_t offset = std::size_t(address - __start_gemmgen_shared);
    if (offset >= SharedMemory::static_bytes()) {
      const std::size_t inside = std::size_t(address - dynamic_start_);
      if (inside >= dynamic_bytes_) return check_elsewhere(address, bytes, place, kind);
      offset = SharedMemory::static_bytes() + inside;
    }
    if (!shared_memory.contains(address, bytes)) refuse_outside(shared_memory.describe(address), place, kind);
    if (((offset | bytes) & cell_bytes_mask_) != 0) split_cells();
    const std::size_t step = cell_bytes_mask_ + 1;
    for (const std::size_t end = offset + bytes; offset < end; offset += step) visit(cells_[offset / step], offset);
  }

  // A word is settled for a thread whose read of it can neither race nor add to what its cell says:
  // two warps have read it in this epoch, or two lanes of the thread's warp in this interval.
  bool is_settled(std::size_t offset, std::size_t bytes) const {
    const uint32_t* const first = settled_ + offset / 4;
    const uint32_t warp_token = warp_tokens_[warp()];
    for (std::size_t i = 0; i < (bytes + 3) / 4; ++i)
      if (first[i] != epoch_token_ && first[i] != warp_token) return false;
    return (offset & 3) == 0;
  }

  void settle(const Cell& cell, std::size_t offset) {
    if (cell_bytes_mask_ == 0 || cell.write.epoch == epoch_ || cell.reads[1].epoch != epoch_) return;
    const Access &first = cell.reads[0], &second = cell.reads[1];
    if (first.thread / WARP != second.thread / WARP) settled_[offset / 4] = epoch_token_;
    else if (first.interval == second.interval && first.thread / WARP == warp() &&
             first.interval == intervals_[warp()])
      settled_[offset / 4] = warp_tokens_[warp()];
  }

  // Cells are for words of 4 bytes until an access is to less of one, and for bytes ever after.
  __attribute__((noinline)) void split_cells() {
    const std::size_t words = (SharedMemory::static_bytes() + SharedMemory::MAX_DYNAMIC_BYTES) / 4;
    for (std::size_t i = words; i-- > 0;) {
      const Cell cell = cells_[i];
      for (std::size_t byte = 0; byte < 4; ++byte) cells_[4 * i + byte] = cell;
    }
    cell_bytes_mask_ = 0;
    std::memset(settled_, 0, words * 4);
  }

  bool before(const Access& access) const {
    if (access.epoch < epoch_ && access.kind != Kind::copy_under_way) return true;
    return before_in_epoch(access);
  }

  __attribute__((noinline)) bool before_in_epoch(const Access& access) const {
    if (access.epoch < start_of_block_) return true;
    if (access.kind == Kind::copy_under_way) return false;
    if (access.thread == thread_) return true;
    return access.thread / WARP == thread_ / WARP && known_[thread_][access.thread % WARP] > access.interval;
  }

  Access now(Place place, Kind kind) const {
    return {epoch_, intervals_[thread_ / WARP], place, uint16_t(thread_), kind};
  }

  void note_read(Cell& cell, Place place) const {
    Access& first = cell.reads[0];
    Access& second = cell.reads[1];
    if (first.epoch < epoch_) {
      first = now(place, Kind::read);
      second.epoch = 0;
      return;
    }
    if (first.thread == thread_ || before(first)) {
      first = now(place, Kind::read);
      if (second.epoch != 0 && before(second)) second.epoch = 0;
    } else if (before(second) || (first.thread / WARP == second.thread / WARP && first.thread / WARP != warp())) {
      second = now(place, Kind::read);
    }
  }

  unsigned warp() const { return thread_ / WARP; }

  // A byte `offset` of all shared memory.
  const unsigned char* address_of(std::size_t offset) const {
    return offset < SharedMemory::static_bytes()
               ? __start_gemmgen_shared + offset
               : shared_memory.dynamic().data + (offset - SharedMemory::static_bytes());
  }

  std::string describe(std::size_t offset) const { return shared_memory.describe(address_of(offset)); }

  static const char* verb(Kind kind) {
    switch (kind) {
      case Kind::read: return " reads ";
      case Kind::write: return " writes ";
      case Kind::atomic: return "'s atomic updates ";
      case Kind::copy_under_way:
      case Kind::copy_done: break;
    }
    return "'s cp_async writes ";
  }

  [[noreturn]] __attribute__((noinline)) void refuse(const Access& first, std::size_t offset, Place place, Kind kind) {
    const char* missing = first.kind == Kind::copy_under_way ? "not waited for yet" : "no barrier between";
    fail("crash", {}, "data race on shared memory: block %u, thread %u%s%s at %s, thread %u%sit at %s, %s", blockIdx.x,
         first.thread, verb(first.kind), describe(offset).c_str(), first.place.text().c_str(), thread_, verb(kind),
         place.text().c_str(), missing);
  }

  // What no access has announced may still have been written, by a library's function: then the poison is gone.
  __attribute__((noinline)) void note_unset_read(std::size_t offset, Place place) {
    if (unset_read_.epoch != 0) return;
    const unsigned char* byte = address_of(offset);
    for (std::size_t i = 0; i <= cell_bytes_mask_; ++i)
      if (byte[i] != POISON) return;
    unset_read_ = now(place, Kind::read);
    unset_offset_ = offset;
  }

  // At the end of the epoch: a write in it would have been a race, which says more.
  void refuse_unset_read() const {
    if (unset_read_.epoch == 0) return;
    fail("crash", {}, "block %u, thread %u reads %s at %s, which no thread has written", blockIdx.x,
         unset_read_.thread, describe(unset_offset_).c_str(), unset_read_.place.text().c_str());
  }

  // An access that is none to shared memory: to an operand it must be inside of it, to the byte.
  void check_elsewhere(const unsigned char* address, std::size_t bytes, Place place, Kind kind) const {
    if (const Region* const region = region_near(address)) {
      if (region->contains(address, bytes)) return;
      refuse_outside(region->describe(address), place, kind);
    }
    if (shared_memory.is_beside(address)) refuse_outside(shared_memory.describe(address), place, kind);
  }

  [[noreturn]] __attribute__((noinline)) void refuse_outside(const std::string& where, Place place, Kind kind) const {
    fail("crash", place.location(), "block %u, thread %u%s%s", blockIdx.x, thread_, verb(kind), where.c_str());
  }

  struct StartedBlock {
    uint32_t epoch;
    unsigned index;
  };

  uint32_t start_of_launch_ = 0;
  std::vector<StartedBlock> blocks_;  // of this launch
  Region shadows_[OPERANDS];          // a cell for each word of C and of the workspace
  std::vector<Fence> fences_;         // of this block
  std::vector<Found> found_;          // by its atomics
  std::vector<Found> acquired_;       // by its fences
  std::map<const void*, std::vector<Release>> released_;  // by an atomic's address, in this launch
  std::unordered_map<const Cell*, std::vector<Access>> atomics_;  // on each word since its last write: none orders another
  Cell* cells_ = nullptr;
  uint32_t* settled_ = nullptr;  // a token for each word; tokens are never used again
  uint32_t last_token_ = 0;
  uint32_t epoch_token_ = 0;
  uint32_t warp_tokens_[MAX_THREADS / WARP] = {};
  const unsigned char* dynamic_start_ = nullptr;
  std::size_t dynamic_bytes_ = 0;  // with the slack behind it
  std::size_t cell_bytes_mask_ = 3;
  Access unset_read_;  // the first one of this epoch
  std::size_t unset_offset_ = 0;
  uint32_t epoch_ = 0;  // barriers and blocks so far; it only grows, so that nothing is ever cleared
  uint32_t start_of_block_ = 0;
  unsigned thread_ = 0;
  uint32_t intervals_[MAX_THREADS / WARP] = {};
  uint32_t known_[MAX_THREADS][WARP] = {};  // intervals of each lane of its warp that come before a thread's now
};

inline Races races;

}  // namespace gemmgen
