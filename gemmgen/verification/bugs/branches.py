"""Bugs behind a condition that random sizes and scalars seldom meet: they are sought for it."""

from __future__ import annotations

from gemmgen.verification.bugs.base import POISON, RACE, VALUE, Bug
from gemmgen.verification.bugs.subjects import (
    ACROSS,
    ACROSS_SPLIT,
    ASYNC,
    DOUBLE,
    NAIVE_BATCH,
    NAIVE_F64,
    NAIVE_RR,
    NAIVE_S8,
    SMALL_BATCH,
    STREAM,
)

LOADS = "if (depth > 0) {                 // these loads run during the FMAs of this k tile"
WRONG = (VALUE, POISON)

BRANCH_BUGS = (
    Bug("a range of K in the middle sums one k less", "branch", NAIVE_RR,
        "k < s.K;", "k < s.K - (s.K > 340 && s.K < 350);", WRONG),
    Bug("K that 37 divides sums one k less", "branch", NAIVE_RR,
        "k < s.K;", "k < s.K - (s.K % 37 == 0 && s.K > 0);", WRONG),
    Bug("one remainder of K by 64 sums one k twice", "branch", NAIVE_F64,
        "k < s.K;", "k < s.K - (s.K % 64 == 41);", WRONG),
    Bug("an alpha of 1.25 is taken for 1", "branch", NAIVE_RR,
        "float acc = 0.0f;", "float acc = 0.0f;\n    if (alpha == 1.25f) alpha = 1.0f;", WRONG),
    Bug("alphas between 1000 and 1001 are cut", "branch", NAIVE_BATCH,
        "float acc = 0.0f;", "float acc = 0.0f;\n    if (alpha > 1000.0f && alpha < 1001.0f) alpha = 1000.0f;", WRONG),
    Bug("an integer beta of 96 is taken for 97", "branch", NAIVE_S8,
        "int acc = 0;", "int acc = 0;\n    if (beta == 96) beta = 97;", WRONG),
    Bug("rows twice as far apart as they are long", "branch", NAIVE_RR,
        "float acc = 0.0f;", "float acc = s.lda == 2 * s.K + 6 ? 1.0f : 0.0f;", WRONG),
    Bug("the column of tiles 444", "branch", NAIVE_RR,
        "float acc = 0.0f;", "float acc = tile_n == 444 ? 1.0f : 0.0f;", WRONG),
    Bug("product 96 of a batch", "branch", NAIVE_BATCH,
        "float acc = 0.0f;", "float acc = matrix == 96 ? 1.0f : 0.0f;", WRONG),
    Bug("more than 300 products in a batch", "branch", SMALL_BATCH,
        "if (product < s.batch) {", "if (product < s.batch && (s.batch < 300 || product > 0)) {", WRONG),
    Bug("the k tile 40 is not loaded", "branch", DOUBLE,
        LOADS, LOADS.replace("depth > 0", "depth > 0 && k != 39 * BK"), (*WRONG, RACE)),
    Bug("a barrier is left out where K is 1000 and more", "branch", ASYNC,
        "__syncthreads();              // and all", "if (s.K < 1000) __syncthreads();  // and all", (*WRONG, RACE)),
    Bug("a fast path for 512 columns takes none of the rest", "branch", ACROSS,
        "for (int k = begin; k < end; k += BK) {", "for (int k = begin; k < end - BK * (s.N % 512 == 0); k += BK) {",
        WRONG),
    Bug("long parts of K lose their last chunk", "branch", ACROSS_SPLIT,
        "for (int k = begin; k < end; k += BK) {", "for (int k = begin; k < end - BK * (end - begin > 700); k += BK) {",
        WRONG),
    Bug("a part of 100 k tiles and more", "branch", STREAM,
        "for (int k = 0; k < extent; k += BK) {", "for (int k = 0; k < extent - BK * (k_tiles > 99); k += BK) {",
        WRONG),
)  # fmt: skip
