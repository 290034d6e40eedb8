"""The correct kernels that bugs are planted in: families that multiply in threads' registers."""

from __future__ import annotations

from gemmgen.families import BATCHED, NAIVE, SKINNY, THREAD_TILE
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.proof.bugs.base import Subject, changed, runtime, typed

UNWARPED = (("OUTER", 0), ("WM", 0), ("WN", 0))

NAIVE_RR = Subject("naive rr", runtime("rr"), family=NAIVE)
NAIVE_CC = Subject("naive cc", runtime("cc"), (("BM", 8), ("BN", 32)), NAIVE)
NAIVE_FIXED = Subject("naive fixed", Problem(67, 69, 35, layout="cr"), family=NAIVE)
THREAD_TILE_RR = Subject("thread tiles rr", runtime("rr"), (("BM", 16), ("BN", 32)), THREAD_TILE)
THREAD_TILE_CC = Subject("thread tiles cc", runtime("cc"), (("BM", 16), ("BN", 16), ("TM", 2)), THREAD_TILE)
THREAD_TILE_WIDE = Subject("thread tiles, wide", Problem(67, 69, 35), (("BM", 16), ("TN", 2)), THREAD_TILE)
NAIVE_TALL = Subject("naive tall, sampled", Problem(40000, 64, 128), family=NAIVE)
SINGLE = Subject("single rr", runtime("rr"), (("STAGES", 1),))
SINGLE_INNER = Subject("single inner cr", runtime("cr"), (("STAGES", 1), *UNWARPED))
SINGLE_TILED = Subject("single tiled", Problem(64, 64, 64), (("STAGES", 1),))
SINGLE_FIXED = Subject("single fixed cc", Problem(67, 69, 35, layout="cc", lda=72, ldb=72, ldc=72), (("STAGES", 1),))
DOUBLE = Subject("double rr", runtime("rr"))
DOUBLE_VECTORS = Subject("double rr vectors", runtime("rr", 4), (("BK", 16), ("GROUP", 2)))
DOUBLE_RC = Subject("double fixed rc", Problem(67, 69, 35, layout="rc", lda=72, ldb=72, ldc=72), (("TA", 0), ("TB", 0)))
DOUBLE_INNER = Subject("double inner cc", runtime("cc"), UNWARPED)
DOUBLE_BIG = Subject("double big, sampled", Problem(1024, 1024, 512))
# 164 MB of A, most of it padding. Elements past 2^31 would take 8 GB: what is planted here overflows earlier.
DOUBLE_STRIDES = Subject("double wide stride", Problem(40, 64, 40, lda=2**20 + 1), (("BK", 4),))
ASYNC = Subject("cp.async rr", runtime("rr"), (("STAGES", 3), ("ASYNC", 1)))
ASYNC_VECTORS = Subject("cp.async cr vectors", runtime("cr", 4), (("STAGES", 4), ("ASYNC", 1)))
ASYNC_INNER = Subject("cp.async inner cc", runtime("cc"), (("STAGES", 2), ("ASYNC", 1), *UNWARPED))
ASYNC_DYNAMIC = Subject("cp.async dynamic", Problem(100, 72, 200), (("BK", 32), ("STAGES", 4), ("ASYNC", 1)))
PREFETCHED = Subject("prefetch rr", runtime("rr"), (("STAGES", 3), ("ASYNC", 1), ("K_UNROLL", 2)))
PREFETCHED_VECTORS = Subject("prefetch cr vectors", runtime("cr", 4), (("STAGES", 2), ("ASYNC", 1), ("K_UNROLL", 4)))
PREFETCHED_TILED = Subject(
    "prefetch tiled", Problem(64, 64, 64), (("STAGES", 2), ("ASYNC", 1), ("K_UNROLL", 8), ("TM", 2), ("TN", 8))
)
K_VECTORS = Subject("prefetch rr, A by turns", runtime("rr"), (("STAGES", 2), ("ASYNC", 1), ("K_UNROLL", 4), ("TA", 0)))
K_VECTORS_HOISTED = Subject(
    "prefetch rc, B by turns, columns early", runtime("rc", 4),
    (("BK", 16), ("STAGES", 3), ("ASYNC", 1), ("K_UNROLL", 4), ("TB", 0), ("SLICES", 2), ("HOIST", 1), ("FMA_ORDER",
        2)),
)  # fmt: skip
HOISTED = Subject(
    "prefetch cr, columns early", runtime("cr"), (("STAGES", 3), ("ASYNC", 1), ("K_UNROLL", 2), ("HOIST", 1))
)
SLICED = Subject("sliced rr", runtime("rr"), (("BK", 32), ("STAGES", 3), ("ASYNC", 1), ("K_UNROLL", 2), ("SLICES", 4)))
SLICED_SPLIT = Subject(
    "sliced cr vectors, split",
    runtime("cr", 4),
    (("BK", 16), ("ASYNC", 1), ("K_UNROLL", 4), ("SLICES", 2), ("SPLIT", 3)),
)
STREAM = Subject("stream rr", runtime("rr"), (("STAGES", 3), ("ASYNC", 1), ("STREAM", 3), ("PDL", 1)))
STREAM_PREFETCHED = Subject(
    "stream cr vectors, prefetch", runtime("cr", 4), (("STAGES", 2), ("ASYNC", 1), ("K_UNROLL", 4), ("STREAM", 7))
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
DEPENDENT = Subject("skinny along k, dependent", runtime("rc", 4), (("BK", 256), ("SPLIT", 2), ("PDL", 1)), SKINNY)
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

NAIVE_F64 = Subject("naive f64 cr", runtime("cr", dtype=DType.F64), family=NAIVE)
NAIVE_BF16 = Subject("naive bf16 rr", typed("bf16", "rr"), family=NAIVE)
NAIVE_E4M3 = Subject("naive e4m3 rc", typed("e4m3", "rc"), family=NAIVE)
NAIVE_S8 = Subject("naive s8 to s32, rr", typed("s8,s8,s32", "rr"), family=NAIVE)
NAIVE_TO_S8 = Subject("naive u8, s8 to s8, cr", typed("u8,s8,s8", "cr"), family=NAIVE)
NAIVE_S8_LONG, NAIVE_TO_S8_LONG, NAIVE_TO_F16_LONG = (
    Subject(f"naive {types}, long sums", Problem(48, 48, k, types=Types.parse(types)), family=NAIVE)
    for types, k in (("s8,s8,s32", 560), ("s8,s8,s8", 700), ("u8,u8,f16", 300))
)
NAIVE_U4 = Subject("naive f16, u4 scaled along K, rr", typed("f16,u4,f32", "rr", "scales=32+zeros"), family=NAIVE)
NAIVE_GROUPS = Subject("naive groups of rows, bf16 rc", typed("bf16,bf16,f32", "rc", "groups=5"), family=NAIVE)
NAIVE_GROUPS_SCALED = Subject(
    "naive groups with scales, e4m3 rc",
    changed(typed("e4m3,e4m3,bf16", "rc", "groups=5"), epilogue="scale_m+scale_n+scale_b"), family=NAIVE,
)  # fmt: skip
NAIVE_MASKED = Subject("naive masked groups, bf16 rc", typed("bf16,bf16,f32", "rc", "groups=5+masked"), family=NAIVE)
NAIVE_ALONG_K = Subject("naive groups along K, f16 cr", typed("f16,f16,f32", "cr", "groups=5+along_k"), family=NAIVE)
NAIVE_BLOCKS = Subject("naive scales of blocks, e4m3 rc", typed("e4m3,e4m3,f32", "rc", "blocks"), family=NAIVE)
NAIVE_GROUPS_BLOCKS = Subject(
    "naive scales of blocks of groups, e4m3 rc", typed("e4m3,e4m3,f32", "rc", "groups=5+blocks"), family=NAIVE
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
NAIVE_GATHERED = Subject("naive gathered rows, rr", typed("f32", "rr", "gathered"), family=NAIVE)
NAIVE_GROUPS_GATHERED = Subject(
    "naive gathered rows in groups, rc", typed("f16,f16,f32", "rc", "groups=3+gathered"), family=NAIVE
)
NAIVE_SCATTERED = Subject("naive scattered rows, rr", typed("f32", "rr", "scattered"), family=NAIVE)
NAIVE_MIXTURE = Subject(
    "naive gathered and scattered rows in groups, rc",
    changed(typed("f16,f16,f32", "rc", "groups=3+gathered+scattered"), epilogue="scale_m"),
    family=NAIVE,
)
NAIVE_S4 = Subject("naive bf16, s4 scaled, rc", typed("bf16,s4,f32", "rc", "scales=K"), family=NAIVE)
NAIVE_U8_SCALED = Subject("naive bf16, u8 scaled, cc", typed("bf16,u8,f32", "cc", "scales=128+zeros"), family=NAIVE)
SKINNY_BF16 = Subject(
    "skinny bf16 rc", Problem(3, None, None, types="bf16", layout="rc", ld_align=8),
    (("S", 4), ("WARPS", 2), ("BK", 512)), SKINNY,
)  # fmt: skip
SKINNY_RING = Subject(
    "skinny bf16 rr, ring", Problem(1, None, None, types="bf16", ld_align=8),
    (("S", 1), ("T", 8), ("LANES", 4), ("BK", 0), ("UNROLL", 2), ("DEPTH", 4), ("ASYNC", 1)), SKINNY,
)  # fmt: skip
SKINNY_MMA = Subject(
    "skinny on tensor cores", changed(runtime("rc", 8), types="bf16"),
    (("S", 8), ("T", 16), ("WARPS", 2), ("BK", 0), ("UNROLL", 2), ("MMA", 1)), SKINNY,
)  # fmt: skip
SKINNY_MMA_ACROSS = Subject(
    "skinny across, on tensor cores", changed(runtime("rr", 8), types="bf16"),
    (("S", 8), ("T", 16), ("LANES", 8), ("WARPS", 2), ("BK", 0), ("UNROLL", 2), ("DEPTH", 4), ("MMA", 1)), SKINNY,
)  # fmt: skip
SKINNY_DOT = Subject(
    "skinny u8, s8 rc", Problem(3, None, None, types="u8,s8,s32", layout="rc", ld_align=16),
    (("S", 4), ("WARPS", 2), ("BK", 1024)), SKINNY,
)  # fmt: skip
SKINNY_CODES = Subject(
    "skinny bf16 u4 rc, K ends in a group",
    Problem(None, 136, 448, types="bf16,u4,bf16", layout="rc", inputs="scales=128+zeros"),
    (("S", 8), ("T", 32), ("WARPS", 2), ("UNROLL", 2), ("BK", 0), ("MMA", 1)), SKINNY,
)  # fmt: skip
DOUBLE_F16 = Subject("double f16 rr vectors", changed(typed("f16", "rr"), ld_align=4))
BATCHED_BF16 = Subject("batched bf16 rr", Problem(8, 8, 8, batch=None, types="bf16"), (("MB", 4), ("PAD", 0)), BATCHED)
DOUBLE_F64 = Subject("double f64 rc", runtime("rc", dtype=DType.F64))
ASYNC_F64 = Subject("cp.async f64 cr vectors", runtime("cr", 2, DType.F64), (("STAGES", 3), ("ASYNC", 1)))

NAIVE_BATCH = Subject("naive batch", changed(runtime("rc"), batch=None), family=NAIVE)
DOUBLE_BATCH = Subject("double batch", changed(runtime("rr"), batch=None))
BATCH_BIG = Subject("double batch, sampled", Problem(64, 64, 64, batch=2048))
SMALL_BATCH = Subject(
    "batched rr", Problem(8, 12, 16, batch=None, stride_a=None, stride_b=None),
    (("MB", 4), ("BATCH_TILES", 5), ("STAGES", 2), ("ASYNC", 1)), BATCHED,
)  # fmt: skip
NAIVE_POINTERS = Subject("naive pointers", changed(runtime("cc"), batch=None, pointers=True), family=NAIVE)
NAIVE_MANY = Subject("naive, any number of small products", Problem(16, 12, 8, batch=None), family=NAIVE)
DOUBLE_ROWS = Subject("double, any number of rows", Problem(None, 64, 32))
DOUBLE_POINTERS = Subject("double pointers", changed(runtime("rr"), batch=None, pointers=True))
SMALL_POINTERS = Subject(
    "batched pointers", Problem(8, 12, 16, batch=None, pointers=True),
    (("MB", 4), ("BATCH_TILES", 5), ("STAGES", 2), ("ASYNC", 1)), BATCHED,
)  # fmt: skip
SMALL_BATCH_CR = Subject("batched cr", Problem(12, 8, 5, layout="cr", batch=7), (("PDL", 1),), BATCHED)

NAIVE_EPILOGUE = Subject(
    "naive epilogue", changed(runtime("rr"), epilogue="scale_m+bias+gelu+residual"), (("BM", 8),), family=NAIVE
)
NAIVE_CLAMPED = Subject("naive clamped", changed(runtime("cr"), epilogue="bias_m+clamp(-1,2)"), family=NAIVE)
NAIVE_BATCH_EPILOGUE = Subject(
    "naive batch, epilogue", changed(runtime("rr"), batch=None, epilogue="silu+residual"), family=NAIVE
)
DOUBLE_EPILOGUE = Subject("double epilogue", changed(runtime("rr", 4), epilogue="bias+relu+residual"))
SPLIT_EPILOGUE = Subject("double split, epilogue", changed(runtime("rc"), epilogue="bias+relu"), (("SPLIT", 3),))
SKINNY_EPILOGUE = Subject("skinny epilogue", changed(runtime("rr"), epilogue="bias+gelu_tanh"), family=SKINNY)
SMALL_EPILOGUE = Subject(
    "batched epilogue",
    Problem(8, 12, 16, batch=None, stride_residual=None, epilogue="bias+residual"),
    (("MB", 4), ("BATCH_TILES", 5)),
    BATCHED,
)
DOUBLE_AUX = Subject("double with its pre-activation", changed(runtime("rr", 4), epilogue="bias+aux+gelu"))
SMALL_AUX = Subject(
    "batched with its pre-activation",
    Problem(8, 12, 16, batch=None, stride_c=None, epilogue="aux+relu"), (("MB", 4),), BATCHED,
)  # fmt: skip
_AMAXES = "bias+gelu+row_amax+column_amax"
NAIVE_AMAX = Subject(
    "naive bf16, largest magnitudes", changed(typed("bf16", "rr"), batch=None, epilogue=_AMAXES), (("BM", 8),), NAIVE
)
DOUBLE_AMAX = Subject("double with its largest magnitudes", changed(runtime("rr", 4), epilogue=_AMAXES))
ROWS_AMAX = Subject(
    "double, any number of rows, largest magnitudes", Problem(None, 64, 32, epilogue="row_amax+column_amax")
)
SPLIT_AMAX = Subject("split, largest magnitudes", changed(runtime("rc"), epilogue=_AMAXES), (("SPLIT", 3),))
SKINNY_AMAX = Subject("skinny, largest magnitudes", changed(runtime("rr"), epilogue=_AMAXES), family=SKINNY)
SMALL_AMAX = Subject(
    "batched, largest magnitudes", Problem(8, 12, 16, batch=None, epilogue=_AMAXES), (("MB", 4),), BATCHED
)
_ZERO_POINTS = "zero_m+zero_n+scale_m+bias"
NAIVE_ZERO_POINTS = Subject(
    "naive zero points, u8 and s8", changed(typed("u8,s8,f32", "rr"), epilogue=_ZERO_POINTS), family=NAIVE
)
_S32_FUSED = "zero_m+bias+relu"
NAIVE_FUSED_S32 = Subject(
    "naive zero points to s32", changed(typed("u8,s8,s32", "cc"), batch=None, epilogue=_S32_FUSED), family=NAIVE
)
SPLIT_ZERO_POINTS = Subject(
    "double zero points, split",
    changed(typed("u8,s8,f16", "rr"), ld_align=4, epilogue="zero_m+zero_n+scale_m"),
    (("SPLIT", 3),),
)
BATCHED_ZERO_POINTS = Subject(
    "batched zero points",
    Problem(8, 12, 15, batch=None, types="u8,s8,s8", epilogue="zero_a+zero_n+scale_b"),
    (("MB", 4),), BATCHED,
)  # fmt: skip
DOUBLE_TO_S8 = Subject(
    "double s8 scaled to s8", changed(typed("s8,s8,s8", "rr"), ld_align=4, epilogue="scale_m+scale_n+bias")
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
NAIVE_GATED = Subject("naive gated", changed(runtime("rr"), epilogue="swiglu"), family=NAIVE)
NAIVE_LSTM = Subject("naive lstm", changed(runtime("rr"), epilogue="lstm"), family=NAIVE)
NAIVE_THREE = Subject(
    "naive, three products, bf16 rc", changed(typed("bf16", "rc"), epilogue="acc * acc2 + acc3"), family=NAIVE
)
