// What a kernel of the family naive takes of CUDA, for a host: its threads know nothing of each other, and run one by one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "convert.hpp"

#undef __global__
#undef __device__
#undef __forceinline__
#undef __launch_bounds__
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)

using std::max;
using std::min;

static struct {
    unsigned x;
} blockIdx, threadIdx, gridDim;

template <typename To, typename From>
To as(From value)
{
    static_assert(sizeof(To) == sizeof(From));
    To bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float __uint_as_float(unsigned bits) { return as<float>(bits); }
inline unsigned __float_as_uint(float value) { return as<unsigned>(value); }
inline long long __double_as_longlong(double value) { return as<long long>(value); }
inline float exp2_approx(float x) { return std::exp2(x); }
inline float min_or_nan(float a, float b) { return a < b || a != a ? a : b; }
inline float logistic_approx(float x) { return 1.0f / (1.0f + std::exp2(x)); }

inline void grid_dependency_wait() {}  // a kernel starts when the one before has ended
inline void launch_dependents() {}

template <typename T>
void atomicMax(T* to, T value)
{
    *to = max(*to, value);
}

template <typename Thread>
void run_threads(unsigned blocks, unsigned threads, Thread thread)
{
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) thread();
}
