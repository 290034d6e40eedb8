"""Right edits of kernels in which a warp multiplies a small product on tensor cores."""

from __future__ import annotations

from gemmgen.proof.bugs.subjects import WARP_PRODUCTS, WARP_PRODUCTS_CC
from gemmgen.proof.edits.base import Edit

BATCHED_MMA_EDITS = (
    Edit("pairs of even columns by a mask and a shift", WARP_PRODUCTS, (
        ("__byte_perm(first.at[v], second.at[v], 0x5410)", "(first.at[v] & 0xffffu) | second.at[v] << 16"),)),
    Edit("k tiles from the last to the first", WARP_PRODUCTS_CC, (
        ("for (int k = 0; k < Shape::K; k += BK) {", "for (int k = Shape::K - BK; k >= 0; k -= BK) {"),)),
)  # fmt: skip
