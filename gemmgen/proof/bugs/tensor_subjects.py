"""The correct kernels on tensor cores that bugs are planted in."""

from __future__ import annotations

from gemmgen.families import BATCHED_MMA, MMA, WGMMA, WMMA
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Compute, Types
from gemmgen.proof.bugs.base import Subject, changed, runtime, typed

MMA_RC = Subject("mma bf16 rc", changed(typed("bf16", "rc"), ld_align=8), family=MMA)
MMA_RR = Subject("mma f16 rr", changed(typed("f16,f16,f32", "rr"), ld_align=4), (("STAGES", 2), ("BK", 64)), MMA)
MMA_TF32 = Subject(
    "mma tf32 rc", Problem(None, None, None, types=Types.parse("f32", Compute.TF32), layout="rc"), family=MMA
)
MMA_FAST = Subject(
    "mma e4m3 rc, fast", Problem(32, 32, 4096, types=Types.parse("e4m3", Compute.FAST), layout="rc"),
    family=MMA, arch="sm_89",
)  # fmt: skip
MMA_SPLIT = Subject("mma bf16 cr, split", changed(typed("bf16", "cr"), ld_align=8), (("SPLIT", 3),), MMA)
MMA_WHOLE = Subject(
    "mma s8 rc, whole tiles", Problem(64, 96, 320, types="s8,s8,s32", layout="rc"),
    (("STAGES", 4), ("BM", 64), ("WM", 32)), MMA,
)  # fmt: skip
MMA_SPLIT_F32 = Subject("mma f16 to f32, split", changed(typed("f16,f16,f32", "rr"), ld_align=8), (("SPLIT", 3),), MMA)
MMA_REGISTERS = Subject("mma f16 cc through registers", typed("f16", "cc"), family=MMA)
MMA_EXCHANGE = Subject(
    "mma u8, s8 rc, sums exchanged, zero points",
    changed(typed("u8,s8,bf16", "rc"), ld_align=16, epilogue="zero_m+zero_n"),
    (("WN", 32), ("EXCHANGE", 1)), MMA,
)  # fmt: skip
MMA_PAIRS = Subject("mma s8 rr", changed(typed("s8,s8,s32", "rr"), ld_align=16), (("WN", 32),), MMA)
MMA_PAIRS_EXCHANGE = Subject(
    "mma u8, s8 cr, sums exchanged, zero points",
    changed(typed("u8,s8,bf16", "cr"), ld_align=16, epilogue="zero_m+zero_n"),
    (("WN", 32), ("EXCHANGE", 1)), MMA,
)  # fmt: skip
MMA_PAIRS_FAST = Subject(
    "mma e4m3 cc, fast", Problem(32, 32, 4096, types=Types.parse("e4m3", Compute.FAST), layout="cc"),
    family=MMA, arch="sm_89",
)  # fmt: skip
MMA_IMAGES = Subject(
    "mma bf16 rc, images",
    Problem(None, 72, 192, types="bf16", layout="rc", inputs="im2col=5x8x32_3x2_p1x1x2x2_s2x1_d1x2"),
    (("BK", 64), ("STAGES", 3)), MMA, "sm_80",
)  # fmt: skip
MMA_IMAGES_SPLIT = Subject(
    "mma f16 rr, images of few channels, split",
    Problem(None, 72, 108, types="f16", layout="rr", inputs="im2col=5x5x12_3x3_p1x1"), (("SPLIT", 2),), MMA, "sm_80",
)  # fmt: skip
WGMMA_RC = Subject("wgmma bf16 rc", changed(typed("bf16", "rc"), n=72, ld_align=8), (("STAGES", 3), ("BN", 64)), WGMMA)
WGMMA_WIDE = Subject("wgmma bf16 rc, wide tiles", changed(typed("bf16", "rc"), ld_align=8), (("BN", 256),), WGMMA)
WGMMA_CUT = Subject(
    "wgmma bf16 rc, a tile that an edge cuts", changed(typed("bf16", "rc"), ld_align=8),
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
    "wgmma bf16 rc, clusters", changed(typed("bf16", "rc"), ld_align=8), (("CLUSTER", 2), ("STAGES", 2)), WGMMA
)
WGMMA_PAIR_CUT = Subject(
    "wgmma bf16 rc, clusters, tiles that edges cut", changed(typed("bf16", "rc"), ld_align=8),
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
    "wgmma bf16 rc, consumers in turns", changed(typed("bf16", "rc"), n=72, ld_align=8),
    (("BM", 128), ("CONSUMERS", 2), ("STAGES", 3), ("PINGPONG", 1)), WGMMA,
)  # fmt: skip
WGMMA_SWAP = Subject(
    "wgmma bf16 rr, A and B change places", changed(typed("bf16", "rr"), m=150, n=136, ld_align=8),
    (("BM", 96), ("BN", 128), ("CONSUMERS", 1), ("STAGES", 3), ("SWAP", 1)), WGMMA,
)  # fmt: skip
WGMMA_SWAP_CUT = Subject(
    "wgmma bf16 rc, A and B change places, edges cut",
    changed(typed("bf16", "rc"), n=136, ld_align=8, epilogue="scale_m+scale_n+bias"),
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
WGMMA_SCATTERED = Subject(
    "wgmma bf16 rc, scattered rows in groups",
    Problem(None, 136, 128, types="bf16", layout="rc", inputs="groups=5+scattered", ldc=None, ld_align=8),
    (("BM", 64), ("BN", 64), ("CONSUMERS", 1), ("STAGES", 2)), WGMMA,
)  # fmt: skip
WGMMA_SCATTERED_FEW = Subject(
    "wgmma f16 rc, few scattered rows",
    Problem(None, 72, 64, types="f16", layout="rc", inputs="scattered"),
    (("BM", 24), ("BN", 64), ("CONSUMERS", 1), ("STAGES", 3), ("SWAP", 1)), WGMMA,
)  # fmt: skip
WGMMA_SCATTERED_ROWS = Subject(
    "wgmma bf16 rc, scattered rows that warps store",
    Problem(None, 75, 64, types="bf16,bf16,f32", layout="rc", inputs="groups=3+scattered", ldb=None, ld_align=8),
    (("BM", 64), ("BN", 64), ("CONSUMERS", 1), ("STAGES", 2)), WGMMA,
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
    changed(typed("bf16", "rc"), n=72, ld_align=8, epilogue="scale_m+bias+silu"),
    (("BN", 64), ("STAGES", 3), ("WHOLE", 1)), WGMMA,
)  # fmt: skip
WGMMA_BOXES = Subject(
    "wgmma bf16 rc, pieces of C of several boxes", changed(typed("bf16", "rc"), n=48, ld_align=8),
    (("BN", 48), ("STAGES", 3), ("C_BOXES", 3)), WGMMA,
)  # fmt: skip
WGMMA_TWO_SUMS = Subject(
    "wgmma e4m3 rc, promoted beside products",
    changed(runtime("rc", 16), n=72, types=Types.parse("e4m3,e4m3,f32", Compute.PROMOTED)),
    (("STAGES", 3),), WGMMA,
)  # fmt: skip
WARP_PRODUCTS = Subject("a warp a product, bf16 rr", Problem(32, 32, 32, batch=None, types="bf16"), family=BATCHED_MMA)
WARP_PRODUCTS_CC = Subject(
    "a warp a product, f16 cc", Problem(16, 32, 64, Types.parse("f16").a, Layout("c", "c"), ldb=68, batch=9),
    (("BK", 32),), BATCHED_MMA,
)  # fmt: skip
WGMMA_PREPARED = Subject("wgmma s8 rr, of copies", typed("s8,s8,s32", "rr"), (("STAGES", 2),), WGMMA)
WGMMA_ZERO_POINTS = Subject(
    "wgmma zero points, u8 and s8, of copies",
    changed(typed("u8,s8,bf16", "rr"), epilogue="zero_m+zero_n+scale_m+scale_n+bias"),
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
    "wgmma tf32 cc, A from registers", changed(typed("f32_tf32", "cc"), n=72, ld_align=4), (("STAGES", 2),), WGMMA
)
WGMMA_PIECES = Subject(
    "wgmma f32 rc, pieces of bf16", changed(typed("f32_bf16x6", "rc"), ld_align=4), (("BN", 32), ("STAGES", 2)), WGMMA
)
WGMMA_POINTERS = Subject(
    "wgmma bf16 rc, pointers", changed(typed("bf16", "rc"), m=100, n=72, batch=None, pointers=True, ld_align=8),
    (("STAGES", 2),), WGMMA,
)  # fmt: skip
WGMMA_POINTERS_ROWS = Subject(
    "wgmma f16 cr, pointers, C by rows",
    Problem(100, 51, 72, batch=4, pointers=True, ldb=56, types="f16", layout="cr", lda=104),
    (("STAGES", 2),), WGMMA,
)  # fmt: skip
WGMMA_SPLIT = Subject(
    "wgmma bf16 to f32, two consumers, split", changed(typed("bf16,bf16,f32", "rc"), ld_align=8),
    (("BM", 128), ("BN", 32), ("CONSUMERS", 2), ("STAGES", 2), ("PERSISTENT", 0), ("SPLIT", 4)), WGMMA,
)  # fmt: skip
WGMMA_SPLIT_PIECES = Subject(
    "wgmma f32 rc, pieces of bf16, split", changed(typed("f32_bf16x6", "rc"), ld_align=4),
    (("STAGES", 2), ("PERSISTENT", 0), ("SPLIT", 2)), WGMMA,
)  # fmt: skip
WMMA_RC = Subject("wmma bf16 rc", typed("bf16", "rc"), (("BM", 32), ("WN", 32)), WMMA)
WMMA_CR = Subject("wmma f16 cr", typed("f16,f16,f32", "cr"), (("BN", 64), ("WN", 32)), WMMA)
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
