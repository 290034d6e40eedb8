"""Bugs behind a condition that random sizes and scalars seldom meet, so that the verifier must search for it."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.bugs import tensor_subjects as tc
from gemmgen.proof.bugs.base import POISON, RACE, READS, VALUE, Bug

WRONG = (VALUE, POISON)

BRANCH_BUGS = (
    Bug("a range of K in the middle sums one k less", "branch", on.NAIVE_RR,
        "k < s.K;", "k < s.K - (s.K > 340 && s.K < 350);", WRONG),
    Bug("K that 37 divides sums one k less", "branch", on.NAIVE_RR,
        "k < s.K;", "k < s.K - (s.K % 37 == 0 && s.K > 0);", WRONG),
    Bug("one remainder of K by 64 sums one k twice", "branch", on.NAIVE_F64,
        "k < s.K;", "k < s.K - (s.K % 64 == 41);", WRONG),
    Bug("an alpha of 1.25 is taken for 1", "branch", on.NAIVE_RR, "float acc = 0.0f;",
        "float acc = 0.0f; if (alpha == 1.25f) alpha = 1.0f;", WRONG),
    Bug("alphas between 1000 and 1001 are cut", "branch", on.NAIVE_BATCH, "float acc = 0.0f;",
        "float acc = 0.0f; if (alpha > 1000.0f && alpha < 1001.0f) alpha = 1000.0f;", WRONG),
    Bug("an integer beta of 96 is taken for 97", "branch", on.NAIVE_S8, "int acc = 0;",
        "int acc = 0; if (beta == 96) beta = 97;", WRONG),
    Bug("the label of a switch by K", "branch", on.NAIVE_RR, "float acc = 0.0f;",
        "float acc = 0.0f; switch (s.K) { case 345: acc = 1.0f; break; default: break; }", WRONG),
    Bug("the label of a switch by alpha as an integer", "branch", on.NAIVE_S8, "int acc = 0;",
        "int acc = 0; switch (alpha) { case 96: beta = 1; break; default: break; }", (*WRONG, READS)),
    Bug("one block at the kernel's own K", "branch", on.DOUBLE_BIG, "float* const c_tile =",
        "if (blockIdx.x == 317 && s.K > 500) acc[0][0] += 1.0f; float* const c_tile =", (VALUE,)),
    Bug("one row of tiles at the kernel's own K", "branch", on.NAIVE_TALL,
        "float acc = 0.0f;", "float acc = tile_m == 1717 && s.K == 128 ? 1.0f : 0.0f;", (VALUE,)),
    Bug("rows twice as far apart as they are long", "branch", on.NAIVE_RR,
        "float acc = 0.0f;", "float acc = s.lda == 2 * s.K + 6 ? 1.0f : 0.0f;", WRONG),
    Bug("the column of tiles 444", "branch", on.NAIVE_RR,
        "float acc = 0.0f;", "float acc = tile_n == 444 ? 1.0f : 0.0f;", WRONG),
    Bug("product 96 of a batch", "branch", on.NAIVE_BATCH,
        "float acc = 0.0f;", "float acc = matrix == 96 ? 1.0f : 0.0f;", WRONG),
    Bug("more than 300 products in a batch", "branch", on.SMALL_BATCH,
        "if (product < s.batch) {", "if (product < s.batch && (s.batch < 300 || product > 0)) {", WRONG),
    Bug("the k tile 40 is not loaded", "branch", on.DOUBLE, "if (depth > 0) { a_tile += a_step;",
        "if (depth > 0 && k != 39 * BK) { a_tile += a_step;", (*WRONG, RACE)),
    Bug("a barrier is left out where K is 1000 and more", "branch", on.ASYNC, "__syncthreads();",
        "if (s.K < 1000) __syncthreads();", (*WRONG, RACE)),
    Bug("a fast path for 512 columns takes none of the rest", "branch", on.ACROSS,
        "for (int k = begin; k < end; k += BK) {", "for (int k = begin; k < end - BK * (s.N % 512 == 0); k += BK) {",
        WRONG),
    Bug("long parts of K lose their last chunk", "branch", on.ACROSS_SPLIT, "for (int k = begin; k < end; k += BK) {",
        "for (int k = begin; k < end - BK * (end - begin > 700); k += BK) {", WRONG),
    Bug("whole tiles of even sizes take beta's magnitude", "branch", tc.MMA_RC, "store_c(c_tile, s, rows,",
        "if (rows >= BM && columns >= BN && s.M % 256 == 0) beta = fabsf(beta); store_c(c_tile, s, rows,", WRONG),
    Bug("products of few bits where K is 64", "branch", on.NAIVE_BF16, "acc = fmaf(a, b, acc);",
        "acc = s.K == 64 ? acc + float(BF16(a * b)) : fmaf(a, b, acc);", WRONG),
    Bug("8 of K behind whole k tiles are left out", "branch", tc.WGMMA_RC, "wgmma_fence(); multiply_stage(",
        "wgmma_fence(); if (!(s.K - k == 8 && k > 0)) multiply_stage(", WRONG),
    Bug("a denormal alpha is 0", "branch", tc.WGMMA_RC, "thread, sums, alpha, beta);",
        "thread, sums, fabsf(alpha) < 1.2e-38f ? 0.0f : alpha, beta);", WRONG),
    Bug("a part of 100 k tiles and more", "branch", on.STREAM, "for (int k = 0; k < extent; k += BK) {",
        "for (int k = 0; k < extent - BK * (k_tiles > 99); k += BK) {", WRONG),
)  # fmt: skip
