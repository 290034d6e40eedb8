"""Rendered kernels against tests/golden: a change to a template shows its reviewer what changes in the `.cu`.

`pytest --update-golden` rewrites them. Every skeleton, layout and way to hold a size is among them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import pytest

from gemmgen.families import (
    BATCHED,
    BATCHED_MMA,
    FAMILIES,
    MMA,
    NAIVE,
    SIMT,
    SKINNY,
    THREAD_TILE,
    WGMMA,
    WMMA,
    Family,
    plan_of,
)
from gemmgen.families.base import check
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import ARCHS
from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import LINEAR
from gemmgen.problem.functions import FUNCTIONS
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import PLAIN
from gemmgen.problem.matrix import Layout
from gemmgen.problem.sizes import Size
from gemmgen.problem.types import Compute, Types
from gemmgen.render.kernel_text import environment, render, render_plan
from gemmgen.support.files import TEMPLATES

GOLDEN = Path(__file__).parent.parent / "golden"
VALUE = re.compile(r"[A-Za-z_]\w*( \w+)*|\d*|[\w/]+\.cu")  # a name, a type or words; a number; a template


@dataclass(frozen=True)
class Sample:
    """One kernel: its family, the axes that differ from the default, and its problem."""

    family: Family
    axes: dict[str, int] = field(default_factory=dict)
    shape: tuple[Size, Size, Size] = (512, 512, 512)
    layout: str = "rr"
    lda: Size = None
    pointer_align: int = 16
    ld_align: int = 1
    dtype: DType = DType.F32
    batch: Size = 1
    pointers: bool = False
    epilogue: str = str(LINEAR)
    types: str = ""  # where not all are `dtype`
    compute: Compute = Compute.FMA
    inputs: str = str(PLAIN)

    def render(self) -> KernelSource:
        leading: dict[str, int] = {} if self.lda is None else {"lda": self.lda}
        layout = Layout.parse(self.layout)
        problem = Problem(
            *self.shape,
            types=Types.parse(self.types or self.dtype.label, self.compute),
            layout=layout,
            pointer_align=self.pointer_align,
            ld_align=self.ld_align,
            batch=self.batch,
            pointers=self.pointers,
            epilogue=self.epilogue,
            inputs=self.inputs,
            **leading,
        )
        config = self.family.default(problem).with_values(**self.axes)
        check(self.family, problem, config, ARCHS["sm_90"].limits)
        return render(problem, self.family, config)


SAMPLES = {
    "naive_epilogue": Sample(NAIVE, epilogue="gelu(alpha * acc + bias_n) + residual"),
    "naive_lstm": Sample(NAIVE, {}, (None, 1024, 2048), "rc", dtype=DType.BF16, epilogue="lstm"),
    "naive_zero_points": Sample(NAIVE, {}, (None, 300, None), epilogue="zero_m+zero_n+scale_m", types="u8,s8,bf16"),
    "double_buffer_epilogue_split": Sample(
        SIMT, {"SPLIT": 4}, (None, 300, None), batch=None, epilogue="scale_m+scale_n+bias+aux+silu+residual"
    ),
    "skinny_epilogue": Sample(SKINNY, {}, (4, 4096, 1024), epilogue="bias+gelu"),
    "batched_epilogue": Sample(
        BATCHED,
        {"MB": 4},
        (8, 12, 16),
        batch=None,
        epilogue="clamp(acc + beta * C, -1, 1) * scale_m + residual",
    ),
    "thread_tile": Sample(THREAD_TILE),
    "thread_tile_epilogue_cr": Sample(
        THREAD_TILE, {"TM": 8}, (None, 300, None), "cr", epilogue="gelu(alpha * acc + bias_n) + residual", types="bf16"
    ),
    "naive": Sample(NAIVE),
    "naive_u4_scaled_rc": Sample(NAIVE, {}, (None, 300, None), "rc", types="bf16,u4,f32", inputs="scales=128+zeros"),
    "naive_gathered_groups_rc": Sample(
        NAIVE, {}, (None, 300, 64), "rc", types="f16,f16,f32", inputs="groups=8+gathered"
    ),
    "naive_scattered_groups_rc": Sample(
        NAIVE, {}, (None, 300, 64), "rc", types="f16,f16,f32", inputs="groups=8+scattered", epilogue="scale_m"
    ),
    "naive_blocks_rc": Sample(NAIVE, {}, (None, 300, None), "rc", types="e4m3,e4m3,bf16", inputs="blocks"),
    "naive_convolution_rc": Sample(
        NAIVE, {}, (None, 64, 576), "rc", dtype=DType.BF16, inputs="im2col=56x56x64_3x3_p1x1_s2x2"
    ),
    "naive_groups_u4_scaled_rr": Sample(
        NAIVE, {}, (None, 300, None), "rr", types="bf16,u4,f32", inputs="scales=128+zeros+groups=8"
    ),
    "naive_groups_s8_promoted_rc": Sample(
        NAIVE, {}, (None, 300, 72), "rc", types="f16,s8,f32", compute=Compute.PROMOTED, inputs="scales=K+groups=8"
    ),
    "naive_groups_blocks_rc": Sample(
        NAIVE, {}, (None, 300, None), "rc", types="e4m3,e4m3,bf16", inputs="groups=8+blocks"
    ),
    "naive_wgrad_cr": Sample(
        NAIVE, {}, (None, 576, None), "cr", types="bf16,bf16,f32", inputs="im2col=56x56x64_3x3_p1x1_s2x2+wgrad"
    ),
    "naive_along_k_cr": Sample(NAIVE, {}, (None, 300, None), "cr", types="bf16,bf16,f32", inputs="groups=8+along_k"),
    "naive_masked_rc": Sample(NAIVE, {}, (None, 300, 64), "rc", dtype=DType.BF16, inputs="groups=8+masked"),
    "naive_groups_rc_epilogue": Sample(
        NAIVE, {}, (None, 300, None), "rc", types="e4m3,e4m3,bf16", inputs="groups=8", epilogue="scale_m+scale_b+bias"
    ),
    "naive_groups_rc": Sample(NAIVE, {}, (None, 300, 64), "rc", dtype=DType.BF16, inputs="groups=8"),
    "naive_runtime_cc": Sample(NAIVE, {"BM": 8, "BN": 32}, (None, None, None), "cc"),
    "single_buffer": Sample(SIMT, {"STAGES": 1}),
    "double_buffer": Sample(SIMT),
    "double_buffer_untransposed_rc": Sample(SIMT, {"TA": 0, "TB": 0, "PAD": 4}, (500, 300, 200), "rc"),
    "inner_no_warp_tile_cr": Sample(SIMT, {"OUTER": 0, "WM": 0, "WN": 0, "VEC": 1}, layout="cr"),
    "cp_async": Sample(SIMT, {"ASYNC": 1, "STAGES": 3}, layout="cr"),
    "cp_async_dynamic_shared": Sample(SIMT, {"ASYNC": 1, "STAGES": 4, "BK": 32, "GROUP": 1}),
    "fragment_prefetch": Sample(SIMT, {"ASYNC": 1, "STAGES": 3, "K_UNROLL": 2, "BK": 16, "TN": 16, "WN": 64}),
    "fragment_prefetch_moved": Sample(SIMT, {"ASYNC": 1, "STAGES": 3, "K_UNROLL": 4, "BK": 16}, (300, 200, 100)),
    "fragment_prefetch_order": Sample(
        SIMT, {"ASYNC": 1, "STAGES": 2, "K_UNROLL": 4, "BK": 16, "TM": 4, "TN": 8, "WM": 32, "WN": 32, "FMA_ORDER": 7}
    ),
    "fragment_prefetch_k_vector_hoist": Sample(
        SIMT, {"ASYNC": 1, "STAGES": 2, "K_UNROLL": 4, "BK": 32, "TN": 16, "WN": 64, "TA": 0, "HOIST": 2}
    ),
    "fragment_prefetch_k_vector_rc_sliced": Sample(
        SIMT,
        {
            "ASYNC": 1,
            "STAGES": 2,
            "K_UNROLL": 4,
            "BK": 32,
            "TN": 16,
            "WN": 64,
            "TB": 0,
            "SLICES": 2,
            "HOIST": 1,
            "FMA_ORDER": 7,
        },
        (None, None, None),
        "rc",
    ),
    "fragment_prefetch_stream": Sample(
        SIMT, {"ASYNC": 1, "STAGES": 3, "K_UNROLL": 4, "BK": 16, "STREAM": 264}, (None, None, None)
    ),
    "fragment_prefetch_sliced_split_loop": Sample(
        SIMT,
        {"ASYNC": 1, "K_UNROLL": 4, "BK": 32, "TN": 16, "WN": 64, "SLICES": 2, "SPLIT": 4, "FIXUP_UNROLL": 0},
        (64, 4096, 4096),
    ),
    "double_buffer_stream_moved_rc": Sample(SIMT, {"STREAM": 8}, (300, 4096, None), "rc"),
    "runtime_cc": Sample(SIMT, {}, (None, 4096, None), "cc"),
    "narrow_lines": Sample(SIMT, {}, (127, 61, 33), lda=36, pointer_align=8),
    "skinny_across": Sample(SKINNY, {}, (8, 4096, 4096)),
    "skinny_lanes": Sample(SKINNY, {"S": 1, "LANES": 2, "WARPS": 8, "BK": 1024, "UNROLL": 8}, (1, 1024, 1024)),
    "skinny_direct": Sample(SKINNY, {"S": 1, "LANES": 2, "WARPS": 8, "BK": 0, "UNROLL": 8}, (1, 1024, 1024)),
    "skinny_direct_along_k_rc": Sample(SKINNY, {"S": 2, "BK": 0, "UNROLL": 4}, (None, 4096, 4096), "rc"),
    "mma_rc": Sample(MMA, layout="rc", dtype=DType.BF16),
    "mma_runtime_rr_split": Sample(
        MMA, {"STAGES": 4, "BM": 64, "SPLIT": 2}, (None, 320, 200), dtype=DType.BF16, epilogue="bias+gelu+row_amax"
    ),
    "mma_registers_cr": Sample(MMA, {"BM": 32, "BN": 32, "WM": 16, "WN": 16}, (127, 61, 33), "cr", types="f16,f16,f32"),
    "mma_registers_s8_rc": Sample(
        MMA,
        {"BM": 32, "BN": 32, "WM": 16, "WN": 16, "ASYNC": 0, "STAGES": 2},
        (None, 512, None),
        "rc",
        types="s8,u8,s32",
        ld_align=8,
    ),
    "mma_s8_rc": Sample(MMA, {}, (None, 512, 1024), "rc", epilogue="scale_m+scale_n+bias", types="s8,s8,bf16"),
    "mma_f64_cr": Sample(MMA, {"BM": 64, "BN": 64, "WN": 32, "STAGES": 3}, (None, 512, 1024), "cr", dtype=DType.F64),
    "mma_zero_points_rc": Sample(
        MMA, {"WM": 32, "SPLIT": 2}, (256, 512, 4096), "rc", epilogue="zero_m+zero_n+scale_m", types="u8,s8,bf16"
    ),
    "mma_exchange_zero_points_rc": Sample(
        MMA, {"EXCHANGE": 1, "WN": 32}, (None, 512, 1024), "rc", epilogue="zero_m+zero_n", types="u8,s8,bf16"
    ),
    "mma_s8_rr": Sample(MMA, {}, (None, 512, 1024), "rr", epilogue="scale_m+scale_n+bias", types="s8,s8,bf16"),
    "mma_pairs_zero_points_cr": Sample(
        MMA,
        {"EXCHANGE": 1, "WN": 32},
        (512, None, 1000),
        "cr",
        epilogue="zero_m+zero_n",
        types="u8,s8,bf16",
        ld_align=8,
    ),
    "mma_registers_s8_cc": Sample(MMA, {"ASYNC": 0, "STAGES": 2}, (127, 64, 100), "cc", types="s8,s8,s32"),
    "mma_exchange_f32_rr": Sample(MMA, {"EXCHANGE": 1, "WM": 32}, (512, 512, 512), types="bf16,bf16,f32"),
    "mma_tf32_rr": Sample(MMA, {"WM": 32}, (None, 512, 1024), "rr", compute=Compute.TF32),
    "mma_f16_sums_rc": Sample(MMA, {}, (512, 512, 512), "rc", dtype=DType.F16, compute=Compute.F16),
    "mma_images_rc": Sample(
        MMA,
        {"BN": 64, "BK": 64, "WM": 32},
        (None, 64, 576),
        "rc",
        dtype=DType.BF16,
        inputs="im2col=56x56x64_3x3_p1x1",
        epilogue="bias+relu",
    ),
    "mma_images_few_channels_rr_split": Sample(
        MMA,
        {"BM": 64, "BN": 64, "WM": 32, "WN": 32, "SPLIT": 2},
        (None, 72, 72),
        "rr",
        dtype=DType.F16,
        inputs="im2col=28x30x12_3x2_p1x0_s2x1_d1x2",
        epilogue="residual",
    ),
    "mma_images_one_tap_rc": Sample(
        MMA, {"WM": 32}, (None, 256, 128), "rc", types="bf16,bf16,f32", inputs="im2col=28x28x128_1x1_s2x2"
    ),
    "wgmma_rc": Sample(WGMMA, {}, (4096, 4096, 4096), "rc", dtype=DType.BF16),
    "wgmma_cluster_rr_epilogue": Sample(
        WGMMA, {"CLUSTER": 2, "BN": 192, "STAGES": 4}, (None, 4096, 4096), "rr", dtype=DType.BF16, epilogue="bias+gelu"
    ),
    "wgmma_cluster_across_few_rows": Sample(
        WGMMA,
        {"BM": 64, "BN": 64, "BK": 128, "CONSUMERS": 1, "CLUSTER": 2, "ACROSS": 1, "PERSISTENT": 0},
        (16, 8192, 8192),
        "rc",
        dtype=DType.BF16,
    ),
    "wgmma_cluster_tails_rc": Sample(
        WGMMA,
        {"CLUSTER": 2, "BK": 128, "BN": 64, "STAGES": 3},
        (None, None, 4096),
        "rc",
        dtype=DType.BF16,
        ld_align=8,
    ),
    "wgmma_runtime_cr_batch": Sample(
        WGMMA,
        {"BN": 128, "IN_FLIGHT": 0},
        (None, 320, 200),
        "cr",
        types="f16,f16,f32",
        batch=None,
        ld_align=8,
        epilogue="bias+gelu+residual",
    ),
    "wgmma_s8_rows": Sample(
        WGMMA, {"PERSISTENT": 0}, (512, 513, 1024), "rc", epilogue="scale_m+scale_n+bias", types="s8,s8,bf16"
    ),
    "wgmma_u4_scaled_rc": Sample(WGMMA, {}, (None, 4096, 4096), "rc", types="bf16,u4,bf16", inputs="scales=128+zeros"),
    "wgmma_s4_scaled_rr": Sample(
        WGMMA, {"BN": 256}, (None, 520, 1040), "rr", types="f16,s4,f16", inputs="scales=64", epilogue="bias+silu"
    ),
    "wgmma_u4_scaled_sums_rc": Sample(
        WGMMA, {}, (None, 4096, 4096), "rc", types="bf16,u4,bf16", compute=Compute.PROMOTED, inputs="scales=128+zeros"
    ),
    "wgmma_u8_scaled_rc": Sample(WGMMA, {}, (None, 4096, 4096), "rc", types="bf16,u8,bf16", inputs="scales=128+zeros"),
    "wgmma_s8_scaled_sums_rc": Sample(
        WGMMA, {"STAGES": 2}, (None, 4096, 4096), "rc", types="f16,s8,f16", compute=Compute.PROMOTED, inputs="scales=64"
    ),
    "mma_s8_scaled_rr": Sample(MMA, {}, (None, 520, 1024), "rr", types="f16,s8,f16", inputs="scales=128"),
    "skinny_u8_scaled_rc": Sample(SKINNY, {}, (8, 4096, 4096), "rc", types="bf16,u8,bf16", inputs="scales=128+zeros"),
    "mma_u4_scaled_rc": Sample(MMA, {}, (None, 4096, 4096), "rc", types="bf16,u4,bf16", inputs="scales=128+zeros"),
    "mma_s4_scaled_rr": Sample(
        MMA,
        {"BN": 64, "BK": 64, "WN": 32, "SPLIT": 2},
        (None, 200, 1024),
        "rr",
        types="f16,s4,f16",
        inputs="scales=32",
        epilogue="bias+silu",
    ),
    "skinny_u4_scaled_rc": Sample(SKINNY, {}, (8, 4096, 4096), "rc", types="bf16,u4,bf16", inputs="scales=128+zeros"),
    "skinny_s4_scaled_rr": Sample(
        SKINNY,
        {"S": 16, "T": 32, "WARPS": 4, "UNROLL": 2, "SPLIT": 2},
        (None, 200, 320),
        "rr",
        types="f16,s4,f16",
        inputs="scales=32",
        epilogue="bias+silu",
    ),
    "wgmma_blocks_rc": Sample(
        WGMMA, {}, (None, 2112, 7168), "rc", types="e4m3,e4m3,bf16", compute=Compute.PROMOTED, inputs="blocks"
    ),
    "wgmma_blocks_lines_cr": Sample(
        WGMMA, {}, (4096, 7168, None), "cr", types="e4m3,e4m3,f32", compute=Compute.PROMOTED, inputs="blocks+lines"
    ),
    "wgmma_groups_blocks_rc": Sample(
        WGMMA,
        {"BN": 96},
        (None, 4096, 7168),
        "rc",
        types="e4m3,e4m3,bf16",
        compute=Compute.PROMOTED,
        inputs="groups=256+blocks+padded",
    ),
    "wgmma_groups_u4_scaled_rc": Sample(
        WGMMA,
        {"BM": 16},
        (None, 1536, 2048),
        "rc",
        types="bf16,u4,bf16",
        inputs="scales=128+zeros+groups=128",
    ),
    "wgmma_groups_s4_promoted_rr": Sample(
        WGMMA,
        {"BM": 32, "BK": 128},
        (None, 200, 176),
        "rr",
        types="f16,s4,f16",
        compute=Compute.PROMOTED,
        inputs="scales=64+groups=8",
        epilogue="bias",
    ),
    "wgmma_groups_blocks_lines_rc": Sample(
        WGMMA,
        {"BM": 64, "BN": 80, "CONSUMERS": 1},
        (None, 200, 2048),
        "rc",
        types="e4m3,e4m3,f32",
        compute=Compute.PROMOTED,
        inputs="groups=8+blocks+lines",
    ),
    "wgmma_groups_rc": Sample(WGMMA, {}, (None, 1536, 2048), "rc", dtype=DType.BF16, inputs="groups=128"),
    "wgmma_groups_few_rows": Sample(
        WGMMA,
        {"BM": 16, "BN": 128, "STAGES": 7, "SWAP": 1, "WHOLE": 1, "BROADCAST": 1},
        (None, 28672, 4096),
        "rc",
        dtype=DType.F16,
        inputs="groups=8",
    ),
    "wgmma_groups_across_rr_epilogue": Sample(
        WGMMA,
        {"BN": 128, "CLUSTER": 2, "ACROSS": 1, "PINGPONG": 1, "WHOLE": 1},
        (None, 1536, 1024),
        "rr",
        dtype=DType.BF16,
        inputs="groups=64",
        epilogue="bias+gelu+residual",
    ),
    "wgmma_gathered_groups_rc": Sample(
        WGMMA, {}, (None, 1536, 2048), "rc", dtype=DType.BF16, inputs="groups=128+gathered"
    ),
    "wgmma_gathered_few_rows": Sample(
        WGMMA,
        {"BM": 24, "BN": 128, "BK": 128, "STAGES": 5, "SWAP": 1, "WHOLE": 1, "BROADCAST": 1},
        (None, 1536, None),
        "rc",
        dtype=DType.F16,
        ld_align=8,
        inputs="groups=8+gathered",
    ),
    "wgmma_gathered_rr_cluster": Sample(
        WGMMA,
        {"BN": 128, "CLUSTER": 2, "PINGPONG": 1},
        (4096, 1536, 1024),
        "rr",
        types="f16,f16,f32",
        inputs="gathered",
        epilogue="bias+gelu",
    ),
    "wgmma_scattered_groups_rc": Sample(
        WGMMA, {}, (None, 2048, 768), "rc", dtype=DType.BF16, inputs="groups=128+scattered", epilogue="scale_m"
    ),
    "wgmma_scattered_few_rows": Sample(
        WGMMA,
        {"BM": 24, "BN": 128, "BK": 128, "STAGES": 5, "SWAP": 1, "WHOLE": 1, "BROADCAST": 1},
        (None, 2048, 768),
        "rc",
        dtype=DType.F16,
        inputs="groups=8+gathered+scattered",
    ),
    "wgmma_scattered_by_rows_rc": Sample(
        WGMMA, {"BN": 64}, (4096, 1027, 1024), "rc", types="f16,f16,f32", inputs="scattered", epilogue="bias"
    ),
    "wgmma_along_k_cr": Sample(
        WGMMA, {}, (1536, 2048, None), "cr", types="bf16,bf16,f32", ld_align=8, inputs="groups=128+along_k"
    ),
    "wgmma_along_k_turns_rows": Sample(
        WGMMA,
        {"BN": 128, "CLUSTER": 2, "PINGPONG": 1, "BROADCAST": 1},
        (None, 520, None),
        "cr",
        dtype=DType.F16,
        ld_align=8,
        inputs="groups=8+along_k",
        epilogue="bias+gelu",
    ),
    "wgmma_masked_few_rows": Sample(
        WGMMA,
        {"BM": 32, "BN": 128, "STAGES": 7, "SWAP": 1},
        (1024, 4096, 7168),
        "rc",
        dtype=DType.BF16,
        inputs="groups=32+masked",
    ),
    "wgmma_masked_rc_epilogue": Sample(
        WGMMA,
        {"BN": 128, "PINGPONG": 1},
        (None, 1536, 1024),
        "rc",
        types="f16,f16,f32",
        ld_align=8,
        inputs="groups=64+masked",
        epilogue="bias+gelu+residual",
    ),
    "wgmma_images_rc": Sample(WGMMA, {}, (None, 256, 2304), "rc", dtype=DType.BF16, inputs="im2col=14x14x256_3x3_p1x1"),
    "wgmma_images_few_channels_across": Sample(
        WGMMA,
        {"BN": 128, "CLUSTER": 2, "ACROSS": 1},
        (None, 256, 144),
        "rc",
        dtype=DType.F16,
        inputs="im2col=28x30x16_3x3_p1x1x2x0_s2x1_d1x2",
        epilogue="bias+relu",
    ),
    "wgmma_images_eight_channels": Sample(
        WGMMA, {"BN": 64}, (None, 64, 392), "rc", dtype=DType.BF16, inputs="im2col=224x224x8_7x7_p3x3_s2x2"
    ),
    "wgmma_images_below_rr": Sample(
        WGMMA,
        {"BN": 64, "BK": 128, "STAGES": 3, "CLUSTER": 2},
        (None, 64, 576),
        "rr",
        dtype=DType.BF16,
        inputs="im2col=56x56x64_3x3_p1x1",
    ),
    "wgmma_wgrad_cr": Sample(
        WGMMA,
        {"BM": 64, "BN": 192, "CONSUMERS": 1, "SPLIT": 4, "PERSISTENT": 0},
        (64, 576, None),
        "cr",
        types="bf16,bf16,f32",
        inputs="im2col=56x56x64_3x3_p1x1+wgrad",
    ),
    "wgmma_wgrad_few_channels_below": Sample(
        WGMMA,
        {"BN": 128, "CLUSTER": 2},
        (256, 144, None),
        "cr",
        dtype=DType.F16,
        inputs="im2col=28x30x16_3x3_p1x1x2x0_s2x1_d1x2+wgrad",
    ),
    "wgmma_gated_rc": Sample(WGMMA, {}, (None, 14336, 4096), "rc", dtype=DType.BF16, epilogue="swiglu"),
    "wgmma_lstm_rc": Sample(
        WGMMA,
        {"BM": 64, "BN": 16, "CONSUMERS": 1, "STAGES": 8, "SPLIT": 2, "PERSISTENT": 0},
        (64, 1024, 2048),
        "rc",
        dtype=DType.BF16,
        epilogue="lstm",
    ),
    "wgmma_gated_cluster_rr_batch": Sample(
        WGMMA,
        {"CLUSTER": 2, "BK": 128, "BN": 64, "STAGES": 3},
        (1024, 1024, 1024),
        dtype=DType.BF16,
        batch=8,
        epilogue="geglu+residual",
    ),
    "wgmma_tf32_rc": Sample(WGMMA, {}, (None, 512, 1024), "rc", compute=Compute.TF32, ld_align=4),
    "wgmma_tf32_rr": Sample(WGMMA, {"CLUSTER": 2}, (None, 512, 1024), "rr", compute=Compute.TF32, epilogue="bias+gelu"),
    "wgmma_tf32_cc_batch": Sample(WGMMA, {}, (512, 520, None), "cc", compute=Compute.TF32, ld_align=4, batch=3),
    "wgmma_pieces_rr": Sample(WGMMA, {"CLUSTER": 2}, (None, 512, 1000), "rr", compute=Compute.BF16X6, batch=None),
    "wgmma_split_rr": Sample(
        WGMMA,
        {"BM": 64, "BN": 128, "CONSUMERS": 1, "STAGES": 6, "PERSISTENT": 0, "SPLIT": 4},
        (64, 4096, None),
        "rr",
        dtype=DType.F16,
        batch=None,
        epilogue="bias+silu",
    ),
    "wgmma_split_even_rc": Sample(
        WGMMA,
        {"BM": 64, "BN": 64, "BK": 128, "CONSUMERS": 1, "STAGES": 6, "PERSISTENT": 0, "SPLIT": 2},
        (64, 4096, 14336),
        "rc",
        dtype=DType.BF16,
    ),
    "wgmma_pointers_rc": Sample(WGMMA, {"BN": 128}, (1024, 1024, 64), "rc", dtype=DType.BF16, batch=64, pointers=True),
    "wgmma_pointers_rows": Sample(
        WGMMA, {"BN": 128}, (None, 513, 1000), "rc", dtype=DType.F16, batch=None, pointers=True
    ),
    "wgmma_split_promoted_rc": Sample(
        WGMMA,
        {"BN": 64, "PERSISTENT": 0, "SPLIT": 2, "IN_FLIGHT": 0},
        (None, 513, 8192),
        "rc",
        types="e4m3,e4m3,bf16",
        compute=Compute.PROMOTED,
    ),
    "wgmma_promoted_rc": Sample(
        WGMMA,
        {"CONSUMERS": 1, "BM": 64, "IN_FLIGHT": 0},
        (512, 512, 1024),
        "rc",
        types="e4m3,e4m3,bf16",
        compute=Compute.PROMOTED,
    ),
    "wgmma_promoted_in_flight_rc": Sample(
        WGMMA, {}, (512, 512, None), "rc", types="e4m3,e4m3,bf16", compute=Compute.PROMOTED, ld_align=16
    ),
    "wgmma_pingpong_rc_epilogue": Sample(
        WGMMA,
        {"BN": 128, "STAGES": 6, "PINGPONG": 1},
        (None, 4096, 1024),
        "rc",
        dtype=DType.BF16,
        epilogue="bias+gelu",
    ),
    "wgmma_whole_rc_epilogue": Sample(
        WGMMA,
        {"BN": 160, "STAGES": 5, "CLUSTER": 2, "PINGPONG": 1, "PDL": 0, "WHOLE": 1},
        (8192, 28672, 8192),
        "rc",
        dtype=DType.BF16,
        epilogue="bias+gelu",
    ),
    "wgmma_boxes_rc_epilogue": Sample(
        WGMMA,
        {"BN": 128, "STAGES": 5, "PINGPONG": 1, "C_BOXES": 2, "BROADCAST": 1},
        (4096, 4096, 1024),
        "rc",
        dtype=DType.BF16,
        epilogue="bias+gelu",
    ),
    "wgmma_rows_looped_rc": Sample(
        WGMMA,
        {"BM": 64, "BN": 96, "CONSUMERS": 1, "STAGES": 8, "COPY_ALIGN": 128, "ROWS_UNROLL": 0},
        (1023, 1025, 1027),
        "rc",
        dtype=DType.BF16,
    ),
    "wgmma_swap_rc": Sample(
        WGMMA,
        {"BM": 136, "BN": 64, "CONSUMERS": 1, "STAGES": 8, "SWAP": 1},
        (271, 4096, 4096),
        "rc",
        dtype=DType.BF16,
    ),
    "wgmma_in_order_rc": Sample(
        WGMMA,
        {"BM": 96, "BN": 128, "STAGES": 7, "SWAP": 1, "PDL": 0},
        (450, 3072, 8192),
        "rc",
        dtype=DType.BF16,
    ),
    "wgmma_swap_pingpong_s8_epilogue": Sample(
        WGMMA,
        {"BM": 96, "BN": 128, "BK": 128, "SWAP": 1, "PINGPONG": 1},
        (None, 4096, 1024),
        "rc",
        types="s8,s8,bf16",
        epilogue="scale_m+scale_n",
        ld_align=16,
    ),
    "wgmma_zero_points_u8_rr": Sample(
        WGMMA, {"BN": 64}, (None, 512, 100), "rr", types="u8,s8,s8", epilogue="zero_m+zero_b+scale_m+scale_n+bias"
    ),
    "wgmma_zero_points_batch": Sample(
        WGMMA, {"BN": 64}, (None, 512, None), "rc", types="s8,s8,s32", epilogue="zero_a+zero_n", batch=None, ld_align=16
    ),
    "wgmma_words_rc": Sample(WGMMA, {"BN": 96}, (None, 1002, 512), "rc", dtype=DType.BF16),
    "wgmma_prepared_s8_rr": Sample(WGMMA, {"BN": 64}, (None, 513, 100), "rr", types="s8,s8,s32"),
    "wmma_rc": Sample(WMMA, layout="rc", dtype=DType.BF16),
    "wmma_runtime_cr": Sample(
        WMMA, {"BK": 16}, (None, 320, 200), "cr", types="f16,f16,f32", batch=None, epilogue="bias+gelu+row_amax"
    ),
    "skinny_dependent_rc": Sample(
        SKINNY, {"S": 1, "BK": 0, "UNROLL": 4, "SPLIT": 2, "PDL": 1}, (1, 4096, 4096), "rc", dtype=DType.BF16
    ),
    "skinny_along_k": Sample(SKINNY, {"S": 1, "UNROLL": 2}, (1, 4096, 4096), "rc"),
    "skinny_split": Sample(SKINNY, {"S": 16, "UNROLL": 8, "SPLIT": 8}, (16, 4096, 4096)),
    "skinny_split_rc": Sample(SKINNY, {"SPLIT": 4}, (16, 1000, 4096), "rc"),
    "skinny_mirrored_runtime_cr": Sample(SKINNY, {"S": 4, "WARPS": 8, "SPLIT": 2}, (None, 3, None), "cr"),
    "skinny_dynamic_shared": Sample(SKINNY, {"S": 16, "WARPS": 8}, (16, 1000, 512)),
    "skinny_bf16_ring": Sample(
        SKINNY,
        {"S": 1, "T": 8, "LANES": 8, "WARPS": 8, "BK": 0, "UNROLL": 4, "DEPTH": 4, "ASYNC": 1, "SPLIT": 1},
        (1, 4096, 4096),
        dtype=DType.BF16,
    ),
    "skinny_f16_bf16_staged_rc": Sample(
        SKINNY, {"S": 8, "T": 4, "BK": 512, "SPLIT": 1}, (None, 1000, 4096), "rc", types="f16,bf16,f32"
    ),
    "skinny_mma_rc": Sample(
        SKINNY, {"S": 8, "T": 16, "BK": 0, "UNROLL": 4, "MMA": 1}, (8, 4096, 4096), "rc", dtype=DType.BF16
    ),
    "skinny_mma_across_ring": Sample(
        SKINNY,
        {"S": 8, "T": 16, "LANES": 8, "BK": 0, "UNROLL": 2, "DEPTH": 4, "ASYNC": 1, "MMA": 1, "SPLIT": 2},
        (None, 4096, 8192),
        dtype=DType.F16,
    ),
    "skinny_bf16_staged_ring": Sample(
        SKINNY,
        {"S": 8, "T": 8, "LANES": 8, "BK": 512, "UNROLL": 4, "DEPTH": 4, "ASYNC": 1},
        (8, 4096, 4096),
        dtype=DType.BF16,
    ),
    "skinny_s8_staged_rc": Sample(SKINNY, {"S": 8, "BK": 1024}, (8, 4096, 4096), "rc", types="s8,s8,s32"),
    "skinny_s8_dot": Sample(SKINNY, {"S": 1, "BK": 0, "SPLIT": 2}, (1, 4096, 4096), "rc", types="s8,s8,s32"),
    "f64": Sample(SIMT, {"ASYNC": 1, "STAGES": 3}, dtype=DType.F64),
    "fragment_prefetch_f64_batch_split": Sample(
        SIMT,
        {"ASYNC": 1, "STAGES": 2, "K_UNROLL": 2, "BM": 64, "BN": 64, "TN": 4, "WM": 32, "SPLIT": 4},
        (None, 64, None),
        dtype=DType.F64,
        batch=None,
    ),
    "sliced_f64_split": Sample(
        SIMT,
        {"BM": 64, "BN": 64, "BK": 32, "TN": 4, "WM": 32, "ASYNC": 1, "K_UNROLL": 2, "SLICES": 2, "SPLIT": 4},
        dtype=DType.F64,
    ),
    "strided_batch": Sample(SIMT, {}, (None, 64, 64), batch=None),
    "naive_batch": Sample(NAIVE, {}, (100, 64, 64), "cr", batch=12),
    "batched": Sample(BATCHED, {"STAGES": 2, "BATCH_TILES": 4, "ASYNC": 1}, (16, 16, 16), batch=None),
    "batched_mma": Sample(BATCHED_MMA, {"PDL": 1}, (32, 32, 32), batch=None, dtype=DType.BF16),
    "batched_mma_cc": Sample(
        BATCHED_MMA,
        {"WARPS": 8},
        (16, 64, 64),
        "cc",
        types="f16,f16,f32",
        batch=1000,
        pointers=True,
        epilogue="bias+relu",
    ),
    "batched_pointers": Sample(
        BATCHED, {"STAGES": 2, "BATCH_TILES": 4, "ASYNC": 1}, (16, 16, 16), batch=None, pointers=True
    ),
    "pointers_rc": Sample(SIMT, {}, (100, 64, 64), "rc", batch=12, pointers=True),
    "batched_f64_cr": Sample(BATCHED, {"MB": 2, "PDL": 1}, (24, 32, 40), "cr", dtype=DType.F64, batch=1000),
    "offsets_64bit": Sample(SIMT, {"ASYNC": 1, "STAGES": 2}, (65536, 65536, 64)),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_rendered_text(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.cu", SAMPLES[name].render().text)


@pytest.mark.parametrize("name", SAMPLES)
def test_multiply_add_is_there_where_it_is_called(name: str) -> None:
    text = SAMPLES[name].render().text
    assert text.count("multiply_add(") != 1, "nvcc warns of a function that nobody calls"
    assert ("int multiply_add(int a" in text) == ("multiply_add(" in text)


def held(value: object, name: str = "view") -> Iterator[tuple[str, str]]:
    """The strings that a view of a family gives a template, by their names."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, tuple | frozenset):
        for part in value:
            yield from held(part, name)
    elif type(value).__module__.startswith("gemmgen.families"):
        computed = (each for each, _ in inspect.getmembers(type(value), lambda one: isinstance(one, property)))
        for part in (*vars(value), *computed):
            yield from held(getattr(value, part), f"{name}.{part}")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_view_holds_names_and_numbers(name: str) -> None:
    view = plan_of(SAMPLES[name].render()).view
    assert {part: text for part, text in held(view) if not VALUE.fullmatch(text)} == {}


def test_no_snapshot_is_left_over(request: pytest.FixtureRequest) -> None:
    left_over = {path for path in GOLDEN.glob("*.cu") if path.stem not in SAMPLES}
    if request.config.getoption("--update-golden"):
        for path in left_over:
            path.unlink()
    else:
        assert left_over == set()


def skeletons() -> set[str]:
    """The templates that render a kernel from its signature on, but those that others extend."""
    whole = (path for path in TEMPLATES.rglob("*.cu") if re.search("import signature|//% extends", path.read_text()))
    return {path.relative_to(TEMPLATES).as_posix() for path in whole} - {"tiled.cu", "mma/mma.cu", "epilogue/apart.cu"}


def test_samples_reach_every_kernel_template() -> None:
    rendered = [sample.render() for sample in SAMPLES.values()]
    families = [FAMILIES[source.family] for source in rendered]
    configs = zip(families, rendered, strict=True)
    reached = {family.template(family.config_type(**source.config)) for family, source in configs}
    assert reached == skeletons()


def test_samples_reach_every_template_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[str] = set()
    get_source = jinja2.FileSystemLoader.get_source

    def taking(loader: jinja2.FileSystemLoader, made: jinja2.Environment, name: str) -> Any:
        taken.add(name)
        return get_source(loader, made, name)

    monkeypatch.setattr(jinja2.FileSystemLoader, "get_source", taking)
    environment.cache_clear()
    render_plan.cache_clear()
    for sample in SAMPLES.values():
        sample.render()
    of_functions = {template for one in FUNCTIONS.values() for template in (one.f32, one.f32_helper)}
    # Kernels that measure or check something else, and what goes beside kernels.
    others = ("export/", "device/plain/", "device/mma_vectors.cu", "device/wgmma_vectors.cu", "epilogue/apart.cu")
    files = {path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("*.cu")}
    assert {name for name in files if not name.startswith(others)} - of_functions <= taken <= files
