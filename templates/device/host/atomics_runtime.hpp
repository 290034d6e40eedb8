// The runtime's side of atomics.hpp: checks, changes and what races they order. Included once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <type_traits>

#include "atomics.hpp"
#include "block.hpp"
#include "failure.hpp"
#include "faults.hpp"
#include "operand_access.hpp"
#include "races.hpp"

namespace gemmgen {

template <typename T>
void check_atomic(const T* address, int line, const char* verb = "updates") {
  if (!aligned(address, sizeof *address))
    fail("crash", {unsigned(line)}, "%s: an atomic on a misaligned address (%s)", block.where().c_str(),
         describe_address(reinterpret_cast<const unsigned char*>(address)).c_str());
  check_operand(address, sizeof *address, verb, line);
}

// Replaces what stands there by what `change` makes of it, and returns the former. Other processes may do so, too.
template <typename T, typename Change>
T replace(T* address, int line, Change change) {
  check_atomic(address, line);
  auto* const place = reinterpret_cast<std::atomic<T>*>(address);
  runtime_line = unsigned(line);
  T old = place->load();
  while (!place->compare_exchange_weak(old, change(old))) {
  }
  runtime_line = 0;
  return old;
}

template <typename T, typename Change>
T update(T* address, int line, Scope scope, Change change) {
  const T old = replace(address, line, change);
  races.atomic(reinterpret_cast<const unsigned char*>(address), sizeof *address, Place::line(unsigned(line)),
               std::is_integral<T>::value, scope);
  return old;
}

// The same where nothing is ordered by it.
template <typename T, typename Change>
T reduce(T* address, int line, Scope scope, Change change) {
  const T old = replace(address, line, change);
  races.reduction(reinterpret_cast<const unsigned char*>(address), sizeof *address, Place::line(unsigned(line)), scope);
  return old;
}

template <typename T>
T load_strongly(const T* address, int line, Scope scope) {
  check_atomic(address, line, "reads");
  runtime_line = unsigned(line);
  const T value = reinterpret_cast<const std::atomic<T>*>(address)->load();
  runtime_line = 0;
  races.strong_read(reinterpret_cast<const unsigned char*>(address), sizeof *address, Place::line(unsigned(line)), scope);
  return value;
}

unsigned atomic_load(const unsigned* address, int line, Scope scope) { return load_strongly(address, line, scope); }
unsigned long long atomic_load(const unsigned long long* address, int line, Scope scope) {
  return load_strongly(address, line, scope);
}

// As the f32 atomics of GPUs take them: denormal numbers are zeros.
inline float flushed(float value) { return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0f, value) : value; }

// What an atomic makes of the value that stands there. Whole numbers wrap around.
namespace changed {

template <typename T>
T atomic_add(T old, T value) {
  using Wrapping = std::make_unsigned_t<T>;
  return T(Wrapping(old) + Wrapping(value));
}
inline float atomic_add(float old, float value) { return flushed(flushed(old) + flushed(value)); }
inline double atomic_add(double old, double value) { return old + value; }

template <typename T>
T atomic_sub(T old, T value) {
  return atomic_add(old, T(0u - std::make_unsigned_t<T>(value)));
}

template <typename T> T atomic_exch(T, T value) { return value; }
template <typename T> T atomic_and(T old, T value) { return old & value; }
template <typename T> T atomic_or(T old, T value) { return old | value; }
template <typename T> T atomic_xor(T old, T value) { return old ^ value; }
template <typename T> T atomic_min(T old, T value) { return std::min(old, value); }
template <typename T> T atomic_max(T old, T value) { return std::max(old, value); }
inline unsigned atomic_inc(unsigned old, unsigned limit) { return old >= limit ? 0 : old + 1; }
inline unsigned atomic_dec(unsigned old, unsigned limit) { return old == 0 || old > limit ? limit : old - 1; }

}  // namespace changed

#define GEMMGEN_ATOMIC(cuda, runtime, type)                                                            \
  type runtime(type* address, type value, int line, Scope scope) {                                     \
    return update(address, line, scope, [&](type old) -> type { return changed::runtime(old, value); }); \
  }
#define GEMMGEN_REDUCTION(cuda, runtime, type)                                                         \
  type runtime(type* address, type value, int line, Scope scope) {                                     \
    return reduce(address, line, scope, [&](type old) -> type { return changed::runtime(old, value); }); \
  }
#define GEMMGEN_EXCHANGE(type)                                                                         \
  type atomic_cas(type* address, type compare, type value, int line, Scope scope) {                    \
    return update(address, line, scope, [&](type old) -> type { return old == compare ? value : old; }); \
  }
GEMMGEN_ATOMICS(GEMMGEN_ATOMIC)
GEMMGEN_REDUCTIONS(GEMMGEN_REDUCTION)
GEMMGEN_EXCHANGES(GEMMGEN_EXCHANGE)
#undef GEMMGEN_ATOMIC
#undef GEMMGEN_REDUCTION
#undef GEMMGEN_EXCHANGE

}  // namespace gemmgen
