#include "tma.hpp"

#include "decoder.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "watch.hpp"

namespace gemmgen {

namespace {

// Rounds to nearest, ties to even, as recorded on an H200 (tests/gpu/test_wgmma.py); cvt.rna.tf32 rounds ties away from zero.
uint32_t tf32_by_tma(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude >= 0x7F800000) return magnitude > 0x7F800000 ? bits | 0x2000 : bits;
  return (bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFFu;
}

void copy_rounded(unsigned char* to, const unsigned char* from, unsigned bytes) {
  for (unsigned at = 0; at < bytes; at += sizeof(float)) {
    uint32_t value;
    std::memcpy(&value, from + at, sizeof value);
    const uint32_t rounded = tf32_by_tma(value);
    std::memcpy(to + at, &rounded, sizeof rounded);
  }
}

}  // namespace

void Box::load() const {
  each_chunk([this](unsigned char* to, uint64_t from, unsigned bytes) {
    const auto* const source = reinterpret_cast<const unsigned char*>(from);
    if (from == 0) std::memset(to, 0, bytes);
    else if (map.tf32 != 0) copy_rounded(to, source, bytes);
    else std::memcpy(to, source, bytes);
  });
}

void Box::store() const {
  each_chunk([](const unsigned char* from, uint64_t to, unsigned bytes) {
    if (to != 0) std::memcpy(reinterpret_cast<unsigned char*>(to), from, bytes);
  });
}

void Tma::start() {
  loads_.clear();
  pending_.clear();
  stores_.assign(std::size_t(machine_.ranks()) * machine_.launch().threads, {});
}

void Tma::load(const Box& box, Mbarrier& barrier, bool late) {
  if (late) std::memset(box.window + box.offset, POISON_BYTE, box.map.box_bytes());
  pending_.push_back(loads_.size());
  loads_.push_back({box, barrier.number, UNDER_WAY});
  if (!late) land(pending_.size() - 1);
}

bool Tma::land_some() {
  if (pending_.empty()) return false;
  land(machine_.launch().seed == 0 ? 0 : machine_.random().below(uint32_t(pending_.size())));
  return true;
}

void Tma::land(std::size_t place) {
  Load& load = loads_[pending_[place]];
  pending_.erase(pending_.begin() + std::ptrdiff_t(place));
  load.box.load();
  if (Watch* const watch = machine_.watch()) watch->land(load.box, machine_.mbarriers()[load.barrier]);
  load.phase = machine_.mbarriers().expect(load.box.at, machine_.mbarriers()[load.barrier], -int64_t(load.box.map.box_bytes()));
}

void Tma::finish_block(unsigned rank) {
  for (const Load& load : loads_)
    if (load.box.rank == rank && (load.phase == UNDER_WAY || machine_.mbarriers()[load.barrier].acquired <= load.phase))
      fail("crash", "block %u ends with a TMA load that no thread has waited for: the bytes may come later (%s)",
           machine_.block(rank).index, machine_.place(load.box.at).c_str());
}

Tma::Stores& Tma::stores_of(Warp& warp, unsigned lane) {
  return stores_[std::size_t(warp.block().rank) * machine_.launch().threads + warp.first_thread() + lane];
}

void Tma::store(Warp& warp, unsigned lane, const Box& box, bool late) {
  Stores& stores = stores_of(warp, lane);
  stores.pending.push_back({box, stores.groups, !late});
  stores.last = box.at;
  if (!late) box.store();
}

void Tma::commit(Warp& warp) {
  each_of(warp.active, [&](unsigned lane) { ++stores_of(warp, lane).groups; });
}

void Tma::wait(Warp& warp, uint32_t left, bool) {
  each_of(warp.active, [&](unsigned lane) {
    Stores& stores = stores_of(warp, lane);
    if (stores.groups <= left) return;
    const uint32_t done = stores.groups - left;
    std::size_t kept = 0;
    for (Store& one : stores.pending) {
      if (one.group >= done) stores.pending[kept++] = one;
      else if (!one.done) one.box.store();
    }
    stores.pending.resize(kept);
    stores.read_groups = std::max(stores.read_groups, done);
  });
}

void Tma::exit_threads(Warp& warp) {
  each_of(warp.active, [&](unsigned lane) {
    const Stores& stores = stores_of(warp, lane);
    if (stores.last == nullptr) return;
    const std::string who = warp.where(1u << lane);
    if (!stores.pending.empty() && stores.pending.back().group == stores.groups)
      fail("crash", "%s exits with a TMA store that no tma_store_commit follows (%s)", who.c_str(),
           machine_.place(stores.pending.back().box.at).c_str());
    if (stores.read_groups < stores.groups)
      fail("crash", "%s exits while a TMA store may still read shared memory: no tma_store_wait_read<0> follows (%s)", who.c_str(),
           machine_.place(stores.last).c_str());
  });
}

namespace {

// The map at a generic address, or at one in global memory.
TensorMap map_at(Warp& warp, const Instruction* i, uint64_t address) {
  uint64_t addresses[WARP];
  std::fill_n(addresses, WARP, address);
  Places places;
  TensorMap map;
  const uint64_t in = address & SPACE_MASK;
  const bool of_parameter = in == PARAMETER_SPACE;
  if (in != 0 && !of_parameter)
    fail("crash", "%s: TMA takes a tensor map that is none of the kernel's parameters%s (%s)", warp.where().c_str(),
         in == LOCAL_SPACE ? ", but a copy in local memory, as of a parameter that is no __grid_constant__" : "", warp.machine().place(i).c_str());
  const Space space = of_parameter ? Space::parameter : Space::global;
  if (of_parameter) addresses[first_of(warp.active)] = address & ~SPACE_MASK;
  for (unsigned part = 0; part < sizeof map; part += 16) {
    resolve(warp, {i, space, Use::read, 16, false}, addresses, places);
    std::memcpy(reinterpret_cast<unsigned char*>(&map) + part, places.at[first_of(warp.active)], 16);
    addresses[first_of(warp.active)] += 16;
  }
  return map;
}

void check_box(Warp& warp, const Instruction* i, const Box& box, unsigned dimensions, bool of_pixels) {
  Machine& machine = warp.machine();
  const auto refuse = [&](const std::string& why) {
    fail("crash", "%s: TMA %s (%s)", warp.where().c_str(), why.c_str(), machine.place(i).c_str());
  };
  if (!box.map.is_one()) refuse("takes a tensor map that is none of the kernel's parameters");
  if (box.map.rank != dimensions)
    refuse("of " + std::to_string(dimensions) + " dimensions by a map of " + std::to_string(box.map.rank));
  if (box.map.of_pixels() != of_pixels)
    refuse(of_pixels ? "in im2col mode by a map of tiles" : "in tile mode by a map for im2col");
  for (unsigned dimension = 1; of_pixels && dimension < 3; ++dimension)
    if (box.start[dimension] < box.begin(dimension) || box.start[dimension] >= box.end(dimension))
      refuse("of pixels from " + std::to_string(box.start[dimension]) + " on, outside of the bounding box, " +
             std::to_string(box.begin(dimension)) + " to " + std::to_string(box.end(dimension)) + ", along dimension " +
             std::to_string(dimension));
  const unsigned alignment = std::max(TMA_ALIGNMENT, 8 * box.map.swizzle);
  const std::string place = describe_address(*machine.block(box.rank).warps[0], Space::shared, box.offset);
  if (box.offset % alignment != 0)
    refuse("of a box whose place in shared memory " + std::to_string(alignment) + " does not divide (" + place + ")");
  if (!holds_shared(machine, box.offset, box.map.box_bytes()))
    refuse("of a box of " + std::to_string(box.map.box_bytes()) + " bytes that leaves shared memory (" + place + ")");
  const Allocations& all = machine.launch().allocations;
  if (box.map.address % TMA_UNIT != 0)
    refuse("of a tensor whose address 16 does not divide (" + all.describe(box.map.address) + ")");
  // An H200 ends the kernel with "an illegal instruction was encountered", whatever the swizzle (tests/gpu/test_gated.py).
  if (const int64_t first = box.start[0] * int64_t(box.map.element_bytes); first % TMA_UNIT != 0)
    refuse("of a box that begins " + std::to_string(first) + " bytes into a line, no multiple of 16");
  // For such a box an H200 accesses the tensor's address, which is 0 in a map of all memory; in other maps it gives zeros.
  if (box.map.address == 0 && box.outside()) refuse("of a box that lies wholly outside of a matrix behind a pointer");
  box.each_chunk([&](const unsigned char*, uint64_t tensor, unsigned bytes) {
    if (tensor == 0) return;
    const Allocation* const found = all.find(tensor);
    if (found == nullptr || !found->at(tensor).contains(tensor, bytes)) refuse("leaves the tensor: " + all.describe(tensor));
  });
}

// a: the address in shared memory, b: that of the map, c: that of the mbarrier. units: coordinates; more: a mask of blocks;
// third: offsets of im2col mode; numbers: offsets of b and c.
Box box_of(Warp& warp, const Instruction* i, unsigned lane, Block& block, uint32_t offset, bool stores) {
  const Detail& detail = *i->detail;
  Box box = {};
  box.map = map_at(warp, i, warp.reg<uint64_t>(i->b)[lane] + detail.numbers[0]);
  if (warp.machine().program().in_ring()) box.map.tf32 = 0;
  for (unsigned dimension = 0; dimension < detail.units.size(); ++dimension)
    box.start[dimension] = warp.reg<int32_t>(detail.units[dimension])[lane];
  for (unsigned dimension = 0; dimension < detail.third.size(); ++dimension)
    box.tap[dimension] = warp.reg<uint16_t>(detail.third[dimension])[lane];
  box.rank = block.rank, box.offset = offset, box.window = block.shared();
  box.stores = stores, box.at = i;
  check_box(warp, i, box, unsigned(detail.units.size()), !detail.third.empty());
  return box;
}

void require_box(Warp& warp, const Instruction* i) {
  warp.require_known(i, i->b, "as the address of a tensor map");
  for (const Unit unit : i->detail->units) warp.require_known(i, unit, "as a coordinate");
  for (const Unit unit : i->detail->third) warp.require_known(i, unit, "as an offset");
}

// Runs `act` for each lane alone, with its block and the offset of its box there.
template <typename Act>
const Instruction* each_box(Warp& warp, const Instruction* i, Act act) {
  uint64_t addresses[WARP];
  gather_addresses(warp, i, i->a, i->smaller != 0, addresses);
  require_box(warp, i);
  const uint32_t all = warp.active;
  each_of(all, [&](unsigned lane) {
    warp.active = 1u << lane;
    Block& owner = warp.machine().owner(warp, i, uint32_t(addresses[lane]));
    act(lane, owner, uint32_t(addresses[lane]) & ((1u << RANK_SHIFT) - 1));
  });
  warp.active = all;
  return i + 1;
}

const Instruction* load(Warp& warp, const Instruction* i) {
  Machine& machine = warp.machine();
  const Detail& detail = *i->detail;
  warp.require_known(i, i->c, "as the address of an mbarrier");
  if (!detail.more.empty()) warp.require_known(i, detail.more[0], "as a mask of blocks");
  const bool late = machine.launch().seed / 2 % 2 == 0;
  return each_box(warp, i, [&](unsigned lane, Block& owner, uint32_t offset) {
    const uint64_t barrier = detail.numbers[2] != 0 ? warp.reg<uint64_t>(i->c)[lane] : warp.reg<uint32_t>(i->c)[lane];
    const uint32_t barrier_offset = uint32_t(barrier + detail.numbers[1]) & ((1u << RANK_SHIFT) - 1);
    const Box box = box_of(warp, i, lane, owner, offset, false);
    const auto start = [&](Box one, Mbarrier& its) {
      if (Watch* const watch = machine.watch()) one.operation = watch->start_load(warp, lane, one, its);
      machine.tma().load(one, its, late);
    };
    if (detail.more.empty()) return start(box, machine.mbarriers().at(warp, i, owner, barrier_offset));
    const uint32_t blocks = warp.reg<uint16_t>(detail.more[0])[lane];
    if (blocks == 0) fail("crash", "%s: TMA loads to no block: the mask is 0 (%s)", warp.where().c_str(), machine.place(i).c_str());
    for (unsigned rank = 0; blocks >> rank != 0; ++rank) {
      if ((blocks >> rank & 1) == 0) continue;
      Block& there = machine.owner(warp, i, (rank + 1) << RANK_SHIFT);
      Box copy = box;
      copy.rank = rank, copy.window = there.shared();
      start(copy, machine.mbarriers().at(warp, i, there, barrier_offset));
    }
  });
}

const Instruction* store(Warp& warp, const Instruction* i) {
  const bool late = warp.machine().launch().seed / 2 % 2 == 0;
  return each_box(warp, i, [&](unsigned lane, Block& owner, uint32_t offset) {
    const Box box = box_of(warp, i, lane, owner, offset, true);
    if (Watch* const watch = warp.machine().watch()) watch->start_store(warp, lane, box);
    warp.machine().tma().store(warp, lane, box, late);
  });
}

const Instruction* commit(Warp& warp, const Instruction* i) {
  warp.machine().tma().commit(warp);
  if (Watch* const watch = warp.machine().watch()) watch->commit_stores(warp);
  return i + 1;
}

const Instruction* wait(Warp& warp, const Instruction* i) {
  warp.machine().tma().wait(warp, uint32_t(i->immediate), i->small != 0);
  if (Watch* const watch = warp.machine().watch()) watch->wait_for_stores(warp, uint32_t(i->immediate), i->small != 0);
  return i + 1;
}

void decode_box(Decoder& to, const Statement& from, bool loads) {
  const Operand &shared = to.at(loads ? 0 : 1), &map = to.at(loads ? 1 : 0);
  if (map.kind != Operand::Kind::address || map.parts.size() != 2 || map.parts[1].kind != Operand::Kind::vector)
    to.refuse("it names no coordinates");
  std::vector<Unit> coordinates;
  for (const Operand& part : map.parts[1].parts) coordinates.push_back(to.source(part, Type::s32));
  if (coordinates.size() < 2 || coordinates.size() > MOST_TMA_DIMENSIONS) to.refuse("boxes of 2 to 4 dimensions are emulated");
  const auto place = to.address(shared), tensor = to.address(map);
  if (tensor.bits != 64) to.refuse("the address of a tensor map has 64 bits");
  Decoder::Address barrier = {NO_UNIT, 32, 0};
  if (loads) barrier = to.address(to.at(2));
  const bool multicast = from.has("multicast::cluster"), of_pixels = from.has("im2col");
  std::vector<Unit> offsets;
  if (of_pixels) {
    if (!loads || coordinates.size() != 4) to.refuse("im2col mode is emulated for loads of 4 dimensions");
    if (to.at(3).kind != Operand::Kind::vector || to.at(3).parts.size() != 2) to.refuse("it names no two offsets");
    for (const Operand& part : to.at(3).parts) offsets.push_back(to.source(part, Type::u16));
  }
  const Unit mask = multicast ? to.source(3 + of_pixels, Type::u16) : NO_UNIT;
  Instruction& i = to.emit(loads ? load : store);
  i.a = place.base, i.immediate = place.offset, i.smaller = place.bits == 64, i.b = tensor.base, i.c = barrier.base;
  Detail& detail = to.detail(i);
  detail.units = std::move(coordinates), detail.third = std::move(offsets);
  if (multicast) detail.more = {mask};
  detail.numbers[0] = uint64_t(tensor.offset), detail.numbers[1] = uint64_t(barrier.offset), detail.numbers[2] = barrier.bits == 64;
}

}  // namespace

void decode_bulk(Decoder& to, const Statement& from) {
  if (from.has("commit_group")) {
    to.emit(commit);
  } else if (from.has("wait_group")) {
    if (to.at(0).kind != Operand::Kind::immediate) to.refuse("it waits for no number of groups");
    const auto left = int64_t(to.at(0).bits);
    Instruction& i = to.emit(wait);
    i.immediate = left, i.small = from.has("read");
  } else if (from.has("tensor") && !from.has("reduce") && !from.has("prefetch")) {
    decode_box(to, from, !from.has("bulk_group"));
  } else {
    to.refuse("it is not emulated");
  }
}

}  // namespace gemmgen
