"""Bugs of kernels whose operands have types of their own: conversions, sums, widths of accesses."""

from __future__ import annotations

from gemmgen.verification.bugs.base import MISALIGNED, POISON, READS, STALE, UNWRITTEN, VALUE, Bug, Diagnosis
from gemmgen.verification.bugs.subjects import (
    BATCHED_BF16,
    DOUBLE_F16,
    NAIVE_BF16,
    NAIVE_E4M3,
    NAIVE_S8,
    NAIVE_TO_S8,
    SKINNY_BF16,
)

NOT_NAN = Diagnosis("wrong", "not nan")  # a number where NaN is due

TYPE_BUGS = (
    # Storing
    Bug("stores what is cut, not rounded", "rounding", NAIVE_BF16, ": bits(bf16_from_float(value))",
        ": bits(static_cast<unsigned short>(__float_as_uint(value) >> 16))", (VALUE, POISON)),
    Bug("rounds up where half is left", "rounding", NAIVE_BF16, ": bits(bf16_from_float(value))",
        ": bits(static_cast<unsigned short>((__float_as_uint(value) + 0x8000u) >> 16))", (VALUE, POISON)),
    Bug("rounds to less than the type holds", "rounding", NAIVE_BF16, ": bits(bf16_from_float(value))",
        ": bits(bf16_from_float(value) & 0xFFFE)", (VALUE, POISON)),
    Bug("alpha's product is rounded to bf16", "rounding", NAIVE_BF16, "fmaf(beta, *to, alpha * acc)",
        "fmaf(beta, *to, BF16(alpha * acc))", (VALUE,)),
    Bug("sums in bf16", "precision", NAIVE_BF16, "acc = fmaf(a, b, acc);", "acc = BF16(fmaf(a, b, acc));", (VALUE,)),
    Bug("products in bf16", "precision", NAIVE_BF16, "acc = fmaf(a, b, acc);", "acc += BF16(a * b);", (VALUE,)),
    Bug("beta = 0 reads C", "beta = 0", NAIVE_BF16, "beta == 0.0f ? alpha * acc : ", "", (POISON, VALUE)),
    # Reading
    Bug("bits in the lower half", "conversion", NAIVE_BF16, "static_cast<unsigned>(bits) << 16",
        "static_cast<unsigned>(bits) << 15", (VALUE, POISON)),
    Bug("denormal numbers are zero", "conversion", NAIVE_BF16,
        "return __uint_as_float(static_cast<unsigned>(bits) << 16);",
        "return bits & 0x7F80 ? __uint_as_float(static_cast<unsigned>(bits) << 16) : 0.0f;", (VALUE,)),
    Bug("fp8's NaN is a number", "conversion", NAIVE_E4M3, "return float_from_e4m3(bits);",
        "return (bits & 0x7F) == 0x7F ? (bits >> 7 ? -480.0f : 480.0f) : float_from_e4m3(bits);", (VALUE, NOT_NAN)),
    Bug("fp8's Inf of another format", "conversion", NAIVE_E4M3, "return float_from_e4m3(bits);",
        "return (bits & 0x78) == 0x78 ? __uint_as_float(0x7F800000u) : float_from_e4m3(bits);",
        (VALUE, POISON, NOT_NAN)),
    Bug("fp8 without its sign", "conversion", NAIVE_E4M3, "return float_from_e4m3(bits);",
        "return float_from_e4m3(bits & 0x7F);", (VALUE,)),
    Bug("too large becomes NaN", "saturation", NAIVE_E4M3, ": bits(e4m3_from_float(value))",
        ": bits(value > 464.0f || value < -464.0f ? 0x7F : e4m3_from_float(value))", (VALUE, POISON)),
    # Integers
    Bug("s8 without its sign", "sign", NAIVE_S8, "const int a = A[", "const int a = (unsigned char)A[", (VALUE,)),
    Bug("B's elements have no sign", "sign", NAIVE_S8, "const int b = B[", "const int b = (unsigned char)B[", (VALUE,)),
    Bug("sums of 16 bits", "precision", NAIVE_S8, "acc = multiply_add(a, b, acc);",
        "acc = static_cast<short>(multiply_add(a, b, acc));", (VALUE,)),
    Bug("sums in float", "precision", NAIVE_S8, "? multiply_add(alpha, acc, 0) :",
        "? static_cast<int>(static_cast<float>(alpha) * static_cast<float>(acc) * 0.99999994f) :", (VALUE,)),
    Bug("u8 read as s8", "sign", NAIVE_TO_S8, "const int a = A[", "const int a = (signed char)A[", (VALUE,)),
    Bug("no saturation", "saturation", NAIVE_TO_S8, "max(-128, min(127, __float2int_rn(value)))",
        "__float2int_rn(value)", (VALUE,)),
    Bug("saturates on one side", "saturation", NAIVE_TO_S8, "max(-128, min(127, __float2int_rn(value)))",
        "min(127, __float2int_rn(value))", (VALUE,)),
    Bug("saturates at -127", "saturation", NAIVE_TO_S8, "max(-128,", "max(-127,", (VALUE,)),
    Bug("cuts to an integer", "rounding", NAIVE_TO_S8, "__float2int_rn(value)",
        "static_cast<int>(fmaxf(-1e6f, fminf(1e6f, value)))", (VALUE,)),
    # Vectors
    Bug("half of each vector twice", "vectors", SKINNY_BF16, "weights[t].at[v + j]", "weights[t].at[j]", (VALUE,)),
    Bug("vectors wider than lines are aligned", "misaligned", SKINNY_BF16, "constexpr int VW = 8; ",
        "constexpr int VW = 16;", (MISALIGNED, READS, VALUE, POISON),
        also=("constexpr int UNROLL = 2;", "constexpr int UNROLL = 1;")),
    Bug("the first half of x", "vectors", SKINNY_BF16, "load<RX>(&chunk[i][k + v])", "load<RX>(&chunk[i][k])",
        (VALUE,)),
    Bug("sums in the storage type", "precision", SKINNY_BF16,
        "acc[i][t] = fmaf(x.at[j], weights[t].at[v + j], acc[i][t]);",
        "acc[i][t] = BF16(fmaf(x.at[j], weights[t].at[v + j], acc[i][t]));", (VALUE,)),
    Bug("the last of a vector stays", "vectors", DOUBLE_F16, "for (int v = 0; v < VA; ++v) {",
        "for (int v = 0; v < VA - 1; ++v) {", STALE),
    Bug("stores the next element's value", "vectors", DOUBLE_F16, "stored.at[i] = F16(value.at[i]);",
        "stored.at[i] = F16(value.at[i ^ 1]);", (VALUE,)),
    Bug("C is read as it is stored next", "beta", DOUBLE_F16, "fmaf(beta, old.at[i], value.at[i])",
        "fmaf(beta, old.at[0], value.at[i])", (VALUE,)),
    Bug("half of what is read is converted", "vectors", BATCHED_BF16, "for (int v = 0; v < VB; ++v) shared",
        "for (int v = 0; v < VB / 2; ++v) shared", (VALUE, POISON, UNWRITTEN)),
)  # fmt: skip
