// CUDA's bfloat16 as far as kernels use it: conversions, sums and products.
#pragma once

#include "small_floats.hpp"

GEMMGEN_SMALL_FLOAT(__nv_bfloat16, __nv_bfloat162, Brain, __float2bfloat16, __bfloat162float, __floats2bfloat162_rn,
                    __bfloat1622float2, __halves2bfloat162)
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16(gemmgen::ptx::Brain{bits}); }
