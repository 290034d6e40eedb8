// A and B of a warp as numbers, laid out for tile_sums.hpp.
//
// Sums stay where registers have them: lane 4 g + t holds columns 2 t and 2 t + 1 of rows g and g + 8. So A's element of row g
// stands in all four lanes of a quad, and B's elements of four columns are repeated by every quad.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "matrix_table.hpp"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed inline only

namespace gemmgen::tiles {

#define GEMMGEN_INLINE inline __attribute__((always_inline))

constexpr unsigned LANES = 32;
#if defined(__AVX512F__)
constexpr unsigned BYTES = 64;  // of the target's vectors: g++ splits shuffles of wider ones into single elements
#elif defined(__AVX2__)
constexpr unsigned BYTES = 32;
#else
constexpr unsigned BYTES = 16;
#endif
constexpr unsigned WIDTH = BYTES / 4, VECTORS = LANES / WIDTH;  // words in a vector, vectors in a register of a warp

using Words = uint32_t __attribute__((vector_size(BYTES)));
using Ints = int32_t __attribute__((vector_size(BYTES)));
using Floats = float __attribute__((vector_size(BYTES)));
using Shorts = int16_t __attribute__((vector_size(BYTES)));

GEMMGEN_INLINE Words load(const uint32_t* from) {
  Words words;
  std::memcpy(&words, from, sizeof words);
  return words;
}
GEMMGEN_INLINE void store(uint32_t* to, Words words) { std::memcpy(to, &words, sizeof words); }
GEMMGEN_INLINE Floats as_floats(Words words) { return reinterpret_cast<Floats>(words); }
GEMMGEN_INLINE Words as_words(Floats values) { return reinterpret_cast<Words>(values); }
GEMMGEN_INLINE Floats to_floats(Words whole) { return __builtin_convertvector(reinterpret_cast<Ints>(whole), Floats); }
GEMMGEN_INLINE Ints cut(Floats values) { return __builtin_convertvector(values, Ints); }
template <typename Vector>
GEMMGEN_INLINE Vector larger(Vector a, Vector b) { return a > b ? a : b; }

// The bits that any of the words has: halves are joined until one is left.
using Words4 = uint32_t __attribute__((vector_size(16)));
using Words8 = uint32_t __attribute__((vector_size(32)));
using Words16 = uint32_t __attribute__((vector_size(64)));
GEMMGEN_INLINE uint32_t any_bits(Words4 words) {
  uint64_t pair[2];
  std::memcpy(pair, &words, sizeof pair);
  const uint64_t found = pair[0] | pair[1];
  return uint32_t(found | found >> 32);
}
GEMMGEN_INLINE uint32_t any_bits(Words8 words) {
  return any_bits(__builtin_shufflevector(words, words, 0, 1, 2, 3) | __builtin_shufflevector(words, words, 4, 5, 6, 7));
}
GEMMGEN_INLINE uint32_t any_bits(Words16 words) {
  return any_bits(__builtin_shufflevector(words, words, 0, 1, 2, 3, 4, 5, 6, 7) |
                  __builtin_shufflevector(words, words, 8, 9, 10, 11, 12, 13, 14, 15));
}

template <unsigned T, std::size_t... I>
GEMMGEN_INLINE Words in_quad(Words words, std::index_sequence<I...>) {
  return __builtin_shufflevector(words, words, (I / 4 * 4 + T)...);
}
// Lane T of each quad in all lanes of the quad.
template <unsigned T>
GEMMGEN_INLINE Words in_quad(Words words) { return in_quad<T>(words, std::make_index_sequence<WIDTH>()); }

constexpr int NOTHING = -10000;  // the exponent of a zero, which counts for nothing

// How the bits of a float format make a number.
struct FloatFormat {
  unsigned exponent, fraction;
  bool has_infinity;
};

constexpr FloatFormat format_of(Element element) {
  switch (element) {
    case Element::e4m3: return {4, 3, false};
    case Element::e5m2: return {5, 2, true};
    case Element::f16: return {5, 10, true};
    case Element::bf16: return {8, 7, true};
    default: return {8, 10, true};  // tf32
  }
}

constexpr bool is_integer(Element element) { return element <= Element::s32; }

// The least exponent of its numbers that are not denormal.
constexpr int least_exponent(Element element) { return 2 - (1 << (format_of(element).exponent - 1)); }

// The numbers of these codes, which have no bits above their own. f32 has all numbers of all formats.
template <Element E>
GEMMGEN_INLINE Floats numbers(Words codes) {
  if constexpr (E == Element::bf16) return as_floats(codes << 16);
  else if constexpr (E == Element::tf32) return as_floats(codes & 0xFFFFE000);  // the unit reads no more
  else if constexpr (E == Element::u8 || E == Element::u4) return to_floats(codes);
  else if constexpr (E == Element::s8 || E == Element::s4)
    return __builtin_convertvector(reinterpret_cast<Ints>(codes << (32 - bits_of(E))) >> int(32 - bits_of(E)), Floats);
  else {
    constexpr FloatFormat FORMAT = format_of(E);
    constexpr unsigned SIGN = FORMAT.exponent + FORMAT.fraction, SHIFT = 23 - FORMAT.fraction;
    constexpr uint32_t LEAST = 127 + least_exponent(E), TOP = ((1u << FORMAT.exponent) - 1) << FORMAT.fraction;
    constexpr uint32_t SPECIAL = FORMAT.has_infinity ? TOP : (1u << SIGN) - 1;  // the first code that is no number
    const Words magnitude = codes & ((1u << SIGN) - 1), sign = codes >> SIGN << 31;
    const Words normal = (magnitude << SHIFT) + ((LEAST - 1) << 23);
    const Words denormal = as_words(to_floats(magnitude) * as_floats(Words{} + ((LEAST - FORMAT.fraction) << 23)));
    const Words special = magnitude << SHIFT | 0x7F800000;
    const Words finite = magnitude < (1u << FORMAT.fraction) ? denormal : normal;
    return as_floats((magnitude >= SPECIAL ? special : finite) | sign);
  }
}

// Exponents of numbers whose format has no lower one than `least`; Inf and NaN have f32's.
GEMMGEN_INLINE Ints exponents_of(Floats values, int least) {
  const Words bits = as_words(values);
  const Ints exponent = reinterpret_cast<Ints>(bits >> 23 & 0xFF) - 127;
  return (bits & 0x7FFFFFFF) != 0 ? larger(exponent, Ints{} + least) : Ints{} + NOTHING;
}

// What is known of all numbers of a fragment.
struct Extent {
  static constexpr int NONE = 10000;
  bool special = false;     // some are Inf or NaN
  int highest = -NONE;      // the largest and the least exponent of a number that is not 0
  int lowest = NONE;
  int lowest_bit = NONE;    // all are multiples of 2^lowest_bit
};

// Finds the extent of numbers, a vector at a time.
class Survey {
 public:
  GEMMGEN_INLINE void add(Floats values, Ints exponents) {
    const Words bits = as_words(values), field = bits >> 23 & 0xFF;
    const Words significand = (bits & 0x7FFFFF) | (field != 0 ? Words{} + 0x800000 : Words{});
    const Ints place = reinterpret_cast<Ints>(as_words(to_floats(significand & -significand)) >> 23) - (127 + 127 + 23);
    const Ints bit = place + reinterpret_cast<Ints>(field != 0 ? field : Words{} + 1);
    const auto zero = significand == 0;
    highest_ = larger(highest_, exponents);
    negated_lowest_ = larger(negated_lowest_, zero ? Ints{} - Extent::NONE : -exponents);
    negated_bit_ = larger(negated_bit_, zero ? Ints{} - Extent::NONE : -bit);
  }

  Extent extent() const {
    Extent found;
    int lowest = -Extent::NONE, bit = -Extent::NONE;
    for (unsigned i = 0; i < WIDTH; ++i) {
      found.highest = std::max(found.highest, int(highest_[i]));
      lowest = std::max(lowest, int(negated_lowest_[i]));
      bit = std::max(bit, int(negated_bit_[i]));
    }
    found.lowest = -lowest, found.lowest_bit = -bit;
    found.special = found.highest > 127;
    return found;
  }

 private:
  Ints highest_ = Ints{} - Extent::NONE, negated_lowest_ = highest_, negated_bit_ = highest_;
};

constexpr unsigned MOST_K = 64;

// Two exponents share a word of the first vector's lanes: below that of a block's first vector, above that of its second one.
constexpr unsigned BLOCKS = VECTORS > 1 ? VECTORS / 2 : 1;
static_assert(VECTORS % 2 == 0);

GEMMGEN_INLINE Words packed(Ints low, Ints high) {
  return (reinterpret_cast<Words>(low) & 0xFFFF) | reinterpret_cast<Words>(high) << 16;
}
GEMMGEN_INLINE Ints unpacked(Words pair, unsigned which) {
  const Words raised = which == 0 ? pair << 16 : pair;
  return reinterpret_cast<Ints>(raised) >> 16;
}

// Calls `use` with the element as a constant. False for one that no tile has.
template <typename Use>
GEMMGEN_INLINE bool with_element(Element element, Use use) {
  switch (element) {
#define GEMMGEN_CASE(name) \
  case Element::name: use.template operator()<Element::name>(); return true;
    GEMMGEN_CASE(s4) GEMMGEN_CASE(u4) GEMMGEN_CASE(s8) GEMMGEN_CASE(u8) GEMMGEN_CASE(e4m3) GEMMGEN_CASE(e5m2)
    GEMMGEN_CASE(f16) GEMMGEN_CASE(bf16) GEMMGEN_CASE(tf32)
#undef GEMMGEN_CASE
    default: return false;
  }
}

template <Element E>
GEMMGEN_INLINE Words part_of(Words word, unsigned part) {
  if constexpr (bits_of(E) == 32) return word;
  else return word >> (bits_of(E) * part) & ((1u << bits_of(E)) - 1);
}

// A: k numbers for each lane, of its row, or its two rows.
struct FactorsA {
  // Registers as those of an mma.sync of `rows` rows; with `negated` of -A.
  void decode(const uint32_t* const* registers, unsigned rows, unsigned of_k, Element element, bool negated = false) {
    k = of_k;
    with_element(element, [&]<Element E>() { decode<E>(registers, rows / 8, negated); });
  }

  const Floats* values_of(unsigned half, unsigned at) const { return values + (half * k + at) * VECTORS; }
  const Words* exponents_of_half(unsigned half, unsigned at) const { return exponents + (half * k + at) * BLOCKS; }

  unsigned k = 0;
  Extent extent;
  Floats values[2 * MOST_K * VECTORS];
  Words exponents[2 * MOST_K * BLOCKS];

 private:
  template <Element E>
  void decode(const uint32_t* const* registers, unsigned halves, bool negated) {
    constexpr unsigned SHARED = 32 / bits_of(E);
    const uint32_t flip = negated ? 0x80000000 : 0;
    Survey survey;
    for (unsigned r = 0; r < k / (4 * SHARED) * halves; ++r)
      for (unsigned part = 0; part < SHARED; ++part) {
        const unsigned half = r % halves, first = r / halves * 4 * SHARED + part;
        for (unsigned block = 0; block < BLOCKS; ++block) {
          Ints exponent[2];
          for (unsigned i = 0; i < 2; ++i) {
            const unsigned vector = 2 * block + i;
            const Words code = part_of<E>(load(registers[r] + vector * WIDTH), part);
            const Words value = as_words(numbers<E>(code)) ^ flip;
            spread<0, SHARED>(value, values + (half * k + first) * VECTORS + vector, VECTORS);
            if constexpr (is_integer(E)) continue;
            exponent[i] = exponents_of(as_floats(value), least_exponent(E));
            survey.add(as_floats(value), exponent[i]);
          }
          if constexpr (!is_integer(E))
            spread<0, SHARED>(packed(exponent[0], exponent[1]), exponents + (half * k + first) * BLOCKS + block, BLOCKS);
        }
      }
    if constexpr (!is_integer(E)) extent = survey.extent();
  }

  // To the k of each lane of a quad.
  template <unsigned T, unsigned SHARED, typename Vector>
  static GEMMGEN_INLINE void spread(Words words, Vector* to, unsigned stride) {
    to[T * SHARED * stride] = reinterpret_cast<Vector>(in_quad<T>(words));
    if constexpr (T < 3) spread<T + 1, SHARED>(words, to, stride);
  }
};

// B of eight columns: k numbers for each lane's even column, then those for its odd one. All vectors of a register are alike.
struct FactorsB {
  void decode(const uint32_t* const* registers, unsigned of_k, Element element, bool negated = false) {
    k = of_k;
    with_element(element, [&]<Element E>() { decode<E>(registers, negated); });
  }

  const Floats* values_of(unsigned odd, unsigned at) const { return values + odd * k + at; }
  const Words* exponents_of_odd(unsigned odd, unsigned at) const { return exponents + odd * k + at; }

  unsigned k = 0;
  Extent extent;
  Floats values[2 * MOST_K];
  Words exponents[2 * MOST_K];

 private:
    template <Element E>
  void decode(const uint32_t* const* registers, bool negated) {
    constexpr unsigned SHARED = 32 / bits_of(E);
    const uint32_t flip = negated ? 0x80000000 : 0;
    Survey survey;
    for (unsigned r = 0; r < k / (4 * SHARED); ++r)
      for (unsigned part = 0; part < SHARED; ++part) {
        alignas(BYTES) uint32_t value[LANES], exponent[LANES];
        for (unsigned vector = 0; vector < VECTORS; ++vector) {
          const Words code = part_of<E>(load(registers[r] + vector * WIDTH), part);
          const Words bits = as_words(numbers<E>(code)) ^ flip;
          store(value + vector * WIDTH, bits);
          if constexpr (is_integer(E)) continue;
          const Ints of_value = exponents_of(as_floats(bits), least_exponent(E));
          survey.add(as_floats(bits), of_value);
          store(exponent + vector * WIDTH, packed(of_value, of_value));
        }
        const unsigned first = r * 4 * SHARED + part;
        for (unsigned odd = 0; odd < 2; ++odd) {
          spread<SHARED>(value + 4 * odd, values + odd * k + first);
          if constexpr (!is_integer(E)) spread<SHARED>(exponent + 4 * odd, exponents + odd * k + first);
        }
      }
    if constexpr (!is_integer(E)) extent = survey.extent();
  }

  // Column 2 t + odd stands in quad 2 t + odd, by k; lane t of every quad wants it: a transposition of four by four.
  template <unsigned SHARED, typename Vector>
  static GEMMGEN_INLINE void spread(const uint32_t* from, Vector* to) {
    Words4 row[4];
    for (unsigned t = 0; t < 4; ++t) std::memcpy(&row[t], from + 8 * t, sizeof row[t]);
    const Words4 low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
    const Words4 high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
    const Words4 low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
    const Words4 high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
    repeat(__builtin_shufflevector(low01, low23, 0, 1, 4, 5), to);
    repeat(__builtin_shufflevector(low01, low23, 2, 3, 6, 7), to + SHARED);
    repeat(__builtin_shufflevector(high01, high23, 0, 1, 4, 5), to + 2 * SHARED);
    repeat(__builtin_shufflevector(high01, high23, 2, 3, 6, 7), to + 3 * SHARED);
  }

  template <typename Vector>
  static GEMMGEN_INLINE void repeat(Words4 four, Vector* to) {
    auto* const bytes = reinterpret_cast<unsigned char*>(to);
    for (unsigned i = 0; i < BYTES; i += sizeof four) std::memcpy(bytes + i, &four, sizeof four);
  }
};

}  // namespace gemmgen::tiles
