"""Right edits of kernels that multiply by WMMA."""

from __future__ import annotations

from gemmgen.proof.bugs.subjects import WMMA_CR, WMMA_RC
from gemmgen.proof.edits.base import Edit

WMMA_EDITS = (
    Edit("columns of fragments outermost", WMMA_RC, (("""\
            for (int i = 0; i < FRAGMENTS_M; ++i) {
                #pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) wmma_row_col_bf16""", """\
            for (int j = 0; j < FRAGMENTS_N; ++j) {
                #pragma unroll
                for (int i = 0; i < FRAGMENTS_M; ++i) wmma_row_col_bf16"""),)),
    Edit("the block's warps store their sums in step", WMMA_CR, (
        ("__syncwarp(); for (int element = lane;", "__syncthreads(); for (int element = lane;"),)),
    Edit("lines of A four banks further on", WMMA_CR, (("PITCH_A = BM + 8;", "PITCH_A = BM + 16;"),)),
)  # fmt: skip
