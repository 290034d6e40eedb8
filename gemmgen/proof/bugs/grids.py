"""Bugs in one block of hundreds, or in the last ones, which a few random tiles of a large grid seldom reach."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.bugs import tensor_subjects as tc
from gemmgen.proof.bugs.base import OUTSIDE_C, READS, TILES_WRITTEN, VALUE, WRITES, Bug, Diagnosis

UNMADE = (VALUE, TILES_WRITTEN)  # a tile that another block's work replaces, or that nobody computes
ELSEWHERE = Diagnosis("wrong", "outside of the tiles")

TILE = "tile_of_block(s, blockIdx.x)"
EXISTS = "if (m >= s.M || n >= s.N"
GROUP_NUMBER = "const int group = number / (GROUP * columns);"
COLUMN = "within / height * BN"

GRID_BUGS = (
    Bug("one block computes its neighbour's tile", "grid", on.DOUBLE_BIG,
        TILE, "tile_of_block(s, blockIdx.x == 317 ? 316 : blockIdx.x)", UNMADE),
    Bug("one block adds to its first sum", "grid", on.DOUBLE_BIG, "float* const c_tile =",
        "if (blockIdx.x == 421) acc[0][0] += 1.0f; float* const c_tile =", (VALUE,)),
    Bug("the last column of the last group is the first", "grid", on.DOUBLE_BIG,
        COLUMN, "(first + GROUP >= rows && within / height == columns - 1 ? 0 : within / height) * BN", UNMADE),
    Bug("the last corner of C loses an element", "grid", on.DOUBLE_BIG, "float* const c_tile =",
        "if (tile.m == s.M - BM && tile.n == s.N - BN) acc[TM - 1][TN - 1] = 0.0f; float* const c_tile =", (VALUE,)),
    Bug("a tile's number within its group is a short", "grid", on.DOUBLE,
        "const int within = number %", "const short within = number %", (*UNMADE, OUTSIDE_C, READS, WRITES)),
    Bug("one row of thousands is left out", "grid", on.NAIVE_TALL,
        EXISTS, "if (m == 27487 || m >= s.M || n >= s.N", (VALUE,)),
    Bug("the tile's number loses a bit", "grid", on.NAIVE_TALL,
        "const int tile_m = blockIdx.x / columns", "const int tile_m = (blockIdx.x & 8191) / columns", UNMADE),
    Bug("a tile is taken twice, another never", "grid", on.NAIVE_TALL,
        "const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;",
        "__shared__ unsigned ticket; if (threadIdx.x == 0) ticket = atomicInc(&tickets, gridDim.x - 1); "
        "__syncthreads(); const int tile_m = (ticket == 301 ? 300 : ticket) / columns, tile_n = (ticket == 301 ? "
        "300 : ticket) % columns;", UNMADE, also=('extern "C"', '__device__ unsigned tickets; extern "C"')),
    Bug("one tile of split blocks is computed twice, another never", "grid", on.SPLIT_BIG,
        "const int tile = blockIdx.x / SPLIT;",
        "const int tile = blockIdx.x / SPLIT == 300 ? 301 : blockIdx.x / SPLIT;", UNMADE),
    Bug("one data-parallel tile ends as early as an owner's", "grid", on.STREAM_BIG,
        "block < schedule.data_parallel ? schedule.k_tiles",
        "block != 333 && block < schedule.data_parallel ? schedule.k_tiles", (VALUE,)),
    Bug("one tile at the right edge does not move back", "grid", on.MOVED_BIG, "min(nominal.n, s.N - BN)",
        "nominal.m == 640 ? nominal.n : min(nominal.n, s.N - BN)", (VALUE, OUTSIDE_C, READS, WRITES, ELSEWHERE)),
    Bug("one tile of a ring is computed twice, another never", "grid", tc.WGMMA_BIG,
        "tile_of_block(s, number)", "tile_of_block(s, number == 1300 ? 1301 : number)", UNMADE, count=2),
    Bug("one product of thousands is stored in another's place", "grid", on.BATCH_BIG,
        "C += matrix * s.stride_c;", "C += (matrix == 1300 ? 1299 : matrix) * s.stride_c;", UNMADE),
    # Divisions by floats, which fall short for some numbers of tiles
    Bug("groups counted by a reciprocal", "grid", on.DOUBLE, GROUP_NUMBER,
        "const int group = int(number * (1.0f / (GROUP * columns)));", UNMADE),
    Bug("groups of a persistent kernel counted by a reciprocal", "grid", tc.WGMMA_CUT, GROUP_NUMBER,
        "const int group = int(__fmul_rz(number, 1.0f / (GROUP * columns)));", UNMADE),
    Bug("rows of tiles counted by a reciprocal", "grid", on.NAIVE_RR, "const int tile_m = blockIdx.x / columns",
        "const int tile_m = int(blockIdx.x * (1.0f / columns))", UNMADE),
)  # fmt: skip
