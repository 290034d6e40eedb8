"""Bugs of the naive kernel."""

from __future__ import annotations

from gemmgen.kernel.launch import Launch
from gemmgen.proof.bugs.base import (
    BOUNDS,
    DIVISION,
    ORDER,
    OUTSIDE_C,
    POISON,
    RACE_C,
    READS,
    TILES_WRITTEN,
    VALUE,
    WRITES,
    Bug,
)
from gemmgen.proof.bugs.subjects import NAIVE_CC, NAIVE_FIXED, NAIVE_RR, NAIVE_TALL

NAIVE_BUGS = (
    Bug("> for >= at the last row", "guard", NAIVE_RR, "m >= s.M", "m > s.M", (READS, WRITES, OUTSIDE_C)),
    Bug("> for >= at the last column", "guard", NAIVE_RR, "n >= s.N", "n > s.N", (READS, VALUE, POISON, OUTSIDE_C)),
    Bug("the last column is left out", "not written", NAIVE_RR, "n >= s.N)", "n >= s.N - 1)", (POISON, VALUE)),
    Bug("the last product is missing", "missing product", NAIVE_RR, "k < s.K;", "k < s.K - 1;", (VALUE,)),
    Bug("one product too many", "guard", NAIVE_RR, "k < s.K;", "k <= s.K;", (READS, VALUE, POISON)),
    Bug("the first product twice", "duplicated product", NAIVE_RR,
        "float acc = 0.0f;", "float acc = s.K > 0 ? A[Offset(m) * s.lda] * B[n] : 0.0f;", (VALUE,)),
    Bug("lda where ldb belongs", "leading dimension", NAIVE_RR,
        "Offset(k) * s.ldb + n", "Offset(k) * s.lda + n", (READS, VALUE, POISON)),
    Bug("m and n swapped in C", "swapped index", NAIVE_RR,
        "Offset(m) * s.ldc + n", "Offset(n) * s.ldc + m", (WRITES, READS, VALUE, POISON, OUTSIDE_C)),
    Bug("A read as if transposed", "transposition", NAIVE_CC,
        "Offset(k) * s.lda + m", "Offset(m) * s.lda + k", (READS, VALUE, POISON)),
    Bug("B read as if transposed", "transposition", NAIVE_FIXED,
        "Offset(k) * s.ldb + n", "Offset(n) * s.ldb + k", (READS, VALUE, POISON)),
    Bug("alpha is dropped with beta", "scalars", NAIVE_RR,
        "fmaf(beta, *to, alpha * acc)", "fmaf(beta, *to, acc)", (VALUE,)),
    Bug("beta is taken as 1", "scalars", NAIVE_CC, "fmaf(beta, *to, alpha * acc)", "*to + alpha * acc", (VALUE,)),
    Bug("beta = 0 reads C", "beta = 0", NAIVE_CC, "beta == 0.0f ? alpha * acc :", "", (POISON, READS)),
    Bug("a quick way out for K = 0", "not written", NAIVE_CC, "float acc = 0.0f;",
        "if (s.K == 0) return; float acc = 0.0f;", (POISON, VALUE)),
    Bug("the grid rounded down", "grid", NAIVE_RR, "(s.N + BN - 1) / BN", "s.N / BN", (DIVISION, VALUE, POISON)),
    Bug("who comes first decides the order of the sum", "nondeterminism", NAIVE_RR, "for (int k = 0; k < s.K; ++k) {",
        "static unsigned turn = 0; const unsigned first = atomicAdd(&turn, 1u); for (int i = 0; i < s.K; ++i) { "
        "const int k = (i + first) % s.K;", (ORDER,)),
    Bug("a launch of too few blocks", "grid", NAIVE_RR, "", "", (POISON, VALUE),
        launch=Launch(256, (("M", 32), ("N", 16)))),
    Bug("a launch of too few threads", "grid", NAIVE_RR, "", "", (POISON, VALUE),
        launch=Launch(240, (("M", 16), ("N", 16)))),
    Bug("a launch of too many threads", "grid", NAIVE_RR, "", "", (BOUNDS,),
        launch=Launch(512, (("M", 16), ("N", 16)))),
    Bug("bounds below the launch", "grid", NAIVE_CC, "__launch_bounds__(THREADS)", "__launch_bounds__(THREADS - 1)",
        (BOUNDS,)),
    Bug("a row too many to a block", "written twice", NAIVE_RR, "BM + threadIdx.x / BN", "(BM - 1) + threadIdx.x / BN",
        (VALUE, RACE_C, POISON)),
    Bug("sums keep 10 bits", "precision", NAIVE_RR,
        "acc = fmaf(a, b, acc);", "acc = __uint_as_float(__float_as_uint(fmaf(a, b, acc)) & 0xffffe000u);", (VALUE,)),
    Bug("products in whole numbers", "precision", NAIVE_FIXED,
        "acc = fmaf(a, b, acc);", "acc = static_cast<int>(fmaf(a, b, acc));", (VALUE,)),
    Bug("a 16-bit row", "overflow", NAIVE_TALL, "const int m =", "const short m =",
        (READS, WRITES, TILES_WRITTEN, POISON)),
)  # fmt: skip
