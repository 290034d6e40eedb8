"""Operands of f32 as sums of pieces: what these hold, how kernels lay them out, and how exact their products are."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gemmgen.cli.bench import show_bench
from gemmgen.exports.interface import Interface
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.families import WGMMA
from gemmgen.judge.accuracy import Accuracy, measured
from gemmgen.judge.bench import BenchRow
from gemmgen.judge.explain import peak
from gemmgen.kernel.analysis import traffic
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.model import least_us
from gemmgen.kernel.plan import SumOrder
from gemmgen.problem.device import DEVICES, parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.pieces import BF16X6
from gemmgen.problem.types import PROMOTION, Compute, Types
from gemmgen.problem.wgmma import Wgmma
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator.launches import long_work
from gemmgen.run.executor import Floats, Operands
from gemmgen.run.gpu.executor import GpuExecutor, GpuKernel
from gemmgen.run.gpu.limits import MeasuredLimits
from gemmgen.run.gpu.timing import Timing
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.bit_replay import sums_of
from gemmgen.verification.tensor_bound import tensor_bound

TYPES = Types.parse("f32", Compute.BF16X6)
SMALLEST, LARGEST = DType.BF16.smallest, DType.BF16.largest
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def pieces_of(*numbers: float) -> list[list[float]]:
    """By number."""
    found: list[list[float]] = DType.BF16.decode(BF16X6.split(np.array(numbers, np.float32))).T.tolist()
    return found


@given(FLOATS)
def test_pieces_add_up_to_the_number(number: float) -> None:
    """Each at most half a unit of the one before; below 2^-110 to half of bf16's least number."""
    (pieces,) = pieces_of(number)
    assert abs(sum(pieces) - number) <= (0 if abs(number) >= 2.0**-110 else SMALLEST / 2)
    assert (pieces[0] == 0) == (number == 0) and np.copysign(1, pieces[0]) == np.copysign(1, number)
    if SMALLEST <= abs(number) <= LARGEST:
        assert abs(pieces[1]) <= max(abs(number) * 2.0**-8, SMALLEST)


def test_pieces_of_numbers_at_the_ends_of_the_range() -> None:
    largest = float(np.finfo(np.float32).max)
    first, *others = pieces_of(largest)[0]
    assert first == LARGEST and sum(others) == largest - LARGEST  # the first one saturates
    assert pieces_of(2.0**-140, -(2.0**-149)) == [[SMALLEST, -SMALLEST, 0.0], [-SMALLEST, SMALLEST, 0.0]]
    infinite, negative, nan = pieces_of(np.inf, -np.inf, np.nan)
    assert infinite == [SMALLEST, 0.0, np.inf] and negative == [-SMALLEST, 0.0, -np.inf]
    assert nan[:2] == [SMALLEST, 0.0] and np.isnan(nan[2])


def test_pieces_of_an_operand_lie_one_behind_the_other() -> None:
    problem = Problem(100, 52, 300, types=TYPES, layout="cr", batch=2)
    launch = WGMMA.plan(problem, WGMMA.default(problem)).launch
    of_a, of_b = (one.matrix(problem.case()) for one in launch.prepares)
    assert (of_a.dtype, of_a.order, of_a.ld, of_a.batch, of_a.stride) == (DType.BF16, "c", 128, 6, 300 * 128)
    assert (of_b.order, of_b.ld, of_b.batch, of_b.stride) == ("r", 64, 6, 300 * 64)
    assert launch.workspace(problem.case()).lengths["prepared_a"] == 2 * 6 * 300 * 128
    assert [len(one.box) for one in launch.maps] == [3, 3, 3]


def test_an_exported_launcher_encodes_maps_of_pieces() -> None:
    problem = Problem(None, 52, 300, types=TYPES, layout="cr", batch=None)
    exported = Interface(render(problem, WGMMA, WGMMA.default(problem)), "sm_90a")
    of_a, of_b = exported.maps.encoded
    assert (of_a.type, of_a.element_bytes, of_a.tensor) == ("UINT16", 2, ("M", "300", "3 * batch"))
    assert of_a.distances == ("copy_ld(M, 64)", "300 * copy_ld(M, 64)")
    assert of_b.tensor == ("52", "300", "3 * batch") and of_b.distances == ("copy_ld(52, 64)", "300 * copy_ld(52, 64)")
    assert [part.bytes for part in exported.parts] == [
        "sizeof(unsigned short) * 3 * batch * 300 * copy_ld(52, 64)",
        "sizeof(unsigned short) * 3 * batch * 300 * copy_ld(M, 64)",
    ]


def test_pairs_of_pieces_count_as_traffic_and_time() -> None:
    """Six times those of bf16, for products that count once: the same tile of both."""
    of_pieces, of_bf16 = (Problem(4096, 4096, 4096, types=types) for types in (TYPES, "bf16,bf16,f32"))
    config = WGMMA.default(of_pieces)
    pieces, bf16 = (WGMMA.plan(problem, config) for problem in (of_pieces, of_bf16))
    assert traffic(pieces).global_bytes == 6 * traffic(bf16).global_bytes
    assert traffic(pieces).shared_bytes == 6 * traffic(bf16).shared_bytes
    assert 6 * peak(pieces, DEVICES["H200"]) == peak(bf16, DEVICES["H200"])
    assert least_us(pieces, DEVICES["H200"]) == pytest.approx(6 * least_us(bf16, DEVICES["H200"]))


def test_only_f32_is_split() -> None:
    assert TYPES.token == "f32_bf16x6" and Types.from_token("f32_bf16x6") == TYPES
    assert TYPES.factors == (DType.BF16, DType.BF16) and Types.parse("f32").factors == (DType.F32, DType.F32)
    with pytest.raises(InvalidInput, match="A of bf16: bf16x6 multiplies f32"):
        Types.parse("bf16", Compute.BF16X6)


def test_the_bound_is_that_of_f32_but_for_tiny_numbers() -> None:
    sums = np.array([[0.0, 1e30]])
    assert tensor_bound(TYPES, 300, 300, sums, sums, np.zeros((1, 1))).tolist() == [[300 * SMALLEST] * 2]


@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_sums_are_at_least_as_exact_as_those_of_ffmas(low: float) -> None:
    """One after the other, as a kernel without split-K does, of the same numbers."""
    rng, depth = np.random.default_rng(1), 4096
    a, b = rng.uniform(low, 1, (2, 64, depth)).astype(np.float32)
    exact, size = (a.astype(float) * b).sum(-1), np.abs(a.astype(float) * b).sum(-1)
    chain = np.zeros(len(a), np.float32)
    for k in range(depth):
        chain = (chain + a[:, k].astype(float) * b[:, k]).astype(np.float32)
    order = SumOrder(Wgmma(128, DType.BF16, DType.BF16, DType.F32), 64, promotion=PROMOTION, pieces=BF16X6)
    ours = sums_of(order, parse_arch("sm_90a"), TYPES, a.view(np.uint32), b.view(np.uint32))
    of_ours, of_chain = (float((np.abs(one - exact) / size).max() * 2**24) for one in (ours, chain))
    print(f"in [{low:g}, 1]: {of_ours:.2g} of bf16x6, {of_chain:.2g} of FFMAs, in units of 2^-24")
    assert of_ours < of_chain / 3


class Played:
    """An executor of which one element of each result is off."""

    def __init__(self, ours: float, theirs: float) -> None:
        self.ours, self.theirs = ours, theirs

    def run(self, kernel: object, case: Case, operands: Operands) -> Floats:
        return self.run_baseline(case, operands, self.ours)

    def run_baseline(self, case: Case, operands: Operands, off: float | None = None) -> Floats:
        a, b = (matrix.view(flat).astype(float) for matrix, flat in ((case.a, operands.a), (case.b, operands.b)))
        found = a @ b
        found[5, 3] += (self.theirs if off is None else off) * 2.0**-24 * (np.abs(a[5]) @ np.abs(b[:, 3]))
        return found.astype(np.float64).ravel()


def test_errors_are_in_units_of_the_sum_of_magnitudes() -> None:
    problem = Problem(100, 52, 300, types=TYPES)
    found = measured(cast(GpuExecutor, Played(16, -32)), cast(GpuKernel, None), problem.case(alpha=3))
    assert (found.ours, found.baseline) == pytest.approx((16, 32), rel=1e-3)


def test_a_bench_shows_errors_of_pieces() -> None:
    problem = Problem(256, 256, 256, types=TYPES)
    kernel = KernelFile(render(problem, WGMMA, WGMMA.default(problem)))
    limits, time = MeasuredLimits("NVIDIA H200", 66.0, 33.0, 4400.0, 3800.0, "2026-11-21"), Timing((5.0,), {})
    row = BenchRow(kernel, problem.case(), "NVIDIA H200", time, None, limits, accuracy=Accuracy(0.44, 4.06))
    assert row.document()["error"] == {"ours": 0.44, "baseline": 4.06}
    console = Console(width=300, record=True, file=StringIO())
    show_bench(console, [row, replace(row, accuracy=None)])
    text = console.export_text()
    assert "cuBLASLt's error" in text and "0.44" in text and "in units of 2^-24" in text


def test_a_launch_that_multiplies_pieces_may_take_as_many_times_longer() -> None:
    """With K = 1,048,593 a block of 64 x 16 took 19 s, and hung by the limit of one product."""
    plain, split = (Problem(8, 5, 2**20 + 17, compute=one) for one in ("tf32", "bf16x6"))
    launch = Launch(threads=256, grid=(("M", 64), ("N", 16)))
    limits = [long_work(launch, one.case(), blocks=1, watched=False) for one in (plain, split)]
    assert limits[0] > 8 and limits[1] > 5.9 * limits[0]
