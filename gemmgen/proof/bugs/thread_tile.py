"""Bugs of kernels whose threads compute tiles straight from global memory."""

from __future__ import annotations

from gemmgen.proof.bugs.base import OUTSIDE_C, POISON, RACE_C, READS, VALUE, WRITES, Bug
from gemmgen.proof.bugs.subjects import THREAD_TILE_CC, THREAD_TILE_RR, THREAD_TILE_WIDE

THREAD_TILE_BUGS = (
    Bug("rows beyond the edge are read one behind the last", "guard", THREAD_TILE_RR, "s.M - 1)", "s.M)", (READS,)),
    Bug("columns beyond the edge are read where they would lie", "guard", THREAD_TILE_CC,
        "min(first_n + j * STEP_N, s.N - 1)", "first_n + j * STEP_N", (READS,)),
    Bug("> for >= at a thread's last row", "guard", THREAD_TILE_RR, "if (m >= s.M)", "if (m > s.M)",
        (READS, WRITES, OUTSIDE_C)),
    Bug("a column beyond the edge ends the thread", "not written", THREAD_TILE_RR, "if (n >= s.N) break;",
        "if (n >= s.N) return;", (POISON, VALUE)),
    Bug("the row's value for the column's", "swapped index", THREAD_TILE_RR, "fmaf(a[i], b[j],", "fmaf(a[i], b[i],",
        (VALUE,)),
    Bug("a thread's rows lie together", "swapped index", THREAD_TILE_CC, "const int m = first_m + i * STEP_M;",
        "const int m = first_m + i;", (VALUE, POISON, RACE_C)),
    Bug("threads count along the tile's other side", "swapped index", THREAD_TILE_WIDE, "threadIdx.x % STEP_N",
        "threadIdx.x % STEP_M", (VALUE, POISON, RACE_C)),
)  # fmt: skip
