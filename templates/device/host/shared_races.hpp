// Data races on shared memory, and unset values in it. A cell for each element, or less where an access is to less, holds
// its last write and reads since; an access races with those that clocks.hpp does not put before it, if it or they write.
//
// A cp.async is a write by an agent of its own: nobody may access its bytes before the issuing thread has waited for it,
// and only those who come after that wait.
//
// Reads by other blocks of a cluster are few: they are kept apart from those by the warps of the block whose memory it is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "access.hpp"
#include "clocks.hpp"
#include "cluster.hpp"
#include "failure.hpp"
#include "gemmgen_emulator.hpp"
#include "memory.hpp"
#include "shared_memory.hpp"

namespace gemmgen {

class SharedRaces {
 public:
  static constexpr std::size_t ELSEWHERE = ~std::size_t(0);  // in the place of an offset
  static constexpr unsigned MAX_PROXY_READERS = 9;           // eight warpgroups of a block, and TMA stores
  static constexpr unsigned MAX_BLOCK_WARPS = 32;

  // Of elements of `element_bytes`, a power of two.
  void start_launch(std::size_t element_bytes) {
    warps_ = cluster.warps_of_block();
    far_reads_.clear();
    if (cluster.ranks > ranks_) {
      ranks_ = cluster.ranks;
      proxy_reads_ = nullptr;
      cells_ = shadow<Cell>(1);
      reads_ = shadow<Reads>(MAX_BLOCK_WARPS);
      uint32_t* const settled = shadow<uint32_t>(MAX_BLOCK_WARPS);
      for (unsigned warp = 0; warp < MAX_BLOCK_WARPS; ++warp) settled_[warp] = settled + warp * most_bytes();
      cell_shift_ = shift_of(element_bytes);
    } else if (element_bytes < cell_bytes()) {
      split_cells(element_bytes);
    }
  }

  // The selected block of the cluster is another one.
  void select() {
    dynamic_start_ = shared_memory.dynamic().data;
    dynamic_bytes_ = std::size_t(shared_memory.end_of_pages() - dynamic_start_);
    dynamic_offset_ = SharedMemory::static_bytes() + shared_memory.selected() * SharedMemory::MAX_DYNAMIC_BYTES;
    first_warp_ = shared_memory.selected() * warps_;
  }

  void start_block() { far_reads_.clear(); }

  // A read by TMA or wgmma, whose agent acts. What the generic proxy has written is for it where `proxied` knows of that.
  // `reader` tells apart those of whose reads none need be known once a later one has been waited for.
  void read_by_proxy(std::size_t start, std::size_t bytes, Place place, Kind kind, const Clock& proxied, unsigned reader,
                     bool may_be_unset) {
    if (proxy_reads_ == nullptr) proxy_reads_ = shadow<ProxyReads>(1);
    each_cell(start, bytes, [&](std::size_t number, std::size_t offset) {
      const Access& write = cells_[number].write;
      if (!clocks.of_this_block(write)) {
        if (!may_be_unset) note_unset_read(offset, place, kind);
      } else if (!clocks.before(write)) refuse(write, offset, place, kind);
      else if (write.kind != Kind::load && !proxied.covers(write) && !clocks.told_before(write, proxied))
        refuse_unfenced(write, offset, place, kind);
      ProxyReads& reads = proxy_reads_[number];
      reads.some[reader] = clocks.now(place, kind);
      reads.readers |= 1u << reader;
    });
  }

  // Whether nobody has written any of these bytes.
  bool unset(std::size_t start, std::size_t bytes) const {
    const std::size_t last = (start + bytes - 1) >> cell_shift_;
    for (std::size_t cell = start >> cell_shift_; cell <= last; ++cell)
      if (clocks.of_this_block(cells_[cell].write)) return false;
    return true;
  }

  // A write up to the block's next barrier would have been a race with an unset read, which says more: so it is told then.
  void tell_unset_read() const {
    if (unset_read_.time == 0) return;
    fail("crash", {}, "%s%s%s at %s, which no thread has written",
         cluster.where(clocks.thread_of(unset_read_)).c_str(), verb(unset_read_.kind),
         describe(unset_offset_).c_str(), unset_read_.place.text().c_str());
  }

  // Where an address lies in all of shared memory, static arrays first, then what each block has of dynamic memory.
  std::size_t offset_of(const unsigned char* address) const {
    const std::size_t offset = std::size_t(address - __start_gemmgen_shared);
    if (offset < SharedMemory::static_bytes()) return offset;
    const std::size_t inside = std::size_t(address - dynamic_start_);
    if (inside < dynamic_bytes_) return dynamic_offset_ + inside;
    return ELSEWHERE;
  }

  // A cell is settled for a warp where another read of it can neither race nor add to what it says: two lanes have read it
  // since the warp last released anything.
  bool is_settled(std::size_t offset, std::size_t bytes) const {
    const uint32_t since = clocks.since();
    const uint32_t* const settled = settled_[own_warp()];
    const std::size_t last = (offset + bytes - 1) >> cell_shift_;
    for (std::size_t cell = offset >> cell_shift_; cell <= last; ++cell)
      if (settled[cell] != since) return false;
    return true;
  }

  void read(std::size_t start, std::size_t bytes, Place place) {
    each_cell(start, bytes, [&](std::size_t number, std::size_t offset) {
      Cell& cell = cells_[number];
      if (!clocks.of_this_block(cell.write)) note_unset_read(offset, place);
      else if (!clocks.before(cell.write)) refuse(cell.write, offset, place, Kind::read);
      note_read(number, place);
    });
  }

  // By a thread of another block of the cluster than the selected one.
  void read_from_afar(std::size_t start, std::size_t bytes, Place place) {
    each_cell(start, bytes, [&](std::size_t number, std::size_t offset) {
      const Access& write = cells_[number].write;
      if (!clocks.of_this_block(write)) note_unset_read(offset, place);
      else if (!clocks.before(write)) refuse(write, offset, place, Kind::read);
      note_far_read(far_reads_[offset], place);
    });
  }

  void write(std::size_t start, std::size_t bytes, Place place, Kind kind) {
    each_cell(start, bytes, [&](std::size_t number, std::size_t offset) {
      Cell& cell = cells_[number];
      if (!clocks.before(cell.write)) refuse(cell.write, offset, place, kind);
      check_readers(number, offset, place, kind);
      cell = {clocks.now(place, kind), 0};
    });
  }

  // Atomics do not race with each other.
  void atomic(std::size_t start, std::size_t bytes, Place place) {
    each_cell(start, bytes, [&](std::size_t number, std::size_t offset) {
      Cell& cell = cells_[number];
      if (cell.write.kind != Kind::atomic && !clocks.before(cell.write)) refuse(cell.write, offset, place, Kind::atomic);
      check_readers(number, offset, place, Kind::atomic);
      cell = {clocks.now(place, Kind::atomic), 0};
    });
  }

 private:
  struct Cell {
    Access write;
    uint32_t readers = 0;  // warps of the block with a lane that has read it since
  };

  // Of a warp. Two suffice: they are of different lanes and unordered, so that a write by whichever thread races with one
  // of them if it races with any. Only meetings of part of the warp can order both and leave a third one, which then
  // goes unseen; no race is reported that is none.
  struct Reads {
    Access some[2];
  };

  // Of TMA and wgmma: the last one of each reader since the cell's last write.
  struct ProxyReads {
    uint32_t readers = 0;
    Access some[MAX_PROXY_READERS];
  };

  // Of a write, which nobody may be reading.
  void check_readers(std::size_t number, std::size_t offset, Place place, Kind kind) {
    if (proxy_reads_ != nullptr) check_proxy_readers(number, offset, place, kind);
    for (uint32_t readers = cells_[number].readers; readers != 0; readers &= readers - 1)
      for (const Access& read : reads_of(number, unsigned(__builtin_ctz(readers))).some)
        if (!clocks.before(read)) refuse(read, offset, place, kind);
    if (!far_reads_.empty()) check_far_readers(offset, place, kind);
  }

  __attribute__((noinline)) void check_far_readers(std::size_t offset, Place place, Kind kind) {
    const auto reads = far_reads_.find(offset);
    if (reads == far_reads_.end()) return;
    for (const Access& read : reads->second)
      if (!clocks.before(read)) refuse(read, offset, place, kind);
    far_reads_.erase(reads);
  }

  // What comes before this one need not be known any more: what this one precedes it precedes, too.
  static void note_far_read(std::vector<Access>& reads, Place place) {
    reads.erase(std::remove_if(reads.begin(), reads.end(), [](const Access& read) { return clocks.before(read); }), reads.end());
    reads.push_back(clocks.now(place, Kind::read));
  }

  __attribute__((noinline)) void check_proxy_readers(std::size_t number, std::size_t offset, Place place, Kind kind) {
    ProxyReads& reads = proxy_reads_[number];
    for (uint32_t readers = reads.readers; readers != 0; readers &= readers - 1) {
      const Access& read = reads.some[__builtin_ctz(readers)];
      if (!clocks.before(read)) refuse(read, offset, place, kind);
    }
    reads.readers = 0;
  }

  template <typename T>
  T* shadow(std::size_t for_each_byte) {
    const std::size_t bytes = most_bytes() * for_each_byte * sizeof(T);
    return reinterpret_cast<T*>(map_private("the shadow of shared memory", bytes).data);
  }

  std::size_t most_bytes() const { return SharedMemory::static_bytes() + ranks_ * SharedMemory::MAX_DYNAMIC_BYTES; }

  static unsigned shift_of(std::size_t bytes) { return unsigned(__builtin_ctzll(bytes)); }
  std::size_t cell_bytes() const { return std::size_t(1) << cell_shift_; }

  Reads& reads_of(std::size_t cell, unsigned warp) { return reads_[cell * warps_ + warp]; }

  // The running one, which is of the selected block.
  unsigned own_warp() const { return clocks.warp() - first_warp_; }

  // Calls `visit` with the number of every cell of the access and its offset in shared memory.
  template <typename Visit>
  void each_cell(std::size_t start, std::size_t bytes, Visit visit) {
    if (((start | bytes) & (cell_bytes() - 1)) != 0) split_cells((start | bytes) & -(start | bytes));
    for (std::size_t offset = start; offset < start + bytes; offset += cell_bytes()) visit(offset >> cell_shift_, offset);
  }

  // From now on a cell is for `bytes`, a power of two; each of them knows what the larger one did.
  __attribute__((noinline)) void split_cells(std::size_t bytes) {
    const std::size_t parts = cell_bytes() / bytes;
    for (std::size_t i = most_bytes() >> cell_shift_; i-- > 0;)
      for (std::size_t part = parts; part-- > 0;) {
        if (proxy_reads_ != nullptr) proxy_reads_[i * parts + part] = proxy_reads_[i];
        if (cells_[i].readers != 0) std::copy_n(&reads_of(i, 0), warps_, &reads_of(i * parts + part, 0));
        cells_[i * parts + part] = cells_[i];
      }
    std::unordered_map<std::size_t, std::vector<Access>> far_reads;
    for (const auto& [offset, reads] : far_reads_)
      for (std::size_t part = 0; part < parts; ++part) far_reads[offset + part * bytes] = reads;
    far_reads_ = std::move(far_reads);
    cell_shift_ = shift_of(bytes);
    clocks.renew();
  }

  void note_read(std::size_t number, Place place) {
    Cell& cell = cells_[number];
    auto& [first, second] = reads_of(number, own_warp()).some;
    const uint32_t warp = 1u << own_warp(), since = clocks.since();
    if ((cell.readers & warp) == 0) {
      cell.readers |= warp;
      first = clocks.now(place, Kind::read);
      second.time = 0;
    } else if (first.agent == clocks.thread() && first.time >= since) {
      return;  // it has not done anything since that others could know of
    } else if (clocks.before(first)) {
      first = clocks.now(place, Kind::read);
      if (clocks.before(second)) second.time = 0;
    } else if (clocks.before(second)) {
      second = clocks.now(place, Kind::read);
    }
    if (second.time >= since && first.time >= since && clocks.before_warp(cell.write))
      settled_[own_warp()][number] = since;
  }

  // What no access has announced may still have been written, by a library's function: then the poison is gone.
  __attribute__((noinline)) void note_unset_read(std::size_t offset, Place place, Kind kind = Kind::read) {
    if (unset_read_.time != 0) return;
    const unsigned char* byte = address_of(offset);
    for (std::size_t i = 0; i < cell_bytes(); ++i)
      if (byte[i] != POISON) return;
    unset_read_ = clocks.now(place, kind);
    unset_offset_ = offset;
  }

  [[noreturn]] __attribute__((noinline)) void refuse(const Access& first, std::size_t offset, Place place,
                                                     Kind kind) const {
    const bool under_way = first.agent >= HIRED || (first.kind == Kind::copy && !clocks.completed(first));
    const unsigned thread = clocks.thread_of(first);
    fail("race", {}, "data race on shared memory: %s%s%s at %s, %s%sit at %s, %s", cluster.where(thread).c_str(),
         verb(first.kind), describe(offset).c_str(), first.place.text().c_str(),
         cluster.where(clocks.thread(), thread).c_str(), verb(kind), place.text().c_str(),
         under_way ? "not waited for yet" : "no barrier between");
  }

  [[noreturn]] __attribute__((noinline)) void refuse_unfenced(const Access& write, std::size_t offset, Place place,
                                                              Kind kind) const {
    const unsigned thread = clocks.thread_of(write);
    fail("race", {}, "data race on shared memory: %s%s%s at %s, %s%sit at %s by the async proxy, "
         "without a proxy fence between", cluster.where(thread).c_str(), verb(write.kind), describe(offset).c_str(),
         write.place.text().c_str(), cluster.where(clocks.thread(), thread).c_str(), verb(kind), place.text().c_str());
  }

  std::string describe(std::size_t offset) const { return shared_memory.describe(address_of(offset)); }

  const unsigned char* address_of(std::size_t offset) const {
    if (offset < SharedMemory::static_bytes()) return __start_gemmgen_shared + offset;
    offset -= SharedMemory::static_bytes();
    const Region& dynamic = shared_memory.dynamic_of(unsigned(offset / SharedMemory::MAX_DYNAMIC_BYTES));
    return dynamic.data + offset % SharedMemory::MAX_DYNAMIC_BYTES;
  }

  const unsigned char* dynamic_start_ = nullptr;  // of the selected block
  std::size_t dynamic_bytes_ = 0;                 // with the slack behind it
  std::size_t dynamic_offset_ = 0;
  unsigned ranks_ = 0;       // blocks that there are cells for
  unsigned warps_ = 0;       // of a block
  unsigned first_warp_ = 0;  // of the selected block
  unsigned cell_shift_ = 0;
  Cell* cells_ = nullptr;
  Reads* reads_ = nullptr;
  ProxyReads* proxy_reads_ = nullptr;  // where TMA or wgmma read shared memory
  std::unordered_map<std::size_t, std::vector<Access>> far_reads_;  // since a cell's last write, by its offset
  uint32_t* settled_[MAX_BLOCK_WARPS] = {};  // by warp and cell: what Clocks::since was when it settled
  Access unset_read_;                  // the first one since the block's last barrier
  std::size_t unset_offset_ = 0;
};

}  // namespace gemmgen
