"""Bugs that show only for some numbers, scalars and sizes: roundings, thresholds, NaN, paths for some sizes."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.bugs import tensor_subjects as tc
from gemmgen.proof.bugs.base import MISALIGNED, POISON, READS, VALUE, Bug, Diagnosis

NOT_NAN = Diagnosis("wrong", "not nan")  # a number or Inf where NaN is due
NOT_INF = Diagnosis("wrong", "not -?inf")
STALE_READ = Diagnosis("race", "__ldg reads")
NAIVE_FMA, NAIVE_START = "acc = fmaf(a, b, acc);", "    float acc = 0.0f;"
NAIVE_STORE = "beta == 0.0f ? alpha * acc : fmaf(beta, *to, alpha * acc)"
TILE_FMA, SKINNY_FMA = "fmaf(a[i], b[j], acc[i][j])", "fmaf(x.at[j], weights[t / VW].at[t % VW], acc[i + j][t])"
MMA_PRODUCT = "mma_m16n8k16_bf16(acc[i][j], a[i], b[j]);"
SMALL_FMA = "fmaf(a[d][i], b[d][j], acc[i][j])"
SIGNED = (VALUE, NOT_NAN, NOT_INF)


def _cut(value: str, bits: int) -> str:
    """The f32 `value` truncated to `bits` bits of significand: tf32 has 11, bf16 has 8."""
    return f"__uint_as_float(__float_as_uint({value}) & {0xFFFFFFFF << (24 - bits) & 0xFFFFFFFF:#x}u)"


def _flushed(value: str) -> str:
    return f"(fabsf({value}) < 1.17549435e-38f ? 0.0f : {value})"


def _halved_where(condition: str) -> str:
    return f"{NAIVE_FMA.replace('fmaf(a, b, acc)', f'fmaf(a, {condition} ? 0.5f * b : b, acc)')}"


DATA_BUGS = (
    # What is rounded
    Bug("A keeps 11 bits", "precision", on.NAIVE_RR, NAIVE_FMA, f"acc = fmaf({_cut('a', 11)}, b, acc);", (VALUE,)),
    Bug("A keeps 23 bits", "precision", on.DOUBLE_BIG, TILE_FMA, f"fmaf({_cut('a[i]', 23)}, b[j], acc[i][j])",
        (VALUE,)),
    Bug("B keeps 8 bits", "precision", on.NAIVE_RR, NAIVE_FMA, f"acc = fmaf(a, {_cut('b', 8)}, acc);", (VALUE,)),
    Bug("C keeps 11 bits", "precision", on.NAIVE_RR, "fmaf(beta, *to, alpha * acc)",
        f"fmaf(beta, {_cut('*to', 11)}, alpha * acc)", (VALUE,)),
    Bug("alpha keeps 8 bits", "precision", on.NAIVE_RR, NAIVE_START, f"    alpha = {_cut('alpha', 8)};\n{NAIVE_START}",
        SIGNED),
    Bug("beta keeps 11 bits", "precision", on.NAIVE_RR, NAIVE_START, f"    beta = {_cut('beta', 11)};\n{NAIVE_START}",
        (*SIGNED, POISON)),
    Bug("alpha and beta are floats", "precision", on.NAIVE_F64, "double acc = 0.0;",
        "alpha = float(alpha); beta = float(beta); double acc = 0.0;", (VALUE,)),
    Bug("B of bf16 keeps 4 bits", "precision", on.NAIVE_BF16, NAIVE_FMA, f"acc = fmaf(a, {_cut('b', 4)}, acc);",
        (VALUE,)),
    Bug("the row's scale keeps 11 bits", "precision", on.NAIVE_EPILOGUE, "= e.scale_m[m];",
        f"= {_cut('e.scale_m[m]', 11)};", (VALUE,)),
    Bug("the bias keeps 8 bits", "precision", on.NAIVE_EPILOGUE, "= e.bias_n[n];", f"= {_cut('e.bias_n[n]', 8)};",
        (VALUE,)),
    Bug("fragments of A keep 11 bits", "precision", on.DOUBLE_VECTORS, TILE_FMA,
        f"fmaf({_cut('a[i]', 11)}, b[j], acc[i][j])", (VALUE,)),
    Bug("fragments of A keep 8 bits, sampled", "precision", on.DOUBLE_BIG, TILE_FMA,
        f"fmaf({_cut('a[i]', 8)}, b[j], acc[i][j])", (VALUE,)),
    Bug("fragments of B keep 11 bits, sampled", "precision", on.DOUBLE_BIG, TILE_FMA,
        f"fmaf(a[i], {_cut('b[j]', 11)}, acc[i][j])", (VALUE,)),
    Bug("fragments of f16 keep 8 bits", "precision", on.DOUBLE_F16, TILE_FMA,
        f"fmaf({_cut('a[i]', 8)}, b[j], acc[i][j])", (VALUE,)),
    Bug("weights keep 11 bits", "precision", on.ACROSS, SKINNY_FMA,
        f"fmaf(x.at[j], {_cut('weights[t / VW].at[t % VW]', 11)}, acc[i + j][t])", (VALUE,)),
    Bug("x keeps 11 bits, sampled", "precision", on.SPLIT_BIG, SKINNY_FMA,
        f"fmaf({_cut('x.at[j]', 11)}, weights[t / VW].at[t % VW], acc[i + j][t])", (VALUE,)),
    Bug("a small B keeps 8 bits", "precision", on.SMALL_BATCH, SMALL_FMA,
        f"fmaf(a[d][i], {_cut('b[d][j]', 8)}, acc[i][j])", (VALUE,)),
    Bug("alpha of integers keeps 24 bits", "precision", on.NAIVE_S8, "multiply_add(alpha, acc, 0)",
        "multiply_add(alpha & ~127, acc, 0)", (VALUE,), count=2),
    # Thresholds
    Bug("a tiny alpha is none", "scalars", on.NAIVE_RR, NAIVE_START,
        f"    if (fabsf(alpha) < 1e-20f) alpha = 0.0f;\n{NAIVE_START}", (VALUE,)),
    Bug("an alpha near 1 is 1", "scalars", tc.WGMMA_RC, "= alpha * sums[j + v];",
        "= (fabsf(alpha - 1.0f) < 1e-3f ? 1.0f : alpha) * sums[j + v];", (VALUE, POISON)),
    Bug("a beta near 1 is 1", "scalars", on.NAIVE_RR, "fmaf(beta, *to,",
        "fmaf(fabsf(beta - 1.0f) < 1e-4f ? 1.0f : beta, *to,", (VALUE,)),
    Bug("an alpha near -1 is -1", "scalars", on.NAIVE_RR, NAIVE_START,
        f"    if (fabsf(alpha + 1.0f) < 1e-3f) alpha = -1.0f;\n{NAIVE_START}", (VALUE,)),
    Bug("a huge beta is bounded", "scalars", on.NAIVE_RR, NAIVE_START,
        f"    if (fabsf(beta) > 1e20f) beta = copysignf(1e20f, beta);\n{NAIVE_START}", SIGNED),
    Bug("an infinite alpha is the largest number", "scalars", on.NAIVE_RR, NAIVE_START,
        f"    if (isinf(alpha)) alpha = copysignf(3.4028235e38f, alpha);\n{NAIVE_START}", SIGNED),
    Bug("a scale has bounds", "scalars", on.NAIVE_EPILOGUE, "= e.scale_m[m];",
        "= fminf(fmaxf(e.scale_m[m], -1e6f), 1e6f);", SIGNED),
    Bug("zeros of A are skipped, sampled", "special", on.DOUBLE_BIG, TILE_FMA,
        "a[i] == 0.0f ? acc[i][j] : fmaf(a[i], b[j], acc[i][j])", (NOT_NAN,)),
    Bug("zeros of the weights are skipped", "special", on.ACROSS, SKINNY_FMA,
        f"weights[t / VW].at[t % VW] == 0.0f ? acc[i + j][t] : {SKINNY_FMA}", (NOT_NAN,)),
    Bug("fragments of A that are 0 are skipped", "special", tc.MMA_RC, MMA_PRODUCT,
        f"if (__any_sync(0xffffffffu, ((a[i][0] | a[i][1] | a[i][2] | a[i][3]) & 0x7fff7fffu) != 0)) {MMA_PRODUCT}",
        (NOT_NAN,)),
    Bug("fragments of B that are 0 are skipped", "special", tc.MMA_RC, MMA_PRODUCT,
        f"if (__any_sync(0xffffffffu, ((b[j][0] | b[j][1]) & 0x7fff7fffu) != 0)) {MMA_PRODUCT}", (NOT_NAN,)),
    Bug("sums have bounds", "special", on.NAIVE_RR, NAIVE_FMA,
        "acc = fminf(fmaxf(fmaf(a, b, acc), -3.4028235e38f), 3.4028235e38f);", SIGNED),
    Bug("an old NaN counts as 0 where beta = 0", "beta = 0", on.NAIVE_RR, NAIVE_STORE,
        "fmaf(beta, isnan(*to) && beta == 0.0f ? 0.0f : *to, alpha * acc)", (READS, POISON)),
    Bug("denormal numbers of B are zero", "denormal", on.NAIVE_RR, NAIVE_FMA, f"acc = fmaf(a, {_flushed('b')}, acc);",
        (VALUE,)),
    Bug("denormal numbers of B are zero, sampled", "denormal", on.DOUBLE_BIG, TILE_FMA,
        f"fmaf(a[i], {_flushed('b[j]')}, acc[i][j])", (VALUE,)),
    Bug("a small A's denormal numbers are zero", "denormal", on.SMALL_BATCH, SMALL_FMA,
        f"fmaf({_flushed('a[d][i]')}, b[d][j], acc[i][j])", (VALUE,)),
    # Paths for some sizes
    Bug("a way of its own where tiles divide all sizes", "path", on.NAIVE_RR, NAIVE_FMA,
        _halved_where("s.M % 256 == 0 && s.N % 256 == 0 && s.K % 256 == 0 && s.K > 0"), (VALUE,)),
    Bug("a way of its own where M and N are large", "path", on.NAIVE_RR, NAIVE_FMA,
        _halved_where("s.M > 1024 && s.N > 1024"), (VALUE,)),
    Bug("an alpha that is no number counts where K = 0", "path", on.DOUBLE,
        "if (s.K == 0) alpha = 0.0f;", "if (s.K < 0) alpha = 0.0f;", (POISON,)),
    Bug("K counted in 16 bits", "path", on.NAIVE_RR, "k < s.K;", "k < static_cast<unsigned short>(s.K);", (VALUE,)),
    Bug("products counted in 8 bits", "path", on.NAIVE_BATCH, "A += matrix * s.stride_a;",
        "A += static_cast<unsigned char>(matrix) * s.stride_a;", (VALUE,)),
    Bug("products counted in 16 bits", "path", on.NAIVE_BATCH, "B += matrix * s.stride_b;",
        "B += static_cast<unsigned short>(matrix) * s.stride_b;", (VALUE,)),
    Bug("a way of its own for K in a range", "path", on.NAIVE_RR, NAIVE_FMA,
        _halved_where("s.K > 300 && s.K < 900"), (VALUE,)),
    # What a CPU hides
    Bug("a shared tile as aligned as its elements", "misaligned", on.SINGLE, "__shared__ __align__(16) TileB Bs",
        "__shared__ TileB Bs", (MISALIGNED,)),
    Bug("shared matrices as aligned as their elements", "misaligned", on.SMALL_BATCH,
        "__shared__ __align__(16) MatrixA As", "__shared__ MatrixA As", (MISALIGNED,)),
    Bug("C read by a cache that misses stores", "cache", on.NAIVE_RR, NAIVE_STORE,
        "alpha * acc; if (beta != 0.0f) *to = fmaf(beta, __ldg(to), 0.0f)", (STALE_READ, VALUE)),
)  # fmt: skip
