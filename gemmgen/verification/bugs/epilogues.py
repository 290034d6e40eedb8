"""Bugs of epilogues, in every family."""

from __future__ import annotations

from gemmgen.verification.bugs.base import POISON, RACE_PARTIALS, READS, VALUE, Bug, Diagnosis
from gemmgen.verification.bugs.subjects import (
    DOUBLE_EPILOGUE,
    NAIVE_BATCH_EPILOGUE,
    NAIVE_CLAMPED,
    NAIVE_EPILOGUE,
    SKINNY_EPILOGUE,
    SMALL_EPILOGUE,
    SPLIT_EPILOGUE,
)

ERF = "0.5f * x * (1.0f + erff(0.70710677f * x))"
TANH = "0.5f * x * (1.0f + tanhf(0.7978846f * fmaf(0.044715f, x * x * x, x)))"
NOT_NAN = Diagnosis("wrong", "not nan")  # though NaN goes in
ANYWHERE = (VALUE, POISON, READS)

EPILOGUE_BUGS = (
    Bug("the column's bias by row", "epilogue", NAIVE_EPILOGUE, "e.bias_n[n]", "e.bias_n[m]", ANYWHERE),
    Bug("the row's scale by column", "epilogue", NAIVE_EPILOGUE, "e.scale_m[m]", "e.scale_m[n]", ANYWHERE),
    Bug("gelu before the bias", "epilogue", NAIVE_EPILOGUE, "+ bias_n;\n    return gelu(x)",
        ";\n    return gelu(x) + bias_n", (VALUE,)),
    Bug("the residual before gelu", "epilogue", NAIVE_EPILOGUE, "gelu(x) + residual", "gelu(x + residual)", (VALUE,)),
    Bug("no residual", "epilogue", NAIVE_EPILOGUE, "gelu(x) + residual", "gelu(x)", (VALUE,)),
    Bug("the residual at C's lines", "epilogue", NAIVE_EPILOGUE, "* s.ld_residual", "* s.ldc", ANYWHERE),
    Bug("the residual as if it were dense", "epilogue", NAIVE_EPILOGUE, "* s.ld_residual", "* s.N", ANYWHERE),
    Bug("the residual's next column", "epilogue", NAIVE_EPILOGUE, "ld_residual + n]", "ld_residual + n + 1]", ANYWHERE),
    Bug("gelu by tanh", "epilogue", NAIVE_EPILOGUE, ERF, TANH, (VALUE,)),
    Bug("gelu without its half", "epilogue", NAIVE_EPILOGUE, "0.5f * x", "x", (VALUE,)),
    Bug("gelu of x times the root of 2", "epilogue", NAIVE_EPILOGUE, "0.70710677f", "1.4142135f", (VALUE,)),
    Bug("gelu keeps 10 bits", "precision", NAIVE_EPILOGUE, f"return {ERF};",
        f"return __uint_as_float(__float_as_uint({ERF}) & 0xffffe000u);", (VALUE,)),
    Bug("scales C as well", "epilogue", NAIVE_EPILOGUE, "fmaf(e.beta, c, e.alpha * acc * scale_m)",
        "fmaf(e.beta, c, e.alpha * acc) * scale_m", (VALUE,)),
    Bug("alpha scales the bias", "epilogue", NAIVE_EPILOGUE, "e.alpha * acc * scale_m) + bias_n",
        "e.alpha * fmaf(acc, scale_m, bias_n))", (VALUE,)),
    Bug("the epilogue reads C where beta = 0", "beta = 0", NAIVE_EPILOGUE, "e.beta == 0.0f ? 0.0f : *to", "*to",
        (POISON,)),
    Bug("a quick way out for K = 0 skips the bias", "not written", NAIVE_EPILOGUE, "    float acc = 0.0f;",
        "    if (s.K == 0) return;\n    float acc = 0.0f;", (POISON, VALUE)),
    Bug("no upper bound", "epilogue", NAIVE_CLAMPED, "x > hi ? hi : x", "x", (VALUE,)),
    Bug("the upper bound below the lower one", "epilogue", NAIVE_CLAMPED, "x < lo ? lo", "x < lo ? hi", (VALUE,)),
    Bug("clamped before the bias", "epilogue", NAIVE_CLAMPED, "+ bias_m;\n    return clamp(x, -1.0f, 2.0f)",
        ";\n    return clamp(x, -1.0f, 2.0f) + bias_m", (VALUE,)),
    Bug("clamp hides NaN", "epilogue", NAIVE_CLAMPED, "x < lo ? lo : x > hi ? hi : x", "fminf(fmaxf(x, lo), hi)",
        (NOT_NAN,)),
    Bug("the residual of the first product", "batch", NAIVE_BATCH_EPILOGUE, "residual += matrix * s.stride_residual;",
        "", (VALUE,)),
    Bug("silu grows the wrong way", "epilogue", NAIVE_BATCH_EPILOGUE, "expf(-x)", "expf(x)", (VALUE,)),
    Bug("every tile has the first one's bias", "epilogue", DOUBLE_EPILOGUE, "bias_n + tile.n", "bias_n", (VALUE,)),
    Bug("every row of tiles has the first one's residual", "epilogue", DOUBLE_EPILOGUE,
        "residual + Offset(tile.m) * s.ld_residual", "residual", (VALUE,)),
    Bug("a vector has its first column's bias", "epilogue", DOUBLE_EPILOGUE,
        "m, n + i, value.at[i], old.at[i]", "m, n, value.at[i], old.at[i]", (VALUE,)),
    Bug("elements at the edge stay as they were summed", "epilogue", DOUBLE_EPILOGUE,
        "to[i] = epilogue(e, s, m, n + i, value.at[i], e.beta == 0.0f ? 0.0f : to[i])", "to[i] = value.at[i]",
        (VALUE,)),
    Bug("vectors leave out C", "scalars", DOUBLE_EPILOGUE, "if (e.beta != 0.0f) old = load<N>(to);", "", (VALUE,)),
    Bug("vectors read C where beta = 0", "beta = 0", DOUBLE_EPILOGUE, "if (e.beta != 0.0f) old =", "old =", (POISON,)),
    Bug("relu as the magnitude", "epilogue", DOUBLE_EPILOGUE, "x < 0 ? 0 : x", "x < 0 ? -x : x", (VALUE,)),
    Bug("each block of a tile applies relu to its part", "epilogue", SPLIT_EPILOGUE,
        "sums[i] += __ldcg(fixup.partials + peer * (BM * BN) + element);",
        "{ const float x = __ldcg(fixup.partials + peer * (BM * BN) + element); sums[i] += x < 0 ? 0 : x; }", (VALUE,)),
    Bug("each block of a tile adds the bias", "epilogue", SPLIT_EPILOGUE, "+ bias_n;", "+ SPLIT * bias_n;", (VALUE,)),
    Bug("no barrier before the semaphore, epilogue", "barrier", SPLIT_EPILOGUE,
        "__syncthreads();  // the whole block has stored its partial", "", (RACE_PARTIALS,)),
    Bug("the bias of the tile's first column", "epilogue", SKINNY_EPILOGUE, "epilogue(e, n, sums[i]",
        "epilogue(e, tile_n, sums[i]", (VALUE,)),
    Bug("the bias of the tile's columns", "epilogue", SKINNY_EPILOGUE, "epilogue(e, n, sums[i]",
        "epilogue(e, element % BN, sums[i]", (VALUE, POISON, READS)),
    Bug("a group's products share a residual", "batch", SMALL_EPILOGUE, "residual + product * s.stride_residual",
        "residual + first * s.stride_residual", (VALUE,)),
    Bug("the residual at C's stride", "batch", SMALL_EPILOGUE, "product * s.stride_residual", "product * s.stride_c",
        ANYWHERE),
)  # fmt: skip
