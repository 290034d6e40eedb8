"""Right edits of rendered kernels, of the kinds that people make while optimising: the verifier must pass each of them.

`gemmgen selfcheck` tries them with the correct kernels: one that is refused is a false alarm.
"""

from __future__ import annotations

from gemmgen.proof.edits.base import Edit
from gemmgen.proof.edits.batched import BATCHED_EDITS, BATCHED_MMA_EDITS
from gemmgen.proof.edits.codes import CODES_EDITS
from gemmgen.proof.edits.inputs import INPUT_EDITS
from gemmgen.proof.edits.mma import MMA_EDITS, WMMA_EDITS
from gemmgen.proof.edits.naive import NAIVE_EDITS, THREAD_TILE_EDITS
from gemmgen.proof.edits.ptx import PTX_EDITS
from gemmgen.proof.edits.simt import SIMT_EDITS
from gemmgen.proof.edits.skinny import SKINNY_EDITS
from gemmgen.proof.edits.wgmma import WGMMA_EDITS

EDITS: tuple[Edit, ...] = (
    *NAIVE_EDITS,
    *THREAD_TILE_EDITS,
    *INPUT_EDITS,
    *CODES_EDITS,
    *SIMT_EDITS,
    *SKINNY_EDITS,
    *BATCHED_EDITS,
    *MMA_EDITS,
    *WGMMA_EDITS,
    *WMMA_EDITS,
    *BATCHED_MMA_EDITS,
    *PTX_EDITS,
)

__all__ = ["EDITS", "Edit"]
