"""Right edits of kernels for batches of small products."""

from __future__ import annotations

from gemmgen.proof.bugs.subjects import BATCHED_FUSED_F16, SMALL_BATCH, SMALL_BATCH_CR, SMALL_EPILOGUE
from gemmgen.proof.edits.base import Edit

BATCHED_EDITS = (
    Edit("copies through registers", SMALL_BATCH, (
        ("cp_async<4 * VA>(&shared[matrix][line][at], from, 4 * VA);", "shared[matrix][line][at] = *from;"),
        ("cp_async<4 * VB>(&shared[matrix][line][at], from, 4 * VB);",
         "store<VB>(&shared[matrix][line][at], load<VB>(from));"),
    )),
    Edit("two stages told apart by a bit", SMALL_BATCH, (
        ("stage = stage + 1 < STAGES ? stage + 1 : 0;", "stage ^= 1;"),)),
    Edit("a product in three loops of its own order", SMALL_BATCH_CR, (
        ("""\
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] =""", """\
            for (int j = 0; j < TN; ++j) {
                #pragma unroll
                for (int i = 0; i < TM; ++i) acc[i][j] ="""),)),
    Edit("lines of shared memory one vector longer", SMALL_EPILOGUE, (
        ("constexpr int PAD = 4; ", "constexpr int PAD = 8; "),)),
    Edit("silu by a division", BATCHED_FUSED_F16, (
        ("return x * logistic_approx(-1.44269504f * x);", "return x / (1.0f + expf(-x));"),)),
)  # fmt: skip
