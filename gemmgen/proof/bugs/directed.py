"""Bugs that round in one direction instead of to nearest: sums, stored results, operands."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.bugs import tensor_subjects as tc
from gemmgen.proof.bugs.base import POISON, VALUE, Bug, Diagnosis

LEANS = (Diagnosis("wrong", "where roundings are to nearest"), VALUE)  # in sum, or, where K is deep, one by one


def _fma(way: str, a: str, b: str, acc: str) -> str:
    """`acc` becomes a * b + acc, rounded `way`: z, p or m."""
    return f'asm("fma.r{way}.f32 %0, %1, %2, %0;" : "+f"({acc}) : "f"({a}), "f"({b}));'


NAIVE_FMA, TILE_FMA = "acc = fmaf(a, b, acc);", "acc[i][j] = fmaf(a[i], b[j], acc[i][j]);"
SKINNY_FMA = "acc[i + j][t] = fmaf(x.at[j], weights[t / VW].at[t % VW], acc[i + j][t]);"
SKINNY_OPERANDS = "x.at[j]", "weights[t / VW].at[t % VW]", "acc[i + j][t]"
BF16_STORE, BF16_CUT = ": bits(bf16_from_float(value))", ": bits(__float_as_uint(value) >> 16)"

DIRECTED_BUGS = (
    # Sums
    Bug("sums towards zero", "directed", on.NAIVE_RR, NAIVE_FMA, _fma("z", "a", "b", "acc"), LEANS),
    Bug("sums up", "directed", on.NAIVE_FIXED, NAIVE_FMA, _fma("p", "a", "b", "acc"), LEANS),
    Bug("sums of a pair towards zero", "directed", on.NAIVE_GATED, NAIVE_FMA, _fma("z", "a", "b", "acc"), LEANS),
    Bug("sums towards zero", "directed", on.DOUBLE, TILE_FMA, _fma("z", "a[i]", "b[j]", "acc[i][j]"), LEANS),
    Bug("sums down", "directed", on.DOUBLE_VECTORS, TILE_FMA, _fma("m", "a[i]", "b[j]", "acc[i][j]"), LEANS),
    Bug("sums towards zero, sampled", "directed", on.DOUBLE_BIG, TILE_FMA, _fma("z", "a[i]", "b[j]", "acc[i][j]"),
        LEANS),
    Bug("sums towards zero, before an epilogue", "directed", on.DOUBLE_EPILOGUE, TILE_FMA,
        _fma("z", "a[i]", "b[j]", "acc[i][j]"), LEANS),
    Bug("sums of slices towards zero", "directed", on.SLICED, TILE_FMA, _fma("z", "a[i]", "b[j]", "acc[i][j]"), LEANS),
    Bug("sums towards zero", "directed", on.ACROSS, SKINNY_FMA, _fma("z", *SKINNY_OPERANDS), LEANS),
    Bug("sums towards zero, before an epilogue", "directed", on.SKINNY_EPILOGUE, SKINNY_FMA,
        _fma("z", *SKINNY_OPERANDS), LEANS),
    Bug("sums towards zero", "directed", on.SMALL_BATCH, "acc[i][j] = fmaf(a[d][i], b[d][j], acc[i][j]);",
        _fma("z", "a[d][i]", "b[d][j]", "acc[i][j]"), LEANS),
    Bug("sums by CUDA's function, up", "directed", on.NAIVE_RR, NAIVE_FMA, "acc = __fmaf_ru(a, b, acc);", LEANS),
    Bug("products and sums apart, towards zero", "directed", on.DOUBLE, TILE_FMA,
        "acc[i][j] = __fadd_rz(acc[i][j], __fmul_rz(a[i], b[j]));", LEANS),
    # What is stored
    Bug("stores what is cut", "directed", tc.WGMMA_RC, BF16_STORE, BF16_CUT, (VALUE, POISON)),
    Bug("stores what is cut", "directed", tc.MMA_RC, BF16_STORE, BF16_CUT, (VALUE, POISON)),
    Bug("stores what is cut, scaled", "directed", on.SKINNY_SCALED, BF16_STORE, BF16_CUT, (VALUE, POISON)),
    Bug("stores what is cut", "directed", on.BATCHED_BF16, BF16_STORE, BF16_CUT, (VALUE, POISON)),
    Bug("stores what is cut", "directed", tc.WARP_PRODUCTS, BF16_STORE, BF16_CUT, (VALUE, POISON)),
    Bug("stores what CUDA's function cuts", "directed", on.SKINNY_BF16, BF16_STORE,
        ": bits(__bfloat16_as_ushort(__float2bfloat16_rz(value)))", (VALUE, POISON),
        also=("namespace {", "#include <cuda_bf16.h>\n\nnamespace {")),
    Bug("quantises towards zero", "directed", on.DOUBLE_TO_S8, "__float2int_rn(value)", "__float2int_rz(value)",
        (VALUE,)),
    Bug("quantises down", "directed", on.BATCHED_ZERO_POINTS, "__float2int_rn(value)", "__float2int_rd(value)",
        (VALUE,)),
    Bug("quantises with a half added", "directed", on.DOUBLE_TO_S8, "__float2int_rn(value)",
        "__float2int_rz(value + copysignf(0.5f, value))", (VALUE,)),
    # Operands
    Bug("B is cut to tf32, not rounded", "directed", tc.MMA_TF32,
        "b[j + r / 2][r % 2] = tf32_from_float(__uint_as_float(pair[r]));", "b[j + r / 2][r % 2] = pair[r];", (VALUE,)),
)  # fmt: skip
