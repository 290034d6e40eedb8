// CUDA's atomics as a kernel calls them, by the element types that they take. What each makes of the value that stands there
// says atomics_runtime.hpp, which reads the same lists.
#pragma once

// name in CUDA, function of the runtime, type
#define GEMMGEN_ATOMICS(of) \
  of(atomicAdd, atomic_add, int) of(atomicAdd, atomic_add, unsigned) of(atomicAdd, atomic_add, unsigned long long) \
  of(atomicAdd, atomic_add, float) of(atomicAdd, atomic_add, double) \
  of(atomicSub, atomic_sub, int) of(atomicSub, atomic_sub, unsigned) \
  of(atomicExch, atomic_exch, int) of(atomicExch, atomic_exch, unsigned) of(atomicExch, atomic_exch, float) \
  of(atomicExch, atomic_exch, unsigned long long) \
  of(atomicAnd, atomic_and, int) of(atomicAnd, atomic_and, unsigned) of(atomicAnd, atomic_and, unsigned long long) \
  of(atomicOr, atomic_or, int) of(atomicOr, atomic_or, unsigned) of(atomicOr, atomic_or, unsigned long long) \
  of(atomicXor, atomic_xor, int) of(atomicXor, atomic_xor, unsigned) of(atomicXor, atomic_xor, unsigned long long) \
  of(atomicInc, atomic_inc, unsigned) of(atomicDec, atomic_dec, unsigned)

// Those that nothing is ordered by.
#define GEMMGEN_REDUCTIONS(of) \
  of(atomicMin, atomic_min, int) of(atomicMin, atomic_min, unsigned) \
  of(atomicMin, atomic_min, long long) of(atomicMin, atomic_min, unsigned long long) \
  of(atomicMax, atomic_max, int) of(atomicMax, atomic_max, unsigned) \
  of(atomicMax, atomic_max, long long) of(atomicMax, atomic_max, unsigned long long)

#define GEMMGEN_EXCHANGES(of) of(int) of(unsigned) of(unsigned long long) of(unsigned short)

namespace gemmgen {

enum class Scope : unsigned char { gpu, cluster, block };  // of the threads to which an atomic, a load or a fence is one

}  // namespace gemmgen

#define GEMMGEN_ATOMIC(cuda, runtime, type)                                                                           \
  namespace gemmgen {                                                                                                 \
  type runtime(type* address, type value, int line, Scope scope);                                                     \
  }                                                                                                                   \
  inline type cuda(type* address, type value, int line = __builtin_LINE(), gemmgen::Scope scope = gemmgen::Scope::gpu) { \
    return gemmgen::runtime(address, value, line, scope);                                                             \
  }                                                                                                                   \
  inline type cuda##_block(type* address, type value, int line = __builtin_LINE()) {                                  \
    return gemmgen::runtime(address, value, line, gemmgen::Scope::block);                                             \
  }
GEMMGEN_ATOMICS(GEMMGEN_ATOMIC)
GEMMGEN_REDUCTIONS(GEMMGEN_ATOMIC)
#undef GEMMGEN_ATOMIC

#define GEMMGEN_EXCHANGE(type)                                                                       \
  namespace gemmgen {                                                                                \
  type atomic_cas(type* address, type compare, type value, int line, Scope scope);                   \
  }                                                                                                  \
  inline type atomicCAS(type* address, type compare, type value, int line = __builtin_LINE(),        \
                        gemmgen::Scope scope = gemmgen::Scope::gpu) {                                \
    return gemmgen::atomic_cas(address, compare, value, line, scope);                                \
  }                                                                                                  \
  inline type atomicCAS_block(type* address, type compare, type value, int line = __builtin_LINE()) { \
    return gemmgen::atomic_cas(address, compare, value, line, gemmgen::Scope::block);                \
  }
GEMMGEN_EXCHANGES(GEMMGEN_EXCHANGE)
#undef GEMMGEN_EXCHANGE

namespace gemmgen {

// Loads that are relaxed, or acquire.
unsigned atomic_load(const unsigned* address, int line, Scope scope);
unsigned long long atomic_load(const unsigned long long* address, int line, Scope scope);

}  // namespace gemmgen
