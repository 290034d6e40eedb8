"""Bugs of kernels that multiply by WMMA: fragments, k tiles, sums on their way to C."""

from __future__ import annotations

from gemmgen.proof.bugs.base import (
    OUTSIDE_C,
    POISON,
    RACE,
    RACE_C,
    READS,
    STALE,
    UNGIVEN,
    VALUE,
    WRITES,
    Bug,
    Diagnosis,
)
from gemmgen.proof.bugs.tensor_subjects import WMMA_CR, WMMA_RC

NOT_ALL_LANES = Diagnosis("crash", "barrier divergence|the whole warp|in the mask")
UNALIGNED = Diagnosis("crash", "32 does not divide|no multiple of 16 bytes apart")
NOT_ONE_MATRIX = Diagnosis("crash", "a wmma of another matrix")
OUTSIDE_SHARED = Diagnosis("crash", "outside shared memory")
NOT_LOADED = Diagnosis("crash", "nobody has loaded")

WMMA_BUGS = (
    # Fragments
    Bug("a fragment within a line's chunk", "misaligned", WMMA_RC, "&As[warp_m + 16 * i][step]",
        "&As[warp_m + 16 * i][step + 8]", (UNALIGNED,)),
    Bug("each lane names its own line", "swapped index", WMMA_RC, "&As[warp_m + 16 * i][step]",
        "&As[warp_m + 16 * i + lane % 16][step]", (UNALIGNED, NOT_ONE_MATRIX)),
    Bug("every step multiplies A's first k", "stage", WMMA_RC, "&As[warp_m + 16 * i][step]", "&As[warp_m + 16 * i][0]",
        (VALUE,)),
    Bug("lines of B as if they were not padded", "leading dimension", WMMA_RC, "[step], PITCH_B)", "[step], BK)",
        STALE),
    Bug("lines of A as long as B's", "leading dimension", WMMA_CR, "16 * i], PITCH_A)", "16 * i], PITCH_B)",
        (*STALE, OUTSIDE_SHARED, READS)),
    Bug("all fragments of B are the first one", "swapped index", WMMA_RC, "[warp_n + 16 * j][step]", "[warp_n][step]",
        (VALUE,)),
    Bug("the last fragment of B is not loaded", "missing product", WMMA_RC, "j < FRAGMENTS_N; ++j) wmma_load_b_col(",
        "j < FRAGMENTS_N - 1; ++j) wmma_load_b_col(", (NOT_LOADED, UNGIVEN, VALUE)),
    Bug("a load by half a warp", "divergence", WMMA_RC, "wmma_load_b_col(b[j],", "if (lane < 16) wmma_load_b_col(b[j],",
        (NOT_ALL_LANES, NOT_LOADED)),
    Bug("products of a column of fragments are left out", "missing product", WMMA_CR,
        "j < FRAGMENTS_N; ++j) wmma_col_row_f16(", "j < FRAGMENTS_N - 1; ++j) wmma_col_row_f16(", (VALUE,)),
    Bug("a column of fragments counts twice", "duplicated product", WMMA_RC, "(acc[i][j], a[i], b[j]);",
        "(acc[i][0], a[i], b[j]);", (VALUE,)),
    # K tiles
    Bug("no barrier before a k tile is multiplied", "barrier", WMMA_RC, "copy_b(B, s, tile_n, k, Bs); __syncthreads();",
        "copy_b(B, s, tile_n, k, Bs);", (RACE,)),
    Bug("no barrier before the next k tile is copied", "barrier", WMMA_CR, "} __syncthreads();", "}", (RACE,)),
    Bug("no zeros behind A's lines", "zero fill", WMMA_RC, "m < s.M && k < s.K ?", "m < s.M ?", (READS, POISON, VALUE)),
    Bug("a row too many of B", "guard", WMMA_CR, "n < s.N && k < s.K ?", "n < s.N && k <= s.K ?",
        (READS, POISON, VALUE)),
    Bug("the last k tile is dropped", "K tail", WMMA_RC, "k < s.K; k += BK", "k + BK <= s.K; k += BK", (VALUE,)),
    Bug("warps have the same columns", "swapped index", WMMA_CR, "warp % (BN / WN) * WN", "0", (RACE_C, VALUE, POISON)),
    # Sums
    Bug("rows beyond the edge of C", "guard", WMMA_RC, "if (m >= s.M || n >= s.N) continue;",
        "if (n >= s.N) continue;", (WRITES, READS, OUTSIDE_C)),
    Bug("sums are read before other lanes have stored them", "warp barrier", WMMA_RC,
        "__syncwarp(); for (int element = lane;", "for (int element = lane;", (RACE,)),
    Bug("sums are stored where lanes still read", "warp barrier", WMMA_RC, "} __syncwarp();", "}", (RACE,)),
    Bug("warps store their sums in one place", "swapped index", WMMA_CR, "wmma_store(sums[warp][0],",
        "wmma_store(sums[0][0],", (RACE, POISON, VALUE)),
    Bug("rows and columns of sums change places", "swapped index", WMMA_RC, "sums[warp][row][column]",
        "sums[warp][column][row]", (VALUE,)),
)  # fmt: skip
