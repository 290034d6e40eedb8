"""Bugs of clusters whose blocks each sum a range of K: how sums meet in shared memory, and who stores which of them."""

from __future__ import annotations

from gemmgen.proof.bugs.base import DEADLOCK, ORDER, PLANNED, POISON, RACE_C, UNWRITTEN, VALUE, Bug, Diagnosis
from gemmgen.proof.bugs.tensor_subjects import WGMMA_SPLIT, WGMMA_SPLIT_PIECES
from gemmgen.proof.bugs.wgmma import IN_FLIGHT, UNDER_WAY

MEET = "cluster_sync();"
FREE = "named_barrier_sync(1 + CONSUMERS, 128 * CONSUMERS);"
NOT_MET = Diagnosis("race", "data race on shared memory")
EXITED = Diagnosis("crash", "reads shared memory of block .*(has exited|nothing orders that before)")
NOT_WAITED = Diagnosis("crash", "before it has waited there|waits at the cluster's barrier")
NO_SUCH_BLOCK = Diagnosis("crash", "of rank . in a cluster of")

WGMMA_SPLIT_BUGS = (
    Bug("sums are read before the other blocks have stored theirs", "cluster", WGMMA_SPLIT, MEET,
        FREE, (NOT_MET, UNWRITTEN)),
    Bug("a block exits while others read its sums", "cluster", WGMMA_SPLIT, "} cluster_wait();", "}", (EXITED,)),
    Bug("a block has read before it reads", "cluster", WGMMA_SPLIT_PIECES,
        "add_up(shared, rank, part); cluster_arrive();", "cluster_arrive(); add_up(shared, rank, part);", (EXITED,)),
    Bug("the cluster's second barrier is not come to", "cluster", WGMMA_SPLIT_PIECES,
        "add_up(shared, rank, part); cluster_arrive();", "add_up(shared, rank, part);", (NOT_WAITED,)),
    Bug("sums overwrite what another consumer multiplies", "named barrier", WGMMA_SPLIT, FREE, "", (UNDER_WAY,)),
    Bug("sums leave while products are under way", "wait", WGMMA_SPLIT,
        "wgmma_wait<0>(); release_stage(shared, previous); }", "release_stage(shared, previous); }",
        (IN_FLIGHT, UNDER_WAY)),
    Bug("consumers leave their sums in one place", "swapped index", WGMMA_SPLIT, "/ 4 * 128 * CONSUMERS +",
        "/ 4 * 128 +", (NOT_MET, VALUE, UNWRITTEN)),
    Bug("every block stores the first columns", "swapped index", WGMMA_SPLIT, "+ rank * PART_N +", "+",
        (RACE_C, POISON, VALUE)),
    Bug("a block adds up the first columns", "swapped index", WGMMA_SPLIT, "rank * (PART_N / 2) + r", "r", (VALUE,)),
    Bug("sums that lie further than others stored them", "guard", WGMMA_SPLIT_PIECES, "rank * (PART_N / 2) + r",
        "(rank + 1) * (PART_N / 2) + r", (UNWRITTEN, VALUE, POISON, NOT_MET)),
    Bug("a block's sums are added twice", "duplicated product", WGMMA_SPLIT, "+ r), peer, sums);",
        "+ r), peer == 0 ? 1 : peer, sums);", (VALUE,)),
    Bug("a block adds up its own sums alone", "missing product", WGMMA_SPLIT, "+ r), peer, sums);",
        "+ r), rank, sums);", (VALUE,)),
    Bug("the last block's sums are left out", "missing product", WGMMA_SPLIT_PIECES, "peer < SPLIT; ++peer",
        "peer + 1 < SPLIT; ++peer", (VALUE,)),
    Bug("sums of a block that the cluster has not", "guard", WGMMA_SPLIT_PIECES, "+ r), peer, sums);",
        "+ r), peer + 1, sums);", (NO_SUCH_BLOCK,)),
    Bug("a block's own sums come first", "order", WGMMA_SPLIT, "+ r), peer, sums);",
        "+ r), (peer + rank) % SPLIT, sums);", (ORDER, PLANNED), bits=True),
    Bug("ranges of K overlap by a k tile", "duplicated product", WGMMA_SPLIT, "min(K, (split + 1) * extent)",
        "min(K, (split + 1) * extent + BK)", (VALUE,)),
    Bug("ranges of K leave a k tile out", "missing product", WGMMA_SPLIT, "min(K, split * extent)",
        "min(K, split * extent + (split > 0) * BK)", (VALUE,)),
    Bug("blocks of a cluster with tiles of their own", "swapped index", WGMMA_SPLIT,
        "static_cast<int>(blockIdx.x / SPLIT)", "static_cast<int>(blockIdx.x)", (POISON, VALUE, RACE_C, DEADLOCK),
        count=2),
)  # fmt: skip
