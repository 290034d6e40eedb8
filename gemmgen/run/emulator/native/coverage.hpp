// What runs of a kernel: outcomes of its setp, edges of its branches, and operands that came closest to an outcome which has not
// been met. It is counted in memory that the driver shares: gemmgen/run/emulator/coverage.py.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "instruction.hpp"
#include "module.hpp"
#include "numbers.hpp"

namespace gemmgen {

// A setp, a conditional bra, or a selp that several setp decide. Laid out as coverage.py reads it.
struct Site {
  enum Kind : uint8_t { none, comparison, branch };
  static constexpr uint8_t NO_COMPARISON = 255, ALL_OF = 254, ANY_OF = 253;  // several, joined by and, or by or
  static constexpr uint8_t INVERTED = 1, CONSTANT_LEFT = 2, CONSTANT_RIGHT = 4;

  uint8_t ran[2] = {};  // false, true; of a bra: not taken, taken
  uint8_t near = 0;     // whether there are operands: of those with the outcome that has run alone, those that differ least
  uint8_t locked = 0;
  uint8_t kind = none;
  uint8_t operation = NO_COMPARISON;  // a numbers::Comparison: its own, or that of the setp which a bra asks
  uint8_t flags = 0;
  uint8_t index = 0;  // among the setp that are joined to one condition
  uint32_t line = 0, column = 0;
  uint32_t user_line = 0, user_column = 0;  // of the first bra or selp that asks it; of a bra those of the setp
  double distance = 0;
  double operands[2] = {};

  bool complete() const { return (ran[0] & ran[1]) != 0; }
  // Threads share it: none writes what is there.
  void met(bool outcome) {
    if (ran[outcome] == 0) ran[outcome] = 1;
  }
};

// Several setp that a bra or a selp asks at once: how their outcomes make its own, operators behind what they join.
struct Joined {
  static constexpr uint32_t BOTH = 1000, EITHER = 1001, DIFFER = 1002;  // else 2 * leaf, and 1 where it is negated

  std::vector<const Statement*> leaves;
  std::vector<uint32_t> steps;
};

class Decoder;
class Warp;

class Coverage {
 public:
  Coverage() = default;
  Coverage(const Coverage&) = delete;
  ~Coverage();

  // From now on the sites of a program lie in that file, behind a Header; lines follow: 1 where there is code, 2 where it
  // ran. Without effect for a file that has no bytes. Throws Failure (unjudged) where it is too short.
  void share(const Module& module, int file);
  // For Instruction::immediate of a setp or a bra, which a hook below reads.
  int64_t hook(const Statement& statement);
  // For Instruction::detail of a bra, or of what counts a selp, that joins several: which one would turn it. Without effect for
  // others.
  void hook_joined(Decoder& to, Instruction& of, const Statement& statement);
  bool joins(const Statement& statement) const { return joined_.contains(&statement); }
  // At the end of a launch of `entry`: lines by the edges that were met.
  void join(const Function& entry);

 private:
  struct Header {
    uint32_t sites, lines, unused[2];
  };

  void reach(const Statement& statement);

  const Module* module_ = nullptr;
  std::unordered_map<const Statement*, uint32_t> numbers_;
  std::unordered_map<const Statement*, Joined> joined_;  // by bra or selp
  Site* sites_ = nullptr;
  uint8_t* lines_ = nullptr;
  uint32_t line_count_ = 0;  // for which there is room, with line 0
  void* mapped_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t edges_ = 0;  // a sum of those that were met at the last join
};

// Counts a launch: at its end, whatever that is.
class Counted {
 public:
  Counted(Coverage& coverage, const Function* function) : coverage_(coverage), function_(function) {}
  Counted(const Counted&) = delete;
  ~Counted() { coverage_.join(*function_); }

 private:
  Coverage& coverage_;
  const Function* const function_;
};

inline Site* site_of(const Instruction* i) { return reinterpret_cast<Site*>(i->immediate); }

// How operands are held against each other: numbers without a sign as if they had one, for a difference below 0 is one.
template <typename T>
auto near_value(T value) {
  if constexpr (numbers::IS_SMALL<T>) return float(numbers::operand<0>(value));
  else if constexpr (std::is_integral_v<T>) return std::make_signed_t<T>(value);
  else return value;
}

// A distance whose bits are in the order of distances, so that the least one of a vector is found among integers.
template <typename S>
auto bits_between(S a, S b) {
  if constexpr (std::is_integral_v<S>) return std::make_unsigned_t<S>(std::make_unsigned_t<S>(a > b ? a : b) - std::make_unsigned_t<S>(a > b ? b : a));
  else if constexpr (sizeof(S) == 4) return std::bit_cast<uint32_t>(std::fabs(a - b));
  else return std::bit_cast<uint64_t>(std::fabs(a - b));
}

void keep_near(Site& site, double distance, double left, double right, uint32_t leaf);

// Of the lanes' operands those that differ least, and of these the least: whichever thread meets them first.
template <typename T>
void note_near(Site& site, uint32_t lanes, const T* a, const T* b, uint32_t leaf = 0) {
  using S = decltype(near_value(T()));
  using Bits = decltype(bits_between(S(), S()));
  constexpr Bits NEVER = std::numeric_limits<Bits>::max();
  Bits between[32], least = NEVER;
  for (unsigned lane = 0; lane < 32; ++lane) between[lane] = bits_between(near_value(a[lane]), near_value(b[lane]));
  if (lanes != ~0u)
    for (unsigned lane = 0; lane < 32; ++lane) between[lane] = (lanes >> lane & 1) != 0 ? between[lane] : NEVER;
  for (const Bits one : between) least = one < least ? one : least;
  double distance;
  if constexpr (std::is_integral_v<S>) distance = double(least);
  else distance = double(std::bit_cast<S>(least));
  if (!(distance < std::numeric_limits<double>::infinity()) || (site.near != 0 && distance > site.distance)) return;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (between[lane] == least && (lanes >> lane & 1) != 0) keep_near(site, distance, double(near_value(a[lane])), double(near_value(b[lane])), leaf);
}

template <typename T>
__attribute__((noinline)) void note_new(Site& site, uint32_t lanes, uint32_t made, const T* a, const T* b) {
  if ((made & lanes) != 0) site.met(true);
  if ((~made & lanes) != 0) site.met(false);
  if (!site.complete() && lanes != 0) note_near(site, lanes, a, b);
}

// Hooks. Of a setp, whose operands have been compared for the lanes `lanes`:
template <typename T>
inline void note_outcomes(const Instruction* i, uint32_t lanes, uint32_t made, const T* a, const T* b) {
  Site& site = *site_of(i);
  if (!site.complete()) [[unlikely]] note_new(site, lanes, made, a, b);
}

// Of the operands that an instruction has joined, those that alone would have turned it.
void note_joined(Warp& warp, const Instruction* i);

// Of what comes before a selp that joins several.
inline void note_selected(Warp& warp, const Instruction* i, uint32_t lanes, uint32_t made) {
  Site& site = *site_of(i);
  if (site.complete()) [[likely]] return;
  if (i->detail != nullptr) note_joined(warp, i);
  if ((made & lanes) != 0) site.met(true);
  if ((~made & lanes) != 0) site.met(false);
}

// Of a bra that some lanes take, and the others of a split do not.
inline void note_taken(Warp& warp, const Instruction* i, bool others) {
  Site& site = *site_of(i);
  if (site.complete()) [[likely]] return;
  if (i->detail != nullptr) note_joined(warp, i);
  site.met(true);
  if (others) site.met(false);
}

// Of an instruction that no lane runs: a bra, or another one.
inline void note_skipped(Warp& warp, const Instruction* i) {
  if (i->target == nullptr || i->immediate == 0) return;
  Site& site = *site_of(i);
  if (i->detail != nullptr && !site.complete()) note_joined(warp, i);
  site.met(false);
}

}  // namespace gemmgen
