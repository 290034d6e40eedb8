"""Right edits of kernels for batches of small products, on CUDA or tensor cores."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.bugs import tensor_subjects as tc
from gemmgen.proof.edits.base import Edit

BATCHED_EDITS = (
    Edit("copies through registers", on.SMALL_BATCH, (
        ("cp_async<4 * VA>(&shared[matrix][line][at], from, 4 * VA);", "shared[matrix][line][at] = *from;"),
        ("cp_async<4 * VB>(&shared[matrix][line][at], from, 4 * VB);",
         "store<VB>(&shared[matrix][line][at], load<VB>(from));"),
    )),
    Edit("two stages told apart by a bit", on.SMALL_BATCH, (
        ("stage = stage + 1 < STAGES ? stage + 1 : 0;", "stage ^= 1;"),)),
    Edit("a product in three loops of its own order", on.SMALL_BATCH_CR, (
        ("""\
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] =""", """\
            for (int j = 0; j < TN; ++j) {
                #pragma unroll
                for (int i = 0; i < TM; ++i) acc[i][j] ="""),)),
    Edit("lines of shared memory one vector longer", on.SMALL_EPILOGUE, (
        ("constexpr int PAD = 4; ", "constexpr int PAD = 8; "),)),
    Edit("silu by a division", on.BATCHED_FUSED_F16, (
        ("return x * logistic_approx(-1.44269504f * x);", "return x / (1.0f + expf(-x));"),)),
)  # fmt: skip

BATCHED_MMA_EDITS = (
    Edit("pairs of even columns by a mask and a shift", tc.WARP_PRODUCTS, (
        ("__byte_perm(first.at[v], second.at[v], 0x5410)", "(first.at[v] & 0xffffu) | second.at[v] << 16"),)),
    Edit("k tiles from the last to the first", tc.WARP_PRODUCTS_CC, (
        ("for (int k = 0; k < Shape::K; k += BK) {", "for (int k = Shape::K - BK; k >= 0; k -= BK) {"),)),
)  # fmt: skip
