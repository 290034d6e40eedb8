// Data races on shared memory, and unset values in it. A cell for each word holds its last write and two of the reads
// since; an access races with those that order.hpp does not put before it, if it or they write.
//
// A cp.async is a write that lasts from its issue to the issuing thread's wait: until then nobody may access its bytes,
// and after it the write counts as that thread's own at the time of the wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "access.hpp"
#include "failure.hpp"
#include "gemmgen_emulator.hpp"
#include "memory.hpp"
#include "order.hpp"
#include "shared_memory.hpp"

namespace gemmgen {

class SharedRaces {
 public:
  static constexpr std::size_t ELSEWHERE = ~std::size_t(0);  // in the place of an offset

  void start_block() {
    if (cells_ == nullptr) {
      const std::size_t most = SharedMemory::static_bytes() + SharedMemory::MAX_DYNAMIC_BYTES;
      cells_ = reinterpret_cast<Cell*>(map_private("the shadow of shared memory", most * sizeof(Cell)).data);
      settled_ = reinterpret_cast<uint32_t*>(map_private("the shadow of shared memory", most).data);
    }
    dynamic_start_ = shared_memory.dynamic().data;
    dynamic_bytes_ = std::size_t(shared_memory.end_of_pages() - dynamic_start_);
    start_epoch();
  }

  void start_epoch() {
    for (uint32_t& token : warp_tokens_) token = ++last_token_;
    epoch_token_ = ++last_token_;
  }

  // A write in the epoch would have been a race with an unset read, which says more: so it is told at the end.
  void finish_epoch() const {
    if (unset_read_.epoch == 0) return;
    fail("crash", {}, "block %u, thread %u reads %s at %s, which no thread has written", blockIdx.x,
         unset_read_.thread, describe(unset_offset_).c_str(), unset_read_.place.text().c_str());
  }

  void pass_warp_barrier(unsigned warp) { warp_tokens_[warp] = ++last_token_; }

  // Where an address lies in all of shared memory, static arrays first.
  std::size_t offset_of(const unsigned char* address) const {
    const std::size_t offset = std::size_t(address - __start_gemmgen_shared);
    if (offset < SharedMemory::static_bytes()) return offset;
    const std::size_t inside = std::size_t(address - dynamic_start_);
    if (inside < dynamic_bytes_) return SharedMemory::static_bytes() + inside;
    return ELSEWHERE;
  }

  // A word is settled for a thread whose read of it can neither race nor add to what its cell says:
  // two warps have read it in this epoch, or two lanes of the thread's warp in this interval.
  bool is_settled(std::size_t offset, std::size_t bytes) const {
    const uint32_t* const first = settled_ + offset / 4;
    const uint32_t warp_token = warp_tokens_[order.warp()];
    for (std::size_t i = 0; i < (bytes + 3) / 4; ++i)
      if (first[i] != epoch_token_ && first[i] != warp_token) return false;
    return (offset & 3) == 0;
  }

  void read(std::size_t start, std::size_t bytes, Place place) {
    each_cell(start, bytes, [&](Cell& cell, std::size_t offset) {
      if (!order.of_this_block(cell.write)) note_unset_read(offset, place);
      else if (!order.before(cell.write)) refuse(cell.write, offset, place, Kind::read);
      order.note_read(cell, place);
      settle(cell, offset);
    });
  }

  void write(std::size_t start, std::size_t bytes, Place place, Kind kind) {
    each_cell(start, bytes, [&](Cell& cell, std::size_t offset) {
      for (const Access* earlier : {&cell.write, &cell.reads[0], &cell.reads[1]})
        if (!order.before(*earlier)) refuse(*earlier, offset, place, kind);
      cell.write = order.now(place, kind);
      cell.reads[0] = cell.reads[1] = Access();
      settled_[offset / 4] = 0;
    });
  }

  // The running thread has waited for its copy to these bytes.
  void complete_copy(std::size_t start, std::size_t bytes) {
    each_cell(start, bytes, [&](Cell& cell, std::size_t) {
      if (cell.write.kind == Kind::copy_under_way) cell.write = order.now(cell.write.place, Kind::copy_done);
    });
  }

 private:
  // Calls `visit` with every cell of the access and its offset in shared memory.
  template <typename Visit>
  void each_cell(std::size_t start, std::size_t bytes, Visit visit) {
    if (((start | bytes) & cell_bytes_mask_) != 0) split_cells();
    const std::size_t step = cell_bytes_mask_ + 1;
    for (std::size_t offset = start; offset < start + bytes; offset += step) visit(cells_[offset / step], offset);
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

  void settle(const Cell& cell, std::size_t offset) {
    if (cell_bytes_mask_ == 0 || cell.write.epoch == order.epoch() || cell.reads[1].epoch != order.epoch()) return;
    const Access &first = cell.reads[0], &second = cell.reads[1];
    const unsigned warp = first.thread / WARP;
    if (warp != second.thread / WARP) settled_[offset / 4] = epoch_token_;
    else if (first.interval == second.interval && warp == order.warp() && first.interval == order.interval())
      settled_[offset / 4] = warp_tokens_[warp];
  }

  // What no access has announced may still have been written, by a library's function: then the poison is gone.
  __attribute__((noinline)) void note_unset_read(std::size_t offset, Place place) {
    if (unset_read_.epoch != 0) return;
    const unsigned char* byte = address_of(offset);
    for (std::size_t i = 0; i <= cell_bytes_mask_; ++i)
      if (byte[i] != POISON) return;
    unset_read_ = order.now(place, Kind::read);
    unset_offset_ = offset;
  }

  [[noreturn]] __attribute__((noinline)) void refuse(const Access& first, std::size_t offset, Place place,
                                                     Kind kind) const {
    const char* missing = first.kind == Kind::copy_under_way ? "not waited for yet" : "no barrier between";
    fail("crash", {}, "data race on shared memory: block %u, thread %u%s%s at %s, thread %u%sit at %s, %s", blockIdx.x,
         first.thread, verb(first.kind), describe(offset).c_str(), first.place.text().c_str(), order.thread(),
         verb(kind), place.text().c_str(), missing);
  }

  std::string describe(std::size_t offset) const { return shared_memory.describe(address_of(offset)); }

  const unsigned char* address_of(std::size_t offset) const {
    const std::size_t static_bytes = SharedMemory::static_bytes();
    return offset < static_bytes ? __start_gemmgen_shared + offset : dynamic_start_ + (offset - static_bytes);
  }

  const unsigned char* dynamic_start_ = nullptr;
  std::size_t dynamic_bytes_ = 0;  // with the slack behind it
  Cell* cells_ = nullptr;
  std::size_t cell_bytes_mask_ = 3;
  uint32_t* settled_ = nullptr;  // a token for each word; tokens are never used again
  uint32_t last_token_ = 0;
  uint32_t epoch_token_ = 0;
  uint32_t warp_tokens_[MAX_THREADS / WARP] = {};
  Access unset_read_;  // the first one of this epoch
  std::size_t unset_offset_ = 0;
};

}  // namespace gemmgen
