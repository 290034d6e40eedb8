// What a kernel sees of the twins of templates/device/cluster.cu, mbarrier.cu, tma.cu, warpgroup.cu and wgmma.cu. Included where its text
// uses them. Those of wgmma are instances of GEMMGEN_WGMMA, which are made from the table of gemmgen/problem/wgmma.py.
#pragma once

#include <stdint.h>

#include "matrix_instructions.hpp"

namespace gemmgen {

// One of the records of gemmgen/problem/wgmma.py.
struct WgmmaInstruction {
  MatrixInstruction sums;  // shape, types and rounding
  bool trans_a, trans_b;
};

constexpr unsigned MOST_TMA_DIMENSIONS = 4;

void mbarrier_init(unsigned long long* barrier, int arrivals, int line);
void mbarrier_arrive(unsigned long long* barrier, int expected_bytes, int line);
void mbarrier_arrive_cluster(unsigned long long* barrier, unsigned rank, int line);
void mbarrier_wait(unsigned long long* barrier, unsigned parity, int line);
void fence_mbarrier_init();
void fence_proxy_async();
void tma_load(void* shared, const void* map, unsigned long long* barrier, unsigned rank, const int* start, int line);
void tma_load_multicast(void* shared, const void* map, unsigned long long* barrier, unsigned rank, const int* start, unsigned blocks,
                        int line);
void tma_store(const void* map, const void* shared, unsigned rank, const int* start, int line);
void tma_store_commit();
void tma_store_wait(unsigned groups_left, bool read, int line);
unsigned cluster_rank();
void cluster_arrive(int line);
void cluster_wait(int line);
void cluster_sync(int line);
void load_shared_cluster(const void* shared, unsigned rank, void* values, unsigned bytes, int line);
bool elect_one(int line);
void set_registers(unsigned count, bool more, int line);
void wgmma_fence();
void wgmma_commit();
void wgmma_wait(unsigned groups_left, int line);
// `fragment`: the registers of A, or null where `a` says where it lies.
void wgmma(const WgmmaInstruction& instruction, void* d, const unsigned* fragment, unsigned long long a, unsigned long long b,
           bool accumulate, int line);
unsigned shared_address(const void* shared, int line);

}  // namespace gemmgen

inline void mbarrier_init(unsigned long long* barrier, int arrivals, int line = __builtin_LINE()) {
  gemmgen::mbarrier_init(barrier, arrivals, line);
}

inline void mbarrier_arrive(unsigned long long* barrier, int line = __builtin_LINE()) {
  gemmgen::mbarrier_arrive(barrier, 0, line);
}

inline void mbarrier_arrive_expect_tx(unsigned long long* barrier, int bytes, int line = __builtin_LINE()) {
  gemmgen::mbarrier_arrive(barrier, bytes, line);
}

inline void mbarrier_arrive_cluster(unsigned long long* barrier, unsigned rank, int line = __builtin_LINE()) {
  gemmgen::mbarrier_arrive_cluster(barrier, rank, line);
}

inline void mbarrier_wait(unsigned long long* barrier, unsigned parity, int line = __builtin_LINE()) {
  gemmgen::mbarrier_wait(barrier, parity, line);
}

inline void fence_mbarrier_init() { gemmgen::fence_mbarrier_init(); }
inline void fence_proxy_async() { gemmgen::fence_proxy_async(); }

inline void tma_load_2d(void* shared, const void* map, unsigned long long* barrier, int c0, int c1, int line = __builtin_LINE()) {
  const int start[] = {c0, c1};
  gemmgen::tma_load(shared, map, barrier, 2, start, line);
}

inline void tma_load_3d(void* shared, const void* map, unsigned long long* barrier, int c0, int c1, int c2,
                        int line = __builtin_LINE()) {
  const int start[] = {c0, c1, c2};
  gemmgen::tma_load(shared, map, barrier, 3, start, line);
}

inline void tma_load_4d(void* shared, const void* map, unsigned long long* barrier, int c0, int c1, int c2, int c3,
                        int line = __builtin_LINE()) {
  const int start[] = {c0, c1, c2, c3};
  gemmgen::tma_load(shared, map, barrier, 4, start, line);
}

inline void tma_load_multicast_2d(void* shared, const void* map, unsigned long long* barrier, int c0, int c1, unsigned short blocks,
                                  int line = __builtin_LINE()) {
  const int start[] = {c0, c1};
  gemmgen::tma_load_multicast(shared, map, barrier, 2, start, blocks, line);
}

inline void tma_load_multicast_3d(void* shared, const void* map, unsigned long long* barrier, int c0, int c1, int c2,
                                  unsigned short blocks, int line = __builtin_LINE()) {
  const int start[] = {c0, c1, c2};
  gemmgen::tma_load_multicast(shared, map, barrier, 3, start, blocks, line);
}

inline void tma_load_multicast_4d(void* shared, const void* map, unsigned long long* barrier, int c0, int c1, int c2, int c3,
                                  unsigned short blocks, int line = __builtin_LINE()) {
  const int start[] = {c0, c1, c2, c3};
  gemmgen::tma_load_multicast(shared, map, barrier, 4, start, blocks, line);
}

inline void tma_store_2d(const void* map, const void* shared, int c0, int c1, int line = __builtin_LINE()) {
  const int start[] = {c0, c1};
  gemmgen::tma_store(map, shared, 2, start, line);
}

inline void tma_store_3d(const void* map, const void* shared, int c0, int c1, int c2, int line = __builtin_LINE()) {
  const int start[] = {c0, c1, c2};
  gemmgen::tma_store(map, shared, 3, start, line);
}

inline void tma_store_4d(const void* map, const void* shared, int c0, int c1, int c2, int c3, int line = __builtin_LINE()) {
  const int start[] = {c0, c1, c2, c3};
  gemmgen::tma_store(map, shared, 4, start, line);
}

inline void tma_store_commit() { gemmgen::tma_store_commit(); }

template <int N>
void tma_store_wait_read(int line = __builtin_LINE()) {
  gemmgen::tma_store_wait(N, true, line);
}

template <int N>
void tma_store_wait(int line = __builtin_LINE()) {
  gemmgen::tma_store_wait(N, false, line);
}

inline unsigned cluster_rank() { return gemmgen::cluster_rank(); }
inline void cluster_arrive(int line = __builtin_LINE()) { gemmgen::cluster_arrive(line); }
inline void cluster_wait(int line = __builtin_LINE()) { gemmgen::cluster_wait(line); }
inline void cluster_sync(int line = __builtin_LINE()) { gemmgen::cluster_sync(line); }

template <class T>
void load_shared_cluster(const T* shared, unsigned rank, T (&values)[4], int line = __builtin_LINE()) {
  gemmgen::load_shared_cluster(shared, rank, values, sizeof values, line);
}

inline void grid_dependency_wait() { gemmgen::grid_dependency_wait(); }
inline void launch_dependents() {}  // the emulator starts a kernel when the one before has ended
inline bool elect_one(int line = __builtin_LINE()) { return gemmgen::elect_one(line); }

template <int COUNT>
void setmaxnreg_dec(int line = __builtin_LINE()) {
  static_assert(COUNT >= 24 && COUNT <= 256 && COUNT % 8 == 0, "setmaxnreg takes multiples of 8 from 24 to 256");
  gemmgen::set_registers(COUNT, false, line);
}

template <int COUNT>
void setmaxnreg_inc(int line = __builtin_LINE()) {
  static_assert(COUNT >= 24 && COUNT <= 256 && COUNT % 8 == 0, "setmaxnreg takes multiples of 8 from 24 to 256");
  gemmgen::set_registers(COUNT, true, line);
}

inline void wgmma_fence() { gemmgen::wgmma_fence(); }
inline void wgmma_commit() { gemmgen::wgmma_commit(); }

template <int N>
void wgmma_wait(int line = __builtin_LINE()) {
  gemmgen::wgmma_wait(N, line);
}

template <int SWIZZLE>
unsigned long long make_descriptor(const void* shared, int leading, int stride, int line = __builtin_LINE()) {
  constexpr unsigned long long LAYOUT = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3 : 0;
  const unsigned at = gemmgen::shared_address(shared, line);
  return LAYOUT << 62 | (unsigned long long)(stride >> 4) << 32 | (unsigned long long)(leading >> 4) << 16 | (at & 0x3ffff) >> 4;
}

#define GEMMGEN_WGMMA_AS(name, a_parameter, fragment, descriptor, n, k, a, b, c, products, fraction, kept, trans_a, trans_b, \
                         c_type, c_registers)                                                                              \
  inline void name(c_type(&d)[c_registers], a_parameter, unsigned long long b_descriptor, bool accumulate = true,          \
                   int line = __builtin_LINE()) {                                                                          \
    using gemmgen::Element;                                                                                                \
    static constexpr gemmgen::WgmmaInstruction INSTRUCTION = {                                                             \
        {#name, 64, n, k, Element::a, Element::b, Element::c, products, fraction, kept}, trans_a, trans_b};                \
    gemmgen::wgmma(INSTRUCTION, d, fragment, descriptor, b_descriptor, accumulate, line);                                  \
  }
#define GEMMGEN_WGMMA(name, ...) GEMMGEN_WGMMA_AS(name, unsigned long long a_place, nullptr, a_place, __VA_ARGS__)
#define GEMMGEN_WGMMA_RS(name, ...) GEMMGEN_WGMMA_AS(name, const unsigned (&a_place)[4], a_place, 0, __VA_ARGS__)
