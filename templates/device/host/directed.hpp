// CUDA's sums and products of floats that round towards zero, up or down. Included where a kernel's text has any.
#pragma once

#include "ptx.hpp"

#define GEMMGEN_DIRECTED(name, how)                                              \
  inline float __fmaf_##name(float a, float b, float c) {                        \
    return gemmgen::ptx::fused<float, gemmgen::ptx::how>(a, b, c);               \
  }                                                                              \
  inline float __fmul_##name(float a, float b) {                                 \
    return gemmgen::ptx::product_of<float, gemmgen::ptx::how>(a, b);             \
  }                                                                              \
  inline float __fadd_##name(float a, float b) {                                 \
    return gemmgen::ptx::sum_of<float, gemmgen::ptx::how>(a, b);                 \
  }                                                                              \
  inline float __fsub_##name(float a, float b) { return __fadd_##name(a, -b); }
GEMMGEN_DIRECTED(rz, RZ) GEMMGEN_DIRECTED(ru, RP) GEMMGEN_DIRECTED(rd, RM)
#undef GEMMGEN_DIRECTED
