// What a kernel sees of the emulator: CUDA's keywords, vector types and built-in functions, and
// the host twins of the device functions. Force-included before the unchanged text of a .cu.
//
// Every kernel's compilation reads this file, so it includes next to nothing: the C++ headers of
// mathematics alone would double the compile time.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "atomics.hpp"
#include "convert.hpp"
#include "kernel_entry.hpp"
#include "matrix_instructions.hpp"
#include "simd.hpp"

#if defined(__SANITIZE_THREAD__)
#define GEMMGEN_WATCHED
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GEMMGEN_WATCHED
#endif
#endif
#include "probes.hpp"

// Keywords. Shared arrays gather in one section, which the runtime poisons before every block. Each begins at
// a multiple of GEMMGEN_SPACING, and a block has 48 KB of them: from one an index that is too large or too small by
// less than a quarter of it leads into no other.
#define GEMMGEN_SPACING 0x10000
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((used, section("gemmgen_shared"), aligned(GEMMGEN_SPACING)))
#define __constant__
#define __grid_constant__

namespace gemmgen {

// A shared array as `for_host` declares it: at an address that CUDA's alignment divides (that of its type, or the one
// declared) and twice as much does not, so that an access that needs more is misaligned here, too.
template <typename T, size_t DECLARED>
struct Shared {
  static constexpr size_t ALIGNMENT = DECLARED > alignof(T) ? DECLARED : alignof(T);
  static constexpr size_t START = ALIGNMENT * (2 * ((8 + ALIGNMENT - 1) / ALIGNMENT) + 1);
  unsigned start = START, bytes = sizeof(T);  // the runtime reads them
  unsigned char gap[START - 8] = {};
  alignas(ALIGNMENT) T value = {};
};

}  // namespace gemmgen

// Vector types, aligned as CUDA aligns them.
#define GEMMGEN_VECTORS(scalar, base)                                                              \
  struct alignas(2 * sizeof(scalar)) base##2 { scalar x, y; };                                     \
  struct base##3 { scalar x, y, z; };                                                              \
  struct alignas(4 * sizeof(scalar) > 16 ? 16 : 4 * sizeof(scalar)) base##4 { scalar x, y, z, w; }; \
  inline base##2 make_##base##2(scalar x, scalar y) { return {x, y}; }                             \
  inline base##3 make_##base##3(scalar x, scalar y, scalar z) { return {x, y, z}; }                \
  inline base##4 make_##base##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }

GEMMGEN_VECTORS(float, float)
GEMMGEN_VECTORS(double, double)
GEMMGEN_VECTORS(int, int)
GEMMGEN_VECTORS(unsigned, uint)
GEMMGEN_VECTORS(long long, longlong)
GEMMGEN_VECTORS(unsigned long long, ulonglong)
GEMMGEN_VECTORS(signed char, char)
GEMMGEN_VECTORS(unsigned char, uchar)
GEMMGEN_VECTORS(short, short)
GEMMGEN_VECTORS(unsigned short, ushort)
#undef GEMMGEN_VECTORS

struct dim3 {
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 of) : x(of.x), y(of.y), z(of.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
  unsigned x, y, z;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

// Mathematics. The declarations are those of <math.h>, which a kernel may still include.
extern "C" {
#define GEMMGEN_OF_ONE(name) \
  double name(double) noexcept; \
  float name##f(float) noexcept;
#define GEMMGEN_OF_TWO(name) \
  double name(double, double) noexcept; \
  float name##f(float, float) noexcept;
GEMMGEN_OF_ONE(sin) GEMMGEN_OF_ONE(cos) GEMMGEN_OF_ONE(tan) GEMMGEN_OF_ONE(asin) GEMMGEN_OF_ONE(acos) GEMMGEN_OF_ONE(atan)
GEMMGEN_OF_ONE(sinh) GEMMGEN_OF_ONE(cosh) GEMMGEN_OF_ONE(tanh) GEMMGEN_OF_ONE(asinh) GEMMGEN_OF_ONE(acosh) GEMMGEN_OF_ONE(atanh)
GEMMGEN_OF_ONE(exp) GEMMGEN_OF_ONE(exp2) GEMMGEN_OF_ONE(expm1)
GEMMGEN_OF_ONE(log) GEMMGEN_OF_ONE(log2) GEMMGEN_OF_ONE(log10) GEMMGEN_OF_ONE(log1p)
GEMMGEN_OF_ONE(sqrt) GEMMGEN_OF_ONE(cbrt) GEMMGEN_OF_ONE(erf) GEMMGEN_OF_ONE(erfc) GEMMGEN_OF_ONE(fabs)
GEMMGEN_OF_ONE(ceil) GEMMGEN_OF_ONE(floor) GEMMGEN_OF_ONE(trunc) GEMMGEN_OF_ONE(round) GEMMGEN_OF_ONE(rint) GEMMGEN_OF_ONE(nearbyint)
GEMMGEN_OF_TWO(fmin) GEMMGEN_OF_TWO(fmax) GEMMGEN_OF_TWO(fmod) GEMMGEN_OF_TWO(pow) GEMMGEN_OF_TWO(hypot) GEMMGEN_OF_TWO(atan2)
GEMMGEN_OF_TWO(copysign)
#undef GEMMGEN_OF_ONE
#undef GEMMGEN_OF_TWO
float fmaf(float, float, float) noexcept;
double fma(double, double, double) noexcept;
int printf(const char*, ...);
}

inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float a) { return expf(a); }
inline float exp2_approx(float a) { return exp2f(a); }  // of templates/device/gelu.cu
inline float min_or_nan(float a, float b) { return a < b || a != a ? a : b; }  // likewise
inline float logistic_approx(float a) { return 1.0f / (1.0f + exp2f(a)); }  // of templates/device/logistic.cu
inline float __logf(float a) { return logf(a); }
inline float __log2f(float a) { return log2f(a); }
inline float __powf(float a, float b) { return powf(a, b); }
inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }
inline double rsqrt(double a) { return 1.0 / sqrt(a); }
inline float __saturatef(float a) { return a > 1.0f ? 1.0f : a > 0.0f ? a : 0.0f; }  // NaN becomes 0

// Templates, beside which the functions of <math.h> may stand.
template <typename T>
bool isnan(T a) {
  return __builtin_isnan(a);
}

template <typename T>
bool isinf(T a) {
  return __builtin_isinf(a);
}

template <typename T>
bool isfinite(T a) {
  return __builtin_isfinite(a);
}

template <typename T>
T abs(T a) {
  return a < 0 ? -a : a == 0 ? T(0) : a;
}

template <typename T, typename U>
constexpr auto min(T a, U b) -> decltype(a + b) {
  return a < b ? a : b;
}

template <typename T, typename U>
constexpr auto max(T a, U b) -> decltype(a + b) {
  return a > b ? a : b;
}

// Of a number and NaN they are the number.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(double a, float b) { return fmax(a, b); }

inline unsigned __float_as_uint(float value) {
  unsigned bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float __uint_as_float(unsigned bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline long long __double_as_longlong(double value) {
  long long bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline double __longlong_as_double(long long bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline int __double2hiint(double value) { return int(__double_as_longlong(value) >> 32); }
inline int __double2loint(double value) { return int(__double_as_longlong(value)); }
inline double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)((unsigned long long)(unsigned(high)) << 32 | unsigned(low)));
}
inline int __float_as_int(float value) { return int(__float_as_uint(value)); }
inline float __int_as_float(int bits) { return __uint_as_float(unsigned(bits)); }

namespace gemmgen {
void read_only(const void* address, size_t bytes, int line);
}

// Through a cache that does not see what the launch writes.
template <typename T>
T __ldg(const T* address, int line = __builtin_LINE()) {
#ifdef GEMMGEN_WATCHED
  gemmgen::read_only(address, sizeof *address, line);
#endif
  (void)line;
  return *address;
}

// Other caching hints change no value.

template <typename T>
T __ldcg(const T* address) {
  return *address;
}

template <typename T>
T __ldcs(const T* address) {
  return *address;
}

template <typename T>
T __ldca(const T* address) {
  return *address;
}

template <typename T>
T __ldlu(const T* address) {
  return *address;
}

template <typename T>
void __stwb(T* address, T value) {
  *address = value;
}

template <typename T>
void __stwt(T* address, T value) {
  *address = value;
}

template <typename T>
void __stcg(T* address, T value) {
  *address = value;
}

template <typename T>
void __stcs(T* address, T value) {
  *address = value;
}

// Bits.
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(unsigned(bits)); }
inline int __clzll(long long bits) { return bits == 0 ? 64 : __builtin_clzll((unsigned long long)(bits)); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }

inline unsigned __brev(unsigned bits) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (bits >> i & 1) << (31 - i);
  return reversed;
}

inline unsigned long long __brevll(unsigned long long bits) {
  return (unsigned long long)(__brev(unsigned(bits))) << 32 | __brev(unsigned(bits >> 32));
}

inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)(high) << 32 | low) << (shift & 31) >> 32);
}

inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)(high) << 32 | low) >> (shift & 31));
}

inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)(a) * b >> 32); }
inline int __mulhi(int a, int b) { return int((long long)(a) * b >> 32); }

// Time that passes: each reading is later than those before it.
inline long long clock64() {
  static long long now;
  return ++now;
}

// A promise to the compiler; a broken one is told, where a GPU may do anything.
#define __builtin_assume(...) ((__VA_ARGS__) ? void() : gemmgen::broken_assumption(#__VA_ARGS__, __LINE__))

namespace gemmgen {
unsigned shared_window(const void* shared);
void* address_in(char space, uint64_t address, unsigned bytes, int line);
unsigned active_mask(int line);
}

// An address of shared memory as a GPU counts it, which inline PTX takes, and back.
inline size_t __cvta_generic_to_shared(const void* address) { return gemmgen::shared_window(address); }
inline void* __cvta_shared_to_generic(size_t address, int line = __builtin_LINE()) {
  return gemmgen::address_in('s', address, 1, line);
}
inline size_t __cvta_generic_to_global(const void* address) { return reinterpret_cast<size_t>(address); }
inline void* __cvta_global_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
inline unsigned __activemask(int line = __builtin_LINE()) { return gemmgen::active_mask(line); }

// The runtime's side. `line` is the caller's line in the .cu, for diagnoses.
namespace gemmgen {

void block_barrier(int line);
unsigned block_vote(bool vote, int line);  // how many threads say yes
[[noreturn]] void broken_assumption(const char* condition, int line);
void named_barrier(unsigned number, unsigned threads, bool waits, int line, bool aligned = true);

// What lanes bring to a warp collective, by lane: null where a lane takes no part.
using Combine = void (*)(void* const* operands);
void warp_collective(unsigned mask, void* operand, Combine combine, int line);
void warp_exchange(unsigned mask, const void* value, void* received, size_t bytes, unsigned source_lane, int line);
unsigned warp_vote(unsigned mask, bool vote, int line);
unsigned lane();
void copy_async(void* shared, const void* global, int bytes, int valid_bytes, int line);
void commit_copies();
void wait_for_copies(int groups_left);
void fence(Scope scope = Scope::gpu);
void grid_dependency_wait();
unsigned char* dynamic_shared_memory(int line);

template <typename T>
T shuffle(unsigned mask, T value, unsigned source_lane, int line) {
  T received;
  warp_exchange(mask, &value, &received, sizeof value, source_lane, line);
  return received;
}

}  // namespace gemmgen

// Barriers and warp collectives.
inline void __syncthreads(int line = __builtin_LINE()) { gemmgen::block_barrier(line); }
inline int __syncthreads_count(int vote, int line = __builtin_LINE()) { return int(gemmgen::block_vote(vote != 0, line)); }
inline int __syncthreads_or(int vote, int line = __builtin_LINE()) { return gemmgen::block_vote(vote != 0, line) != 0; }
inline int __syncthreads_and(int vote, int line = __builtin_LINE()) { return gemmgen::block_vote(vote == 0, line) == 0; }
inline void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE()) {
  gemmgen::warp_collective(mask, nullptr, nullptr, line);
}
inline void __threadfence() { gemmgen::fence(); }
inline void __threadfence_system() { gemmgen::fence(); }
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) {}
#define __trap() __builtin_trap()

inline unsigned __ballot_sync(unsigned mask, int vote, int line = __builtin_LINE()) {
  return gemmgen::warp_vote(mask, vote != 0, line);
}

inline int __any_sync(unsigned mask, int vote, int line = __builtin_LINE()) {
  return gemmgen::warp_vote(mask, vote != 0, line) != 0;
}

inline int __all_sync(unsigned mask, int vote, int line = __builtin_LINE()) {
  return gemmgen::warp_vote(mask, vote == 0, line) == 0;
}

// A shuffle stays inside its segment of `width` lanes: a source outside it is the lane itself.
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, int line = __builtin_LINE()) {
  const unsigned segment = gemmgen::lane() & ~unsigned(width - 1);
  return gemmgen::shuffle(mask, value, segment | (unsigned(source) & unsigned(width - 1)), line);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize, int line = __builtin_LINE()) {
  const unsigned self = gemmgen::lane(), segment_end = (self | unsigned(width - 1)) + 1;
  const unsigned source = self ^ unsigned(lane_mask);
  return gemmgen::shuffle(mask, value, source < segment_end ? source : self, line);
}

// Each lane of `mask` receives what `combine` makes of all their values.
template <typename T, typename Combine>
T gemmgen_reduce(unsigned mask, T value, int line, Combine combine) {
  T all = value;
  for (unsigned lane = 0, self = gemmgen::lane(); lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const T other = gemmgen::shuffle(mask, value, lane, line);
    if (lane != self) all = combine(all, other);
  }
  return all;
}

template <typename T>
T __reduce_add_sync(unsigned mask, T value, int line = __builtin_LINE()) {
  return T(gemmgen_reduce(mask, unsigned(value), line, [](unsigned a, unsigned b) { return a + b; }));
}

template <typename T>
T __reduce_min_sync(unsigned mask, T value, int line = __builtin_LINE()) {
  return gemmgen_reduce(mask, value, line, [](T a, T b) { return b < a ? b : a; });
}

template <typename T>
T __reduce_max_sync(unsigned mask, T value, int line = __builtin_LINE()) {
  return gemmgen_reduce(mask, value, line, [](T a, T b) { return b > a ? b : a; });
}

// The lanes that bring the same bits.
template <typename T>
unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {
  unsigned same = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const T other = gemmgen::shuffle(mask, value, lane, line);
    same |= unsigned(memcmp(&other, &value, sizeof value) == 0) << lane;
  }
  return same;
}

template <typename T>
unsigned __match_all_sync(unsigned mask, T value, int* all, int line = __builtin_LINE()) {
  *all = __match_any_sync(mask, value, line) == mask;
  return *all ? mask : 0;
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize, int line = __builtin_LINE()) {
  const unsigned self = gemmgen::lane(), segment_end = (self | unsigned(width - 1)) + 1;
  return gemmgen::shuffle(mask, value, self + delta < segment_end ? self + delta : self, line);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize, int line = __builtin_LINE()) {
  const unsigned self = gemmgen::lane(), offset = self & unsigned(width - 1);
  return gemmgen::shuffle(mask, value, offset >= delta ? self - delta : self, line);
}

// Twins of the device functions of templates/device.
template <int BYTES>
__device__ __forceinline__ void cp_async(void* shared, const void* global, int valid_bytes,
                                         int line = __builtin_LINE()) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async moves 4, 8 or 16 bytes");
  gemmgen::copy_async(shared, global, BYTES, valid_bytes, line);
}

__device__ __forceinline__ void cp_async_commit() { gemmgen::commit_copies(); }

template <int N>
__device__ __forceinline__ void cp_async_wait() {
  gemmgen::wait_for_copies(N);
}

// bar.sync and bar.arrive: barrier `number` of 1 to 15, which so many threads complete.
__device__ __forceinline__ void named_barrier_sync(int number, int threads, int line = __builtin_LINE()) {
  gemmgen::named_barrier(unsigned(number), unsigned(threads), true, line);
}

__device__ __forceinline__ void named_barrier_arrive(int number, int threads, int line = __builtin_LINE()) {
  gemmgen::named_barrier(unsigned(number), unsigned(threads), false, line);
}

__device__ __forceinline__ unsigned char* dynamic_shared(int line = __builtin_LINE()) {
  return gemmgen::dynamic_shared_memory(line);
}

// Last, for a kernel that uses assert without including it, as CUDA allows.
#include <assert.h>
