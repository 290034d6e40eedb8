// CUDA's halves as far as kernels use them: conversions, sums and products.
#pragma once

#include "small_floats.hpp"

GEMMGEN_SMALL_FLOAT(__half, __half2, Half, __float2half, __half2float, __floats2half2_rn, __half22float2, __halves2half2)
using half = __half;
using half2 = __half2;
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline __half __ushort_as_half(unsigned short bits) { return __half(gemmgen::ptx::Half{bits}); }
