// Inline PTX: addresses, loads, stores and copies, special registers, and what a warp does together. Accesses are the same
// watched loads and stores that C++ text makes.
#pragma once

#include "ptx.hpp"

namespace gemmgen {

unsigned shared_bytes(bool dynamic);

namespace ptx {

inline uint64_t plus(uint32_t base, long long offset) { return uint32_t(base + uint32_t(offset)); }
inline uint64_t plus(uint64_t base, long long offset) { return base + uint64_t(offset); }

// `SPACE`: g(lobal), s(hared), or of no name.
template <char SPACE, typename R>
void* at(R base, long long offset, unsigned bytes, int line) {
  static_assert(SPACE == 's' || sizeof(R) == 8, "inline PTX: an address of 32 bits outside of shared memory");
  return address_in(SPACE, plus(base, offset), bytes, line);
}

template <typename T, unsigned COUNT>
struct alignas(sizeof(T) * COUNT) Vector { T parts[COUNT]; };

template <typename T, unsigned COUNT>
__attribute__((always_inline)) inline Vector<T, COUNT> load(const void* from) {
  return *static_cast<const Vector<T, COUNT>*>(from);
}

template <typename T, unsigned COUNT>
__attribute__((always_inline)) inline void store(void* to, Vector<T, COUNT> value) {
  *static_cast<Vector<T, COUNT>*>(to) = value;
}

template <typename T, unsigned COUNT>
void check_read_only(const void* from, int line) {
#ifdef GEMMGEN_WATCHED
  ::gemmgen::read_only(from, sizeof(T) * COUNT, line);
#endif
  (void)from, (void)line;
}

inline void keep_order() { __asm__ volatile("" ::: "memory"); }

// A register's parts, the lowest first.
template <typename R, typename P>
void split(R whole, P& low, P& high) {
  static_assert(sizeof(R) == 2 * sizeof(P), "inline PTX: the parts of a register are half as large");
  low = P(whole), high = P(whole >> BITS<P>);
}
template <typename R, typename P>
void join(R& whole, P low, P high) {
  static_assert(sizeof(R) == 2 * sizeof(P), "inline PTX: the parts of a register are half as large");
  whole = R(R(high) << BITS<P> | low);
}

// shfl.sync: the lane that `value` comes from, and whether it is one of the segment.
enum class Shuffle { up, down, bfly, idx };

template <Shuffle MODE>
uint32_t shfl(uint32_t value, uint32_t b, uint32_t c, uint32_t mask, bool& inside, int line) {
  const unsigned lane = ::gemmgen::lane(), by = b & 31, clamp = c & 31, segments = c >> 8 & 31;
  const unsigned last = (lane & segments) | (clamp & ~segments), first = lane & segments;
  unsigned from = lane;
  if (MODE == Shuffle::up) from = lane - by, inside = int(from) >= int(last);
  if (MODE == Shuffle::down) from = lane + by, inside = from <= last;
  if (MODE == Shuffle::bfly) from = lane ^ by, inside = from <= last;
  if (MODE == Shuffle::idx) from = first | (by & ~segments), inside = from <= last;
  return ::gemmgen::shuffle(mask, value, inside ? from : lane, line);
}

template <typename T>
T reduce_and(uint32_t mask, T value, int line) {
  return ::gemmgen_reduce(mask, value, line, [](T a, T b) { return T(a & b); });
}
template <typename T>
T reduce_or(uint32_t mask, T value, int line) {
  return ::gemmgen_reduce(mask, value, line, [](T a, T b) { return T(a | b); });
}
template <typename T>
T reduce_xor(uint32_t mask, T value, int line) {
  return ::gemmgen_reduce(mask, value, line, [](T a, T b) { return T(a ^ b); });
}

inline bool uniform(uint32_t mask, bool vote, int line) {
  const unsigned lanes = ::gemmgen::warp_vote(mask, vote, line);
  return lanes == 0 || lanes == mask;
}

// Barrier 0 of all threads is that of __syncthreads.
inline void meet(uint32_t number, uint32_t threads, bool waits, bool aligned, int line) {
  if (number == 0 && threads == blockDim.x && waits) ::gemmgen::block_barrier(line);
  else ::gemmgen::named_barrier(number, threads, waits, line, aligned);
}

// Loads that are relaxed or acquire, and stores that release, as the atomics that they are to other threads.
template <typename T>
T observed(void* place, int line, Scope scope) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "inline PTX: ld.acquire of another size is not emulated");
  if constexpr (sizeof(T) == 4) return bits_as<T>(::gemmgen::atomic_load(static_cast<unsigned*>(place), line, scope));
  else return bits_as<T>(::gemmgen::atomic_load(static_cast<unsigned long long*>(place), line, scope));
}
template <typename T>
void publish(void* place, T value, int line, Scope scope) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "inline PTX: st.release of another size is not emulated");
  if constexpr (sizeof(T) == 4) ::gemmgen::atomic_exch(static_cast<unsigned*>(place), bits_as<unsigned>(value), line, scope);
  else ::gemmgen::atomic_exch(static_cast<unsigned long long*>(place), bits_as<unsigned long long>(value), line, scope);
}

inline uint32_t special_warpid() { return threadIdx.x / 32; }

}  // namespace ptx
}  // namespace gemmgen
