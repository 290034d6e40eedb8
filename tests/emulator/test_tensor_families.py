"""Kernels of `mma` and `wgmma` compute every situation: layouts, types, alignments, epilogues, splits and batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from gemmgen.families import MMA, WGMMA, Family
from gemmgen.families.base import check
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import ARCHS
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.verification.verifier import verify

EXAMPLES, SOAK_EXAMPLES = 6, 200


@dataclass(frozen=True)
class Kernel:
    """A problem, and the axes that differ from small ones."""

    shape: tuple[int | None, int | None, int | None]
    axes: dict[str, int] = field(default_factory=dict)
    says: dict[str, Any] = field(default_factory=dict)
    arch: str = "sm_90"
    family: Family = MMA

    def __str__(self) -> str:
        said = (f"{name}={value}" for name, value in {**self.says, **self.axes}.items())
        shape = "x".join("?" if size is None else str(size) for size in self.shape)
        return " ".join([self.family.name, shape, *said, self.arch])

    def render(self) -> KernelSource:
        problem = Problem(*self.shape, **{"types": "bf16", "layout": "rc", **self.says})
        family = self.family
        config = family.suited(problem, family.default(problem).with_values(**{**family.small, **self.axes}))
        check(family, problem, config, ARCHS[self.arch].limits)
        return render(problem, family, config, self.arch)


def warpgroups(shape: tuple[int | None, int | None, int | None], axes: dict[str, int], **says: Any) -> Kernel:
    return Kernel(shape, axes, says, family=WGMMA)


OPEN = (None, None, None)
PROMOTED = Types.parse("e4m3,e4m3,f16", Compute.PROMOTED)
TF32 = Types.parse("f32", Compute.TF32)
KERNELS = (
    Kernel(OPEN, {"STAGES": 4}, {"ld_align": 8}),
    Kernel(OPEN, {"SPLIT": 3}, {"layout": "cr", "types": "f16,f16,f32", "ld_align": 2, "epilogue": "bias+gelu+aux"}),
    Kernel((70, 97, 53), {}, {"layout": "rr"}),
    Kernel((64, 72, 208), {"WN": 32}, {"types": "s8,u8,s32"}),
    Kernel(OPEN, {"EXCHANGE": 1, "WN": 32}, {"ld_align": 8, "epilogue": "bias+aux"}),
    Kernel(
        (None, 80, None),
        {"EXCHANGE": 1, "WN": 32},
        {"types": "u8,s8,bf16", "layout": "cr", "ld_align": 16, "epilogue": "zero_m+zero_n+scale_m+column_amax"},
    ),
    Kernel(OPEN, {"SPLIT": 2, "PDL": 1}, {"ld_align": 8, "epilogue": "bias"}),
    Kernel((None, 40, None), {"MMA_K": 8, "BK": 16}, {"types": "f64", "layout": "rr", "ld_align": 2}),
    Kernel((None, 56, None), {"BK": 16, "MMA_K": 8}, {"types": TF32, "layout": "cc"}),
    warpgroups(OPEN, {"BN": 128, "STAGES": 3}, ld_align=8),
    warpgroups(OPEN, {"CLUSTER": 2, "BN": 64, "STAGES": 3}, layout="rr", batch=None, ld_align=8),
    warpgroups((16, 72, None), {"CLUSTER": 2, "ACROSS": 1, "BN": 32, "PERSISTENT": 0}, ld_align=8),
    warpgroups((None, 72, None), {"BM": 128, "BN": 24, "IN_FLIGHT": 0}, layout="cc", types="f16", epilogue="bias+gelu"),
    warpgroups(OPEN, {"PERSISTENT": 0, "BN": 64}, types="s8,s8,s32", ld_align=16, batch=None),
    warpgroups(OPEN, {}, types=TF32, layout="rr"),
    warpgroups(OPEN, {"BN": 64}, types="u8,s8,bf16", layout="rr", epilogue="zero_m+zero_n+scale_m+scale_n+bias"),
    warpgroups(OPEN, {"BN": 32, "STAGES": 3}, types="f32_bf16x6", layout="rr"),
    warpgroups(OPEN, {"BM": 128, "BN": 32, "CONSUMERS": 2, "SPLIT": 4, "PERSISTENT": 0}, ld_align=8, batch=None),
    warpgroups(OPEN, {"CONSUMERS": 2, "CLUSTER": 2, "STAGES": 3, "PINGPONG": 1}, ld_align=8),
    warpgroups((None, 72, None), {"BM": 128, "CONSUMERS": 2}, batch=None, pointers=True, ld_align=8, epilogue="bias"),
    warpgroups((None, 72, None), {"BM": 80, "BN": 64, "SWAP": 1}, ld_align=8),
    warpgroups((None, 72, None), {"BK": 32, "STAGES": 3}, types=PROMOTED, ld_align=16),
    warpgroups(OPEN, {"CLUSTER": 2, "ACROSS": 1, "BK": 128, "STAGES": 2}, ld_align=8),
    warpgroups(OPEN, {"BN": 64, "PDL": 0}),  # with copies, which overlap
    warpgroups((None, 72, None), {"BN": 64, "WHOLE": 1}, ld_align=8),
    warpgroups((None, 72, None), {"BM": 128, "CONSUMERS": 2, "BROADCAST": 1}, layout="cr", types="f16"),
    warpgroups(
        (None, 136, None),
        {"BM": 128, "BN": 128, "CONSUMERS": 2, "PINGPONG": 1, "C_BOXES": 2, "WHOLE": 1},
        epilogue="bias+gelu",
    ),
)
MORE = (  # in soak alone
    Kernel(OPEN, {"BM": 64, "WM": 32, "BN": 64}, {"layout": "cc", "types": "f16", "ld_align": 4}, "sm_80"),
    Kernel(OPEN, {"STAGES": 2, "BK": 64}, {"layout": "rr", "ld_align": 8}, "sm_120"),
    Kernel(OPEN, {"SPLIT": 2}, {"types": "u8,s8,bf16", "ld_align": 16, "epilogue": "scale_m+scale_n+bias"}, "sm_86"),
    Kernel(OPEN, {}, {"batch": None, "ld_align": 4, "epilogue": "scale_m+bias+silu+residual"}, "sm_89"),
    Kernel(OPEN, {}, {"batch": None, "pointers": True, "layout": "cc", "types": "bf16,bf16,f32"}),
    Kernel(OPEN, {}, {"types": "s8,s8,s8", "epilogue": "scale_m+row_amax+column_amax"}),
    Kernel(OPEN, {"MMA_K": 4, "BK": 16, "SPLIT": 2}, {"types": "f64", "layout": "cc"}, "sm_80"),
    Kernel(OPEN, {"SPLIT": 2}, {"types": "u8,s8,f32", "epilogue": "zero_m+zero_n+scale_m", "ld_align": 16}),
    Kernel(OPEN, {"MMA_K": 8, "ASYNC": 0, "STAGES": 2}, {"types": "f16", "layout": "cr"}, "sm_75"),
    Kernel(OPEN, {"MMA_K": 16, "ASYNC": 0, "STAGES": 2}, {"types": "s8,u8,s32", "ld_align": 8}, "sm_75"),
    Kernel(OPEN, {"MMA_K": 16, "ASYNC": 0, "STAGES": 2}, {"types": "s8,u8,s32", "layout": "rr"}, "sm_75"),
    Kernel(
        OPEN, {"MMA_K": 16, "ASYNC": 0, "STAGES": 2}, {"types": "u8,s8,bf16", "layout": "cr", "ld_align": 4}, "sm_75"
    ),
    Kernel(OPEN, {}, {"types": Types.parse("e4m3,e5m2,bf16", Compute.FAST), "layout": "rr", "ld_align": 16}, "sm_89"),
    Kernel(OPEN, {"BK": 128}, {"types": PROMOTED, "layout": "cc", "ld_align": 2, "epilogue": "bias+gelu"}, "sm_89"),
    Kernel(OPEN, {"SPLIT": 3}, {"types": "e4m3,e4m3,f32", "layout": "cr", "ld_align": 4, "batch": None}, "sm_120"),
    Kernel(OPEN, {"BM": 16, "BN": 128, "WN": 64}, {"types": "s8", "layout": "cc", "ld_align": 8, "batch": 3}, "sm_86"),
    Kernel(OPEN, {"BM": 48, "BN": 48, "WN": 48}, {"types": "u8,u8,f32", "layout": "cr", "epilogue": "zero_a+aux"}),
    Kernel(
        (67, 96, 200),
        {"EXCHANGE": 1, "WN": 32, "SPLIT": 2},
        {"types": "s8", "layout": "rr", "epilogue": "zero_a+zero_b+scale_m+row_amax"},
        "sm_80",
    ),
    Kernel(OPEN, {"BK": 16, "MMA_K": 8, "SPLIT": 2}, {"types": TF32, "layout": "cr"}, "sm_80"),
    Kernel(OPEN, {"SPLIT": 2}, {"types": Types.parse("f16", Compute.F16), "layout": "rr", "epilogue": "bias"}),
    Kernel(OPEN, {}, {"types": Types.parse("e4m3,e5m2,bf16", Compute.FAST), "ld_align": 16}, "sm_89"),
    Kernel(OPEN, {"BK": 128}, {"types": Types.parse("e4m3,e4m3,f16", Compute.PROMOTED), "ld_align": 4}, "sm_89"),
    Kernel(OPEN, {}, {"types": "e5m2", "ld_align": 8}, "sm_120"),
    Kernel((40, 96, 512), {"BK": 128, "SPLIT": 5, "BN": 48, "WN": 48}, {"layout": "rc"}),
    Kernel(OPEN, {"BM": 16, "BN": 256, "WN": 32, "BK": 64}, {"ld_align": 8}),
    Kernel(OPEN, {"EXCHANGE": 1, "SPLIT": 2}, {"types": "f16,f16,f32", "ld_align": 4}, "sm_80"),
    Kernel(OPEN, {"EXCHANGE": 1, "WN": 32}, {"types": Types.parse("f16", Compute.F16), "ld_align": 8, "batch": None}),
    Kernel((None, 80, None), {"EXCHANGE": 1, "WN": 32}, {"types": "u8,s8,s8", "epilogue": "zero_m+zero_n+column_amax"}),
    Kernel(
        (50, 52, 96), {"EXCHANGE": 1, "ASYNC": 0, "STAGES": 2, "MMA_K": 8}, {"types": "f16", "layout": "cr"}, "sm_75"
    ),
    warpgroups((None, 102, 100), {"BM": 128, "CONSUMERS": 2, "BN": 96}, layout="cr", epilogue="silu+residual"),
    warpgroups(OPEN, {"BM": 128, "BN": 256, "CONSUMERS": 2}, layout="rr", ld_align=8, epilogue="scale_m+bias+aux+relu"),
    warpgroups(OPEN, {"BM": 192, "CONSUMERS": 3, "BN": 96, "BK": 32}, layout="cr", ld_align=8, types="f16,f16,f32"),
    warpgroups(OPEN, {"BN": 32, "BK": 128}, layout="cr", epilogue="silu+residual+row_amax+column_amax"),
    warpgroups((100, 51, 208), {}, types=Types.parse("e4m3,e5m2,bf16", Compute.FAST), batch=3),
    warpgroups(OPEN, {}, ld_align=8, layout="rr", batch=None, stride_b=0),
    warpgroups(OPEN, {"BN": 48, "IN_FLIGHT": 0}, types=PROMOTED, layout="rr"),
    warpgroups(OPEN, {"CONSUMERS": 2, "PINGPONG": 1}, types=PROMOTED, ld_align=16, batch=None),
    warpgroups((100, 72, 208), {"BM": 128, "CONSUMERS": 2}, types=PROMOTED),
    warpgroups(OPEN, {"CONSUMERS": 3, "STAGES": 2, "PINGPONG": 1}, types="f32_bf16x6", layout="rr", epilogue="bias"),
    warpgroups(
        (None, 200, None), {"BM": 80, "BN": 128, "CONSUMERS": 2, "SWAP": 1}, layout="cr", ld_align=8, batch=None
    ),
    warpgroups((100, 72, None), {"BM": 32, "BN": 64, "SWAP": 1, "SPLIT": 4, "PERSISTENT": 0}, layout="cc", ld_align=8),
    warpgroups((40, 136, None), {"BM": 16, "BN": 64, "SWAP": 1, "CLUSTER": 2}, epilogue="silu+residual+row_amax"),
    warpgroups((40, 136, 300), {"BM": 32, "BN": 64, "SWAP": 1, "CLUSTER": 2, "ACROSS": 1}, types="bf16,bf16,f32"),
    warpgroups((40, 136, 300), {"BM": 40, "BN": 64, "SWAP": 1}, types=Types.parse("e4m3,e5m2,bf16", Compute.PROMOTED)),
    warpgroups((40, 72, 300), {"BM": 56, "BN": 64, "SWAP": 1}, types=TF32, epilogue="column_amax+bias"),
    warpgroups((40, 72, 300), {"BM": 40, "BN": 64, "SWAP": 1}, types="f32_bf16x6", layout="rr"),
    warpgroups((None, 80, 304), {"BM": 32, "BN": 64, "SWAP": 1}, types="u8,s8,s32", ld_align=16),
    warpgroups((48, 64, 128), {"BM": 16, "BN": 64, "SWAP": 1}, batch=None, pointers=True, layout="rr"),
    warpgroups(OPEN, {"BN": 128}, types=Types.parse("f16", Compute.F16), ld_align=8, layout="cc"),
    warpgroups(
        (100, 52, 208), {"BM": 128, "CLUSTER": 2}, types="f32_bf16x6", layout="cc", batch=3, epilogue="bias+gelu"
    ),
    warpgroups((None, 72, 300), {"BK": 128, "STAGES": 2}, types="f32,f32,bf16_bf16x6", layout="cr", epilogue="bias"),
    warpgroups((70, 72, 300), {"SPLIT": 2, "PERSISTENT": 0, "IN_FLIGHT": 0}, epilogue="bias+gelu+residual+row_amax"),
    warpgroups((70, 73, 300), {"BN": 64, "SPLIT": 4, "PERSISTENT": 0}, layout="cr", epilogue="silu+residual"),
    warpgroups((64, 128, 512), {"BN": 64, "SPLIT": 2, "PERSISTENT": 0}, types="s8,s8,s32"),
    warpgroups(
        OPEN, {"BN": 64, "SPLIT": 8, "PERSISTENT": 0}, types="u8,s8,bf16", epilogue="zero_m+zero_n+scale_m+scale_n"
    ),
    warpgroups((70, 72, None), {"BN": 32, "SPLIT": 4, "PERSISTENT": 0}, types="f32_bf16x6", layout="rr", batch=3),
    warpgroups(OPEN, {"SPLIT": 2, "PERSISTENT": 0, "IN_FLIGHT": 0}, types=PROMOTED, ld_align=16),
    warpgroups((None, 72, 256), {"SPLIT": 2, "PERSISTENT": 0}, types=PROMOTED, ld_align=16),
    warpgroups((None, 40, None), {"SPLIT": 2, "PERSISTENT": 0}, layout="rr", ld_align=8, epilogue="swiglu"),
    warpgroups(OPEN, {"SPLIT": 2, "PERSISTENT": 0}, types=TF32, ld_align=4, epilogue="aux+relu"),
    warpgroups(OPEN, {"BN": 64, "PERSISTENT": 0, "SPLIT": 4}, batch=3, pointers=True, ld_align=8, layout="rr"),
    warpgroups((128, 48, 240), {"CLUSTER": 2}, batch=5, pointers=True, epilogue="silu+row_amax", layout="cr"),
    warpgroups(OPEN, {"BN": 32}, batch=None, pointers=True, types="s8,s8,s32", ld_align=16),
    warpgroups((None, 40, 64), {}, batch=4, pointers=True, layout="rr", types="f16", epilogue="swiglu"),
    warpgroups((2, None, 40), {"BN": 16}, batch=3, stride_c=None, epilogue="aux+relu"),
    warpgroups(OPEN, {"BN": 16}, types="u8,s8,s8", layout="cc", epilogue="scale_m+scale_n"),
    warpgroups((None, 64, None), {}, types="u8,u8,s8", epilogue="zero_a+zero_b+scale_a+bias+relu", ld_align=16),
    warpgroups(OPEN, {"BN": 32}, types="s8,u8,s32", epilogue="zero_n+zero_m", ld_align=16, batch=None, stride_b=0),
    warpgroups((70, 48, 203), {"CLUSTER": 2}, types="s8,u8,f32", layout="cc", epilogue="zero_b+row_amax+column_amax"),
    warpgroups(OPEN, {"BN": 64, "GROUP": 1}, types=TF32, ld_align=4, layout="rc", batch=None, pointer_align=4),
    warpgroups(
        (None, 200, None),
        {"BN": 128, "CLUSTER": 2},
        types=TF32,
        ld_align=4,
        layout="rr",
        epilogue="row_amax+column_amax",
    ),
    warpgroups((100, 72, 300), {"BM": 32, "BN": 64, "SPLIT": 4, "PERSISTENT": 0}, types=TF32, layout="rr", batch=2),
    warpgroups((None, 72, None), {"BN": 32, "WHOLE": 1}, types="s8,s8,s32", ld_align=16),
    warpgroups((None, 72, None), {"BM": 128, "CONSUMERS": 2, "PINGPONG": 1, "WHOLE": 1}, epilogue="scale_m+silu"),
    warpgroups((100, 72, None), {"BN": 32, "CLUSTER": 2, "WHOLE": 1}, layout="rr", epilogue="swiglu", batch=3),
    warpgroups((None, 80, None), {"BN": 64, "WHOLE": 1}, types="u8,s8,bf16", epilogue="zero_m+zero_n+scale_m+scale_n"),
    warpgroups((100, 72, 300), {"BN": 32, "SPLIT": 2, "PERSISTENT": 0, "WHOLE": 1}, epilogue="bias+residual", batch=2),
    warpgroups((100, 72, 300), {"BM": 32, "BN": 64, "WHOLE": 1}, types=TF32, layout="rr", epilogue="bias+gelu"),
    warpgroups((120, 48, 200), {"WHOLE": 1}, batch=5, pointers=True, epilogue="bias+gelu", layout="cr"),
    warpgroups((100, 72, None), {"BN": 48, "WHOLE": 1}, types=Types.parse("f16", Compute.F16), epilogue="silu"),
    warpgroups((None, 72, None), {"BM": 128, "CONSUMERS": 2, "PINGPONG": 1, "BROADCAST": 1}, ld_align=8),
    warpgroups((100, 72, None), {"BM": 96, "BN": 128, "CONSUMERS": 2, "SWAP": 1, "BROADCAST": 1}, ld_align=8),
    warpgroups((200, 72, None), {"CLUSTER": 2, "BROADCAST": 1}, types=PROMOTED, ld_align=16),
    warpgroups((100, 72, 300), {"BN": 32, "SPLIT": 2, "PERSISTENT": 0, "BROADCAST": 1}, epilogue="bias", batch=2),
    warpgroups((100, 72, None), {"BM": 32, "BN": 64, "BROADCAST": 1}, types=TF32, layout="rr", epilogue="bias+gelu"),
    warpgroups((100, 51, None), {"BROADCAST": 1}, types=Types.parse("f32", Compute.BF16X6), layout="rr"),
    warpgroups((100, 72, None), {"BN": 48, "C_BOXES": 3}, types=Types.parse("f16", Compute.F16), epilogue="silu"),
    warpgroups((100, 96, None), {"BN": 96, "CLUSTER": 2, "C_BOXES": 3}, layout="rr", epilogue="swiglu", batch=3),
    warpgroups((128, 128, 200), {"BN": 128, "C_BOXES": 2}, batch=5, pointers=True, layout="cr"),
    warpgroups((None, 72, None), {"BN": 64, "C_BOXES": 2, "WHOLE": 1}, types=TF32, ld_align=4),
    warpgroups((None, 160, None), {"BN": 160, "C_BOXES": 5}, types="s8,s8,s32", ld_align=16),
    warpgroups((40, 72, 300), {"BM": 40, "BN": 64, "SWAP": 1, "WHOLE": 1}, types="f32_bf16x6", layout="rr"),
    warpgroups((None, 72, None), {"BK": 32, "STAGES": 3, "WHOLE": 1}, types=PROMOTED, ld_align=16, epilogue="bias"),
    warpgroups(
        (100, 72, None), {"BN": 64, "CLUSTER": 2, "ACROSS": 1, "FROM_REGISTERS": 2}, types=TF32, ld_align=4, layout="cr"
    ),
    Kernel(OPEN, {"WN": 32}, {"types": "s8,s8,s32", "layout": "rr", "ld_align": 16}),
    Kernel((70, 97, 153), {"SPLIT": 2}, {"types": "s8,u8,s32", "layout": "cc"}),
    warpgroups(
        (None, 72, None), {"BM": 40, "BN": 128, "CONSUMERS": 2, "STAGES": 3}, types=TF32, layout="rr", ld_align=4
    ),
    warpgroups((None, 72, None), {"BN": 24, "IN_FLIGHT": 0}, types=TF32, layout="cc", ld_align=4, epilogue="bias+gelu"),
    warpgroups((500, 400, 72), {"BM": 192, "BN": 128, "CONSUMERS": 2, "CLUSTER": 2, "ACROSS": 1, "PINGPONG": 1}),
    warpgroups((90, 136, None), {"BM": 40, "BN": 128, "CONSUMERS": 2, "SWAP": 1, "PINGPONG": 1}, layout="rr"),
    warpgroups((70, 72, 300), {"BM": 48, "BN": 64, "SWAP": 1}, types="s8,s8,bf16", epilogue="scale_m+scale_n+bias"),
    warpgroups(OPEN, {"CLUSTER": 2, "BN": 64, "STAGES": 3}, ld_align=8),  # each block brings a part of a cut B
    warpgroups((None, 71, None), {"BN": 64, "ROWS_UNROLL": 0}, epilogue="bias+residual"),
    warpgroups((70, 48, None), {"BN": 48, "C_BOXES": 3}, ld_align=8),
    warpgroups((None, 72, None), {"BROADCAST": 1}, ld_align=8),
    warpgroups((None, 72, None), {"BM": 128, "CONSUMERS": 2, "WHOLE": 1}, epilogue="bias+gelu", ld_align=8),
    warpgroups(
        (70, 72, None), {"BM": 48, "BN": 64, "SWAP": 1, "WHOLE": 1}, types="s8,s8,bf16", epilogue="scale_m+residual"
    ),
)


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor() as executor:
        yield executor


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernel_computes_every_situation(kernel: Kernel, emulator: EmulatorExecutor) -> None:
    computes(kernel, emulator, EXAMPLES)


@pytest.mark.soak
@pytest.mark.parametrize("kernel", [*KERNELS, *MORE], ids=str)
def test_kernel_computes_many_situations(kernel: Kernel, emulator: EmulatorExecutor) -> None:
    computes(kernel, emulator, SOAK_EXAMPLES)


def computes(kernel: Kernel, emulator: EmulatorExecutor, examples: int) -> None:
    verdict = verify(emulator, kernel.render(), examples=examples, seed=1, runs=2)
    assert verdict.passed, f"{verdict.situation}: {verdict.failure}"
    assert verdict.deterministic and verdict.worst <= 1
