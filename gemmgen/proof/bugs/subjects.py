"""The correct kernels that bugs are planted in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gemmgen.families import BATCHED, BATCHED_MMA, MMA, NAIVE, SKINNY, THREAD_TILE, WGMMA, WMMA
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import Inputs
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Compute, Types
from gemmgen.proof.bugs.base import Subject

UNWARPED = (("OUTER", 0), ("WM", 0), ("WN", 0))


def _runtime(layout: str, ld_align: int = 1, dtype: DType = DType.F32) -> Problem:
    return Problem(None, None, None, dtype=dtype, layout=Layout.parse(layout), ld_align=ld_align)


def _typed(types: str, layout: str, inputs: str = "plain") -> Problem:
    return replace(_runtime(layout), types=Types.parse(types), inputs=Inputs.parse(inputs))


def _changed(problem: Problem, **fields: Any) -> Problem:
    """`problem` with other fields, given as `Problem` takes them."""
    return replace(problem, **fields)


NAIVE_RR = Subject("naive rr", _runtime("rr"), family=NAIVE)
NAIVE_CC = Subject("naive cc", _runtime("cc"), (("BM", 8), ("BN", 32)), NAIVE)
NAIVE_FIXED = Subject("naive fixed", Problem(67, 69, 35, layout="cr"), family=NAIVE)
THREAD_TILE_RR = Subject("thread tiles rr", _runtime("rr"), (("BM", 16), ("BN", 32)), THREAD_TILE)
THREAD_TILE_CC = Subject("thread tiles cc", _runtime("cc"), (("BM", 16), ("BN", 16), ("TM", 2)), THREAD_TILE)
THREAD_TILE_WIDE = Subject("thread tiles, wide", Problem(67, 69, 35), (("BM", 16), ("TN", 2)), THREAD_TILE)
NAIVE_TALL = Subject("naive tall, sampled", Problem(40000, 64, 128), family=NAIVE)
SINGLE = Subject("single rr", _runtime("rr"), (("STAGES", 1),))
SINGLE_INNER = Subject("single inner cr", _runtime("cr"), (("STAGES", 1), *UNWARPED))
SINGLE_TILED = Subject("single tiled", Problem(64, 64, 64), (("STAGES", 1),))
SINGLE_FIXED = Subject("single fixed cc", Problem(67, 69, 35, layout="cc", lda=72, ldb=72, ldc=72), (("STAGES", 1),))
DOUBLE = Subject("double rr", _runtime("rr"))
DOUBLE_VECTORS = Subject("double rr vectors", _runtime("rr", 4), (("BK", 16), ("GROUP", 2)))
DOUBLE_RC = Subject("double fixed rc", Problem(67, 69, 35, layout="rc", lda=72, ldb=72, ldc=72), (("TA", 0), ("TB", 0)))
DOUBLE_INNER = Subject("double inner cc", _runtime("cc"), UNWARPED)
DOUBLE_BIG = Subject("double big, sampled", Problem(1024, 1024, 512))
# 164 MB of A, most of it padding. Elements past 2^31 would take 8 GB: what is planted here overflows earlier.
DOUBLE_STRIDES = Subject("double wide stride", Problem(40, 64, 40, lda=2**20 + 1), (("BK", 4),))
ASYNC = Subject("cp.async rr", _runtime("rr"), (("STAGES", 3), ("ASYNC", 1)))
ASYNC_VECTORS = Subject("cp.async cr vectors", _runtime("cr", 4), (("STAGES", 4), ("ASYNC", 1)))
ASYNC_INNER = Subject("cp.async inner cc", _runtime("cc"), (("STAGES", 2), ("ASYNC", 1), *UNWARPED))
ASYNC_DYNAMIC = Subject("cp.async dynamic", Problem(100, 72, 200), (("BK", 32), ("STAGES", 4), ("ASYNC", 1)))
PREFETCHED = Subject("prefetch rr", _runtime("rr"), (("STAGES", 3), ("ASYNC", 1), ("K_UNROLL", 2)))
PREFETCHED_VECTORS = Subject("prefetch cr vectors", _runtime("cr", 4), (("STAGES", 2), ("ASYNC", 1), ("K_UNROLL", 4)))
PREFETCHED_TILED = Subject(
    "prefetch tiled", Problem(64, 64, 64), (("STAGES", 2), ("ASYNC", 1), ("K_UNROLL", 8), ("TM", 2), ("TN", 8))
)
K_VECTORS = Subject(
    "prefetch rr, A by turns", _runtime("rr"), (("STAGES", 2), ("ASYNC", 1), ("K_UNROLL", 4), ("TA", 0))
)
K_VECTORS_HOISTED = Subject(
    "prefetch rc, B by turns, columns early", _runtime("rc", 4),
    (("BK", 16), ("STAGES", 3), ("ASYNC", 1), ("K_UNROLL", 4), ("TB", 0), ("SLICES", 2), ("HOIST", 1), ("FMA_ORDER",
        2)),
)  # fmt: skip
HOISTED = Subject(
    "prefetch cr, columns early", _runtime("cr"), (("STAGES", 3), ("ASYNC", 1), ("K_UNROLL", 2), ("HOIST", 1))
)
SLICED = Subject("sliced rr", _runtime("rr"), (("BK", 32), ("STAGES", 3), ("ASYNC", 1), ("K_UNROLL", 2), ("SLICES", 4)))
SLICED_SPLIT = Subject(
    "sliced cr vectors, split",
    _runtime("cr", 4),
    (("BK", 16), ("ASYNC", 1), ("K_UNROLL", 4), ("SLICES", 2), ("SPLIT", 3)),
)
STREAM = Subject("stream rr", _runtime("rr"), (("STAGES", 3), ("ASYNC", 1), ("STREAM", 3), ("PDL", 1)))
STREAM_PREFETCHED = Subject(
    "stream cr vectors, prefetch", _runtime("cr", 4), (("STAGES", 2), ("ASYNC", 1), ("K_UNROLL", 4), ("STREAM", 7))
)
STREAM_BIG = Subject("stream, sampled", Problem(1024, 1024, 512), (("STAGES", 3), ("ASYNC", 1), ("STREAM", 24)))
MOVED = Subject("moved", Problem(70, 100, 35))
MOVED_PREFETCHED = Subject("moved, prefetch", Problem(70, 131, 45), (("STAGES", 2), ("ASYNC", 1), ("K_UNROLL", 4)))
MOVED_BIG = Subject("moved, sampled", Problem(1000, 1000, 512))
ACROSS = Subject("skinny across", Problem(None, None, None), family=SKINNY)
ACROSS_SPLIT = Subject("skinny across, split", Problem(None, None, None), (("SPLIT", 3),), SKINNY)
ACROSS_FIXED = Subject("skinny across, fixed cr", Problem(3, 200, 67, layout="cr", ldb=200), family=SKINNY)
GROUPED = Subject(
    "skinny across, lanes in groups", Problem(None, None, None, ld_align=4), (("T", 8), ("LANES", 4)), SKINNY
)
GROUPED_ROW = Subject("skinny across, a row", Problem(1, None, None), (("S", 1), ("LANES", 2), ("BK", 64)), SKINNY)
DEPENDENT = Subject("skinny along k, dependent", _runtime("rc", 4), (("BK", 256), ("SPLIT", 2), ("PDL", 1)), SKINNY)
DIRECT = Subject("skinny across, direct", Problem(None, None, None), (("BK", 0), ("SPLIT", 2)), SKINNY)
DIRECT_ALONG_K = Subject(
    "skinny along k, direct", Problem(3, 21, None, layout="rc", ld_align=4, ldb=None), (("S", 2), ("BK", 0)), SKINNY
)
MIRRORED = Subject("skinny mirrored", Problem(None, 5, None, layout="cc"), (("SPLIT", 2),), SKINNY)
ALONG_K = Subject(
    "skinny along k", Problem(3, 21, None, layout="rc", ld_align=4, ldb=None), (("BK", 256), ("UNROLL", 1)), SKINNY
)
ALONG_K_SPLIT = Subject("skinny along k, split", Problem(4, 21, 1000, layout="rc"), (("BK", 256), ("SPLIT", 4)), SKINNY)
SPLIT_BIG = Subject("skinny split, sampled", Problem(16, 16384, 4096), (("SPLIT", 8),), SKINNY)

NAIVE_F64 = Subject("naive f64 cr", _runtime("cr", dtype=DType.F64), family=NAIVE)
NAIVE_BF16 = Subject("naive bf16 rr", _typed("bf16", "rr"), family=NAIVE)
NAIVE_E4M3 = Subject("naive e4m3 rc", _typed("e4m3", "rc"), family=NAIVE)
NAIVE_S8 = Subject("naive s8 to s32, rr", _typed("s8,s8,s32", "rr"), family=NAIVE)
NAIVE_TO_S8 = Subject("naive u8, s8 to s8, cr", _typed("u8,s8,s8", "cr"), family=NAIVE)
NAIVE_S8_LONG, NAIVE_TO_S8_LONG, NAIVE_TO_F16_LONG = (
    Subject(f"naive {types}, long sums", Problem(48, 48, k, types=Types.parse(types)), family=NAIVE)
    for types, k in (("s8,s8,s32", 560), ("s8,s8,s8", 700), ("u8,u8,f16", 300))
)
NAIVE_U4 = Subject("naive f16, u4 scaled along K, rr", _typed("f16,u4,f32", "rr", "scales=32+zeros"), family=NAIVE)
NAIVE_GROUPS = Subject("naive groups of rows, bf16 rc", _typed("bf16,bf16,f32", "rc", "groups=5"), family=NAIVE)
NAIVE_GROUPS_SCALED = Subject(
    "naive groups with scales, e4m3 rc",
    _changed(_typed("e4m3,e4m3,bf16", "rc", "groups=5"), epilogue="scale_m+scale_n+scale_b"), family=NAIVE,
)  # fmt: skip
NAIVE_MASKED = Subject("naive masked groups, bf16 rc", _typed("bf16,bf16,f32", "rc", "groups=5+masked"), family=NAIVE)
NAIVE_ALONG_K = Subject("naive groups along K, f16 cr", _typed("f16,f16,f32", "cr", "groups=5+along_k"), family=NAIVE)
NAIVE_BLOCKS = Subject("naive scales of blocks, e4m3 rc", _typed("e4m3,e4m3,f32", "rc", "blocks"), family=NAIVE)
NAIVE_GROUPS_BLOCKS = Subject(
    "naive scales of blocks of groups, e4m3 rc", _typed("e4m3,e4m3,f32", "rc", "groups=5+blocks"), family=NAIVE
)
NAIVE_CONV = Subject(
    "naive convolution, f16 rc",
    Problem(None, None, 24, types="f16,f16,f32", layout="rc", lda=None, inputs="im2col=8x9x4_3x2_p1x1x2x0_s2x1_d1x2"),
    family=NAIVE,
)
NAIVE_WGRAD = Subject(
    "naive gradient of filters, f16 cr",
    Problem(None, 24, None, types="f16,f16,f32", layout="cr", inputs="im2col=8x9x4_3x2_p1x1x2x0_s2x1_d1x2+wgrad"),
    family=NAIVE,
)
NAIVE_GATHERED = Subject("naive gathered rows, rr", _typed("f32", "rr", "gathered"), family=NAIVE)
NAIVE_GROUPS_GATHERED = Subject(
    "naive gathered rows in groups, rc", _typed("f16,f16,f32", "rc", "groups=3+gathered"), family=NAIVE
)
NAIVE_S4 = Subject("naive bf16, s4 scaled, rc", _typed("bf16,s4,f32", "rc", "scales=K"), family=NAIVE)
NAIVE_U8_SCALED = Subject("naive bf16, u8 scaled, cc", _typed("bf16,u8,f32", "cc", "scales=128+zeros"), family=NAIVE)
SKINNY_BF16 = Subject(
    "skinny bf16 rc", Problem(3, None, None, types="bf16", layout="rc", ld_align=8),
    (("S", 4), ("WARPS", 2), ("BK", 512)), SKINNY,
)  # fmt: skip
SKINNY_RING = Subject(
    "skinny bf16 rr, ring", Problem(1, None, None, types="bf16", ld_align=8),
    (("S", 1), ("T", 8), ("LANES", 4), ("BK", 0), ("UNROLL", 2), ("DEPTH", 4), ("ASYNC", 1)), SKINNY,
)  # fmt: skip
SKINNY_MMA = Subject(
    "skinny on tensor cores", _changed(_runtime("rc", 8), types="bf16"),
    (("S", 8), ("T", 16), ("WARPS", 2), ("BK", 0), ("UNROLL", 2), ("MMA", 1)), SKINNY,
)  # fmt: skip
SKINNY_MMA_ACROSS = Subject(
    "skinny across, on tensor cores", _changed(_runtime("rr", 8), types="bf16"),
    (("S", 8), ("T", 16), ("LANES", 8), ("WARPS", 2), ("BK", 0), ("UNROLL", 2), ("DEPTH", 4), ("MMA", 1)), SKINNY,
)  # fmt: skip
SKINNY_DOT = Subject(
    "skinny u8, s8 rc", Problem(3, None, None, types="u8,s8,s32", layout="rc", ld_align=16),
    (("S", 4), ("WARPS", 2), ("BK", 1024)), SKINNY,
)  # fmt: skip
MMA_RC = Subject("mma bf16 rc", _changed(_typed("bf16", "rc"), ld_align=8), family=MMA)
MMA_RR = Subject("mma f16 rr", _changed(_typed("f16,f16,f32", "rr"), ld_align=4), (("STAGES", 2), ("BK", 64)), MMA)
MMA_TF32 = Subject(
    "mma tf32 rc", Problem(None, None, None, types=Types.parse("f32", Compute.TF32), layout="rc"), family=MMA
)
MMA_FAST = Subject(
    "mma e4m3 rc, fast", Problem(32, 32, 4096, types=Types.parse("e4m3", Compute.FAST), layout="rc"),
    family=MMA, arch="sm_89",
)  # fmt: skip
MMA_SPLIT = Subject("mma bf16 cr, split", _changed(_typed("bf16", "cr"), ld_align=8), (("SPLIT", 3),), MMA)
MMA_WHOLE = Subject(
    "mma s8 rc, whole tiles", Problem(64, 96, 320, types="s8,s8,s32", layout="rc"),
    (("STAGES", 4), ("BM", 64), ("WM", 32)), MMA,
)  # fmt: skip
MMA_SPLIT_F32 = Subject(
    "mma f16 to f32, split", _changed(_typed("f16,f16,f32", "rr"), ld_align=8), (("SPLIT", 3),), MMA
)
MMA_REGISTERS = Subject("mma f16 cc through registers", _typed("f16", "cc"), family=MMA)
MMA_EXCHANGE = Subject(
    "mma u8, s8 rc, sums exchanged, zero points",
    _changed(_typed("u8,s8,bf16", "rc"), ld_align=16, epilogue="zero_m+zero_n"),
    (("WN", 32), ("EXCHANGE", 1)), MMA,
)  # fmt: skip
MMA_PAIRS = Subject("mma s8 rr", _changed(_typed("s8,s8,s32", "rr"), ld_align=16), (("WN", 32),), MMA)
MMA_PAIRS_EXCHANGE = Subject(
    "mma u8, s8 cr, sums exchanged, zero points",
    _changed(_typed("u8,s8,bf16", "cr"), ld_align=16, epilogue="zero_m+zero_n"),
    (("WN", 32), ("EXCHANGE", 1)), MMA,
)  # fmt: skip
MMA_PAIRS_FAST = Subject(
    "mma e4m3 cc, fast", Problem(32, 32, 4096, types=Types.parse("e4m3", Compute.FAST), layout="cc"),
    family=MMA, arch="sm_89",
)  # fmt: skip
WGMMA_RC = Subject(
    "wgmma bf16 rc", _changed(_typed("bf16", "rc"), n=72, ld_align=8), (("STAGES", 3), ("BN", 64)), WGMMA
)
WGMMA_WIDE = Subject("wgmma bf16 rc, wide tiles", _changed(_typed("bf16", "rc"), ld_align=8), (("BN", 256),), WGMMA)
WGMMA_CUT = Subject(
    "wgmma bf16 rc, a tile that an edge cuts", _changed(_typed("bf16", "rc"), ld_align=8),
    (("BM", 128), ("BN", 64), ("CONSUMERS", 2), ("STAGES", 2)), WGMMA,
)  # fmt: skip
WGMMA_TURNS = Subject("wgmma bf16 rc, sampled", Problem(1024, 1024, 576, types="bf16", layout="rc"), family=WGMMA)
WGMMA_BIG = Subject(
    "wgmma bf16 rc, big, sampled", Problem(4096, 4096, 768, types="bf16", layout="rc"),
    (("BM", 128), ("BN", 64), ("CONSUMERS", 2)), WGMMA,
)  # fmt: skip
WGMMA_CR = Subject(
    "wgmma f16 cr, two consumers", Problem(200, 136, 200, types="f16", layout="cr"),
    (("BM", 128), ("BN", 128), ("CONSUMERS", 2), ("STAGES", 2)), WGMMA,
)  # fmt: skip
WGMMA_PAIR = Subject(
    "wgmma bf16 rc, clusters", _changed(_typed("bf16", "rc"), ld_align=8), (("CLUSTER", 2), ("STAGES", 2)), WGMMA
)
WGMMA_PAIR_CUT = Subject(
    "wgmma bf16 rc, clusters, tiles that edges cut", _changed(_typed("bf16", "rc"), ld_align=8),
    (("BN", 64), ("CLUSTER", 2), ("STAGES", 2)), WGMMA,
)  # fmt: skip
WGMMA_PAIR_CR = Subject(
    "wgmma f16 cr, clusters, two consumers", Problem(200, 136, 200, types="f16", layout="cr"),
    (("BM", 128), ("BN", 128), ("CONSUMERS", 2), ("CLUSTER", 2), ("STAGES", 2)), WGMMA,
)  # fmt: skip
WGMMA_PROMOTED = Subject(
    "wgmma e4m3 rc, promoted, a batch by rows",
    Problem(
        100, 51, 208, batch=3, types=Types.parse("e4m3,e4m3,f32", Compute.PROMOTED), layout="rc"
    ),
    (("PERSISTENT", 0), ("STAGES", 2), ("IN_FLIGHT", 0)), WGMMA,
)  # fmt: skip
WGMMA_PINGPONG = Subject(
    "wgmma bf16 rc, consumers in turns", _changed(_typed("bf16", "rc"), n=72, ld_align=8),
    (("BM", 128), ("CONSUMERS", 2), ("STAGES", 3), ("PINGPONG", 1)), WGMMA,
)  # fmt: skip
WGMMA_SWAP = Subject(
    "wgmma bf16 rr, A and B change places", _changed(_typed("bf16", "rr"), m=150, n=136, ld_align=8),
    (("BM", 96), ("BN", 128), ("CONSUMERS", 1), ("STAGES", 3), ("SWAP", 1)), WGMMA,
)  # fmt: skip
WGMMA_SWAP_CUT = Subject(
    "wgmma bf16 rc, A and B change places, edges cut",
    _changed(_typed("bf16", "rc"), n=136, ld_align=8, epilogue="scale_m+scale_n+bias"),
    (("BM", 96), ("BN", 128), ("CONSUMERS", 1), ("STAGES", 3), ("SWAP", 1)), WGMMA,
)  # fmt: skip
WGMMA_CODES = Subject(
    "wgmma bf16 u4 rc, scales and zero points",
    Problem(None, 136, 256, types="bf16,u4,bf16", layout="rc", inputs="scales=128+zeros"),
    (("BM", 16), ("BN", 128), ("BK", 128), ("CONSUMERS", 2), ("STAGES", 3)), WGMMA,
)  # fmt: skip
WGMMA_CODES_CUT = Subject(
    "wgmma f16 s4 rr, K ends in a chunk",
    Problem(None, 72, 208, types="f16,s4,f16", layout="rr", inputs="scales=64"),
    (("BM", 16), ("BN", 64), ("BK", 128), ("CONSUMERS", 1), ("STAGES", 2)), WGMMA,
)  # fmt: skip
WGMMA_CODES_SUMS = Subject(
    "wgmma f16 s4 rc, sums of groups have scales",
    Problem(None, 136, 384, types=Types.parse("f16,s4,f32", Compute.PROMOTED), layout="rc", inputs="scales=64"),
    (("BM", 16), ("BN", 128), ("BK", 128), ("CONSUMERS", 2), ("STAGES", 3)), WGMMA,
)  # fmt: skip
WGMMA_BYTES = Subject(
    "wgmma bf16 u8 rc, scales and zero points",
    Problem(None, 136, 256, types="bf16,u8,bf16", layout="rc", inputs="scales=128+zeros"),
    (("BM", 16), ("BN", 128), ("BK", 128), ("CONSUMERS", 2), ("STAGES", 3)), WGMMA,
)  # fmt: skip
WGMMA_BYTES_CUT = Subject(
    "wgmma f16 s8 rr, K ends in a chunk",
    Problem(None, 72, 208, types="f16,s8,f16", layout="rr", inputs="scales=64"),
    (("BM", 16), ("BN", 64), ("BK", 128), ("CONSUMERS", 1), ("STAGES", 2)), WGMMA,
)  # fmt: skip
MMA_CODES = Subject(
    "mma bf16 u4 rc, two groups a k tile",
    Problem(None, 136, 512, types="bf16,u4,bf16", layout="rc", inputs="scales=64+zeros"),
    (("BM", 16), ("BN", 128), ("BK", 128), ("WM", 16), ("WN", 32), ("STAGES", 3), ("MMA_K", 16)), MMA,
)  # fmt: skip
SKINNY_CODES = Subject(
    "skinny bf16 u4 rc, K ends in a group",
    Problem(None, 136, 448, types="bf16,u4,bf16", layout="rc", inputs="scales=128+zeros"),
    (("S", 8), ("T", 32), ("WARPS", 2), ("UNROLL", 2), ("BK", 0), ("MMA", 1)), SKINNY,
)  # fmt: skip
WGMMA_BLOCKS = Subject(
    "wgmma e4m3 rc, scales of blocks",
    Problem(None, 264, 640, types=Types.parse("e4m3,e4m3,bf16", Compute.PROMOTED), layout="rc", inputs="blocks"),
    (("BM", 128), ("BN", 128), ("BK", 128), ("CONSUMERS", 2), ("STAGES", 3), ("IN_FLIGHT", 1)), WGMMA,
)  # fmt: skip
WGMMA_STRADDLES = Subject(
    "wgmma e4m3 rc, tiles across blocks",
    Problem(None, 200, 384, types=Types.parse("e4m3,e4m3,bf16", Compute.PROMOTED), layout="rc", inputs="blocks"),
    (("BM", 64), ("BN", 96), ("BK", 128), ("CONSUMERS", 1), ("STAGES", 3), ("IN_FLIGHT", 0)), WGMMA,
)  # fmt: skip
WGMMA_LINES = Subject(
    "wgmma e4m3 rc, blocks and lines",
    Problem(71, None, 640, types=Types.parse("e4m3,e4m3,f32", Compute.PROMOTED), layout="rc",
            inputs="blocks+lines+padded"),
    (("BM", 64), ("BN", 64), ("BK", 128), ("CONSUMERS", 1), ("STAGES", 3), ("IN_FLIGHT", 1)), WGMMA,
)  # fmt: skip
WGMMA_GROUPS_CODES = Subject(
    "wgmma bf16 u4 rc, codes of groups of rows",
    Problem(None, 136, 96, types="bf16,u4,bf16", layout="rc", inputs="scales=64+zeros+groups=5"),
    (("BM", 24), ("BN", 64), ("BK", 64), ("CONSUMERS", 1), ("STAGES", 3)), WGMMA,
)  # fmt: skip
WGMMA_GROUPS_ABSENT = Subject(
    "wgmma f16 s4 rr, sums of groups of rows",
    Problem(None, 72, 176, types=Types.parse("f16,s4,f32", Compute.PROMOTED), layout="rr", inputs="scales=64+groups=5"),
    (("BM", 24), ("BN", 64), ("BK", 128), ("CONSUMERS", 1), ("STAGES", 3)), WGMMA,
)  # fmt: skip
WGMMA_GROUPS_BLOCKS = Subject(
    "wgmma e4m3 rc, scales of blocks of groups",
    Problem(None, 136, 272, types=Types.parse("e4m3,e4m3,bf16", Compute.PROMOTED), layout="rc",
            inputs="groups=5+blocks+padded"),
    (("BM", 64), ("BN", 128), ("BK", 128), ("CONSUMERS", 1), ("STAGES", 2), ("IN_FLIGHT", 0)), WGMMA,
)  # fmt: skip
WGMMA_GROUPS = Subject(
    "wgmma bf16 rc, groups of rows",
    Problem(None, 136, 320, types="bf16", layout="rc", inputs="groups=40"),
    (("BM", 128), ("BN", 128), ("CONSUMERS", 2), ("STAGES", 2), ("WHOLE", 1)), WGMMA,
)  # fmt: skip
WGMMA_GROUPS_FEW = Subject(
    "wgmma bf16 rc, groups of few rows",
    Problem(None, 136, 64, types="bf16", layout="rc", inputs="groups=5"),
    (("BM", 24), ("BN", 64), ("CONSUMERS", 1), ("STAGES", 3), ("SWAP", 1)), WGMMA,
)  # fmt: skip
WGMMA_GATHERED = Subject(
    "wgmma bf16 rc, gathered rows in groups",
    Problem(None, 72, 328, types="bf16", layout="rc", inputs="groups=5+gathered", lda=None, ld_align=8),
    (("BM", 64), ("BN", 64), ("CONSUMERS", 1), ("STAGES", 4)), WGMMA,
)  # fmt: skip
WGMMA_GATHERED_FEW = Subject(
    "wgmma f16 rc, few gathered rows",
    Problem(None, 64, 192, types="f16", layout="rc", inputs="gathered"),
    (("BM", 24), ("BN", 64), ("CONSUMERS", 1), ("STAGES", 5), ("SWAP", 1)), WGMMA,
)  # fmt: skip
WGMMA_MASKED = Subject(
    "wgmma bf16 rc, masked groups",
    Problem(None, 136, 64, types="bf16", layout="rc", inputs="groups=5+masked", ld_align=8),
    (("BM", 64), ("BN", 64), ("CONSUMERS", 1), ("STAGES", 3)), WGMMA,
)  # fmt: skip
WGMMA_ALONG_K = Subject(
    "wgmma bf16 cr, groups along K",
    Problem(72, 136, None, types="bf16,bf16,f32", layout="cr", inputs="groups=5+along_k"),
    (("BM", 64), ("BN", 64), ("CONSUMERS", 1), ("STAGES", 3)), WGMMA,
)  # fmt: skip
WGMMA_ALONG_K_TURNS = Subject(
    "wgmma f16 cr, groups along K in turns",
    Problem(136, 136, None, types="f16", layout="cr", inputs="groups=3+along_k"),
    (("BM", 64), ("BN", 64), ("CONSUMERS", 2), ("STAGES", 3), ("PINGPONG", 1)), WGMMA,
)  # fmt: skip
WGMMA_GROUPS_SCALED = Subject(
    "wgmma e4m3 rc, groups with scales",
    Problem(None, 136, 128, types=Types.parse("e4m3,e4m3,bf16", Compute.FAST), layout="rc", inputs="groups=5",
            epilogue="scale_m+scale_n+bias"),
    (("BM", 128), ("BN", 64), ("CONSUMERS", 2), ("STAGES", 3), ("PINGPONG", 1)), WGMMA,
)  # fmt: skip
WGMMA_IMAGES = Subject(
    "wgmma bf16 rc, images",
    Problem(None, 72, 192, types="bf16", layout="rc", inputs="im2col=5x8x32_3x2_p1x1x2x0_s2x1_d1x2"),
    (("BM", 64), ("BN", 64), ("CONSUMERS", 1), ("STAGES", 3)), WGMMA,
)  # fmt: skip
WGMMA_IMAGES_PAIR = Subject(
    "wgmma f16 rc, images for a cluster",
    Problem(None, 136, 144, types="f16", layout="rc", inputs="im2col=5x5x16_3x3_p1x1"),
    (("BM", 64), ("BN", 64), ("CONSUMERS", 1), ("STAGES", 3), ("CLUSTER", 2), ("ACROSS", 1)), WGMMA,
)  # fmt: skip
WGMMA_IMAGES_CHUNKS = Subject(
    "wgmma bf16 rc, images of 8 channels",
    Problem(None, 72, 72, types="bf16", layout="rc", inputs="im2col=5x7x8_3x3_p1x1_d1x2"),
    (("BM", 64), ("BN", 64), ("CONSUMERS", 1), ("STAGES", 3)), WGMMA,
)  # fmt: skip
WGMMA_WGRAD = Subject(
    "wgmma bf16 cr, gradient of filters",
    Problem(
        72, 192, None, types="bf16,bf16,f32", layout="cr", inputs="im2col=5x8x32_3x2_p1x1x2x0_s2x1_d1x2+wgrad"
    ),
    (("BM", 64), ("BN", 96), ("CONSUMERS", 1), ("STAGES", 3)), WGMMA,
)  # fmt: skip
WGMMA_WGRAD_PAIR = Subject(
    "wgmma f16 cr, gradient of filters for a cluster",
    Problem(136, 144, None, types="f16,f16,f32", layout="cr", inputs="im2col=5x5x16_3x3_p1x1+wgrad"),
    (("BM", 64), ("BN", 80), ("CONSUMERS", 1), ("STAGES", 3), ("CLUSTER", 2)), WGMMA,
)  # fmt: skip
WGMMA_WHOLE = Subject(
    "wgmma bf16 rc, whole pieces of C",
    _changed(_typed("bf16", "rc"), n=72, ld_align=8, epilogue="scale_m+bias+silu"),
    (("BN", 64), ("STAGES", 3), ("WHOLE", 1)), WGMMA,
)  # fmt: skip
WGMMA_BOXES = Subject(
    "wgmma bf16 rc, pieces of C of several boxes", _changed(_typed("bf16", "rc"), n=48, ld_align=8),
    (("BN", 48), ("STAGES", 3), ("C_BOXES", 3)), WGMMA,
)  # fmt: skip
WGMMA_TWO_SUMS = Subject(
    "wgmma e4m3 rc, promoted beside products",
    _changed(_runtime("rc", 16), n=72, types=Types.parse("e4m3,e4m3,f32", Compute.PROMOTED)),
    (("STAGES", 3),), WGMMA,
)  # fmt: skip
WARP_PRODUCTS = Subject("a warp a product, bf16 rr", Problem(32, 32, 32, batch=None, types="bf16"), family=BATCHED_MMA)
WARP_PRODUCTS_CC = Subject(
    "a warp a product, f16 cc", Problem(16, 32, 64, Types.parse("f16").a, Layout("c", "c"), ldb=68, batch=9),
    (("BK", 32),), BATCHED_MMA,
)  # fmt: skip
WGMMA_PREPARED = Subject("wgmma s8 rr, of copies", _typed("s8,s8,s32", "rr"), (("STAGES", 2),), WGMMA)
WGMMA_ZERO_POINTS = Subject(
    "wgmma zero points, u8 and s8, of copies",
    _changed(_typed("u8,s8,bf16", "rr"), epilogue="zero_m+zero_n+scale_m+scale_n+bias"),
    (("BN", 256), ("STAGES", 2)), WGMMA,
)  # fmt: skip
WGMMA_ZERO_POINTS_BATCH = Subject(
    "wgmma zero points, s8 and u8, a batch",
    Problem(
        None, 72, None, batch=3, stride_a=None, stride_b=None, stride_c=None, types="s8,u8,s8",
        layout="rc", ld_align=16, epilogue="zero_a+zero_b+scale_a+scale_n",
    ),
    (("STAGES", 2),), WGMMA,
)  # fmt: skip
WGMMA_PREPARED_BATCH = Subject(
    "wgmma zero points, u8 and s8, of copies, any number of products",
    Problem(64, 23, 48, batch=None, types="u8,s8,bf16", epilogue="zero_m+zero_n"),
    (("STAGES", 2),), WGMMA,
)  # fmt: skip
WGMMA_COLUMNS = Subject(
    "wgmma tf32 rr, B from registers",
    Problem(None, 72, None, types="f32_tf32", layout="rr", ld_align=4),
    (("BM", 32), ("BN", 128), ("CONSUMERS", 2), ("STAGES", 2)), WGMMA,
)  # fmt: skip
WGMMA_ROWS = Subject(
    "wgmma tf32 cc, A from registers", _changed(_typed("f32_tf32", "cc"), n=72, ld_align=4), (("STAGES", 2),), WGMMA
)
WGMMA_PIECES = Subject(
    "wgmma f32 rc, pieces of bf16", _changed(_typed("f32_bf16x6", "rc"), ld_align=4), (("BN", 32), ("STAGES", 2)), WGMMA
)
WGMMA_POINTERS = Subject(
    "wgmma bf16 rc, pointers", _changed(_typed("bf16", "rc"), m=100, n=72, batch=None, pointers=True, ld_align=8),
    (("STAGES", 2),), WGMMA,
)  # fmt: skip
WGMMA_POINTERS_ROWS = Subject(
    "wgmma f16 cr, pointers, C by rows",
    Problem(100, 51, 72, batch=4, pointers=True, ldb=56, types="f16", layout="cr", lda=104),
    (("STAGES", 2),), WGMMA,
)  # fmt: skip
WGMMA_SPLIT = Subject(
    "wgmma bf16 to f32, two consumers, split", _changed(_typed("bf16,bf16,f32", "rc"), ld_align=8),
    (("BM", 128), ("BN", 32), ("CONSUMERS", 2), ("STAGES", 2), ("PERSISTENT", 0), ("SPLIT", 4)), WGMMA,
)  # fmt: skip
WGMMA_SPLIT_PIECES = Subject(
    "wgmma f32 rc, pieces of bf16, split", _changed(_typed("f32_bf16x6", "rc"), ld_align=4),
    (("STAGES", 2), ("PERSISTENT", 0), ("SPLIT", 2)), WGMMA,
)  # fmt: skip
WMMA_RC = Subject("wmma bf16 rc", _typed("bf16", "rc"), (("BM", 32), ("WN", 32)), WMMA)
WMMA_CR = Subject("wmma f16 cr", _typed("f16,f16,f32", "cr"), (("BN", 64), ("WN", 32)), WMMA)
DOUBLE_F16 = Subject("double f16 rr vectors", _changed(_typed("f16", "rr"), ld_align=4))
BATCHED_BF16 = Subject("batched bf16 rr", Problem(8, 8, 8, batch=None, types="bf16"), (("MB", 4), ("PAD", 0)), BATCHED)
DOUBLE_F64 = Subject("double f64 rc", _runtime("rc", dtype=DType.F64))
ASYNC_F64 = Subject("cp.async f64 cr vectors", _runtime("cr", 2, DType.F64), (("STAGES", 3), ("ASYNC", 1)))

NAIVE_BATCH = Subject("naive batch", _changed(_runtime("rc"), batch=None), family=NAIVE)
DOUBLE_BATCH = Subject("double batch", _changed(_runtime("rr"), batch=None))
BATCH_BIG = Subject("double batch, sampled", Problem(64, 64, 64, batch=2048))
SMALL_BATCH = Subject(
    "batched rr", Problem(8, 12, 16, batch=None, stride_a=None, stride_b=None),
    (("MB", 4), ("BATCH_TILES", 5), ("STAGES", 2), ("ASYNC", 1)), BATCHED,
)  # fmt: skip
NAIVE_POINTERS = Subject("naive pointers", _changed(_runtime("cc"), batch=None, pointers=True), family=NAIVE)
NAIVE_MANY = Subject("naive, any number of small products", Problem(16, 12, 8, batch=None), family=NAIVE)
DOUBLE_ROWS = Subject("double, any number of rows", Problem(None, 64, 32))
DOUBLE_POINTERS = Subject("double pointers", _changed(_runtime("rr"), batch=None, pointers=True))
SMALL_POINTERS = Subject(
    "batched pointers", Problem(8, 12, 16, batch=None, pointers=True),
    (("MB", 4), ("BATCH_TILES", 5), ("STAGES", 2), ("ASYNC", 1)), BATCHED,
)  # fmt: skip
SMALL_BATCH_CR = Subject("batched cr", Problem(12, 8, 5, layout="cr", batch=7), (("PDL", 1),), BATCHED)

NAIVE_EPILOGUE = Subject(
    "naive epilogue", _changed(_runtime("rr"), epilogue="scale_m+bias+gelu+residual"), (("BM", 8),), family=NAIVE
)
NAIVE_CLAMPED = Subject("naive clamped", _changed(_runtime("cr"), epilogue="bias_m+clamp(-1,2)"), family=NAIVE)
NAIVE_BATCH_EPILOGUE = Subject(
    "naive batch, epilogue", _changed(_runtime("rr"), batch=None, epilogue="silu+residual"), family=NAIVE
)
DOUBLE_EPILOGUE = Subject("double epilogue", _changed(_runtime("rr", 4), epilogue="bias+relu+residual"))
SPLIT_EPILOGUE = Subject("double split, epilogue", _changed(_runtime("rc"), epilogue="bias+relu"), (("SPLIT", 3),))
SKINNY_EPILOGUE = Subject("skinny epilogue", _changed(_runtime("rr"), epilogue="bias+gelu_tanh"), family=SKINNY)
SMALL_EPILOGUE = Subject(
    "batched epilogue",
    Problem(8, 12, 16, batch=None, stride_residual=None, epilogue="bias+residual"),
    (("MB", 4), ("BATCH_TILES", 5)),
    BATCHED,
)
DOUBLE_AUX = Subject("double with its pre-activation", _changed(_runtime("rr", 4), epilogue="bias+aux+gelu"))
SMALL_AUX = Subject(
    "batched with its pre-activation",
    Problem(8, 12, 16, batch=None, stride_c=None, epilogue="aux+relu"), (("MB", 4),), BATCHED,
)  # fmt: skip
_AMAXES = "bias+gelu+row_amax+column_amax"
NAIVE_AMAX = Subject(
    "naive bf16, largest magnitudes", _changed(_typed("bf16", "rr"), batch=None, epilogue=_AMAXES), (("BM", 8),), NAIVE
)
DOUBLE_AMAX = Subject("double with its largest magnitudes", _changed(_runtime("rr", 4), epilogue=_AMAXES))
ROWS_AMAX = Subject(
    "double, any number of rows, largest magnitudes", Problem(None, 64, 32, epilogue="row_amax+column_amax")
)
SPLIT_AMAX = Subject("split, largest magnitudes", _changed(_runtime("rc"), epilogue=_AMAXES), (("SPLIT", 3),))
SKINNY_AMAX = Subject("skinny, largest magnitudes", _changed(_runtime("rr"), epilogue=_AMAXES), family=SKINNY)
SMALL_AMAX = Subject(
    "batched, largest magnitudes", Problem(8, 12, 16, batch=None, epilogue=_AMAXES), (("MB", 4),), BATCHED
)
_ZERO_POINTS = "zero_m+zero_n+scale_m+bias"
NAIVE_ZERO_POINTS = Subject(
    "naive zero points, u8 and s8", _changed(_typed("u8,s8,f32", "rr"), epilogue=_ZERO_POINTS), family=NAIVE
)
_S32_FUSED = "zero_m+bias+relu"
NAIVE_FUSED_S32 = Subject(
    "naive zero points to s32", _changed(_typed("u8,s8,s32", "cc"), batch=None, epilogue=_S32_FUSED), family=NAIVE
)
SPLIT_ZERO_POINTS = Subject(
    "double zero points, split",
    _changed(_typed("u8,s8,f16", "rr"), ld_align=4, epilogue="zero_m+zero_n+scale_m"),
    (("SPLIT", 3),),
)
BATCHED_ZERO_POINTS = Subject(
    "batched zero points",
    Problem(8, 12, 15, batch=None, types="u8,s8,s8", epilogue="zero_a+zero_n+scale_b"),
    (("MB", 4),), BATCHED,
)  # fmt: skip
DOUBLE_TO_S8 = Subject(
    "double s8 scaled to s8", _changed(_typed("s8,s8,s8", "rr"), ld_align=4, epilogue="scale_m+scale_n+bias")
)
SKINNY_SCALED = Subject(
    "skinny split, s8 scaled to bf16",
    Problem(4, None, None, types="s8,s8,bf16", layout="rc",
        epilogue="scale_m+scale_n"),
    (("SPLIT", 2), ("BK", 128)), SKINNY,
)  # fmt: skip
BATCHED_FUSED_F16 = Subject(
    "batched f16, silu and residual",
    Problem(8, 12, 16, batch=None, types="f16", epilogue="silu+residual"),
    (("MB", 4),), BATCHED,
)  # fmt: skip
NAIVE_GATED = Subject("naive gated", _changed(_runtime("rr"), epilogue="swiglu"), family=NAIVE)
NAIVE_LSTM = Subject("naive lstm", _changed(_runtime("rr"), epilogue="lstm"), family=NAIVE)
NAIVE_LSTM_STATE = Subject(
    "naive lstm state, bf16 rc", _changed(_typed("bf16", "rc"), epilogue="lstm_state"), family=NAIVE
)
WGMMA_GATED = Subject(
    "wgmma gated, bf16 rc",
    Problem(None, 40, None, types="bf16", layout="rc", ld_align=8, epilogue="swiglu"),
    (("STAGES", 2),),
    WGMMA,
)
WGMMA_LSTM = Subject(
    "wgmma lstm, bf16 rc", Problem(70, 40, None, types="bf16", layout="rc", ld_align=8, epilogue="lstm"),
    (("BM", 64), ("BN", 16), ("CONSUMERS", 1), ("STAGES", 2), ("SPLIT", 2), ("PERSISTENT", 0)), WGMMA,
)  # fmt: skip
WGMMA_GATED_RR = Subject(
    "wgmma gated, f16 rr, a batch", Problem(70, 72, 136, types="f16", batch=3, epilogue="geglu"),
    (("BN", 96), ("STAGES", 2)), WGMMA,
)  # fmt: skip
