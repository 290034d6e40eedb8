// cp.async and its groups.
#include <cstring>
#include <type_traits>

#include "decoder.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "watch.hpp"

namespace gemmgen {

namespace {

// a: shared address, b: global address, c: bytes to read; the rest becomes zero. `immediate`, number 0: offsets of a, b.
const Instruction* copy(Warp& warp, const Instruction* i) {
  Machine& machine = warp.machine();
  const Detail& detail = *i->detail;
  uint64_t to[WARP], from[WARP];
  gather_addresses(warp, i, i->a, i->smaller != 0, to);
  warp.require_known(i, i->b, "as an address");
  const uint64_t* const base = warp.reg<uint64_t>(i->b);
  for (unsigned lane = 0; lane < WARP; ++lane) from[lane] = base[lane] + detail.numbers[0];
  uint32_t reading = warp.active;
  const uint32_t* valid = nullptr;
  if (i->c != NO_UNIT) {
    warp.require_known(i, i->c, "as a number of bytes");
    valid = warp.reg<uint32_t>(i->c);
    each_of(warp.active, [&](unsigned lane) {
      if (valid[lane] > i->bytes)
        fail("crash", "%s: a cp.async of %u bytes with a count of valid bytes of %u (%s)", warp.where(1u << lane).c_str(), i->bytes, valid[lane],
             machine.place(i).c_str());
      if (valid[lane] == 0) reading &= ~(1u << lane);
    });
  }
  Places destinations, sources;
  resolve(warp, {i, Space::shared, Use::copy, i->bytes, false}, to, destinations);
  const uint32_t all = warp.active;
  if (reading != 0) {
    warp.active = reading;
    if (valid == nullptr) resolve(warp, {i, Space::global, Use::read, i->bytes, false}, from, sources);
    else resolve_some(warp, {i, Space::global, Use::read, i->bytes, false}, from, valid, sources);
    warp.active = all;
  }
  const bool late = machine.launch().seed / 2 % 2 == 0;
  AsyncCopies::Batch* const batch = late ? &warp.copies().issue(all, i->bytes) : nullptr;
  const auto move = [&](auto bytes) {
    each_of(all, [&](unsigned lane) {
      unsigned char* const into = late ? batch->data[lane] : destinations.at[lane];
      if (late) batch->to[lane] = destinations.at[lane];
      if (valid == nullptr) {
        std::memcpy(into, sources.at[lane], bytes);
      } else {
        std::memset(into, 0, bytes);
        if (reading >> lane & 1) std::memcpy(into, sources.at[lane], valid[lane]);
      }
    });
  };
  switch (i->bytes) {
    case 4: move(std::integral_constant<unsigned, 4>()); break;
    case 8: move(std::integral_constant<unsigned, 8>()); break;
    default: move(std::integral_constant<unsigned, 16>());
  }
  return i + 1;
}

const Instruction* commit(Warp& warp, const Instruction* i) {
  warp.copies().commit(warp.active);
  if (Watch* const watch = warp.machine().watch()) watch->commit_copies(warp);
  return i + 1;
}

const Instruction* wait_group(Warp& warp, const Instruction* i) {
  warp.copies().wait(warp.active, uint32_t(i->immediate));
  if (Watch* const watch = warp.machine().watch()) watch->wait_for_copies(warp, uint32_t(i->immediate));
  return i + 1;
}

const Instruction* wait_all(Warp& warp, const Instruction* i) {
  warp.copies().wait_all(warp.active);
  if (Watch* const watch = warp.machine().watch()) watch->wait_for_all_copies(warp);
  return i + 1;
}

void decode_copy(Decoder& to, const Statement& from) {
  const unsigned first = from.has("ca") || from.has("cg") ? 0 : 1;
  if (first == 1) to.refuse("it is not emulated");
  const auto destination = to.address(to.at(0)), source = to.address(to.at(1));
  if (source.bits != 64) to.refuse("a global address of 32 bits");
  if (to.at(2).kind != Operand::Kind::immediate) to.refuse("its size is no number");
  const uint64_t bytes = to.at(2).bits;
  if (bytes != 4 && bytes != 8 && bytes != 16) to.refuse("of " + std::to_string(bytes) + " bytes: 4, 8 or 16");
  Unit valid = NO_UNIT;
  if (to.count() > 3) {
    if (to.bits(to.at(3), Type::u32) != 32) to.refuse("a cache policy is not emulated");
    valid = to.source(3, Type::u32);
  }
  Instruction& i = to.emit(copy);
  i.a = destination.base, i.immediate = destination.offset, i.smaller = destination.bits == 64;
  i.b = source.base, i.c = valid, i.bytes = uint8_t(bytes);
  to.detail(i).numbers[0] = uint64_t(source.offset);
}

void decode_async(Decoder& to, const Statement& from) {
  if (from.has("bulk") || from.has("mbarrier") || from.has("reduce")) return decode_bulk(to, from);
  if (from.has("commit_group")) {
    to.emit(commit);
  } else if (from.has("wait_all")) {
    to.emit(wait_all);
  } else if (from.has("wait_group")) {
    if (to.at(0).kind != Operand::Kind::immediate) to.refuse("it waits for no number of groups");
    const auto left = int64_t(to.at(0).bits);
    to.emit(wait_group).immediate = left;
  } else {
    decode_copy(to, from);
  }
}

}  // namespace

void add_copies(Decoders& all) { all["cp"] = decode_async; }

}  // namespace gemmgen
