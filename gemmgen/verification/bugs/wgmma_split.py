"""Bugs of warpgroups that multiply a range of K each: how sums reach the workspace, and who adds them."""

from __future__ import annotations

from gemmgen.verification.bugs.base import (
    BESIDE_PARTIALS,
    ORDER,
    PLANNED,
    POISON,
    RACE_C,
    RACE_PARTIALS,
    SEMAPHORE_LEFT,
    UNWRITTEN,
    VALUE,
    Bug,
    Diagnosis,
)
from gemmgen.verification.bugs.subjects import WGMMA_SPLIT, WGMMA_SPLIT_PIECES

LAST = "atomicInc(semaphore, SPLIT - 1) == SPLIT - 1;"
MEET = "    named_barrier_sync(1 + CONSUMERS, 128 * CONSUMERS);"
NOT_MET = Diagnosis("race", "data race on shared memory")

WGMMA_SPLIT_BUGS = (
    Bug("no fence before the semaphore", "fence", WGMMA_SPLIT,
        "the count,\n        __threadfence();", "the count,", (RACE_PARTIALS,)),
    Bug("no fence after the semaphore", "fence", WGMMA_SPLIT,
        "are visible now\n        __threadfence();", "are visible now", (RACE_PARTIALS,)),
    Bug("a consumer's partial may be on its way as the block counts", "named barrier", WGMMA_SPLIT,
        f"{MEET}  // all", "    // all", (RACE_PARTIALS, NOT_MET)),
    Bug("consumers do not wait for what the block is", "named barrier", WGMMA_SPLIT,
        f"{MEET}\n    return", "    return", (NOT_MET, UNWRITTEN, POISON, VALUE)),
    Bug("the semaphore is not reset", "semaphore", WGMMA_SPLIT, LAST, "atomicAdd(semaphore, 1u) == SPLIT - 1;",
        (SEMAPHORE_LEFT,)),
    Bug("the first block to come adds up", "semaphore", WGMMA_SPLIT, LAST, "atomicInc(semaphore, SPLIT - 1) == 0;",
        (RACE_PARTIALS, UNWRITTEN, POISON, VALUE)),
    Bug("all tiles take one semaphore", "semaphore", WGMMA_SPLIT,
        "semaphores + static_cast<int>(blockIdx.x / SPLIT)", "semaphores",
        (RACE_PARTIALS, RACE_C, UNWRITTEN, POISON, VALUE)),
    Bug("tiles share a partial", "workspace", WGMMA_SPLIT, "* (SPLIT * PARTIAL)", "* PARTIAL",
        (RACE_PARTIALS, POISON, VALUE)),
    Bug("parts one behind the end", "workspace", WGMMA_SPLIT_PIECES, "range * PARTIAL", "(range + 1) * PARTIAL",
        (BESIDE_PARTIALS, RACE_PARTIALS, UNWRITTEN, POISON, VALUE)),
    Bug("one part is left out", "missing product", WGMMA_SPLIT, "peer < SPLIT; ++peer", "peer < SPLIT - 1; ++peer",
        (VALUE,)),
    Bug("the last block's own sums come first", "order", WGMMA_SPLIT, "sums[i][r] = 0.0f;", "{}", (ORDER, PLANNED),
        also=("sums[i][r] += part[r / 4].at[r % 4];",
            "sums[i][r] += peer == static_cast<int>(blockIdx.x % SPLIT) ? 0.0f : part[r / 4].at[r % 4];"), bits=True),
    Bug("ranges of K overlap by a k tile", "duplicated product", WGMMA_SPLIT, "min(K, (split + 1) * extent)",
        "min(K, (split + 1) * extent + BK)", (VALUE,)),
    Bug("ranges of K leave a k tile out", "missing product", WGMMA_SPLIT, "min(K, split * extent)",
        "min(K, split * extent + (split > 0) * BK)", (VALUE,)),
)  # fmt: skip
