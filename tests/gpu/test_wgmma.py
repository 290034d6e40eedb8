"""Kernels of TMA, mbarriers and wgmma written by hand give the same bits on a card as in the emulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import TensorMap
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.problem.wgmma import ARCH, wgmmas
from gemmgen.render.kernel_text import environment
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.support.files import Store

KERNELS = Path(__file__).parents[1] / "kernels"
TEXT = (KERNELS / "wgmma.cu").read_text()
PROBLEM = Problem(None, None, None, layout="rc", types=Types.parse("bf16,bf16,f32"))
TILES = 3 * 2 * 64 * 64 * 2 + 64 * 64 * 4  # bytes: three stages of A and B, one tile of C
MAPS = (TensorMap("A", (64, 64), 128), TensorMap("B", (64, 64), 128), TensorMap("C", (64, 64)))


def by_hand() -> KernelSource:
    text = environment(PROBLEM.types).from_string(TEXT).render(instruction=wgmmas()["wgmma_m64n64k16_bf16"], n=0)
    launch = Launch(160, (("M", 128), ("N", 64)), TILES, maps=MAPS)
    return KernelSource("k", text, "test", {}, Contract.of(PROBLEM, launch))


def test_card_and_emulator_agree_to_the_bit(gpu: GpuExecutor, shared_store: Store) -> None:
    if gpu.arch.rstrip("a") != ARCH.rstrip("a"):
        pytest.skip(f"wgmma needs {ARCH}, and the GPU here is {gpu.arch}")
    gpu.compile_for(ARCH)
    random, source = np.random.default_rng(1), by_hand()
    with EmulatorExecutor(shared_store) as emulator:
        emulated, loaded = emulator.load(source), gpu.load(source)
        for m, n, k in ((128, 64, 256), (100, 72, 72), (130, 8, 8), (300, 200, 1000)):
            case = PROBLEM.case(m, n, k, ldc=n + 8)
            storages = [matrix.dtype.encode(random.normal(size=matrix.elements)) for matrix in case.matrices]
            given = Operands(*storages)
            found, wanted = (case.c.view(kernel.run(case, given, seed=1)) for kernel in (loaded, emulated))
            np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


def test_blocks_of_a_cluster_bring_rows_to_each_other(gpu: GpuExecutor, shared_store: Store) -> None:
    if gpu.arch < "sm_90":
        pytest.skip("clusters came with sm_90")
    problem = Problem(256, 96, 96)  # many clusters at once, which end at different times
    text = environment(problem.types).from_string((KERNELS / "cluster.cu").read_text()).render()
    launch = Launch(64, (("M", 2),), 2048, cluster=2, maps=(TensorMap("A", (32, 1)),))
    source = KernelSource("k", text, "test", {}, Contract.of(problem, launch))
    case = problem.case()
    values = np.random.default_rng(3).integers(-8, 8, case.a.elements).astype(np.float32)
    given = Operands(values, *(np.zeros(one.elements, np.float32) for one in (case.b, case.c)))
    with EmulatorExecutor(shared_store) as emulator:
        found, wanted = (kernel.run(case, given, seed=1) for kernel in (gpu.load(source), emulator.load(source)))
    np.testing.assert_array_equal(found, wanted)


def test_tma_rounds_to_tf32_as_the_emulator_does(gpu: GpuExecutor, shared_store: Store) -> None:
    problem = Problem(8, 32, 32)
    text = environment(problem.types).from_string((KERNELS / "tma_tf32.cu").read_text()).render()
    launch = Launch(32, (("M", 8), ("N", 32)), 1024, maps=(TensorMap("A", (32, 8), tf32=True),))
    source = KernelSource("k", text, "test", {}, Contract.of(problem, launch))
    bits = np.random.default_rng(2).integers(0, 2**32, 256, dtype=np.uint32)
    ties, corners = (
        0x3F801000 + 0x1000 * np.arange(16),
        [0, 0x80000000, 1, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x7FFFE000],
    )
    bits[:23] = [*ties, *corners]
    case = problem.case()
    given = Operands(bits.view(np.float32), *(np.zeros(one.elements, np.float32) for one in (case.b, case.c)))
    with EmulatorExecutor(shared_store) as emulator:
        found, wanted = (
            np.ascontiguousarray(kernel.run(case, given, seed=1)).view(np.uint32)
            for kernel in (gpu.load(source), emulator.load(source))
        )
    number = (bits & 0x7FFFFFFF) <= 0x7F800000  # any NaN is as good as another
    different = number & (found.ravel() != wanted.ravel())
    told = [f"{a:08x}: {b:08x}, not {c:08x}" for a, b, c in zip(bits, found.ravel(), wanted.ravel(), strict=True)]
    assert not different.any(), [line for line, here in zip(told, different, strict=True) if here]
