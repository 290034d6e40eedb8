"""Kernels that fail beside others that are benched, on a GPU that is played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from typing import cast

import pytest
from rich.console import Console

from gemmgen.cli.bench import show_bench
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.families import NAIVE
from gemmgen.judge import bench
from gemmgen.judge.bench import BenchRow
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case, Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.compile import CompiledKernel
from gemmgen.run.gpu.executor import GpuExecutor, GpuKernel
from gemmgen.run.gpu.limits import MeasuredLimits
from gemmgen.run.gpu.power import Observed
from gemmgen.run.gpu.timing import Baseline, Beside, InterleavedTimings, Protocol, Timing
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.files import Store

LIMITS = MeasuredLimits("NVIDIA H200", 66.0, 33.0, 4400.0, 3800.0, "2026-11-21")
PROBLEM = Problem(256, 256, 256)
WRONG = Failure("wrong", "C[0][0] is off", "verifier")


def naive(tile: int) -> KernelSource:
    return render(PROBLEM, NAIVE, NAIVE.default(PROBLEM).with_values(BM=tile, BN=8))


class Gpu:
    """Plays the executor: kernels of tile 16 do not load, those of tile 32 do not run."""

    arch, description = "sm_90", "NVIDIA H200 (sm_90)"

    def __init__(self, served: bool = True) -> None:
        self.closed: list[str] = []
        self.served = served

    def load_compiled(self, source: KernelSource, compiled: CompiledKernel) -> GpuKernel:
        if source.config["BM"] == 16:
            raise CandidateFailed(Failure("launch", "too much shared memory", "gpu"))
        return GpuKernel(cast(GpuExecutor, self), source, compiled)

    def measure_many(
        self, kernels: Sequence[GpuKernel], case: Case, protocol: Protocol, *, beside: Beside | None
    ) -> InterleavedTimings:
        theirs = Timing((12.0 if protocol.data == "normal" else 10.0,), {})
        tiles = [kernel.source.config["BM"] for kernel in kernels]
        timings = [WRONG if tile == 32 else Timing((5.0 if tile == 8 else 6.0,), {}) for tile in tiles]
        best = Baseline(0, 8, theirs, theirs, "cuBLASLt 13.1") if self.served else None
        return InterleavedTimings(tuple(timings), best, Timing((4.0,), {}))

    def limits(self) -> MeasuredLimits:
        return LIMITS

    def unload(self, kernel: GpuKernel) -> None:
        self.closed.append(kernel.source.name)


def test_kernels_that_fail_to_load_or_run_leave_the_others_their_places(
    monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    monkeypatch.setattr(bench, "compile_kernel", lambda *_: None)
    kernels = [KernelFile(naive(tile)) for tile in (16, 32, 8, 4)]
    gpu = Gpu()
    unloaded, wrong, row, slower = bench.compare(kernels, cast(GpuExecutor, gpu), store)
    assert isinstance(unloaded, Failure) and unloaded.kind == "launch" and wrong == WRONG
    assert isinstance(row, BenchRow) and row.kernel is kernels[2] and row.speedup == 2.0
    assert row.document()["moving_us"] == 4.0
    assert row.document()["normal"] == {"ours_us": 5.0, "cublaslt_us": 12.0, "speedup": row.normal_speedup}
    assert row.normal_speedup == 2.4, "of a run of its own, on other data"
    assert isinstance(slower, BenchRow) and slower.timing.median_us == 6.0 and slower.normal is None
    assert gpu.closed == [kernel.source.name for kernel in kernels[1:]]
    assert bench.compare(kernels[:1], cast(GpuExecutor, gpu), store) == [unloaded]


def test_a_row_may_have_no_baseline(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setattr(bench, "compile_kernel", lambda *_: None)
    (row,) = bench.compare([KernelFile(naive(8))], cast(GpuExecutor, Gpu(served=False)), store)
    assert isinstance(row, BenchRow) and row.speedup is None and row.document()["cublaslt"] is None
    assert row.normal_speedup is None is row.document()["normal"]
    console = Console(width=300, record=True, file=StringIO())
    show_bench(console, [row])
    assert console.export_text().count("no baseline") == 2


@pytest.mark.parametrize(
    ("types", "tflops", "limit"),
    [
        ("bf16", 989, "tensor rate"),
        ("f16_f16acc", 989, "tensor rate"),
        ("f32_tf32", 495, "tensor rate"),
        ("f32_bf16x6", 165, "tensor rate"),
        ("e4m3,e4m3,bf16_promoted", 1979, "tensor rate"),
        ("s8,s8,s32", 1979, "tensor rate"),
        ("f32", 66, "FFMA rate"),
        ("f64", 33, "DFMA rate"),
        ("bf16,s8,bf16", 66, "FFMA rate"),
    ],
)
def test_large_products_are_held_against_what_multiplies_them(types: str, tflops: float, limit: str) -> None:
    """Tensor cores by the data sheet of an H200; what none of their instructions multiplies by CUDA cores."""
    roof = LIMITS.roof(Problem(8192, 8192, 8192, types=types).case())  # type: ignore[arg-type]
    assert roof.limit == limit and round(roof.tflops) == tflops
    unknown = replace(LIMITS, card="a card of tomorrow").roof(Problem(8192, 8192, 8192, types="bf16").case())  # type: ignore[arg-type]
    assert unknown.limit == "FFMA rate"


def test_energy_is_shown_beside_cublaslts_and_goes_into_the_record() -> None:
    ours = Observed(4000, 2.0, 0.25, 690.0, 1410.0, 3201.0, 65.0, ("power",))
    theirs = replace(ours, energy_j=0.5, power_w=None, limited_by=())
    kernel, time = KernelFile(naive(8)), Timing((5.0,), {})
    row = BenchRow(kernel, PROBLEM.case(), "NVIDIA H200", time, None, LIMITS, energy=(ours, theirs))
    console = Console(file=(shown := StringIO()), width=300)
    show_bench(console, [row])
    text, flops = shown.getvalue(), row.case.flops
    assert "ours      250.0 mJ a launch, " in text and "TFLOPS/W, 690 W, SM 1410 MHz, memory 3201 MHz" in text
    assert "65 C, clock limited by power" in text and "cuBLASLt  500.0 mJ a launch" in text
    energy = row.document()["energy"]
    assert energy["ours"]["tflops_per_w"] == 2 * energy["cublaslt"]["tflops_per_w"] == pytest.approx(4e-12 * flops)
    assert energy["cublaslt"]["power_w"] is None and "energy" not in replace(row, energy=None).document()
    alone = replace(row, energy=(replace(ours, **dict.fromkeys(("energy_j", "power_w", "sm_mhz"))), None))
    assert alone.document()["energy"] == {"ours": alone.document()["energy"]["ours"], "cublaslt": None}
