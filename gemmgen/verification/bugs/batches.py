"""Bugs of batches, in every family that serves them."""

from __future__ import annotations

from gemmgen.kernel.source import Launch
from gemmgen.verification.bugs.base import OUTSIDE_C, POISON, RACE, RACE_C, READS, UNWRITTEN, VALUE, WRITES, Bug
from gemmgen.verification.bugs.subjects import DOUBLE_BATCH, NAIVE_BATCH, SMALL_BATCH, SMALL_BATCH_CR

BATCH_BUGS = (
    Bug("every product takes the first A", "batch", NAIVE_BATCH, "A += matrix * s.stride_a;", "", (VALUE,)),
    Bug("A's stride for B's", "batch", NAIVE_BATCH, "matrix * s.stride_b", "matrix * s.stride_a",
        (VALUE, POISON, READS)),
    Bug("every block computes the first product", "batch", DOUBLE_BATCH, "blockIdx.x / tiles;", "0;",
        (POISON, VALUE, RACE_C)),
    Bug("C's matrices as if they were dense", "batch", DOUBLE_BATCH, "C += matrix * s.stride_c;",
        "C += matrix * (static_cast<long long>(s.M) * s.N);", (POISON, VALUE, OUTSIDE_C, RACE_C)),
    Bug("B's stride where A's belongs", "batch", DOUBLE_BATCH, "A += matrix * s.stride_a;", "A += matrix * s.stride_b;",
        (VALUE, POISON, READS)),
    Bug("a stride of lines", "batch", DOUBLE_BATCH, "B += matrix * s.stride_b;", "B += matrix * s.ldb;",
        (VALUE, POISON)),
    Bug("a grid that forgets the batch", "grid", DOUBLE_BATCH, "", "", (POISON, VALUE),
        launch=Launch(128, (("M", 32), ("N", 64)))),
    Bug("no barrier before the products", "barrier", SMALL_BATCH,
        "__syncthreads();              // and all", "// so has", (RACE,)),
    Bug("no barrier before the next group", "barrier", SMALL_BATCH,
        "__syncthreads();  // no thread", "// nobody", (RACE,)),
    Bug("no barrier before the products, copied at once", "barrier", SMALL_BATCH_CR,
        "__syncthreads();  // the batch tile is complete", "", (RACE,)),
    Bug("waits for one group too few", "wait count", SMALL_BATCH, "cp_async_wait<STAGES - 1>()",
        "cp_async_wait<STAGES>()", (RACE,)),
    Bug("the next group lands in the wrong stage", "stage", SMALL_BATCH, "first + next * MB, &Bs[stage * MB]",
        "first + next * MB, &Bs[0]", (RACE, VALUE, POISON)),
    Bug("the last group is written without a guard", "guard", SMALL_BATCH, "if (product < s.batch)",
        "if (true)", (OUTSIDE_C, WRITES, READS, UNWRITTEN)),
    Bug("the last group is read without a guard", "guard", SMALL_BATCH,
        "if (first + matrix >= s.batch) break;", "", (READS,), count=2),
    Bug("the last group is left out", "guard", SMALL_BATCH_CR, "product < s.batch", "first + MB <= s.batch",
        (POISON, VALUE)),
    Bug("strides of A and B swapped", "batch", SMALL_BATCH, "matrix) * s.stride_a", "matrix) * s.stride_b",
        (VALUE, POISON, READS)),
    Bug("a group's products share B", "batch", SMALL_BATCH, "Bs[stage * MB + in_tile]", "Bs[stage * MB]", (VALUE,)),
    Bug("a walk in steps of one product", "batch", SMALL_BATCH, "first + step * MB + in_tile", "first + step + in_tile",
        (VALUE, POISON, RACE_C, UNWRITTEN)),
    Bug("C at A's stride", "batch", SMALL_BATCH, "product * s.stride_c", "product * s.stride_a",
        (VALUE, POISON, OUTSIDE_C, WRITES, READS, RACE_C)),
    Bug("one product of the sum is missing", "missing product", SMALL_BATCH_CR,
        "k < Shape::K;", "k < Shape::K - 1;", (VALUE,)),
    Bug("lanes' rows and columns swapped", "swapped index", SMALL_BATCH_CR, "return {lane_m * FM, lane_n * FN};",
        "return {lane_n * FM, lane_m * FN};", (POISON, VALUE, WRITES, OUTSIDE_C, RACE_C, UNWRITTEN)),
)  # fmt: skip
