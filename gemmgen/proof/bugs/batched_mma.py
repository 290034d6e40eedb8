"""Bugs of kernels in which a warp multiplies a small product on tensor cores."""

from __future__ import annotations

from gemmgen.proof.bugs.base import MISALIGNED, POISON, RACE_C, READS, VALUE, WRITES, Bug
from gemmgen.proof.bugs.subjects import WARP_PRODUCTS, WARP_PRODUCTS_CC

BATCHED_MMA_BUGS = (
    Bug("warps beyond the batch", "guard", WARP_PRODUCTS, "if (product >= s.batch) return;", "", (READS, WRITES)),
    Bug("the batch's last product is left out", "guard", WARP_PRODUCTS, "product >= s.batch", "product >= s.batch - 1",
        (POISON, VALUE)),
    Bug("the last product that 16 bits count is left out", "batch", WARP_PRODUCTS, "product >= s.batch",
        "product >= s.batch || product == 65535", (POISON, VALUE)),
    Bug("blocks of one product", "batch", WARP_PRODUCTS, "blockIdx.x * WARPS + threadIdx.x", "blockIdx.x + threadIdx.x",
        (RACE_C, POISON, VALUE)),
    Bug("odd columns are the even ones", "swapped index", WARP_PRODUCTS, "0x7632", "0x5410", (VALUE,)),
    Bug("pairs along k of one k", "swapped index", WARP_PRODUCTS, "(even + s.ldb + i)", "(even + i)", (VALUE,)),
    Bug("k of B in shorter runs than of A", "swapped index", WARP_PRODUCTS, "k + lane % 4 * (BK / 4), b",
        "k + lane % 4 * (BK / 8), b", (VALUE,)),
    Bug("a lane's columns as the instruction has them", "swapped index", WARP_PRODUCTS,
        "acc[i / 2][j % MMAS_N][i % 2 * 2 + j / MMAS_N]", "acc[i / 2][j / 2][i % 2 * 2 + j % 2]", (VALUE,)),
    Bug("columns two by two", "swapped index", WARP_PRODUCTS_CC, "lane % 4 * TN}", "lane % 4 * 2}",
        (RACE_C, VALUE, POISON, MISALIGNED)),
    Bug("rows g + 8 and k + 8 of a fragment change places", "swapped index", WARP_PRODUCTS_CC,
        "a[2 * i + 1][2 * step], a[2 * i][2 * step + 1]", "a[2 * i][2 * step + 1], a[2 * i + 1][2 * step]", (VALUE,)),
    Bug("a k tile's last step is left out", "missing product", WARP_PRODUCTS_CC, "step < K_STEPS;",
        "step < K_STEPS - 1;", (VALUE,)),
    Bug("every k tile is the first", "missing product", WARP_PRODUCTS_CC, "thread.m, k + lane % 4",
        "thread.m, lane % 4", (VALUE,)),
    Bug("accesses wider than B's lines are aligned", "misaligned", WARP_PRODUCTS_CC, "constexpr int VB = 4;",
        "constexpr int VB = 8;", (MISALIGNED,)),
)  # fmt: skip
