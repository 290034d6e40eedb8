"""Bugs of batches whose matrices lie anywhere."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.bugs import tensor_subjects as tc
from gemmgen.proof.bugs.base import (
    OUTSIDE_C,
    PAST_POINTERS,
    POISON,
    RACE_C,
    READS,
    TILES_WRITTEN,
    UNWRITTEN,
    VALUE,
    WITHIN_CHUNK,
    WRITES,
    Bug,
    Diagnosis,
)

NO_MATRIX = Diagnosis("crash", "TMA leaves the tensor")
NOTHING_INSIDE = Diagnosis("crash", "TMA of a box that lies wholly outside of a matrix behind a pointer")

POINTER_BUGS = (
    Bug("B of the next product", "pointer", on.NAIVE_POINTERS, "B_array[matrix]", "B_array[matrix + 1]",
        (PAST_POINTERS,)),
    Bug("B's pointers for A's", "pointer", on.NAIVE_POINTERS, "A_array[matrix]", "B_array[matrix]",
        (VALUE, POISON, READS)),
    Bug("one line too many of a matrix", "guard", on.NAIVE_POINTERS, "k < s.K;", "k <= s.K;", (READS, VALUE, POISON)),
    Bug("matrices of A as if one followed the other", "pointer", on.DOUBLE_POINTERS, "A_array[matrix]",
        "A_array[0] + static_cast<long long>(matrix) * s.M * s.lda", (READS, VALUE, POISON)),
    Bug("matrices of C as if one followed the other", "pointer", on.DOUBLE_POINTERS, "C_array[matrix]",
        "C_array[0] + static_cast<long long>(matrix) * s.M * s.ldc", (WRITES, READS, OUTSIDE_C, POISON, VALUE)),
    Bug("every product takes the first B", "pointer", on.DOUBLE_POINTERS, "B_array[matrix]", "B_array[0]", (VALUE,)),
    Bug("a pointer for each tile", "pointer", on.DOUBLE_POINTERS, "C_array[matrix]", "C_array[blockIdx.x]",
        (PAST_POINTERS, VALUE, POISON)),
    Bug("pointers past the batch's end", "guard", on.SMALL_POINTERS,
        "if (first + matrix >= s.batch) break;", "", (PAST_POINTERS,), count=2),
    Bug("C of a product that is none", "guard", on.SMALL_POINTERS, "if (product < s.batch)", "if (true)",
        (PAST_POINTERS, UNWRITTEN)),
    Bug("a group's products write one C", "pointer", on.SMALL_POINTERS, "C_array[product]",
        "C_array[product - in_tile]", (RACE_C, POISON, VALUE)),
    Bug("products of a group as if they were dense", "pointer", on.SMALL_POINTERS, "batch[first + matrix]",
        "batch[first] + matrix * (Shape::M * Shape::K)", (READS, VALUE, POISON), count=2),
    Bug("an address without its upper bits", "pointer", tc.WGMMA_POINTERS, "static_cast<int>(chunk >> 31)", "0",
        (NO_MATRIX,)),
    Bug("an address in chunks of 8 bytes", "pointer", tc.WGMMA_POINTERS, "(matrix) / 16;", "(matrix) / 8;",
        (NO_MATRIX,)),
    Bug("the lower bits of an address are lost", "pointer", tc.WGMMA_POINTERS_ROWS, "& 0x7fffffff", "& 0x7fffff00",
        (NO_MATRIX, READS, VALUE, POISON)),
    Bug("a tensor map's matrix is B's for A", "pointer", tc.WGMMA_POINTERS, "map_origin(A_array[",
        "map_origin(B_array[", (NO_MATRIX, READS, VALUE, POISON)),
    Bug("TMA brings the first B for every product", "pointer", tc.WGMMA_POINTERS, "map_origin(B_array[matrix]",
        "map_origin(B_array[0]", (VALUE,)),
    Bug("TMA brings A by a pointer for each tile", "pointer", tc.WGMMA_POINTERS_ROWS, "map_origin(A_array[matrix]",
        "map_origin(A_array[number]", (PAST_POINTERS, VALUE, POISON)),
    Bug("TMA stores every product in the first C", "pointer", tc.WGMMA_POINTERS, "map_origin(C_array[matrix])",
        "map_origin(C_array[0])", (RACE_C, POISON, VALUE, TILES_WRITTEN)),
    Bug("a box behind a matrix's last row", "pointer", tc.WGMMA_POINTERS, "k, tile.m,", "k, tile.m + s.M,",
        (NOTHING_INSIDE,)),
    Bug("a box beside a matrix's last column", "pointer", tc.WGMMA_POINTERS_ROWS, "tile.n,", "tile.n + s.N,",
        (NOTHING_INSIDE, WITHIN_CHUNK)),
    Bug("A's origin for B's", "pointer", tc.WGMMA_POINTERS_ROWS, "origin_b.near, origin_b.far",
        "origin_a.near, origin_a.far", (NO_MATRIX, READS, VALUE, POISON)),
    Bug("rows go to the next product's C", "pointer", tc.WGMMA_POINTERS_ROWS, "C_array[matrix]", "C_array[matrix + 1]",
        (PAST_POINTERS, POISON, VALUE, RACE_C)),
)  # fmt: skip
