#include "memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "decoder.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "watch.hpp"

namespace gemmgen {

namespace {

const char* verb(Use use) {
  switch (use) {
    case Use::read: case Use::read_only: case Use::strong_read: return " reads ";
    case Use::write: case Use::strong_write: return " writes ";
    case Use::atomic: return "'s atomic updates ";
    case Use::copy: break;
  }
  return "'s cp.async writes ";
}

std::string hexadecimal(uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(number));
  return text;
}

bool writes(Use use) { return use == Use::write || use == Use::strong_write || use == Use::atomic || use == Use::copy; }

[[noreturn]] void refuse(Warp& warp, const Access& access, unsigned lane, const std::string& where) {
  fail("crash", "%s%s%s (%s)", warp.where(1u << lane).c_str(), verb(access.use), where.c_str(),
       warp.machine().place(access.at).c_str());
}

[[noreturn]] void refuse_misaligned(Warp& warp, const Access& access, unsigned lane, uint64_t address) {
  fail("crash", "%s%s%u bytes at a misaligned address, which %u does not divide (%s) (%s)", warp.where(1u << lane).c_str(),
       verb(access.use), access.bytes, access.bytes, describe_address(warp, access.space, address).c_str(), warp.machine().place(access.at).c_str());
}

struct Range {
  uint64_t low = ~uint64_t(0), high = 0, low_bits = 0;
};

Range range_of(uint32_t active, const uint64_t (&addresses)[WARP]) {
  Range range;
  if (active == ALL_LANES) {
    for (unsigned lane = 0; lane < WARP; ++lane) {
      range.low = std::min(range.low, addresses[lane]);
      range.high = std::max(range.high, addresses[lane]);
      range.low_bits |= addresses[lane];
    }
    return range;
  }
  each_of(active, [&](unsigned lane) {
    range.low = std::min(range.low, addresses[lane]);
    range.high = std::max(range.high, addresses[lane]);
    range.low_bits |= addresses[lane];
  });
  return range;
}

void check_alignment(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], const Range& range) {
  if ((range.low_bits & (access.bytes - 1)) == 0) return;
  each_of(warp.active, [&](unsigned lane) {
    if ((addresses[lane] & (access.bytes - 1)) != 0) refuse_misaligned(warp, access, lane, addresses[lane]);
  });
}

void check_global(Warp& warp, const Access& access, unsigned lane, uint64_t address) {
  const Allocations& all = warp.machine().launch().allocations;
  const Allocation* const found = all.find(address);
  if (found == nullptr) refuse(warp, access, lane, all.describe(address));
  const Region& region = found->at(address);
  if (!region.contains(address, access.bytes)) refuse(warp, access, lane, region.describe_outside(address, access.bytes));
  if (!region.on_elements(address, access.bytes)) refuse(warp, access, lane, region.describe_padding(address));
  if (writes(access.use) && (!found->written || &region == &found->array))
    refuse(warp, access, lane, region.describe(address) + ", which the kernel may only read");
}

void resolve_global(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], const Range& range, Places& places) {
  const Allocation*& hint = warp.machine().hint(access.at);
  bool inside = hint != nullptr && hint->region.near(range.low);
  if (!inside) {
    hint = warp.machine().launch().allocations.find(range.low);
    inside = hint != nullptr && hint->region.near(range.low);
  }
  const uint64_t bytes = range.high - range.low + access.bytes;
  inside = inside && hint->region.matrices == nullptr && hint->region.contains(range.low, bytes) && (hint->written || !writes(access.use));
  if (!inside || !(hint->region.is_dense() || hint->region.on_elements(range.low, bytes)))
    each_of(warp.active, [&](unsigned lane) { check_global(warp, access, lane, addresses[lane]); });
  for (unsigned lane = 0; lane < WARP; ++lane) places.at[lane] = reinterpret_cast<unsigned char*>(addresses[lane]);
  if (Watch* const watch = warp.machine().watch()) watch->access_global(warp, access, addresses, inside ? hint : nullptr);
  if (range.high - range.low > INT32_MAX) return;
  places.base = reinterpret_cast<unsigned char*>(range.low);
  for (unsigned lane = 0; lane < WARP; ++lane) places.offset[lane] = int32_t(addresses[lane] - range.low);
}

void resolve_shared(Warp& warp, Access& access, const uint64_t (&addresses)[WARP], const Range& range, Places& places) {
  Machine& machine = warp.machine();
  constexpr uint32_t INSIDE = (1u << RANK_SHIFT) - 1;
  const auto check = [&](unsigned lane, uint64_t low, uint64_t bytes, bool says) {
    const auto inside = uint32_t(low) & INSIDE;
    const bool ok = low <= 0xFFFFFFFF && bytes <= INSIDE && holds_shared(machine, inside, uint32_t(bytes));
    if (!ok && says && low > 0xFFFFFFFF && low + (uint64_t(1) << RANK_SHIFT) > 0xFFFFFFFF)
      refuse(warp, access, lane, "at 0x" + hexadecimal(low) + ", which is no address of shared memory: a generic one is converted first");
    if (!ok && says) refuse(warp, access, lane, describe_address(warp, Space::shared, low));
    return ok;
  };
  const bool one_window = range.low >> RANK_SHIFT == range.high >> RANK_SHIFT;
  if (!one_window || !check(0, range.low, range.high - range.low + access.bytes, false))
    each_of(warp.active, [&](unsigned lane) { check(lane, addresses[lane], access.bytes, true); });
  if (one_window) {
    Block& owner = machine.owner(warp, access.at, uint32_t(range.low));
    access.owner = &owner;
    if (Watch* const watch = machine.watch()) places.poisoned |= watch->access_shared(warp, access, addresses, owner);
    unsigned char* const base = owner.shared();
    for (unsigned lane = 0; lane < WARP; ++lane) places.at[lane] = base + (addresses[lane] & INSIDE);
    places.base = base;
    for (unsigned lane = 0; lane < WARP; ++lane) places.offset[lane] = int32_t(addresses[lane] & INSIDE);
    return;
  }
  const uint32_t all = warp.active;
  each_of(all, [&](unsigned lane) {
    warp.active = 1u << lane;
    Block& owner = machine.owner(warp, access.at, uint32_t(addresses[lane]));
    if (Watch* const watch = machine.watch()) places.poisoned |= watch->access_shared(warp, access, addresses, owner);
    places.at[lane] = owner.shared() + (addresses[lane] & INSIDE);
  });
  warp.active = all;
}

void resolve_local(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], Places& places) {
  const uint32_t bytes = warp.machine().kernel().local_bytes;
  each_of(warp.active, [&](unsigned lane) {
    const uint64_t offset = addresses[lane] & ~SPACE_MASK;
    if (offset + access.bytes > bytes)
      refuse(warp, access, lane, "byte " + std::to_string(offset) + " of its " + std::to_string(bytes) + " bytes of local memory");
    places.at[lane] = warp.block().local(warp.first_thread() + lane) + offset;
  });
}

void resolve_parameter(Warp& warp, const Access& access, const uint64_t (&addresses)[WARP], Places& places) {
  std::vector<unsigned char>& parameters = warp.machine().launch().parameters;
  each_of(warp.active, [&](unsigned lane) {
    const uint64_t offset = addresses[lane] & ~SPACE_MASK;
    if (writes(access.use) || offset + access.bytes > parameters.size())
      refuse(warp, access, lane, "byte " + std::to_string(offset) + " of the kernel's " + std::to_string(parameters.size()) + " bytes of parameters");
    places.at[lane] = parameters.data() + offset;
  });
}

Space space_of(uint64_t address) {
  switch (address & SPACE_MASK) {
    case 0: return Space::global;
    case SHARED_SPACE: return Space::shared;
    case LOCAL_SPACE: return Space::local;
    case PARAMETER_SPACE: return Space::parameter;
    default: return Space::generic;
  }
}

void resolve_generic(Warp& warp, Access access, const uint64_t (&addresses)[WARP], Places& places) {
  const uint32_t all = warp.active;
  for (uint32_t left = all; left != 0;) {
    const uint64_t upper = addresses[first_of(left)] & SPACE_MASK;
    uint32_t here = 0;
    each_of(left, [&](unsigned lane) { here |= uint32_t((addresses[lane] & SPACE_MASK) == upper) << lane; });
    access.space = space_of(addresses[first_of(left)]);
    if (access.space == Space::generic) refuse(warp, access, first_of(left), warp.machine().launch().allocations.describe(addresses[first_of(left)]));
    uint64_t inside[WARP];
    for (unsigned lane = 0; lane < WARP; ++lane) inside[lane] = addresses[lane] & ~SPACE_MASK;
    Places some;
    warp.active = here;
    resolve(warp, access, inside, some);
    warp.active = all;
    each_of(here, [&](unsigned lane) { places.at[lane] = some.at[lane]; });
    places.poisoned |= some.poisoned;
    left &= ~here;
  }
}

// The contents of memory, whatever type was stored.
template <typename T>
using Aliasing __attribute__((may_alias)) = T;

// Loads for all lanes by a gather.
template <typename M, typename D>
inline void read_all(D* d, const Aliasing<M>* base, const int32_t* offset) {
#pragma GCC ivdep
  for (unsigned lane = 0; lane < WARP; ++lane)
    d[lane] = D(*reinterpret_cast<const Aliasing<M>*>(reinterpret_cast<const unsigned char*>(base) + offset[lane]));
}

// Loads and stores: `small` elements of M in registers of D, one behind the other.
template <typename M, typename D, Space SPACE>
const Instruction* load(Warp& warp, const Instruction* i) {
  uint64_t addresses[WARP];
  Places places;
  gather_addresses(warp, i, i->a, i->smaller != 0, addresses);
  resolve(warp, {i, SPACE, Use(i->immediate_use & USE_BITS), i->bytes, false}, addresses, places);
  const Unit* const units = i->detail == nullptr ? &i->d : i->detail->units.data();
  const unsigned count = i->small;
  for (unsigned e = 0; e < count; ++e) {
    if (units[e] == NO_UNIT) continue;
    D* const d = warp.reg<D>(units[e]);
    if (warp.active == ALL_LANES && places.base != nullptr) {
      read_all<M>(d, reinterpret_cast<const Aliasing<M>*>(places.base + e * sizeof(M)), places.offset);
    } else {
      each_of(warp.active, [&](unsigned lane) { d[lane] = D(*reinterpret_cast<const Aliasing<M>*>(places.at[lane] + e * sizeof(M))); });
    }
    warp.set_known(units[e], ~places.poisoned);
    if (places.poisoned != 0) warp.poison(units[e], places.poisoned & warp.active, warp.machine().why_poisoned());
  }
  return i + 1;
}

template <typename M, typename D, Space SPACE>
const Instruction* store(Warp& warp, const Instruction* i) {
  uint64_t addresses[WARP];
  Places places;
  gather_addresses(warp, i, i->a, i->smaller != 0, addresses);
  const Unit* const units = i->detail == nullptr ? &i->b : i->detail->units.data();
  const unsigned count = i->small;
  for (unsigned e = 0; e < count; ++e) require_stored(warp, i, SPACE, addresses, units[e]);
  resolve(warp, {i, SPACE, Use(i->immediate_use & USE_BITS), i->bytes, false}, addresses, places);
  for (unsigned e = 0; e < count; ++e) {
    if ((warp.active & ~warp.known(units[e])) != 0) spoil_shared(warp, i, SPACE, addresses, e * sizeof(M), sizeof(M), units[e]);
    const D* const from = warp.reg<D>(units[e]);
    const auto write = [&](unsigned lane) { *reinterpret_cast<Aliasing<M>*>(places.at[lane] + e * sizeof(M)) = M(from[lane]); };
    if (warp.active == ALL_LANES) for (unsigned lane = 0; lane < WARP; ++lane) write(lane);
    else each_of(warp.active, write);
  }
  return i + 1;
}

Space space_named(const Statement& from) {
  for (std::string_view word : from.words) {
    if (word == "global" || word == "const") return Space::global;
    if (word.starts_with("shared")) return Space::shared;
    if (word == "local") return Space::local;
    if (word.starts_with("param")) return Space::parameter;
  }
  return Space::generic;
}

template <typename Use_>
auto with_space(Space space, Use_ use) {
  switch (space) {
    case Space::global: return use(std::integral_constant<Space, Space::global>());
    case Space::shared: return use(std::integral_constant<Space, Space::shared>());
    case Space::local: return use(std::integral_constant<Space, Space::local>());
    case Space::parameter: return use(std::integral_constant<Space, Space::parameter>());
    case Space::generic: break;
  }
  return use(std::integral_constant<Space, Space::generic>());
}

// Memory of type M becomes a register of type D, which has at least as many bits.
template <bool LOADS>
Handler access_handler(Decoder& to, Type type, unsigned register_bits, Space space) {
  Handler found = nullptr;
  const auto choose = [&]<typename M>(Tag<M>) {
    with_bits(register_bits, [&]<typename D>(Tag<D>) {
      if constexpr (sizeof(D) >= sizeof(M) && sizeof(D) > 1) {
        with_space(space, [&](auto known) {
          constexpr Space SPACE = decltype(known)::value;
          if constexpr (LOADS) found = load<M, std::conditional_t<std::is_signed_v<M>, std::make_signed_t<D>, D>, SPACE>;
          else found = store<std::make_unsigned_t<M>, D, SPACE>;
        });
      }
    });
  };
  if (LOADS) with_any_integer(type, choose);
  else with_bytes(bits_of(type), choose);
  if (found == nullptr) to.refuse("a register is narrower than what it accesses");
  return found;
}

// A volatile load is relaxed. A volatile store still races with all that does not come before or after it.
Use use_of(const Statement& from, bool loads) {
  const bool strong = (loads && from.has("volatile")) || from.has("relaxed") || from.has("acquire") || from.has("release") || from.has("mmio");
  if (loads) return from.has("nc") ? Use::read_only : strong ? Use::strong_read : Use::read;
  return strong ? Use::strong_write : Use::write;
}

unsigned vector_of(const Statement& from) { return from.has("v8") ? 8 : from.has("v4") ? 4 : from.has("v2") ? 2 : 1; }

template <bool LOADS>
void decode_access(Decoder& to, const Statement& from) {
  const Type type = from.type();
  if (type == Type::none || bits_of(type) == 128 || type == Type::pred) to.refuse("it is not emulated");
  const unsigned count = vector_of(from);
  const Operand& value = to.at(LOADS ? 0 : 1);
  std::vector<Unit> units;
  unsigned bits = 0;
  const auto add = [&](const Operand& one) {
    if (one.kind != Operand::Kind::nothing) {
      const unsigned its = to.bits(one, type);
      if (bits != 0 && its != bits) to.refuse("registers of different widths");
      bits = its;
    }
    units.push_back(LOADS ? to.destination(one) : to.source(one, type));
  };
  if (value.kind == Operand::Kind::vector) for (const Operand& part : value.parts) add(part);
  else add(value);
  if (units.size() != count) to.refuse(std::to_string(units.size()) + " registers for " + std::to_string(count) + " elements");
  const Operand& where = to.at(LOADS ? 1 : 0);
  // Arguments of calls are in local memory here.
  const bool passed = where.kind == Operand::Kind::address && to.local(where.parts[0].name) != ~0u;
  const Space space = passed ? Space::local : space_named(from);
  const auto [base, base_bits, offset] = to.address(where);
  Instruction& i = to.emit(access_handler<LOADS>(to, type, std::max(bits, 16u), space));
  i.a = base, i.immediate = offset, i.small = uint8_t(count), i.smaller = base_bits == 64;
  i.bytes = uint8_t(count * bytes_of(type));
  i.immediate_use = uint8_t(uint8_t(use_of(from, LOADS)) | ordering_of(from, true));
  if (value.kind == Operand::Kind::vector) to.detail(i).units = std::move(units);
  else (LOADS ? i.d : i.b) = units[0];
}

}  // namespace

void gather_addresses(Warp& warp, const Instruction* i, Unit base, bool wide_base, uint64_t (&addresses)[WARP]) {
  warp.require_known(i, base, "as an address");
  const int64_t offset = i->immediate;
  if (wide_base) {
    const uint64_t* const from = warp.reg<uint64_t>(base);
    for (unsigned lane = 0; lane < WARP; ++lane) addresses[lane] = from[lane] + uint64_t(offset);
  } else {
    const uint32_t* const from = warp.reg<uint32_t>(base);
    for (unsigned lane = 0; lane < WARP; ++lane) addresses[lane] = uint32_t(from[lane] + uint32_t(offset));
  }
}

void resolve(Warp& warp, Access access, const uint64_t (&addresses)[WARP], Places& places) {
  if (access.space == Space::generic) return resolve_generic(warp, access, addresses, places);
  const Range range = range_of(warp.active, addresses);
  check_alignment(warp, access, addresses, range);
  switch (access.space) {
    case Space::global: resolve_global(warp, access, addresses, range, places); break;
    case Space::shared: resolve_shared(warp, access, addresses, range, places); break;
    case Space::local: return resolve_local(warp, access, addresses, places);
    default: return resolve_parameter(warp, access, addresses, places);
  }
}

void resolve_some(Warp& warp, Access access, const uint64_t (&addresses)[WARP], const uint32_t* bytes, Places& places) {
  check_alignment(warp, access, addresses, range_of(warp.active, addresses));
  const uint32_t all = warp.active;
  for (uint32_t left = all; left != 0;) {
    access.bytes = bytes[first_of(left)];
    uint32_t here = 0;
    each_of(left, [&](unsigned lane) { here |= uint32_t(bytes[lane] == access.bytes) << lane; });
    warp.active = here;
    resolve_global(warp, access, addresses, range_of(here, addresses), places);
    left &= ~here;
  }
  warp.active = all;
}

void require_stored(Warp& warp, const Instruction* i, Space space, const uint64_t (&addresses)[WARP], Unit unit) {
  const uint32_t all = warp.active;
  if ((all & ~warp.known(unit)) == 0) return;
  warp.refuse_in_flight(i, unit);
  uint32_t global = space == Space::global ? all : 0;
  if (space == Space::generic) each_of(all, [&](unsigned lane) { global |= uint32_t((addresses[lane] & SPACE_MASK) == 0) << lane; });
  warp.active = global;
  if (global != 0) warp.require_known(i, unit, "as what it stores");
  warp.active = all;
}

void spoil_shared(Warp& warp, const Instruction* i, Space space, const uint64_t (&addresses)[WARP], unsigned from, unsigned bytes, Unit unit) {
  Watch* const watch = warp.machine().watch();
  if (watch == nullptr) return;
  uint32_t lanes = 0;
  each_of(warp.active & ~warp.known(unit), [&](unsigned lane) {
    const bool shared = space == Space::shared || (space == Space::generic && (addresses[lane] & SPACE_MASK) == SHARED_SPACE);
    lanes |= uint32_t(shared) << lane;
  });
  if (lanes != 0) watch->spoil(warp, i, addresses, from, bytes, lanes, unit);
}

bool holds_shared(Machine& machine, uint32_t offset, uint32_t bytes) {
  const uint32_t start = machine.dynamic_start();
  if (offset >= start && uint64_t(offset) - start + bytes <= machine.launch().shared_bytes) return true;
  if (offset < STATIC_SHARED) return false;
  const std::vector<SharedArray>& arrays = machine.kernel().arrays;
  const auto later = [](uint32_t place, const SharedArray& array) { return place < array.offset; };
  const auto after = std::upper_bound(arrays.begin(), arrays.end(), offset, later);
  return after != arrays.begin() && uint64_t(offset) - (after - 1)->offset + bytes <= (after - 1)->bytes;
}

std::string describe_address(Warp& warp, Space space, uint64_t address) {
  Machine& machine = warp.machine();
  if (space != Space::shared) return machine.launch().allocations.describe(address);
  constexpr uint32_t WINDOW = 1u << RANK_SHIFT, BELOW = WINDOW / 2;  // what is below a window's start ends up at its end
  const uint32_t inside = (uint32_t(address) + BELOW) % WINDOW, window = uint32_t(address) >> RANK_SHIFT;
  const Block& owner = window == 0 || window > machine.ranks() ? warp.block() : machine.block(window - 1);
  const std::string of_block = machine.ranks() > 1 ? " of block " + std::to_string(owner.index) : "";
  const uint32_t start = machine.dynamic_start() + BELOW, bytes = machine.launch().shared_bytes;
  const Kernel& kernel = machine.kernel();
  const SharedArray* nearest = nullptr;
  const auto distance = [&](uint32_t offset, uint32_t size) {
    return inside < offset ? offset - inside : inside < offset + size ? 0 : inside - (offset + size) + 1;
  };
  for (const SharedArray& array : kernel.arrays)
    if (nearest == nullptr || distance(array.offset + BELOW, array.bytes) < distance(nearest->offset + BELOW, nearest->bytes)) nearest = &array;
  if (bytes > 0 && (nearest == nullptr || distance(start, bytes) < distance(nearest->offset + BELOW, nearest->bytes)))
    return relation(inside, start, bytes, "dynamic shared memory" + of_block);
  if (nearest == nullptr) return "shared memory, of which the block has none";
  return relation(inside, nearest->offset + BELOW, nearest->bytes, nearest->name + of_block);
}

uint8_t ordering_of(const Statement& from, bool default_wide) {
  const bool named = from.has("cta") || from.has("cluster") || from.has("gpu") || from.has("sys") || from.has("gl");
  const bool both = from.has("acq_rel");
  return uint8_t((named ? !from.has("cta") : default_wide) ? WIDE : 0) | uint8_t(from.has("cluster") ? OF_CLUSTER : 0) |
         uint8_t(both || from.has("acquire") ? ACQUIRES : 0) | uint8_t(both || from.has("release") ? RELEASES : 0);
}

void add_memory(Decoders& all) {
  all["ld"] = all["ldu"] = decode_access<true>;
  all["st"] = decode_access<false>;
}

}  // namespace gemmgen
