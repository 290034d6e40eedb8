// CUDA's functions of four bytes, or two halves of a word, that a register holds.
#pragma once

#include <stdint.h>

namespace gemmgen {

constexpr int SATURATE = 1;

// `combine` of each part of a and b, as `Part`; beyond its range the nearest of its numbers, if that is asked.
template <typename Part, int HOW = 0, typename Combine>
unsigned by_part(unsigned a, unsigned b, Combine combine) {
  constexpr int BITS = 8 * sizeof(Part);
  constexpr int LEAST = Part(-1) < 0 ? -(1 << (BITS - 1)) : 0, LARGEST = LEAST + int((1u << BITS) - 1);
  unsigned result = 0;
  for (int at = 0; at < 32; at += BITS) {
    int value = combine(int(Part(a >> at)), int(Part(b >> at)));
    if (HOW == SATURATE) value = value < LEAST ? LEAST : value > LARGEST ? LARGEST : value;
    result |= (unsigned(value) & ((1u << BITS) - 1)) << at;
  }
  return result;
}

}  // namespace gemmgen

#define GEMMGEN_BY_PART(name, part, how, expression)                                                        \
  inline unsigned name(unsigned a, unsigned b) {                                                            \
    return gemmgen::by_part<part, how>(a, b, [](int x, int y) -> int { return expression; }); \
  }
#define GEMMGEN_PARTS(count, sign, bare)                                      \
  GEMMGEN_BY_PART(__vadd##count, bare, 0, x + y)                              \
  GEMMGEN_BY_PART(__vsub##count, bare, 0, x - y)                              \
  GEMMGEN_BY_PART(__vaddss##count, sign, gemmgen::SATURATE, x + y)            \
  GEMMGEN_BY_PART(__vsubss##count, sign, gemmgen::SATURATE, x - y)            \
  GEMMGEN_BY_PART(__vaddus##count, bare, gemmgen::SATURATE, x + y)            \
  GEMMGEN_BY_PART(__vsubus##count, bare, gemmgen::SATURATE, x - y)            \
  GEMMGEN_BY_PART(__vmaxs##count, sign, 0, x > y ? x : y)                     \
  GEMMGEN_BY_PART(__vmins##count, sign, 0, x < y ? x : y)                     \
  GEMMGEN_BY_PART(__vmaxu##count, bare, 0, x > y ? x : y)                     \
  GEMMGEN_BY_PART(__vminu##count, bare, 0, x < y ? x : y)                     \
  GEMMGEN_BY_PART(__vavgu##count, bare, 0, (x + y + 1) / 2)                   \
  GEMMGEN_BY_PART(__vabsdiffu##count, bare, 0, x > y ? x - y : y - x)         \
  GEMMGEN_BY_PART(__vcmpeq##count, bare, 0, x == y ? -1 : 0)                  \
  GEMMGEN_BY_PART(__vcmpne##count, bare, 0, x != y ? -1 : 0)
GEMMGEN_PARTS(4, int8_t, uint8_t)
GEMMGEN_PARTS(2, int16_t, uint16_t)
#undef GEMMGEN_PARTS
#undef GEMMGEN_BY_PART

inline unsigned __vneg4(unsigned a) { return __vsub4(0, a); }
inline unsigned __vneg2(unsigned a) { return __vsub2(0, a); }
inline unsigned __vabs4(unsigned a) { return gemmgen::by_part<int8_t>(a, 0, [](int x, int) { return x < 0 ? -x : x; }); }
inline unsigned __vabs2(unsigned a) { return gemmgen::by_part<int16_t>(a, 0, [](int x, int) { return x < 0 ? -x : x; }); }
