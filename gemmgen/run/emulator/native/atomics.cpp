// atom and red. Other threads may access the same place, so each lane's operation is one atomic operation of the host.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "decoder.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "ring_numbers.hpp"

namespace gemmgen {

namespace {

enum class Update : uint8_t { add, exchange, compare, least, greatest, conjunction, disjunction, difference, increment, decrement };

constexpr std::pair<std::string_view, Update> UPDATES[] = {
    {"add", Update::add}, {"exch", Update::exchange}, {"cas", Update::compare}, {"min", Update::least}, {"max", Update::greatest},
    {"and", Update::conjunction}, {"or", Update::disjunction}, {"xor", Update::difference}, {"inc", Update::increment},
    {"dec", Update::decrement},
};

// The f32 atomics of GPUs treat denormal numbers as zeros.
float flushed(float value) { return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0f, value) : value; }

template <typename T>
T changed(Update update, T old, T value, T other) {
  if constexpr (std::is_same_v<T, float>) {
    return update == Update::add ? flushed(flushed(old) + flushed(value)) : value;
  } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, ring::Number>) {
    return update == Update::add ? old + value : value;
  } else {
    using Bits = std::make_unsigned_t<T>;
    switch (update) {
      case Update::add: return T(Bits(old) + Bits(value));
      case Update::exchange: return value;
      case Update::compare: return old == value ? other : old;
      case Update::least: return std::min(old, value);
      case Update::greatest: return std::max(old, value);
      case Update::conjunction: return old & value;
      case Update::disjunction: return old | value;
      case Update::difference: return old ^ value;
      case Update::increment: return old >= value ? T(0) : T(old + 1);
      case Update::decrement: return old == 0 || old > value ? value : T(old - 1);
    }
    return old;
  }
}

template <typename T, Space SPACE>
const Instruction* update(Warp& warp, const Instruction* i) {
  uint64_t addresses[WARP];
  Places places;
  gather_addresses(warp, i, i->a, i->smaller != 0, addresses);
  warp.require_known(i, i->b, "in an atomic");
  if (i->c != NO_UNIT) warp.require_known(i, i->c, "in an atomic");
  resolve(warp, {i, SPACE, Use::atomic, sizeof(T), false}, addresses, places);
  const T *const value = warp.reg<T>(i->b), *const other = warp.reg<T>(i->c);
  T* const d = warp.reg<T>(i->d);
  each_of(warp.active, [&](unsigned lane) {
    const std::atomic_ref<T> place(*reinterpret_cast<T*>(places.at[lane]));
    const T mine = value[lane], third = other[lane];
    T old = place.load();
    while (!place.compare_exchange_weak(old, changed(Update(i->small), old, mine, third))) {
    }
    d[lane] = old;
  });
  warp.set_known(i->d, ALL_LANES);
  return i + 1;
}

template <bool GIVES>
void decode(Decoder& to, const Statement& from) {
  const Update* which = nullptr;
  for (std::string_view word : from.words)
    for (const auto& one : UPDATES)
      if (one.first == word) which = &one.second;
  const Type type = from.type();
  if (which == nullptr || from.has("noftz") || type == Type::f16x2 || type == Type::bf16x2 || bits_of(type) < 32 || bits_of(type) == 128)
    to.refuse("it is not emulated");
  const unsigned first = GIVES ? 1 : 0;
  const Unit d = GIVES ? to.destination(0) : NO_UNIT;
  const auto [base, base_bits, offset] = to.address(to.at(first));
  const Unit b = to.source(first + 1, type), c = *which == Update::compare ? to.source(first + 2, type) : NO_UNIT;
  Handler handler = nullptr;
  const auto choose = [&]<typename T>(Tag<T>) {
    if constexpr (sizeof(T) >= 4) {
      if (from.has("global")) handler = update<T, Space::global>;
      else if (from.has("shared") || from.has("shared::cta") || from.has("shared::cluster")) handler = update<T, Space::shared>;
      else handler = update<T, Space::generic>;
    }
  };
  const bool in_ring = to.program().in_ring();
  if (type == Type::f32 && in_ring) choose(Tag<ring::Number>());
  else if (type == Type::f64 && in_ring) choose(Tag<uint64_t>());
  else if (type == Type::f32) choose(Tag<float>());
  else if (type == Type::f64) choose(Tag<double>());
  else with_integer(type, choose);
  Instruction& i = to.emit(handler);
  i.d = d, i.a = base, i.b = b, i.c = c;
  i.immediate = offset, i.small = uint8_t(*which), i.smaller = base_bits == 64;
  const bool reduces = *which == Update::least || *which == Update::greatest, counts = type != Type::f32 && type != Type::f64;
  i.immediate_use = uint8_t(ordering_of(from, true) | (reduces ? REDUCES : 0) | (counts ? COUNTS : 0) | (GIVES ? FINDS : 0));
}

}  // namespace

void add_atomics(Decoders& all) {
  all["atom"] = decode<true>;
  all["red"] = decode<false>;
}

}  // namespace gemmgen
