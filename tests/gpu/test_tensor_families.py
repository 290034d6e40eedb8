"""Kernels of `mma` and `wgmma` on a card: right, and to the bit what the emulator makes of the same text."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen.families import MMA, WGMMA, Family
from gemmgen.families.base import first_rejection
from gemmgen.families.wgmma.operands import staged
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import verify

SAYS = (
    {"layout": "rc", "ld_align": 8},
    {"layout": "rr", "ld_align": 4, "types": "bf16,bf16,f32", "epilogue": "bias+gelu"},
    {"layout": "cr", "types": "f16,f16,f32"},
    {"layout": "cc", "types": "f16", "ld_align": 2, "batch": None},
    {"layout": "rc", "ld_align": 8, "batch": None, "stride_b": 0},
    {"layout": "rc", "ld_align": 8, "batch": None, "pointers": True},
    {"layout": "cr", "n": 51, "ldb": 56, "ld_align": 8, "types": "f16", "batch": None, "pointers": True},
    {"layout": "rc", "types": "s8,s8,s32", "ld_align": 16},
    {"layout": "rc", "types": "u8,s8,bf16", "epilogue": "scale_m+scale_n+bias", "ld_align": 4},
    {"layout": "rr", "types": "s8,s8,s32", "ld_align": 16},
    {"layout": "cr", "types": "u8,s8,bf16", "epilogue": "scale_m+scale_n+bias", "ld_align": 4},
    {"layout": "cc", "types": "s8,u8,s32"},
    {"layout": "rc", "ld_align": 4, "types": Types.parse("f32", Compute.TF32)},
    {"layout": "rr", "n": 52, "ld_align": 4, "types": Types.parse("f32", Compute.TF32)},
    {"layout": "cc", "n": 52, "ld_align": 4, "types": Types.parse("f32", Compute.TF32)},
    {"layout": "rr", "types": Types.parse("f32", Compute.BF16X6)},
    {"layout": "rc", "ld_align": 16, "types": Types.parse("e4m3,e5m2,bf16", Compute.PROMOTED)},
)
SMALL: tuple[tuple[Family, dict[str, int]], ...] = ((MMA, {**MMA.small, "SPLIT": 3}), (WGMMA, {**WGMMA.small}))
CLUSTERED = (WGMMA, {**WGMMA.small, "BN": 64, "SPLIT": 4, "PERSISTENT": 0})
AXES = (*SMALL, CLUSTERED, (MMA, {}), (WGMMA, {}), (WGMMA, {"PDL": 0, "BROADCAST": 1}), (MMA, {"PDL": 1}))


def product(says: dict[str, object]) -> Problem:
    return Problem(**{"m": None, "n": None, "k": None, "types": "bf16", **says})  # type: ignore[arg-type]


def source(says: dict[str, object], arch: str, family: Family, axes: dict[str, int]) -> KernelSource:
    problem = product(says)
    config = family.suited(problem, family.default(problem).with_values(**axes))
    rejection = first_rejection(family, problem, config, parse_arch(arch).limits)
    if rejection is not None:
        pytest.skip(f"{family.name} on {arch}: {rejection}")
    return render(problem, family, config, arch)


SWAPPED = (
    {"BM": 80, "BN": 64, "SWAP": 1},
    {"BM": 48, "BN": 128, "CONSUMERS": 2, "SWAP": 1, "PINGPONG": 1},
    {"BM": 32, "BN": 64, "SWAP": 1, "SPLIT": 2, "PERSISTENT": 0},
    {"BM": 112, "BN": 128, "CONSUMERS": 2, "SWAP": 1, "CLUSTER": 2},
)


WIDE = ({**says, "n": 144} for says in SAYS if "ldb" not in says)
BY_TMA = [says for says in WIDE if staged(product(says))]  # C, which SWAP asks for


@pytest.mark.parametrize("says", BY_TMA, ids=str)
@pytest.mark.parametrize("axes", SWAPPED, ids=str)
def test_c_transposed(says: dict[str, object], axes: dict[str, int], gpu: GpuExecutor) -> None:
    verdict = verify(gpu, source(says, gpu.arch, WGMMA, {**WGMMA.small, "FROM_REGISTERS": 0, **axes}), examples=30)
    assert verdict.passed, f"{verdict.situation}: {verdict.failure}"


@pytest.mark.parametrize("says", BY_TMA, ids=str)
@pytest.mark.parametrize(
    "axes", [{}, {"BM": 48, "BN": 64, "SWAP": 1, "FROM_REGISTERS": 0}, {"BN": 128, "C_BOXES": 2}], ids=str
)
def test_whole_pieces_of_c(says: dict[str, object], axes: dict[str, int], gpu: GpuExecutor) -> None:
    kernel = source(says, gpu.arch, WGMMA, {**WGMMA.small, **axes, "WHOLE": 1})
    verdict = verify(gpu, kernel, examples=30)
    assert verdict.passed, f"{verdict.situation}: {verdict.failure}"


BY_ROWS = [says for says in SAYS if not staged(product(says))]


@pytest.mark.parametrize("says", BY_ROWS, ids=str)
def test_rows_of_c_in_a_loop(says: dict[str, object], gpu: GpuExecutor) -> None:
    verdict = verify(gpu, source(says, gpu.arch, WGMMA, {**WGMMA.small, "ROWS_UNROLL": 0}), examples=30)
    assert verdict.passed, f"{verdict.situation}: {verdict.failure}"


@pytest.mark.parametrize("says", SAYS, ids=str)
@pytest.mark.parametrize(("family", "axes"), AXES, ids=lambda one: getattr(one, "name", str(one)))
def test_every_situation(says: dict[str, object], family: Family, axes: dict[str, int], gpu: GpuExecutor) -> None:
    verdict = verify(gpu, source(says, gpu.arch, family, axes), examples=40)
    assert verdict.passed, f"{verdict.situation}: {verdict.failure}"


@pytest.mark.parametrize("says", [says for says in SAYS if "epilogue" not in says], ids=str)
@pytest.mark.parametrize("family", [MMA, WGMMA], ids=lambda family: family.name)
def test_the_emulator_computes_the_same_bits(says: dict[str, object], family: Family, gpu: GpuExecutor) -> None:
    kernel = source(says, gpu.arch, family, dict(family.small))
    problem = kernel.problem
    case = problem.case(
        70,
        problem.n or 52,
        333,
        beta=0.5 if problem.types.scalar == DType.F32 else 3,
        batch=2 if problem.batched else None,
    )
    operands = make_operands(Situation(case, "random", 0))
    with EmulatorExecutor() as emulator:
        card, host = (executor.load(kernel).run(case, operands) for executor in (gpu, emulator))
    assert np.array_equal(card.view(np.uint8), host.view(np.uint8))
