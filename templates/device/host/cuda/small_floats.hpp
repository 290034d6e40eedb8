// What cuda_fp16.h and cuda_bf16.h share: a float of 16 bits whose arithmetic is rounded once, and two of them in a register.
#pragma once

#include "../gemmgen_emulator.hpp"
#include "../ptx.hpp"

// NAME of two, its PTX type and C++ names of the conversions from and to float.
#define GEMMGEN_SMALL_FLOAT(NAME, NAME2, PTX, FROM, TO, FROM2, TO2, MAKE2)                                     \
  struct NAME {                                                                                                \
    unsigned short bits;                                                                                       \
    NAME() = default;                                                                                          \
    explicit NAME(gemmgen::ptx::PTX value) : bits(value.bits) {}                                               \
    NAME(float value) {                                                                                        \
      gemmgen::ptx::PTX narrow;                                                                                \
      gemmgen::ptx::narrow_to(narrow, value);                                                                  \
      bits = narrow.bits;                                                                                      \
    }                                                                                                          \
    operator float() const { return gemmgen::ptx::widened(gemmgen::ptx::PTX{bits}); }                          \
    gemmgen::ptx::PTX of_ptx() const { return {bits}; }                                                        \
  };                                                                                                           \
  struct alignas(4) NAME2 { NAME x, y; };                                                                      \
  inline NAME FROM(float value) { return NAME(value); }                                                        \
  inline NAME FROM##_rn(float value) { return NAME(value); }                                                   \
  inline NAME FROM##_rz(float value) { return NAME(gemmgen::ptx::small_of<gemmgen::ptx::PTX, gemmgen::ptx::RZ>(value)); } \
  inline float TO(NAME value) { return value; }                                                                \
  inline NAME2 FROM2(float low, float high) { return {NAME(low), NAME(high)}; }                                \
  inline NAME2 MAKE2(NAME low, NAME high) { return {low, high}; }                                              \
  inline float2 TO2(NAME2 pair) { return {pair.x, pair.y}; }                                                   \
  inline float __low2float(NAME2 pair) { return pair.x; }                                                      \
  inline float __high2float(NAME2 pair) { return pair.y; }                                                     \
  inline NAME operator+(NAME a, NAME b) { return NAME(gemmgen::ptx::add<gemmgen::ptx::PTX, 0>(a.of_ptx(), b.of_ptx())); } \
  inline NAME operator-(NAME a, NAME b) { return NAME(gemmgen::ptx::sub<gemmgen::ptx::PTX, 0>(a.of_ptx(), b.of_ptx())); } \
  inline NAME operator*(NAME a, NAME b) { return NAME(gemmgen::ptx::mul<gemmgen::ptx::PTX, 0>(a.of_ptx(), b.of_ptx())); } \
  inline NAME __hadd(NAME a, NAME b) { return a + b; }                                                         \
  inline NAME __hsub(NAME a, NAME b) { return a - b; }                                                         \
  inline NAME __hmul(NAME a, NAME b) { return a * b; }                                                         \
  inline NAME __hfma(NAME a, NAME b, NAME c) {                                                                 \
    return NAME(gemmgen::ptx::fused<gemmgen::ptx::PTX, 0>(a.of_ptx(), b.of_ptx(), c.of_ptx()));                \
  }                                                                                                            \
  inline NAME2 __hadd2(NAME2 a, NAME2 b) { return {a.x + b.x, a.y + b.y}; }                                    \
  inline NAME2 __hmul2(NAME2 a, NAME2 b) { return {a.x * b.x, a.y * b.y}; }                                    \
  inline NAME2 __hfma2(NAME2 a, NAME2 b, NAME2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
