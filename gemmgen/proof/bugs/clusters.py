"""Bugs of kernels whose blocks run in clusters: barriers, multicast targets, and early exits."""

from __future__ import annotations

from gemmgen.proof.bugs.base import DEADLOCK, POISON, RACE_C, VALUE, Bug, Diagnosis
from gemmgen.proof.bugs.tensor_subjects import WGMMA_PAIR, WGMMA_PAIR_CR, WGMMA_PAIR_CUT
from gemmgen.proof.bugs.wgmma import BYTES, NOT_FENCED, TOO_MANY, UNDER_WAY

LEAVES = Diagnosis("crash", "arrives at .* (which has exited|nothing orders that before block)")
NO_SUCH_BLOCK = Diagnosis("crash", "of rank . in a cluster of 2")

CLUSTER_BUGS = (
    Bug("the blocks of a cluster start apart", "cluster", WGMMA_PAIR, "cluster_sync(); grid_dependency_wait();",
        "__syncthreads(); grid_dependency_wait();", (NOT_FENCED,)),
    Bug("a block exits while the other one arrives", "cluster", WGMMA_PAIR, "cluster_sync(); }", "}", (LEAVES,)),
    Bug("a stage is empty for its own consumers alone", "arrivals", WGMMA_PAIR, "stage], CLUSTER * CONSUMERS)",
        "stage], CONSUMERS)", (TOO_MANY, UNDER_WAY)),
    Bug("a stage is empty without the other block's consumers", "arrivals", WGMMA_PAIR_CR, "rank < CLUSTER",
        "rank == cluster_rank()", (UNDER_WAY,), also=("stage], CLUSTER * CONSUMERS)", "stage], CONSUMERS)")),
    Bug("both arrivals at the first block", "arrivals", WGMMA_PAIR, "empty[stage], rank)", "empty[stage], 0)",
        (TOO_MANY, DEADLOCK, UNDER_WAY)),
    Bug("arrivals at a block that the cluster has not", "arrivals", WGMMA_PAIR_CR,
        "empty[stage], rank)", "empty[stage], rank + 1)", (NO_SUCH_BLOCK,)),
    Bug("a stage is released to the cluster while its products are under way", "release", WGMMA_PAIR_CR,
        "release_stage(shared, previous); previous = ring.stage;", "release_stage(shared, previous = ring.stage);",
        (UNDER_WAY, TOO_MANY, DEADLOCK)),
    Bug("B goes to the first block alone", "multicast", WGMMA_PAIR, "(1 << CLUSTER) - 1", "1", (DEADLOCK,)),
    Bug("B goes to the other block alone", "multicast", WGMMA_PAIR_CR, "(1 << CLUSTER) - 1", "1 << (1 - rank)",
        (DEADLOCK,)),
    Bug("B goes to more blocks than there are", "multicast", WGMMA_PAIR_CR, "(1 << CLUSTER) - 1", "(2 << CLUSTER) - 1",
        (NO_SUCH_BLOCK,)),
    Bug("both blocks bring the same part of B", "multicast", WGMMA_PAIR, "part = rank * PART_B", "part = 0",
        (UNDER_WAY,)),
    Bug("B's parts in each other's place", "multicast", WGMMA_PAIR, "k, tile.n + part", "k, tile.n + PART_B - part",
        (VALUE,)),
    Bug("B's parts in each other's place, MN-major", "multicast", WGMMA_PAIR_CR, "k + part", "k + PART_B - part",
        (VALUE,)),
    Bug("a block awaits its own part of B", "bytes", WGMMA_PAIR, "+ sizeof(shared.b[0]))",
        "+ sizeof(shared.b[0]) / CLUSTER)", (BYTES, UNDER_WAY)),
    Bug("a cluster's blocks with one tile", "swapped index", WGMMA_PAIR, "+ rank * BM", "+ BM", (RACE_C, POISON)),
    Bug("clusters as far apart as blocks", "stride", WGMMA_PAIR, "number += gridDim.x / CLUSTER",
        "number += gridDim.x", (POISON, VALUE), count=2),
    # Tiles that edges cut
    Bug("a box of a tile that lies wholly outside", "tail", WGMMA_PAIR_CUT, "if (lines_a > 0)", "if (true)",
        (BYTES, UNDER_WAY, DEADLOCK)),
    Bug("a part of B that lies wholly outside", "tail", WGMMA_PAIR_CUT, "if (part < lines_b)", "if (true)",
        (BYTES, UNDER_WAY, DEADLOCK)),
    Bug("the tail's box for a whole part of a tile that is cut", "tail", WGMMA_PAIR_CUT, "lines_b - part < PART_B",
        "lines_b < BN", (BYTES, UNDER_WAY, DEADLOCK)),
)  # fmt: skip
