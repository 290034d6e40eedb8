// TMA: boxes of tensors that some agent copies between global and shared memory, at some time between issue and wait. A load
// lands at once, or when no thread can go on without it; a store reads and writes at once, or when its thread waits for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "mbarriers.hpp"
#include "proxies.hpp"
#include "tensor_map.hpp"

namespace gemmgen {

constexpr unsigned TMA_UNIT = 16;        // bytes
constexpr unsigned TMA_ALIGNMENT = 128;  // of a box in shared memory
constexpr unsigned STORE_READER = 8;     // beside eight warpgroups, see SharedRaces::read_by_proxy

inline uint32_t window_address(const unsigned char* shared) {
  return shared_memory.window_start() + uint32_t(shared - shared_memory.dynamic().data);
}

inline unsigned char* of_window(uint32_t address) { return shared_memory.dynamic().data + (address - shared_memory.window_start()); }

// A box: a tensor map, where in the tensor it starts, and its place in shared memory.
struct Box {
  TensorMap map;
  std::array<int64_t, 4> start;
  unsigned char* shared;
  unsigned line;
  bool stores;    // from shared memory
  unsigned rank;  // of the block that has it

  // Calls `visit` with up to 16 bytes in shared memory, in the tensor, and their number, for all chunks of the box; those of
  // which nothing lies in the tensor have no address there. Loads end with a line of the tensor, to the element; stores write
  // all 16 bytes of a chunk that begins in it, also behind the line's end (an H200 does). No chunk begins before a line's start
  // and ends behind it: boxes begin at multiples of 16 bytes.
  template <typename Visit>
  void each_chunk(Visit visit) const {
    const uint32_t elements = TMA_UNIT / map.element_bytes;
    for (uint32_t matrix = 0; matrix < map.box[2] * map.box[3]; ++matrix)
      for (uint32_t row = 0; row < map.box[1]; ++row)
        for (uint32_t first = 0; first < map.box[0]; first += elements) {
          const uint32_t offset = (matrix * map.box[1] + row) * map.line_bytes() + first * map.element_bytes;
          const int64_t at = start[0] + first, size = int64_t(map.sizes[0]);
          const int64_t end = stores && at < size ? at + elements : std::min(at + int64_t(elements), size);
          const bool inside = exists(1, row) && exists(2, matrix % map.box[2]) && exists(3, matrix / map.box[2]) && at >= 0 && at < end;
          if (!inside) {
            visit(place(offset), nullptr, TMA_UNIT);
            continue;
          }
          unsigned char* const tensor = reinterpret_cast<unsigned char*>(
              reinterpret_cast<uintptr_t>(map.address) + uint64_t(start[3] + matrix / map.box[2]) * map.strides[2] +
              uint64_t(start[2] + matrix % map.box[2]) * map.strides[1] + uint64_t(start[1] + row) * map.strides[0] +
              uint64_t(at) * map.element_bytes);
          visit(place(offset), tensor, unsigned(end - at) * map.element_bytes);
          if (end < at + elements)
            visit(place(offset) + (end - at) * map.element_bytes, nullptr, unsigned(at + elements - end) * map.element_bytes);
        }
  }

  // Whether nothing of it lies in the tensor.
  bool outside() const {
    for (unsigned dimension = 0; dimension < map.rank; ++dimension)
      if (start[dimension] >= int64_t(map.sizes[dimension]) || start[dimension] + int64_t(map.box[dimension]) <= 0) return true;
    return false;
  }

  void load() const {
    each_chunk([this](unsigned char* to, const unsigned char* from, unsigned bytes) {
      if (from == nullptr) std::memset(to, 0, bytes);
      else if (map.tf32 != 0) copy_rounded(to, from, bytes);
      else std::memcpy(to, from, bytes);
    });
  }

  void store() const {
    each_chunk([](const unsigned char* from, unsigned char* to, unsigned bytes) {
      if (to != nullptr) std::memcpy(to, from, bytes);
    });
  }

 private:
  bool exists(unsigned dimension, uint32_t index) const {
    const int64_t at = start[dimension] + index;
    return at >= 0 && at < int64_t(map.sizes[dimension]);
  }

  // To nearest, ties to even: recorded on an H200 (tests/gpu/test_wgmma.py), where cvt.rna.tf32 rounds ties away from zero.
  static uint32_t tf32_by_tma(uint32_t bits) {
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    if (magnitude >= 0x7F800000) return magnitude > 0x7F800000 ? bits | 0x2000 : bits;
    return (bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFFu;
  }

  static void copy_rounded(unsigned char* to, const unsigned char* from, unsigned bytes) {
    for (unsigned at = 0; at < bytes; at += sizeof(float)) {
      uint32_t value;
      std::memcpy(&value, from + at, sizeof value);
      const uint32_t rounded = tf32_by_tma(value);
      std::memcpy(to + at, &rounded, sizeof rounded);
    }
  }

  unsigned char* place(uint32_t offset) const {
    if (map.swizzle == 0) return shared + offset;
    return of_window(swizzled(window_address(shared) + offset, map.swizzle));
  }
};

class Tma {
 public:
  void start_block() {
    loads_.clear();
    pending_.clear();
    std::fill_n(stores_.begin(), cluster.count(), Stores());
  }

  // To the block that runs.
  void load(const Box& box, void* barrier_address, Mbarriers& barriers, const Clock& fenced, bool late) {
    Mbarrier& barrier = barriers.for_load(barrier_address, fenced, box.line);
    const uint32_t operation = clocks.begin_operation(barrier.agent);
    if (watching) {
      const Place place = Place::line(box.line);
      races.write(box.shared, box.map.box_bytes(), place, Kind::load);
      box.each_chunk([&](unsigned char*, const unsigned char* from, unsigned bytes) {
        if (from != nullptr) races.read_global(from, bytes, place);
      });
    }
    clocks.end_operation();
    if (late) std::memset(box.shared, POISON, box.map.box_bytes());
    pending_.push_back(loads_.size());
    loads_.push_back({box, operation, barrier.number, UNDER_WAY});
    if (!late) land(pending_.size() - 1, barriers);
  }

  // To those of `blocks`, where each has what is `box` and `barrier` here.
  void load(const Box& box, void* barrier, unsigned blocks, Mbarriers& barriers, const Clock& fenced, bool late) {
    if (blocks == 0) fail("crash", {box.line}, "%s: TMA loads to no block: the mask is 0", block.where().c_str());
    for (unsigned rank = 0; blocks >> rank != 0; ++rank) {
      if (!(blocks >> rank & 1)) continue;
      Mbarriers::check_block(rank, "lets TMA load to shared memory", box.line);
      Box there = box;
      there.rank = rank;
      there.shared = shared_memory.counterpart(box.shared, rank);
      void* const its_barrier = shared_memory.counterpart(barrier, rank);
      const Elsewhere elsewhere(rank);
      load(there, its_barrier, barriers, fenced, late);
    }
  }

  // Lands one of those that are under way; whether there was one.
  bool land_some(Mbarriers& barriers, bool in_order) {
    if (pending_.empty()) return false;
    land(in_order ? 0 : block.random(unsigned(pending_.size())), barriers);
    return true;
  }

  // At a block's end somebody must have waited for each load to it.
  void finish_block(unsigned rank, Mbarriers& barriers) const {
    for (const Load& load : loads_)
      if (load.box.rank == rank && barriers[load.barrier].acquired <= load.phase)
        fail("crash", {load.box.line}, "block %u ends with a TMA load that no thread has waited for: the bytes may come later",
             cluster.first_block + rank);
  }

  void store(const Box& box, const Clock& proxied, bool late) {
    Stores& stores = stores_[block.index()];
    if (stores.reads == 0) {
      stores.reads = clocks.hire(block.index(), false);
      stores.writes = clocks.hire(block.index(), false);
      if (stores.writes == 0) fail("unjudged", {box.line}, "more threads of a block store by TMA than the emulator follows");
    }
    if (watching) announce_store(box, stores, proxied);
    stores.pending.push_back({box, unsigned(stores.group_ends.size()), !late});
    if (!late) box.store();
  }

  void commit() { stores_[block.index()].group_ends.push_back(clocks.tick()); }

  // Until all but so many groups have read shared memory, and if not `read` alone have written as well.
  void wait(unsigned groups_left, bool read) {
    Stores& stores = stores_[block.index()];
    if (stores.group_ends.size() <= groups_left || stores.reads == 0) return;
    const unsigned done = unsigned(stores.group_ends.size()) - groups_left;
    finish(stores, done);
    stores.read_groups = std::max(stores.read_groups, done);
    clocks.complete(stores.reads, stores.group_ends[done - 1]);
    if (!read) clocks.complete(stores.writes, stores.group_ends[done - 1]);
  }

  void exit_thread() {
    Stores& stores = stores_[block.index()];
    if (stores.reads == 0) return;
    const auto groups = unsigned(stores.group_ends.size());
    const Store& last = stores.last;
    if (!stores.pending.empty() && stores.pending.back().group == groups)
      fail("crash", {stores.pending.back().box.line}, "%s exits with a TMA store that no tma_store_commit follows", block.where().c_str());
    if (stores.read_groups < groups)
      fail("crash", {stores.pending.empty() ? last.box.line : stores.pending.back().box.line},
           "%s exits while a TMA store may still read shared memory: no tma_store_wait_read<0> follows", block.where().c_str());
  }

 private:
  static constexpr unsigned UNDER_WAY = ~0u;

  struct Load {
    Box box;
    uint32_t operation;
    unsigned barrier;
    unsigned phase;  // that its bytes count in
  };

  struct Store {
    Box box;
    unsigned group;
    bool done;
  };

  // Of a thread.
  struct Stores {
    unsigned reads = 0, writes = 0;  // their agents
    std::vector<Store> pending;
    std::vector<uint32_t> group_ends;  // in the time of clocks.hpp
    unsigned read_groups = 0;          // that have read shared memory
    Store last = {};
  };

  void land(std::size_t place, Mbarriers& barriers) {
    Load& load = loads_[pending_[place]];
    pending_.erase(pending_.begin() + std::ptrdiff_t(place));
    const Elsewhere elsewhere(load.box.rank);
    load.box.load();
    Mbarrier& barrier = barriers[load.barrier];
    load.phase = barriers.land(barrier, load.operation, load.box.map.box_bytes(), load.box.line);
  }

  static void announce_store(const Box& box, const Stores& stores, const Clock& proxied) {
    const Place place = Place::line(box.line);
    clocks.begin_operation(stores.reads);
    box.each_chunk([&](const unsigned char* from, const unsigned char* to, unsigned bytes) {
      if (to != nullptr) races.read_by_proxy(from, bytes, place, Kind::store, proxied, STORE_READER);
    });
    clocks.begin_operation(stores.writes);
    box.each_chunk([&](const unsigned char*, const unsigned char* to, unsigned bytes) {
      if (to != nullptr) races.write(to, bytes, place);
    });
    clocks.end_operation();
  }

  static void finish(Stores& stores, unsigned groups) {
    std::size_t done = 0;
    for (; done < stores.pending.size() && stores.pending[done].group < groups; ++done) {
      if (!stores.pending[done].done) stores.pending[done].box.store();
      stores.last = stores.pending[done];
    }
    stores.pending.erase(stores.pending.begin(), stores.pending.begin() + std::ptrdiff_t(done));
  }

  std::vector<Load> loads_;           // of the block
  std::vector<std::size_t> pending_;  // of these, under way
  std::array<Stores, MAX_THREADS> stores_;
};

}  // namespace gemmgen
