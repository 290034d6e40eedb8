"""The catalogue of seeded bugs: edits of rendered kernels, each of which makes the kernel wrong.

`gemmgen selfcheck` plants them one by one and holds what the verifier says against what is expected here. An edit
replaces text of the `.cu` that a person could have mistyped, or the launch that a caller could have got wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gemmgen.errors import FailureKind
from gemmgen.families import BATCHED, NAIVE, SIMT, SKINNY
from gemmgen.families.base import Config, Family
from gemmgen.problem import DType, Layout, Problem
from gemmgen.source import Launch


@dataclass(frozen=True)
class Subject:
    """A correct kernel to plant bugs in: `settings` are the axes that differ from `TILES` or the default."""

    name: str
    problem: Problem
    settings: tuple[tuple[str, int], ...] = ()
    family: Family = SIMT

    def __str__(self) -> str:
        return self.name

    @property
    def config(self) -> Config:
        tiles = TILES.get(self.family.name, {})
        return self.family.default(self.problem).with_values(**tiles).with_values(**dict(self.settings))

    @property
    def skeleton(self) -> str:
        """ "double_buffer": the schedule's template."""
        return self.family.template(self.config).removeprefix("kernel/").removesuffix(".cu")


@dataclass(frozen=True)
class Diagnosis:
    """What the verifier should say: the failure's kind, and a regular expression of its reason."""

    kind: FailureKind
    words: str


@dataclass(frozen=True)
class Bug:
    """One edit of `subject`'s text: `old`, found exactly `count` times, becomes `new`.

    breaks     what is wrong, in the catalogue's own categories
    also       another text and what becomes of it, where the mistake takes two
    diagnoses  any of them is right: which one comes first depends on the sizes drawn
    launch     the mistake is the caller's: launches the kernel like this, its text as it is
    """

    name: str
    breaks: str
    subject: Subject
    old: str
    new: str
    diagnoses: tuple[Diagnosis, ...]
    count: int = 1
    launch: Launch | None = None
    also: tuple[str, str] | None = None


# Small tiles: a block has few threads, and small matrices have many blocks.
TILES = {
    "simt": {"BM": 32, "BN": 64, "BK": 8, "TM": 4, "TN": 4, "WM": 16, "WN": 32, "STAGES": 2},
    "skinny": {"S": 4, "T": 4, "WARPS": 2, "BK": 32, "UNROLL": 2},
}
UNWARPED = (("OUTER", 0), ("WM", 0), ("WN", 0))


def _runtime(layout: str, ld_align: int = 1, dtype: DType = DType.F32) -> Problem:
    return Problem(None, None, None, dtype=dtype, layout=Layout.parse(layout), ld_align=ld_align)


NAIVE_RR = Subject("naive rr", _runtime("rr"), family=NAIVE)
NAIVE_CC = Subject("naive cc", _runtime("cc"), (("BM", 8), ("BN", 32)), NAIVE)
NAIVE_FIXED = Subject("naive fixed", Problem(67, 69, 35, layout=Layout("c", "r")), family=NAIVE)
NAIVE_TALL = Subject("naive tall, sampled", Problem(40000, 64, 128), family=NAIVE)
SINGLE = Subject("single rr", _runtime("rr"), (("STAGES", 1),))
SINGLE_INNER = Subject("single inner cr", _runtime("cr"), (("STAGES", 1), *UNWARPED))
SINGLE_TILED = Subject("single tiled", Problem(64, 64, 64), (("STAGES", 1),))
SINGLE_FIXED = Subject(
    "single fixed cc", Problem(67, 69, 35, layout=Layout("c", "c"), lda=72, ldb=72, ldc=72), (("STAGES", 1),)
)
DOUBLE = Subject("double rr", _runtime("rr"))
DOUBLE_VECTORS = Subject("double rr vectors", _runtime("rr", 4), (("BK", 16), ("GROUP", 2)))
DOUBLE_RC = Subject(
    "double fixed rc", Problem(67, 69, 35, layout=Layout("r", "c"), lda=72, ldb=72, ldc=72), (("TA", 0), ("TB", 0))
)
DOUBLE_INNER = Subject("double inner cc", _runtime("cc"), UNWARPED)
DOUBLE_BIG = Subject("double big, sampled", Problem(1024, 1024, 512))
# 164 MB of A, most of it padding. Elements past 2^31 would take 8 GB: what is planted here overflows earlier.
DOUBLE_STRIDES = Subject("double wide stride", Problem(40, 64, 40, lda=2**20 + 1), (("BK", 4),))
ASYNC = Subject("cp.async rr", _runtime("rr"), (("STAGES", 3), ("ASYNC", 1)))
ASYNC_VECTORS = Subject("cp.async cr vectors", _runtime("cr", 4), (("STAGES", 4), ("ASYNC", 1)))
ASYNC_INNER = Subject("cp.async inner cc", _runtime("cc"), (("STAGES", 2), ("ASYNC", 1), *UNWARPED))
ASYNC_DYNAMIC = Subject("cp.async dynamic", Problem(100, 72, 200), (("BK", 32), ("STAGES", 4), ("ASYNC", 1)))
AHEAD = Subject("read ahead rr", _runtime("rr"), (("STAGES", 3), ("ASYNC", 1), ("AHEAD", 2)))
AHEAD_VECTORS = Subject("read ahead cr vectors", _runtime("cr", 4), (("STAGES", 2), ("ASYNC", 1), ("AHEAD", 4)))
AHEAD_TILED = Subject(
    "read ahead tiled", Problem(64, 64, 64), (("STAGES", 2), ("ASYNC", 1), ("AHEAD", 8), ("TM", 2), ("TN", 8))
)
SLICED = Subject("sliced rr", _runtime("rr"), (("BK", 16), ("STAGES", 3), ("ASYNC", 1), ("AHEAD", 2), ("SLICES", 4)))
SLICED_SPLIT = Subject(
    "sliced cr vectors, split", _runtime("cr", 4), (("BK", 16), ("ASYNC", 1), ("AHEAD", 4), ("SLICES", 2), ("SPLIT", 3))
)
ACROSS = Subject("skinny across", Problem(None, None, None), family=SKINNY)
ACROSS_SPLIT = Subject("skinny across, split", Problem(None, None, None), (("SPLIT", 3),), SKINNY)
ACROSS_FIXED = Subject("skinny across, fixed cr", Problem(3, 200, 67, layout=Layout("c", "r"), ldb=200), family=SKINNY)
MIRRORED = Subject("skinny mirrored", Problem(None, 5, None, layout=Layout("c", "c")), (("SPLIT", 2),), SKINNY)
ALONG_K = Subject("skinny along k", Problem(3, 21, None, layout=Layout("r", "c"), ld_align=4, ldb=None),
                  (("BK", 256), ("UNROLL", 1)), SKINNY)  # fmt: skip
ALONG_K_SPLIT = Subject(
    "skinny along k, split", Problem(4, 21, 1000, layout=Layout("r", "c")), (("BK", 256), ("SPLIT", 4)), SKINNY
)
SPLIT_BIG = Subject("skinny split, sampled", Problem(16, 16384, 4096), (("SPLIT", 8),), SKINNY)

NAIVE_F64 = Subject("naive f64 cr", _runtime("cr", dtype=DType.F64), family=NAIVE)
DOUBLE_F64 = Subject("double f64 rc", _runtime("rc", dtype=DType.F64))
ASYNC_F64 = Subject("cp.async f64 cr vectors", _runtime("cr", 2, DType.F64), (("STAGES", 3), ("ASYNC", 1)))

NAIVE_BATCH = Subject("naive batch", replace(_runtime("rc"), batch=None), family=NAIVE)
DOUBLE_BATCH = Subject("double batch", replace(_runtime("rr"), batch=None))
SMALL_BATCH = Subject(
    "batched rr", Problem(8, 12, 16, batch=None, stride_a=None, stride_b=None),
    (("MB", 4), ("WALK", 5), ("STAGES", 2), ("ASYNC", 1)), BATCHED,
)  # fmt: skip
NAIVE_POINTERS = Subject("naive pointers", replace(_runtime("cc"), batch=None, pointers=True), family=NAIVE)
DOUBLE_POINTERS = Subject("double pointers", replace(_runtime("rr"), batch=None, pointers=True))
SMALL_POINTERS = Subject(
    "batched pointers", Problem(8, 12, 16, batch=None, pointers=True),
    (("MB", 4), ("WALK", 5), ("STAGES", 2), ("ASYNC", 1)), BATCHED,
)  # fmt: skip
SMALL_BATCH_CR = Subject("batched cr", Problem(12, 8, 5, layout=Layout("c", "r"), batch=7), family=BATCHED)

SUBJECTS = (
    NAIVE_RR, NAIVE_CC, NAIVE_FIXED, NAIVE_TALL,
    SINGLE, SINGLE_INNER, SINGLE_TILED, SINGLE_FIXED,
    DOUBLE, DOUBLE_VECTORS, DOUBLE_RC, DOUBLE_INNER, DOUBLE_BIG, DOUBLE_STRIDES,
    ASYNC, ASYNC_VECTORS, ASYNC_INNER, ASYNC_DYNAMIC,
    AHEAD, AHEAD_VECTORS, AHEAD_TILED, SLICED, SLICED_SPLIT,
    ACROSS, ACROSS_SPLIT, ACROSS_FIXED, MIRRORED, ALONG_K, ALONG_K_SPLIT, SPLIT_BIG,
    NAIVE_F64, DOUBLE_F64, ASYNC_F64,
    NAIVE_BATCH, DOUBLE_BATCH, SMALL_BATCH, SMALL_BATCH_CR,
    NAIVE_POINTERS, DOUBLE_POINTERS, SMALL_POINTERS,
)  # fmt: skip

VALUE = Diagnosis("wrong", r"off by [\d.i]")  # a wrong number
POISON = Diagnosis("wrong", "is nan")  # nobody wrote it, or what nobody may read was read
READS = Diagnosis("crash", "reads")
WRITES = Diagnosis("crash", "writes")
OUTSIDE_C = Diagnosis("crash", "writes (outside C|.* (of|into) C)")
MISALIGNED = Diagnosis("crash", "misaligned")
OVERFLOW = Diagnosis("crash", "overflows")
OUT_OF_ARRAY = Diagnosis("crash", "outside the array")
DIVISION = Diagnosis("crash", "division by zero")
DIVERGENCE = Diagnosis("crash", "barrier divergence")
RACE = Diagnosis("crash", "data race on shared memory")
RACE_C = Diagnosis("crash", "data race on C")
UNWRITTEN = Diagnosis("crash", "no thread has written")
PAST_POINTERS = Diagnosis("crash", "reads .* (after the end|before the start) of the pointers to")
TILES_WRITTEN = Diagnosis("wrong", "tiles of C")
RACE_PARTIALS = Diagnosis("crash", "data race on partials")
RACE_TICKETS = Diagnosis("crash", "data race on tickets")
TICKET_LEFT = Diagnosis("crash", r"leaves tickets\[")
BESIDE_PARTIALS = Diagnosis("crash", "of partials|beside partials")
ORDER = Diagnosis("nondeterministic", "of the same launch")
# Watched launches say what happened; in others only its result shows.
STALE = (POISON, VALUE, UNWRITTEN)
EARLY = (POISON, VALUE, RACE)

NAIVE_BUGS = (
    Bug("> for >= at the last row", "guard", NAIVE_RR, "m >= s.M", "m > s.M", (READS, WRITES, OUTSIDE_C)),
    Bug("> for >= at the last column", "guard", NAIVE_RR, "n >= s.N", "n > s.N", (READS, VALUE, POISON, OUTSIDE_C)),
    Bug("the last column is left out", "not written", NAIVE_RR, "n >= s.N)", "n >= s.N - 1)", (POISON, VALUE)),
    Bug("the last product is missing", "missing product", NAIVE_RR, "k < s.K;", "k < s.K - 1;", (VALUE,)),
    Bug("one product too many", "guard", NAIVE_RR, "k < s.K;", "k <= s.K;", (READS, VALUE, POISON)),
    Bug("the first product twice", "duplicated product", NAIVE_RR,
        "float acc = 0.0f;", "float acc = s.K > 0 ? A[Offset(m) * s.lda] * B[n] : 0.0f;", (VALUE,)),
    Bug("lda where ldb belongs", "leading dimension", NAIVE_RR,
        "Offset(k) * s.ldb + n", "Offset(k) * s.lda + n", (READS, VALUE, POISON)),
    Bug("m and n swapped in C", "swapped index", NAIVE_RR,
        "Offset(m) * s.ldc + n", "Offset(n) * s.ldc + m", (WRITES, READS, VALUE, POISON, OUTSIDE_C)),
    Bug("A read as if transposed", "transposition", NAIVE_CC,
        "Offset(k) * s.lda + m", "Offset(m) * s.lda + k", (READS, VALUE, POISON)),
    Bug("B read as if transposed", "transposition", NAIVE_FIXED,
        "Offset(k) * s.ldb + n", "Offset(n) * s.ldb + k", (READS, VALUE, POISON)),
    Bug("alpha is dropped with beta", "scalars", NAIVE_RR,
        "fmaf(beta, *to, alpha * acc)", "fmaf(beta, *to, acc)", (VALUE,)),
    Bug("beta is taken as 1", "scalars", NAIVE_CC, "fmaf(beta, *to, alpha * acc)", "*to + alpha * acc", (VALUE,)),
    Bug("beta = 0 reads C", "beta = 0", NAIVE_CC, "beta == 0.0f ? alpha * acc :", "", (POISON,)),
    Bug("a quick way out for K = 0", "not written", NAIVE_CC,
        "    float acc = 0.0f;", "    if (s.K == 0) return;\n    float acc = 0.0f;", (POISON, VALUE)),
    Bug("the grid rounded down", "grid", NAIVE_RR, "(s.N + BN - 1) / BN", "s.N / BN", (DIVISION, VALUE, POISON)),
    Bug("who comes first decides the order of the sum", "nondeterminism", NAIVE_RR,
        "for (int k = 0; k < s.K; ++k) {",
        "static unsigned turn = 0;\n    const unsigned first = turn++;\n    for (int i = 0; i < s.K; ++i) {\n"
        "        const int k = (i + first) % s.K;", (ORDER,)),
    Bug("a launch of too few blocks", "grid", NAIVE_RR, "", "", (POISON, VALUE),
        launch=Launch(256, (("M", 32), ("N", 16)))),
    Bug("a launch of too few threads", "grid", NAIVE_RR, "", "", (POISON, VALUE),
        launch=Launch(240, (("M", 16), ("N", 16)))),
    Bug("a launch of too many threads", "written twice", NAIVE_RR, "", "", (VALUE, RACE_C),
        launch=Launch(512, (("M", 16), ("N", 16)))),
    Bug("sums keep 10 bits", "precision", NAIVE_RR,
        "acc = fmaf(a, b, acc);", "acc = __uint_as_float(__float_as_uint(fmaf(a, b, acc)) & 0xffffe000u);", (VALUE,)),
    Bug("products in whole numbers", "precision", NAIVE_FIXED,
        "acc = fmaf(a, b, acc);", "acc = static_cast<int>(fmaf(a, b, acc));", (VALUE,)),
    Bug("a 16-bit row", "overflow", NAIVE_TALL, "const int m =", "const short m =",
        (READS, WRITES, TILES_WRITTEN, POISON)),
)  # fmt: skip

SINGLE_BUGS = (
    Bug("no barrier before the tiles are read", "barrier", SINGLE,
        "__syncthreads();  // the tiles are complete", "", (RACE,)),
    Bug("no barrier before they are overwritten", "barrier", SINGLE,
        "__syncthreads();  // nobody reads them any more", "", (RACE,)),
    Bug("no barrier before the tiles are read, inner", "barrier", SINGLE_INNER,
        "__syncthreads();  // the tiles are complete", "", (RACE,)),
    Bug("no barrier before they are overwritten, inner", "barrier", SINGLE_INNER,
        "__syncthreads();  // nobody reads them any more", "", (RACE,)),
    Bug("a barrier for one warp", "divergence", SINGLE,
        "__syncthreads();  // the tiles are complete", "if (threadIdx.x < 32) __syncthreads();", (DIVERGENCE, RACE)),
    Bug("a warp collective for half a warp", "divergence", SINGLE,
        "__syncthreads();  // the tiles are complete", "if (threadIdx.x % 32 < 16) __syncwarp();\n__syncthreads();",
        (DIVERGENCE,)),
    Bug("blocks without rows leave before the barrier", "divergence", SINGLE,
        "const Place place = place_of_thread();",
        "const Place place = place_of_thread();\nif (place.m >= s.M - tile.m) return;", (DIVERGENCE, POISON, VALUE)),
    Bug("the K tail is dropped", "K tail", SINGLE, "k < s.K;", "k + BK <= s.K;", (VALUE,)),
    Bug("<= for < along K", "guard", SINGLE_TILED, "k < s.K;", "k <= s.K;", (READS, VALUE, POISON)),
    Bug("> for >= at the last row of A", "guard", SINGLE, "EDGE_M && at.mn >= rows", "EDGE_M && at.mn > rows",
        (READS,)),
    Bug("no zero fill along K of A", "zero fill", SINGLE, "return EDGE_K ? depth - at.k : VA;", "return VA;",
        (READS, POISON, VALUE)),
    Bug("no zero fill along K, inner", "zero fill", SINGLE_INNER, "if (EDGE_K && at.k >= depth) return 0;", "",
        (READS, POISON, VALUE), count=2),
    Bug("partial vectors keep what was there", "zero fill", SINGLE_FIXED,
        "    Vec<N> value = {};", "    Vec<N> value;", (POISON, VALUE)),
    Bug("a partial vector is one short", "not written", SINGLE_FIXED,
        "if (i < valid) to[i] =", "if (i < valid - 1) to[i] =", (POISON, VALUE)),
    Bug("a partial vector is one too long", "padding", SINGLE_FIXED,
        "if (i < valid) to[i] =", "if (i <= valid) to[i] =", (OUTSIDE_C,)),
    Bug("a whole vector at the edge of C", "padding", SINGLE_FIXED, "EDGE_N ? columns - n : VC", "VC",
        (OUTSIDE_C, WRITES)),
    Bug("the tile stands still along K", "swapped index", SINGLE, "a_tile += a_step;", "", (VALUE,)),
    Bug("Bs read at A's index", "swapped index", SINGLE_INNER, "Bs[k][n]", "Bs[k][m]", (VALUE,)),
    Bug("a tile is multiplied twice", "duplicated product", SINGLE_INNER,
        "multiply(As[0], Bs[0], place, acc);", "multiply(As[0], Bs[0], place, acc);\nif (k == 0 && s.K > 64) "
        "multiply(As[0], Bs[0], place, acc);", (VALUE,)),
)  # fmt: skip

DOUBLE_BUGS = (
    Bug("no barrier before the loop", "barrier", DOUBLE, "    __syncthreads();\n", "", (RACE,)),
    Bug("no barrier between stages", "barrier", DOUBLE,
        "__syncthreads();  // the next tile is complete", "//", (RACE,)),
    Bug("no barrier before the loop, inner", "barrier", DOUBLE_INNER, "    __syncthreads();\n", "", (RACE,)),
    Bug("no barrier between stages, inner", "barrier", DOUBLE_INNER,
        "__syncthreads();  // the next tile is complete", "//", (RACE,)),
    Bug("the stage never changes", "stage", DOUBLE, "stage ^= 1;", "", (VALUE, POISON, RACE)),
    Bug("B is stowed into the other stage", "stage", DOUBLE,
        "stow_b(b_staged, Bs[stage]);", "stow_b(b_staged, Bs[stage ^ 1]);", (VALUE, POISON, RACE)),
    Bug("the wrong stage to begin with", "stage", DOUBLE, "int stage = 0;", "int stage = 1;", STALE),
    Bug("the last tile is not fetched", "K tail", DOUBLE, "if (depth > 0) {                 //",
        "if (depth >= BK) { //",
        (VALUE,)),
    Bug("> for >= at the edge of C", "guard", DOUBLE, "EDGE_M && m >= rows", "EDGE_M && m > rows",
        (OUTSIDE_C, WRITES, READS)),
    Bug("lda where ldc belongs", "leading dimension", DOUBLE, "Offset(m) * s.ldc + n", "Offset(m) * s.lda + n",
        (VALUE, OUTSIDE_C, WRITES, READS, POISON)),
    Bug("ldc where ldb belongs", "leading dimension", DOUBLE, "Offset(BK) * s.ldb", "Offset(BK) * s.ldc",
        (VALUE, POISON, READS)),
    Bug("beta = 0 reads C", "beta = 0", DOUBLE_VECTORS, "if (beta != 0.0f)", "if (true)", (POISON,)),
    Bug("beta is taken as 1 in whole vectors", "scalars", DOUBLE_VECTORS,
        "value.at[i] = fmaf(beta, old.at[i], value.at[i])", "value.at[i] += old.at[i]", (VALUE,)),
    Bug("alpha is dropped", "scalars", DOUBLE, "value.at[v] = alpha * acc[i][j + v]", "value.at[v] = acc[i][j + v]",
        (VALUE,)),
    Bug("alpha in whole numbers", "scalars", DOUBLE, "value.at[v] = alpha *", "value.at[v] = int(alpha) *",
        (VALUE, POISON)),  # 0 * Inf is NaN
    Bug("one product of a tile is missing", "missing product", DOUBLE,
        "for (int k = 0; k < BK; ++k)", "for (int k = 0; k < BK - 1; ++k)", (VALUE,)),
    Bug("one product of a tile is missing, inner", "missing product", DOUBLE_INNER,
        "for (int k = 0; k < BK; ++k)", "for (int k = 0; k < BK - 1; ++k)", (VALUE,)),
    Bug("one product of all", "missing product", DOUBLE_BIG,
        "multiply(As[stage], Bs[stage], place, acc);",
        "multiply(As[stage], Bs[stage], place, acc);\nif (k == 256) acc[0][0] -= As[stage][0][place.m] * "
        "Bs[stage][0][place.n];", (VALUE,)),
    Bug("operands keep 10 bits", "precision", DOUBLE, "fmaf(a[i], b[j], acc[i][j])",
        "fmaf(__uint_as_float(__float_as_uint(a[i]) & 0xffffe000u), b[j], acc[i][j])", (VALUE,)),
    Bug("sums keep 16 bits", "precision", DOUBLE, "fmaf(a[i], b[j], acc[i][j])",
        "__uint_as_float(__float_as_uint(fmaf(a[i], b[j], acc[i][j])) & 0xffffff00u)", (VALUE,)),
    Bug("a row twice", "swapped index", DOUBLE, "const int m = place.m + i / FM * STEP_M + i % FM;",
        "const int m = place.m + i / FM * STEP_M;", (POISON, VALUE)),
    Bug("lanes' rows and columns swapped", "swapped index", DOUBLE,
        "const int lane_m = lane / 2 % LANES_M;", "const int lane_m = lane % LANES_M;", (POISON, VALUE, RACE_C)),
    Bug("a pitch without its padding", "pitch", DOUBLE,
        "shared[at.k + v][at.mn] = staged[i].at[v];", "(&shared[0][0])[(at.k + v) * BM + at.mn] = staged[i].at[v];",
        STALE),
    Bug("a swizzle on one side", "pitch", DOUBLE, "store<VB>(&shared[at.k][at.mn], staged[i]);",
        "store<VB>(&shared[at.k][at.mn ^ 8], staged[i]);", (VALUE,)),
    Bug("a fragment from the next line", "pitch", DOUBLE_RC, "fragment[i] = from[i * STEP_M * PITCH_A];",
        "fragment[i] = from[i * STEP_M * PITCH_A + 1];", (VALUE, POISON, UNWRITTEN)),
    Bug("A is stowed untransposed", "transposition", DOUBLE,
        "shared[at.k + v][at.mn] = staged[i].at[v];", "shared[at.mn % BK][at.k + v] = staged[i].at[v];",
        (VALUE, POISON, RACE)),
    Bug("vectors from lines that are not aligned", "misaligned", DOUBLE, "constexpr int VB = 1;",
        "constexpr int VB = 4;",
        (MISALIGNED,), also=("constexpr int B_TEAM = 32;", "constexpr int B_TEAM = 16;")),
    Bug("vectors to lines that are not aligned", "misaligned", DOUBLE, "constexpr int VC = 1;", "constexpr int VC = 4;",
        (MISALIGNED,)),
    Bug("the last group of tiles is wrong", "raster", DOUBLE, "min(GROUP, rows - first)", "GROUP",
        (OUTSIDE_C, WRITES, READS, POISON, VALUE)),
    Bug("a raster that steps right too soon", "raster", DOUBLE_BIG, "within / height * BN", "within / height / 8 * BN",
        (TILES_WRITTEN,)),
    Bug("a raster that never steps right", "raster", DOUBLE, "within / height * BN", "0", (POISON, VALUE, RACE_C)),
    Bug("tiles that overlap by a row", "written twice", DOUBLE, "within % height) * BM,",
        "within % height) * (BM - 1),",
        (POISON, VALUE, RACE_C)),
    Bug("<= for < along K", "duplicated product", DOUBLE_BIG, "k < s.K;", "k <= s.K;", (VALUE, POISON,)),
    Bug("a tile dropped, another doubled", "raster", DOUBLE_INNER,
        "const int within = block % (GROUP * columns);", "const int within = max(1, block) % (GROUP * columns);",
        (POISON, VALUE)),
    Bug("tile rows rounded down", "grid", DOUBLE, "rows = (s.M + BM - 1) / BM", "rows = max(1, s.M / BM)",
        (DIVISION, POISON, VALUE)),
    Bug("tile columns rounded down", "grid", DOUBLE_VECTORS, "columns = (s.N + BN - 1) / BN",
        "columns = max(1, s.N / BN)", (DIVISION, POISON, VALUE, OUTSIDE_C, WRITES, READS)),
    Bug("too few accesses for a tile", "uninitialised", DOUBLE, "(B_LINES + B_STRIDE - 1) / B_STRIDE)",
        "B_LINES / (2 * B_STRIDE))", (POISON, UNWRITTEN)),
    Bug("an index scaled in 32 bits", "overflow", DOUBLE_STRIDES,
        "Offset(at.mn) * s.lda", "at.mn * 256 * s.lda / int(blockDim.x) * int(blockDim.x) / 256", (OVERFLOW,)),
    Bug("an index that wraps in 32 bits", "overflow", DOUBLE_STRIDES,
        "Offset(at.mn) * s.lda", "Offset(unsigned(at.mn) * s.lda * 256u / 256u)", (VALUE, POISON,)),
    Bug("an index in float", "overflow", DOUBLE_STRIDES,
        "Offset(at.mn) * s.lda + at.k", "Offset(float(at.mn) * s.lda + at.k)", (VALUE, POISON,)),
)  # fmt: skip

ASYNC_BUGS = (
    Bug("no barrier", "barrier", ASYNC, "        __syncthreads();              // so has", "        // so has",
        (RACE,)),
    Bug("no barrier, inner", "barrier", ASYNC_INNER, "        __syncthreads();              // so has",
        "        // so has", (RACE,)),
    Bug("no barrier, dynamic shared memory", "barrier", ASYNC_DYNAMIC,
        "        __syncthreads();              // so has", "        // so has", (RACE,)),
    Bug("the barrier before the wait", "wait count", ASYNC,
        "cp_async_wait<STAGES - 2>();  // this thread's share of the tile to read has landed\n"
        "        __syncthreads(); ",
        "__syncthreads();\n        cp_async_wait<STAGES - 2>(); ", (RACE,)),
    Bug("waits for one tile too few", "wait count", ASYNC, "cp_async_wait<STAGES - 2>()", "cp_async_wait<STAGES - 1>()",
        (RACE,)),
    Bug("waits for one tile too few, dynamic", "wait count", ASYNC_DYNAMIC,
        "cp_async_wait<STAGES - 2>()", "cp_async_wait<STAGES - 1>()", (RACE,)),
    Bug("no wait", "wait count", ASYNC_INNER, "cp_async_wait<STAGES - 2>();", "", (RACE,)),
    Bug("empty groups are not committed", "wait count", ASYNC_VECTORS,
        "        }\n        cp_async_commit();  // an empty group too: the wait counts groups",
        "            cp_async_commit();\n        }", EARLY),
    Bug("the wrong stage to write", "stage", ASYNC, "write = STAGES - 1;", "write = STAGES - 2;", EARLY),
    Bug("the wrong stage to read", "stage", ASYNC_VECTORS, "int read = 0,", "int read = 1,", STALE),
    Bug("the ring is one stage too long", "stage", ASYNC_DYNAMIC, "read + 1 < STAGES", "read < STAGES",
        (POISON, VALUE, READS)),
    Bug("the ring is one stage too short", "stage", ASYNC, "write + 1 < STAGES ?", "write + 2 < STAGES ?",
        EARLY),
    Bug("B's tiles lie over A's last", "stage", ASYNC_DYNAMIC, "(As + STAGES)", "(As + STAGES - 1)",
        (VALUE, POISON, RACE)),
    Bug("no zero fill of A's vectors", "zero fill", ASYNC_VECTORS,
        "AT_EDGE ? valid_a(at, rows, depth) : VA", "VA", (READS, POISON, VALUE)),
    Bug("a count of floats for one of bytes", "zero fill", ASYNC_VECTORS, ": 4 * max(0,", ": max(0,", (VALUE, POISON),
        count=2),
    Bug("a negative count of valid bytes", "guard", ASYNC_VECTORS, "max(0, min(VB, valid))", "min(VB, valid)",
        (Diagnosis("crash", "count of valid bytes"),)),
    Bug("the element past the edge is copied", "guard", ASYNC, "VB == 1 ? (valid > 0 ?", "VB == 1 ? (valid >= 0 ?",
        (READS, POISON, VALUE)),
    Bug("a tile that crosses the last row is taken for a whole one", "guard", ASYNC, "rows >= BM", "rows >= BM - 1",
        (READS, POISON, VALUE)),
    Bug("the tile of the K tail is taken for a whole one", "zero fill", ASYNC_VECTORS, "depth >= BK", "depth > 0",
        (READS, POISON, VALUE), count=2),
    Bug("a misaligned vector copy", "misaligned", ASYNC, "constexpr int VB = 1;", "constexpr int VB = 4;",
        (MISALIGNED,), also=("constexpr int B_TEAM = 32;", "constexpr int B_TEAM = 16;")),
    Bug("too little dynamic shared memory", "shared memory", ASYNC_DYNAMIC, "", "",
        (Diagnosis("crash", "shared memory"),), launch=Launch(128, (("M", 32), ("N", 64)), 51_200 - 8_192)),
    Bug("a misaligned read of shared memory", "misaligned", ASYNC_DYNAMIC,
        "from + i / FM * STEP_M", "from + 1 + i / FM * STEP_M", (MISALIGNED,)),
    Bug("the K tail is dropped", "K tail", ASYNC_INNER, "k < s.K;", "k + BK <= s.K;", (VALUE,)),
    Bug("A's tiles advance by lda", "leading dimension", ASYNC, "const Offset a_step = BK;",
        "const Offset a_step = s.lda;", (READS, VALUE, POISON)),
    Bug("ldb where lda belongs", "leading dimension", ASYNC_VECTORS, "Offset(at.k) * s.lda", "Offset(at.k) * s.ldb",
        (READS, VALUE, POISON)),
    Bug("transposed B", "transposition", ASYNC_INNER, "Offset(at.mn) * s.ldb + at.k", "Offset(at.k) * s.ldb + at.mn",
        (READS, VALUE, POISON)),
)  # fmt: skip

AHEAD_BUGS = (
    Bug("no barrier before the first reads", "barrier", AHEAD,
        "        __syncthreads();              // so has everybody's\n", "", (RACE,)),
    Bug("no barrier before the next tile", "barrier", AHEAD_VECTORS,
        "__syncthreads();                  // so has everybody's, and", "// so has everybody's, and", (RACE,)),
    Bug("no wait for the first tile", "wait count", AHEAD_TILED, "cp_async_wait<STAGES - 1>();", "", (RACE,)),
    Bug("waits for one tile too few, read ahead", "wait count", AHEAD,
        "cp_async_wait<STAGES - 2>()", "cp_async_wait<STAGES - 1>()", (RACE,)),
    Bug("the next tile is refilled", "stage", AHEAD, "As[stage]);\n                        copy_b",
        "As[(stage + 1) % STAGES]);\n                        copy_b", EARLY),
    Bug("the switch comes two depths early", "stage", AHEAD_TILED, "d == AHEAD - 2", "d == AHEAD - 4", EARLY,
        count=2),
    Bug("the ring has one stage more", "stage", AHEAD_VECTORS, "stage + 1 < STAGES", "stage < STAGES",
        (*STALE, READS, OUT_OF_ARRAY)),
    Bug("the last tile's neighbour is read", "uninitialised", AHEAD, "if (d + 2 < AHEAD)", "if (true)", (UNWRITTEN,)),
    Bug("the same depth twice", "duplicated product", AHEAD,
        "add_product(a[d % 2], b[d % 2], acc);", "add_product(a[0], b[d % 2], acc);", (VALUE, POISON),
        count=2),
    Bug("a depth is read twice", "swapped index", AHEAD_VECTORS,
        "b_from + (d + 2) % AHEAD", "b_from + (d + 1) % AHEAD", (VALUE, POISON)),
    Bug("a depth of the last turn is read twice", "swapped index", AHEAD_VECTORS,
        "a_from + (d + 2) * PITCH_A", "a_from + (d + 1) * PITCH_A", (VALUE, POISON)),
    Bug("the last turn reads nothing anew", "missing product", AHEAD_VECTORS, "if (d + 2 < AHEAD)", "if (false)",
        (VALUE, POISON)),
    Bug("the last turn is left out", "K tail", AHEAD_TILED, "d < AHEAD; ++d) {  // the last turn",
        "d < 0; ++d) {", (VALUE,)),
    Bug("turns that stand still", "swapped index", AHEAD_VECTORS, "b_from += AHEAD * PITCH_B;", "", (VALUE, POISON)),
    Bug("values are replaced before they are used", "order", AHEAD,
        "add_product(a[d % 2], b[d % 2], acc);\n                read_a(a_from + (d + 2) % AHEAD * PITCH_A, a[d % 2]);",
        "read_a(a_from + (d + 2) % AHEAD * PITCH_A, a[d % 2]);\n                add_product(a[d % 2], b[d % 2], acc);",
        (VALUE, POISON)),
    Bug("K is rounded down to whole tiles", "K tail", AHEAD, "(s.K + BK - 1) / BK * BK", "s.K / BK * BK", (VALUE,)),
    Bug("the next tile as if behind this one", "stage", AHEAD_TILED, "b_from = &Bs[stage][0][place.n];", "",
        (READS, VALUE, POISON)),
    Bug("one product of a row is missing", "missing product", AHEAD_TILED,
        "step < TN; ++step", "step < TN - 1; ++step", (VALUE, POISON)),
    Bug("the way back starts too far", "swapped index", AHEAD,
        "TM - 1 - step", "TM - step", (VALUE, POISON, OUT_OF_ARRAY)),
)  # fmt: skip

SLICED_BUGS = (
    Bug("no barrier before sums take the place of tiles", "barrier", SLICED,
        "__syncthreads();  // nobody reads what stands there any more", "", (RACE,)),
    Bug("no barrier before sums are added", "barrier", SLICED,
        "__syncthreads();  // the sums of half the slices stand there", "", (RACE,)),
    Bug("no barrier before sums take the place of tiles, split", "barrier", SLICED_SPLIT,
        "__syncthreads();  // nobody reads what stands there any more", "", (RACE,)),
    Bug("no barrier before sums are added, split", "barrier", SLICED_SPLIT,
        "__syncthreads();  // the sums of half the slices stand there", "", (RACE,)),
    Bug("no barrier before the first reads, slices", "barrier", SLICED,
        "        __syncthreads();              // so has everybody's\n", "", (RACE,)),
    Bug("no barrier before the next tile, slices", "barrier", SLICED,
        "__syncthreads();                  // so has everybody's, and", "// so has everybody's, and", (RACE,)),
    Bug("no barrier before the ticket, slices", "barrier", SLICED_SPLIT,
        "__syncthreads();  // the whole block has written its part", "", (RACE_PARTIALS,)),
    Bug("no barrier after the ticket, slices", "barrier", SLICED_SPLIT,
        "    __syncthreads();\n    return last;", "    return last;", (RACE, POISON, VALUE)),
    Bug("a barrier for the slices that write", "divergence", SLICED,
        "        __syncthreads();  // the sums of half the slices stand there\n        if (slice < half) {",
        "        if (slice < half) {\n            __syncthreads();", (DIVERGENCE,)),
    Bug("slices leave once their sums are written", "divergence", SLICED,
        "        __syncthreads();  // nobody reads what stands there any more",
        "        if (slice >= 2 * half) return false;\n        __syncthreads();", (DIVERGENCE,)),
    Bug("slices without sums leave before the ticket", "divergence", SLICED_SPLIT, "    if (!add_splits(",
        "    if (!has_sums) return;\n    if (!add_splits(", (DIVERGENCE,)),
    Bug("every slice takes the first depths", "duplicated product", SLICED, "/ SLICE_THREADS * DEPTH};", "* 0};",
        (VALUE,)),
    Bug("slices start a step apart", "swapped index", SLICED, "/ SLICE_THREADS * DEPTH};", "/ SLICE_THREADS * BK};",
        (OUT_OF_ARRAY, READS, VALUE, POISON)),
    Bug("slices start one depth apart", "swapped index", SLICED_SPLIT, "/ SLICE_THREADS * DEPTH};",
        "/ SLICE_THREADS};", (VALUE, POISON)),
    Bug("A's first tile is read from its start", "swapped index", SLICED, "&As[0][place.k]", "&As[0][0]",
        (VALUE, POISON)),
    Bug("B's next tile is read from its start", "swapped index", SLICED_SPLIT, "&Bs[stage][place.k]", "&Bs[stage][0]",
        (VALUE, POISON)),
    Bug("warps of the block for warps of the slice", "swapped index", SLICED,
        "threadIdx.x % SLICE_THREADS / 32", "threadIdx.x / 32", (OUT_OF_ARRAY, READS, WRITES)),
    Bug("depths of a slice for depths of K", "guard", SLICED, "s.K - k * SLICES - ", "s.K - k - ",
        (READS, VALUE, POISON)),
    Bug("depths of a slice for depths of a block's part", "guard", SLICED_SPLIT, "part - k * SLICES - ", "part - k - ",
        (READS, VALUE, POISON, RACE)),
    Bug("a slice walks through a whole step", "stage", SLICED, "k % DEPTH == 0", "k % BK == 0", (*STALE, READS, RACE)),
    Bug("a slice walks through all of K", "duplicated product", SLICED_SPLIT, "/ BK * DEPTH;", "/ BK * BK;",
        (*STALE, READS, RACE)),
    Bug("the last slices' sums are left out", "missing product", SLICED, "int half = SLICES / 2;",
        "int half = SLICES / 4;", (VALUE,)),
    Bug("half of the sums are left out", "missing product", SLICED, "half > 0; half /= 2", "half > 1; half /= 2",
        (VALUE,)),
    Bug("a slice's sums replace another's", "missing product", SLICED_SPLIT, "sums[i + v] += part.at[v]",
        "sums[i + v] = part.at[v]", (VALUE,)),
    Bug("a slice adds its own sums", "duplicated product", SLICED_SPLIT, "sums[i + v] += part.at[v]",
        "sums[i + v] += sums[i + v]", (VALUE,)),
    Bug("a slice with some of the sums writes C", "swapped index", SLICED, "return slice == 0;",
        "return slice == 1;", (VALUE,)),
    Bug("slices that write take one place", "swapped index", SLICED, "slice % half * (BM * BN)", "0", (RACE,)),
    Bug("slices read where they would write", "swapped index", SLICED, "slice % half * (BM * BN)", "slice * (BM * BN)",
        (RACE, WRITES, VALUE, POISON)),
    Bug("sums one element apart", "swapped index", SLICED_SPLIT, "thread * WIDTH;", "thread;", (MISALIGNED,)),
    Bug("threads of the block for threads of the slice", "swapped index", SLICED,
        "from + i * SLICE_THREADS", "from + i * THREADS", (RACE, WRITES, READS), count=2),
    Bug("sums read from B's tiles on", "shared memory", SLICED, "reinterpret_cast<float*>(As));",
        "reinterpret_cast<float*>(Bs));", (READS, WRITES, RACE)),
    Bug("every slice writes C", "written twice", SLICED, "    if (!has_sums) return;\n", "", (RACE_C, VALUE)),
    Bug("every slice has the sums", "written twice", SLICED, "return slice == 0;", "return true;", (RACE_C, VALUE)),
    Bug("every slice writes its part", "written twice", SLICED_SPLIT, "if (has_sums && (", "if ((",
        (RACE_PARTIALS, BESIDE_PARTIALS, WRITES, VALUE)),
    Bug("every slice adds up the parts", "written twice", SLICED_SPLIT, " || !has_sums) return false;",
        ") return false;", (RACE_C, BESIDE_PARTIALS, READS, VALUE)),
    Bug("parts of the block's threads, not of the slice's", "workspace", SLICED_SPLIT,
        "i * SLICE_THREADS + threadIdx.x", "i * THREADS + threadIdx.x",
        (BESIDE_PARTIALS, RACE_PARTIALS, WRITES, VALUE, POISON), count=2),
    Bug("a launch of one slice", "grid", SLICED, "", "", (VALUE, POISON, UNWRITTEN),
        launch=Launch(128, (("M", 32), ("N", 64)), 19200)),
    Bug("shared memory for one tile less", "shared memory", SLICED, "", "", (Diagnosis("crash", "shared memory"),),
        launch=Launch(512, (("M", 32), ("N", 64)), 12800)),
)  # fmt: skip

TICKET = "last = atomicInc(ticket, SPLIT - 1) == SPLIT - 1;  // ("
SKINNY_BUGS = (
    # Split K
    Bug("no fence before the ticket", "fence", ACROSS_SPLIT,
        "__threadfence();                                   // it is", "// it is", (RACE_PARTIALS,)),
    Bug("no fence after the ticket", "fence", ACROSS_SPLIT,
        "__threadfence();                                   // and parts", "// and parts", (RACE_PARTIALS,)),
    Bug("no fence before the ticket, along k", "fence", ALONG_K_SPLIT,
        "__threadfence();                                   // it is", "// it is", (RACE_PARTIALS,)),
    Bug("no barrier before the ticket", "barrier", ACROSS_SPLIT,
        "__syncthreads();  // the whole block has written its part", "", (RACE_PARTIALS,)),
    Bug("no barrier after the ticket", "barrier", ACROSS_SPLIT,
        "    __syncthreads();\n    return last;", "    return last;", (RACE, POISON, VALUE)),
    Bug("no ticket: the last block by number adds up", "ticket", ACROSS_SPLIT,
        TICKET, "last = blockIdx.x % SPLIT == SPLIT - 1;  // (", (RACE_PARTIALS, POISON, VALUE)),
    Bug("every block adds up", "ticket", ACROSS_SPLIT, TICKET,
        "last = 1 + atomicInc(ticket, SPLIT - 1);  // (", (RACE_PARTIALS, RACE_C, POISON, VALUE)),
    Bug("no atomic for the ticket", "ticket", ACROSS_SPLIT, TICKET,
        "last = *ticket == SPLIT - 1; *ticket = last ? 0 : *ticket + 1;  // (", (RACE_TICKETS, RACE_PARTIALS)),
    Bug("the first block to come adds up", "ticket", ACROSS_SPLIT, TICKET,
        "last = atomicInc(ticket, SPLIT - 1) == 0;  // (", (RACE_PARTIALS, POISON, VALUE)),
    Bug("the ticket is not reset", "ticket", ACROSS_SPLIT, TICKET,
        "last = atomicAdd(ticket, 1u) == SPLIT - 1;  // (", (TICKET_LEFT,)),
    Bug("the ticket wraps too late", "ticket", ALONG_K_SPLIT, "atomicInc(ticket, SPLIT - 1)",
        "atomicInc(ticket, SPLIT)", (TICKET_LEFT,)),
    Bug("the ticket wraps too late, sampled", "ticket", SPLIT_BIG, "atomicInc(ticket, SPLIT - 1)",
        "atomicInc(ticket, SPLIT)", (TICKET_LEFT,)),
    Bug("all tiles take one ticket", "ticket", ACROSS_SPLIT, "last_to_arrive(tickets + tile)",
        "last_to_arrive(tickets)", (POISON, VALUE, RACE_PARTIALS)),
    Bug("the last block keeps its own part in registers", "order", ACROSS_SPLIT,
        "sums[i] += __ldcg(parts + split",
        "if (split != int(blockIdx.x % SPLIT)) sums[i] += __ldcg(parts + split", (ORDER,), also=(
            "for (int i = 0; i < COUNT; ++i) sums[i] = 0.0f;", "for (int i = 0; i < 0; ++i) sums[i] = 0.0f;")),
    Bug("one part is left out", "missing product", ACROSS_SPLIT, "split < SPLIT; ++split", "split < SPLIT - 1; ++split",
        (VALUE,)),
    Bug("parts of the wrong tile", "swapped index", ACROSS_SPLIT, "static_cast<long long>(tile) * SPLIT * (BM * BN)",
        "static_cast<long long>(tile) * (BM * BN)", (RACE_PARTIALS, VALUE, POISON)),
    Bug("parts one behind the end", "workspace", ALONG_K_SPLIT, "float* const mine = parts + blockIdx.x % SPLIT",
        "float* const mine = parts + (blockIdx.x % SPLIT + 1)",
        (BESIDE_PARTIALS, RACE_PARTIALS, POISON, VALUE, WRITES)),
    Bug("K is split without its tail", "K tail", ACROSS_SPLIT, "(K + SPLIT * STEP - 1) / (SPLIT * STEP) * STEP",
        "K / (SPLIT * STEP) * STEP", (VALUE,)),
    Bug("parts of K overlap by a step", "duplicated product", MIRRORED, "min(K, (split + 1) * part)",
        "min(K, (split + 1) * part + STEP)", (VALUE,)),
    Bug("blocks of a tile next to each other, in the kernel only", "grid", SPLIT_BIG, "tile = blockIdx.x / SPLIT;",
        "tile = blockIdx.x % (gridDim.x / SPLIT);", (TILES_WRITTEN, TICKET_LEFT, POISON), count=2),
    # Streaming
    Bug("no barrier before a chunk is overwritten", "barrier", ACROSS,
        "__syncthreads();  // nobody reads the chunk before any more", "", (RACE,)),
    Bug("no barrier before a chunk is read", "barrier", ALONG_K,
        "__syncthreads();  // the chunk is complete", "", (RACE,)),
    Bug("no barrier before the sums replace the chunk", "barrier", ACROSS,
        "__syncthreads();  // nobody reads the last chunk any more", "", (RACE,)),
    Bug("no barrier before the sums are added", "barrier", ACROSS,
        "    leave(acc, place, parts);\n    __syncthreads();", "    leave(acc, place, parts);", (RACE,)),
    Bug("the ring is refilled a step too far", "stage", ACROSS, "k + at + UNROLL * STEP, end", "k + at + STEP, end",
        (VALUE,)),
    Bug("the ring starts one step late", "stage", ALONG_K, "begin + place.k + u * STEP",
        "begin + place.k + (u + 1) * STEP", (VALUE,)),
    Bug("a chunk starts one deep", "K tail", ACROSS, "k + depth < end &&", "k + depth < end - 1 &&", (VALUE,)),
    Bug("the last chunk is dropped", "K tail", ACROSS, "k < end; k += BK", "k + BK <= end; k += BK", (VALUE,)),
    Bug("weights beyond the end of K", "guard", ACROSS, "const bool exists = k < end && (!EDGE_N",
        "const bool exists = (!EDGE_N", (READS,)),
    Bug("weights beyond the part of K", "guard", ALONG_K_SPLIT, "const int depth = min(BK, end - k);",
        "const int depth = BK;\n        end = s.K;", (VALUE, POISON, RACE), also=(
            "const auto [begin, end] = depths_of_split(s.K, blockIdx.x % SPLIT);",
            "const auto [begin, first_end] = depths_of_split(s.K, blockIdx.x % SPLIT);\n    int end = first_end;")),
    Bug("columns beyond the edge of the weights", "guard", ALONG_K, "k < end && (!EDGE_N || n + t < s.N)", "k < end",
        (READS,)),
    Bug("rows beyond the edge of the small operand", "guard", ACROSS, "(!EDGE_M || m + line < s.M)", "true", (READS,)),
    Bug("no zero fill of the chunk", "zero fill", ACROSS_FIXED, "exists ? A[at] : 0.0f", "A[at]",
        (READS, POISON, VALUE)),
    Bug("a shuffle of half the lanes", "divergence", ALONG_K, "0xffffffffu, other", "0xffffu, other",
        (Diagnosis("crash", "mask"), DIVERGENCE)),
    Bug("a shuffle by some threads", "divergence", ALONG_K, "    warp_sum(values);",
        "    if (threadIdx.x % 32 < 24) warp_sum(values);", (DIVERGENCE,)),
    Bug("a shuffle too few", "missing product", ALONG_K, "distance = 16; distance > 0;", "distance = 16; distance > 1;",
        (VALUE, POISON)),
    Bug("the wrong half is kept", "swapped index", ALONG_K, "halved && second ? values[kept + i] : values[i];",
        "halved && !second ? values[kept + i] : values[i];", (VALUE,)),
    Bug("one warp's depths are left out", "missing product", ACROSS, "part < PARTS; ++part", "part < PARTS - 1; ++part",
        (VALUE,)),
    Bug("the tile's rows and columns swapped", "swapped index", MIRRORED, "parts[part][element % BN][element / BN]",
        "parts[part][element / BN % S][element % BN]", (VALUE, POISON, UNWRITTEN, OUT_OF_ARRAY)),
    Bug("weights as vectors from lines that are not aligned", "misaligned", ACROSS, "constexpr int VW = 1;",
        "constexpr int VW = 4;", (MISALIGNED,)),
    Bug("tiles that share weights are rounded down", "grid", ACROSS, "thin = (s.M + BM - 1) / BM",
        "thin = max(1, s.M / BM)", (POISON, VALUE)),
    Bug("beta = 0 reads C", "beta = 0", ACROSS_SPLIT, "beta == 0.0f ? alpha * sums[i] :", "", (POISON,)),
    Bug("alpha is dropped with beta", "scalars", MIRRORED, "fmaf(beta, *to, alpha * sums[i])",
        "fmaf(beta, *to, sums[i])", (VALUE,)),
)  # fmt: skip

F64_BUGS = (
    Bug("sums in float", "precision", NAIVE_F64, "double acc = 0.0;", "float acc = 0.0f;", (VALUE,)),
    Bug("one FMA in float", "precision", DOUBLE_F64, "fma(a[i], b[j], acc[i][j])",
        "i + j == 0 ? fmaf(a[i], b[j], acc[i][j]) : fma(a[i], b[j], acc[i][j])", (VALUE,)),
    Bug("operands keep 24 bits", "precision", DOUBLE_F64, "fma(a[i], b[j], acc[i][j])",
        "fma(double(float(a[i])), b[j], acc[i][j])", (VALUE,)),
    Bug("bytes of floats", "zero fill", ASYNC_F64, ": 8 * max(0,", ": 4 * max(0,", (VALUE, POISON), count=2),
    Bug("vectors of 16 bytes from lines of 8", "misaligned", DOUBLE_F64, "constexpr int VA = 1;",
        "constexpr int VA = 2;", (MISALIGNED,)),
)  # fmt: skip

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
        "__syncthreads();              // so has", "// so has", (RACE,)),
    Bug("no barrier before the next group", "barrier", SMALL_BATCH,
        "__syncthreads();  // nobody", "// nobody", (RACE,)),
    Bug("no barrier before the products, copied at once", "barrier", SMALL_BATCH_CR,
        "__syncthreads();  // the group is complete", "", (RACE,)),
    Bug("waits for one group too few", "wait count", SMALL_BATCH, "cp_async_wait<STAGES - 1>()",
        "cp_async_wait<STAGES>()", (RACE,)),
    Bug("the next group lands in the wrong stage", "stage", SMALL_BATCH, "first + next * MB, &Bs[stage * MB]",
        "first + next * MB, &Bs[0]", (RACE, VALUE, POISON)),
    Bug("the last group is written without a guard", "guard", SMALL_BATCH, "if (!EDGE_BATCH || product < s.batch)",
        "if (true)", (OUTSIDE_C, WRITES, READS, UNWRITTEN)),
    Bug("the last group is read without a guard", "guard", SMALL_BATCH,
        "if (EDGE_BATCH && first + matrix >= s.batch) break;", "", (READS,), count=2),
    Bug("the last group is left out", "guard", SMALL_BATCH_CR, "product < s.batch", "first + MB <= s.batch",
        (POISON, VALUE)),
    Bug("strides of A and B swapped", "batch", SMALL_BATCH, "matrix) * s.stride_a", "matrix) * s.stride_b",
        (VALUE, POISON, READS)),
    Bug("a group's products share B", "batch", SMALL_BATCH, "Bs[stage * MB + mine]", "Bs[stage * MB]", (VALUE,)),
    Bug("a walk in steps of one product", "batch", SMALL_BATCH, "first + step * MB + mine", "first + step + mine",
        (VALUE, POISON, RACE_C, UNWRITTEN)),
    Bug("C at A's stride", "batch", SMALL_BATCH, "product * s.stride_c", "product * s.stride_a",
        (VALUE, POISON, OUTSIDE_C, WRITES, READS, RACE_C)),
    Bug("one product of the sum is missing", "missing product", SMALL_BATCH_CR,
        "k < Shape::K;", "k < Shape::K - 1;", (VALUE,)),
    Bug("lanes' rows and columns swapped", "swapped index", SMALL_BATCH_CR, "return {lane_m * FM, lane_n * FN};",
        "return {lane_n * FM, lane_m * FN};", (POISON, VALUE, WRITES, OUTSIDE_C, RACE_C, UNWRITTEN)),
)  # fmt: skip

POINTER_BUGS = (
    Bug("B of the next product", "pointer", NAIVE_POINTERS, "B_array[matrix]", "B_array[matrix + 1]", (PAST_POINTERS,)),
    Bug("B's pointers for A's", "pointer", NAIVE_POINTERS, "A_array[matrix]", "B_array[matrix]",
        (VALUE, POISON, READS)),
    Bug("one line too many of a matrix", "guard", NAIVE_POINTERS, "k < s.K;", "k <= s.K;", (READS, VALUE, POISON)),
    Bug("matrices of A as if one followed the other", "pointer", DOUBLE_POINTERS, "A_array[matrix]",
        "A_array[0] + static_cast<long long>(matrix) * s.M * s.lda", (READS, VALUE, POISON)),
    Bug("matrices of C as if one followed the other", "pointer", DOUBLE_POINTERS, "C_array[matrix]",
        "C_array[0] + static_cast<long long>(matrix) * s.M * s.ldc", (WRITES, READS, OUTSIDE_C, POISON, VALUE)),
    Bug("every product takes the first B", "pointer", DOUBLE_POINTERS, "B_array[matrix]", "B_array[0]", (VALUE,)),
    Bug("a pointer for each tile", "pointer", DOUBLE_POINTERS, "C_array[matrix]", "C_array[blockIdx.x]",
        (PAST_POINTERS, VALUE, POISON)),
    Bug("pointers past the batch's end", "guard", SMALL_POINTERS,
        "if (EDGE_BATCH && first + matrix >= s.batch) break;", "", (PAST_POINTERS,), count=2),
    Bug("C of a product that is none", "guard", SMALL_POINTERS, "if (!EDGE_BATCH || product < s.batch)", "if (true)",
        (PAST_POINTERS, UNWRITTEN)),
    Bug("a group's products write one C", "pointer", SMALL_POINTERS, "C_array[product]", "C_array[product - mine]",
        (RACE_C, POISON, VALUE)),
    Bug("products of a group as if they were dense", "pointer", SMALL_POINTERS, "batch[first + matrix]",
        "batch[first] + matrix * (Shape::M * Shape::K)", (READS, VALUE, POISON), count=2),
)  # fmt: skip

BUGS: tuple[Bug, ...] = (
    *NAIVE_BUGS, *SINGLE_BUGS, *DOUBLE_BUGS, *ASYNC_BUGS, *AHEAD_BUGS, *SLICED_BUGS, *SKINNY_BUGS, *F64_BUGS,
    *BATCH_BUGS, *POINTER_BUGS,
)  # fmt: skip
