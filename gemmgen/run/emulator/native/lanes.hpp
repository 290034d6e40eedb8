// What handlers of arithmetic have in common: a loop over the lanes that the compiler makes vectors of.
#pragma once

#include <cstdint>

#include "instruction.hpp"
#include "warp.hpp"

namespace gemmgen {

// Of `made` the active lanes. One for all operations of a size: each loop over lanes costs compile time.
template <typename Word>
__attribute__((noinline)) void blend(Word* d, const Word* made, uint32_t active) {
#pragma GCC ivdep
  for (unsigned lane = 0; lane < WARP; ++lane) d[lane] = (active >> lane & 1) != 0 ? made[lane] : d[lane];
}

template <unsigned BYTES>
struct WordOf;
template <> struct WordOf<1> { using Type = uint8_t; };
template <> struct WordOf<2> { using Type = uint16_t; };
template <> struct WordOf<4> { using Type = uint32_t; };
template <> struct WordOf<8> { using Type = uint64_t; };

// d[lane] = f(lane) of the active lanes. Registers are the same or apart, so that no lane depends on another one.
template <typename D, typename F>
inline __attribute__((always_inline)) void each_lane(Warp& warp, Unit unit, F f) {
  alignas(64) D made[WARP];
  D* const d = warp.reg<D>(unit);
  D* const into = warp.active == ALL_LANES ? d : made;
#pragma GCC ivdep
  for (unsigned lane = 0; lane < WARP; ++lane) into[lane] = f(lane);
  using Word = typename WordOf<sizeof(D)>::Type;
  if (into == made) blend(reinterpret_cast<Word*>(d), reinterpret_cast<const Word*>(made), warp.active);
}

// A mask of the lanes for which f says yes.
template <typename F>
inline __attribute__((always_inline)) uint32_t lanes_where(F f) {
  uint8_t yes[WARP];
#pragma GCC ivdep
  for (unsigned lane = 0; lane < WARP; ++lane) yes[lane] = f(lane) ? 1 : 0;
  uint32_t mask = 0;
  for (unsigned lane = 0; lane < WARP; ++lane) mask |= uint32_t(yes[lane]) << lane;
  return mask;
}

template <typename Of, typename D, typename A>
const Instruction* unary(Warp& warp, const Instruction* i) {
  const A* const a = warp.reg<A>(i->a);
  each_lane<D>(warp, i->d, [=](unsigned lane) { return D(Of::of(a[lane])); });
  warp.settle(i, warp.known(i->a));
  return i + 1;
}

template <typename Of, typename D, typename A, typename B = A>
const Instruction* binary(Warp& warp, const Instruction* i) {
  const A* const a = warp.reg<A>(i->a);
  const B* const b = warp.reg<B>(i->b);
  each_lane<D>(warp, i->d, [=](unsigned lane) { return D(Of::of(a[lane], b[lane])); });
  warp.settle(i, warp.known(i->a) & warp.known(i->b));
  return i + 1;
}

template <typename Of, typename D, typename A, typename B = A, typename C = A>
const Instruction* ternary(Warp& warp, const Instruction* i) {
  const A* const a = warp.reg<A>(i->a);
  const B* const b = warp.reg<B>(i->b);
  const C* const c = warp.reg<C>(i->c);
  each_lane<D>(warp, i->d, [=](unsigned lane) { return D(Of::of(a[lane], b[lane], c[lane])); });
  warp.settle(i, warp.known(i->a) & warp.known(i->b) & warp.known(i->c));
  return i + 1;
}

// The first of a mask's lanes.
inline unsigned first_of(uint32_t lanes) { return unsigned(std::countr_zero(lanes)); }

// Calls `visit` with each lane of a mask.
template <typename Visit>
inline void each_of(uint32_t lanes, Visit visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(first_of(lanes));
}

}  // namespace gemmgen
