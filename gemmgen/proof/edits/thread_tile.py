"""Right edits of kernels whose threads compute tiles straight from global memory."""

from __future__ import annotations

from gemmgen.proof.bugs.subjects import THREAD_TILE_CC, THREAD_TILE_RR
from gemmgen.proof.edits.base import Edit

THREAD_TILE_EDITS = (
    Edit("what lies beyond the edge counts as zero", THREAD_TILE_RR, (
        ("const int m = min(first_m + i * STEP_M, s.M - 1);", "const int m = first_m + i * STEP_M;"),
        ("a[i] = A[", "a[i] = m >= s.M ? 0.0f : A["))),
    Edit("columns of a thread's tile outermost", THREAD_TILE_CC, (("""\
        for (int i = 0; i < TM; ++i)
            #pragma unroll
            for (int j = 0; j < TN; ++j) acc""", """\
        for (int j = 0; j < TN; ++j)
            #pragma unroll
            for (int i = 0; i < TM; ++i) acc"""),)),
)  # fmt: skip
