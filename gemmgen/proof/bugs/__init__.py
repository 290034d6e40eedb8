"""The catalogue of seeded bugs: edits of rendered kernels, each of which makes the kernel wrong.

`gemmgen selfcheck` plants them one by one and compares the verifier's result with the expectation here. An edit
replaces text of the `.cu` that a person could have mistyped, or a launch that a caller could have got wrong.
"""

from __future__ import annotations

from gemmgen.proof.bugs.accesses import ACCESS_BUGS
from gemmgen.proof.bugs.base import VALUE, Bug, Diagnosis, Subject
from gemmgen.proof.bugs.batches import BATCH_BUGS, BATCHED_MMA_BUGS
from gemmgen.proof.bugs.branches import BRANCH_BUGS
from gemmgen.proof.bugs.clusters import CLUSTER_BUGS
from gemmgen.proof.bugs.data import DATA_BUGS
from gemmgen.proof.bugs.directed import DIRECTED_BUGS
from gemmgen.proof.bugs.epilogues import EPILOGUE_BUGS, GATED_BUGS
from gemmgen.proof.bugs.extents import EXTENT_BUGS, RING_BUGS
from gemmgen.proof.bugs.grids import GRID_BUGS
from gemmgen.proof.bugs.groups import GROUP_BUGS
from gemmgen.proof.bugs.images import IMAGE_BUGS
from gemmgen.proof.bugs.inputs import INPUT_BUGS
from gemmgen.proof.bugs.mma import MMA_BUGS
from gemmgen.proof.bugs.naive import NAIVE_BUGS, THREAD_TILE_BUGS
from gemmgen.proof.bugs.pointers import POINTER_BUGS
from gemmgen.proof.bugs.ptx import PTX_BUGS
from gemmgen.proof.bugs.scaled import BLOCKS_BUGS, CODES_BUGS
from gemmgen.proof.bugs.simt import AHEAD_BUGS, ASYNC_BUGS, DOUBLE_BUGS, SINGLE_BUGS, SLICED_BUGS, TURN_BUGS
from gemmgen.proof.bugs.skinny import SKINNY_BUGS
from gemmgen.proof.bugs.stream import MOVED_BUGS, REMAINDER_BUGS, STREAM_BUGS
from gemmgen.proof.bugs.subjects import NAIVE_RR
from gemmgen.proof.bugs.types import F64_BUGS, TYPE_BUGS
from gemmgen.proof.bugs.wgmma import PIECES_BUGS, WGMMA_BUGS
from gemmgen.proof.bugs.wgmma_split import WGMMA_SPLIT_BUGS
from gemmgen.proof.bugs.wmma import WMMA_BUGS

# Found by what a verification ends with: the first ones here, as tests that take the last bug of a kind meet others.
FOUND_LATE = (*ACCESS_BUGS, *EXTENT_BUGS, *GRID_BUGS, *RING_BUGS)
BUGS: tuple[Bug, ...] = (
    *FOUND_LATE,
    *MMA_BUGS, *WGMMA_BUGS, *WGMMA_SPLIT_BUGS, *PIECES_BUGS, *CLUSTER_BUGS, *CODES_BUGS, *BLOCKS_BUGS, *GROUP_BUGS,
    *IMAGE_BUGS, *WMMA_BUGS,
    *BATCHED_MMA_BUGS,
    *NAIVE_BUGS, *THREAD_TILE_BUGS, *SINGLE_BUGS, *DOUBLE_BUGS, *ASYNC_BUGS, *AHEAD_BUGS, *TURN_BUGS, *SLICED_BUGS,
    *SKINNY_BUGS,
    *F64_BUGS, *BATCH_BUGS, *POINTER_BUGS, *STREAM_BUGS, *MOVED_BUGS, *REMAINDER_BUGS,
    *EPILOGUE_BUGS, *TYPE_BUGS, *DATA_BUGS, *DIRECTED_BUGS, *BRANCH_BUGS, *GATED_BUGS, *INPUT_BUGS, *PTX_BUGS,
)  # fmt: skip
SUBJECTS: tuple[Subject, ...] = tuple(dict.fromkeys(bug.subject for bug in (*BUGS[len(FOUND_LATE) :], *FOUND_LATE)))

__all__ = ["BUGS", "NAIVE_RR", "POINTER_BUGS", "SUBJECTS", "VALUE", "Bug", "Diagnosis", "Subject"]
