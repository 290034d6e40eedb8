// What a kernel of the family naive takes of CUDA, for a host: its threads know nothing of each other, and run one by one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "templates/device/host/convert.hpp"

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
} blockIdx, threadIdx;

inline float __uint_as_float(unsigned bits)
{
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

template <typename Thread>
void run_threads(unsigned blocks, unsigned threads, Thread thread)
{
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) thread();
}
