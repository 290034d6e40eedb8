// What the probes in a kernel's text call (gemmgen/run/emulator/probes.py): they note which outcomes its conditions had,
// and which operands came closest to another one. The driver and the kernel's processes share that memory.
#pragma once

#include <stdint.h>

namespace gemmgen {

constexpr unsigned MOST_SITES = 2048;
constexpr unsigned SITES_BYTES = 0x10000;  // whole pages, whatever their size

// A condition, or a block of statements, which has the outcome 1 alone. Laid out as gemmgen/run/emulator/counters.py reads it.
struct Site {
  unsigned char ran[2];  // the outcomes false and true
  // Whether the compiler left it possible: bit 0 in the fast executable, bit 1 in the one that is watched.
  unsigned char possible[2];
  unsigned char locked;
  unsigned char near;  // whether there are operands: of those with the outcome that has run alone, those that differ least
  unsigned char unused[2];
  double distance;
  double operands[2];
};

static_assert(sizeof(Site) * MOST_SITES == SITES_BYTES, "the driver reads as many bytes");

// Where accesses are watched these stand in for what the probes do themselves elsewhere: their own are not the kernel's.
void note_outcome(unsigned site, bool outcome);
void note_operands(unsigned site, bool outcome, double left, double right);

}  // namespace gemmgen

extern "C" gemmgen::Site gemmgen_sites[gemmgen::MOST_SITES];
extern "C" const unsigned gemmgen_site_count;

#define GEMMGEN_SITES(count)                                                                                 \
  extern "C" __attribute__((aligned(0x10000))) gemmgen::Site gemmgen_sites[gemmgen::MOST_SITES] = {}; \
  extern "C" const unsigned gemmgen_site_count = count;

namespace gemmgen {

// The compiler drops this, with the code around it, where it finds the outcome impossible.
template <unsigned SITE, bool OUTCOME>
__attribute__((always_inline)) inline void note() {
  __asm__ volatile(".pushsection gemmgen_possible,\"a\"\n\t.long %c0\n\t.popsection" ::"i"(2 * SITE + OUTCOME));
#ifdef GEMMGEN_WATCHED
  note_outcome(SITE, OUTCOME);
#else
  gemmgen_sites[SITE].ran[OUTCOME] = 1;
#endif
}

template <unsigned SITE>
__attribute__((always_inline)) inline void note_either(bool outcome) {
  if (outcome) note<SITE, true>();
  else note<SITE, false>();
}

template <typename T>
struct IsNumber {
  static constexpr bool value = false;
};

#define GEMMGEN_NUMBER(type)            \
  template <>                           \
  struct IsNumber<type> {               \
    static constexpr bool value = true; \
  };
GEMMGEN_NUMBER(bool)
GEMMGEN_NUMBER(char)
GEMMGEN_NUMBER(signed char)
GEMMGEN_NUMBER(unsigned char)
GEMMGEN_NUMBER(short)
GEMMGEN_NUMBER(unsigned short)
GEMMGEN_NUMBER(int)
GEMMGEN_NUMBER(unsigned)
GEMMGEN_NUMBER(long)
GEMMGEN_NUMBER(unsigned long)
GEMMGEN_NUMBER(long long)
GEMMGEN_NUMBER(unsigned long long)
GEMMGEN_NUMBER(float)
GEMMGEN_NUMBER(double)
#undef GEMMGEN_NUMBER

template <unsigned SITE, typename A, typename B>
__attribute__((always_inline)) inline void note_comparison(bool outcome, const A& a, const B& b) {
  note_either<SITE>(outcome);
  if constexpr (IsNumber<A>::value && IsNumber<B>::value) {
#ifndef GEMMGEN_WATCHED
    if (gemmgen_sites[SITE].ran[!outcome]) return;
#endif
    if (!__builtin_constant_p(outcome)) note_operands(SITE, outcome, double(a), double(b));
  }
}

template <typename T>
struct IsPointer {
  static constexpr bool value = false;
};

template <typename T>
struct IsPointer<T*> {
  static constexpr bool value = true;
};

template <typename T>
struct IsPointer<T* __restrict__> {
  static constexpr bool value = true;
};

template <unsigned COMPARISON, typename A, typename B>
__attribute__((always_inline)) constexpr bool holds(const A& a, const B& b) {
  if constexpr (IsPointer<A>::value && IsNumber<B>::value) return holds<COMPARISON>(a, nullptr);  // was a literal 0
  else if constexpr (COMPARISON == 0) return a == b;
  else if constexpr (COMPARISON == 1) return a != b;
  else if constexpr (COMPARISON == 2) return a < b;
  else if constexpr (COMPARISON == 3) return a > b;
  else if constexpr (COMPARISON == 4) return a <= b;
  else return a >= b;
}

// The probes. They are constants where what they stand around is one.
template <unsigned SITE>
__attribute__((always_inline)) constexpr void reached() {
  if (!__builtin_is_constant_evaluated()) note<SITE, true>();
}

template <unsigned SITE, typename T>
__attribute__((always_inline)) constexpr bool taken(const T& condition) {
  const bool outcome = static_cast<bool>(condition);
  if (!__builtin_is_constant_evaluated()) note_either<SITE>(outcome);
  return outcome;
}

template <unsigned SITE, unsigned COMPARISON, typename A, typename B>
__attribute__((always_inline)) constexpr bool compared(const A& a, const B& b) {
  const bool outcome = holds<COMPARISON>(a, b);
  if (!__builtin_is_constant_evaluated()) note_comparison<SITE>(outcome, a, b);
  return outcome;
}

// What a variable holds that was given no value. The compiler's own pattern (compiler.py) is a number, of which nothing is
// left once it is multiplied by a beta of 0: a float is NaN here. Element by element, so that registers stay registers.
template <typename T>
struct Unset {
  struct Bytes {
    unsigned char at[sizeof(T)];
  };
  static constexpr Bytes bytes() {
    Bytes made = {};
    for (auto& one : made.at) one = 0xFF;
    return made;
  }
  static constexpr T value = __builtin_bit_cast(T, bytes());
};

template <typename T>
__attribute__((always_inline)) inline void unset(T& variable) {
  if constexpr (__is_trivially_copyable(T) && __is_trivially_constructible(T)) variable = Unset<T>::value;
}

template <typename T, size_t COUNT>
__attribute__((always_inline)) inline void unset(T (&variable)[COUNT]) {
#pragma GCC unroll 64
  for (size_t i = 0; i < COUNT; ++i) unset(variable[i]);
}

inline void unset(int&) {}  // the compiler's is further from all that there is
inline void unset(bool&) {}

template <unsigned SITE, long long VALUE>
struct Label {};

// What a switch is chosen by, held against each of its labels.
template <typename T, unsigned... SITES, long long... VALUES>
__attribute__((always_inline)) constexpr T chosen(const T& value, Label<SITES, VALUES>...) {
  (compared<SITES, 0>(static_cast<long long>(value), VALUES), ...);
  return value;
}

}  // namespace gemmgen
