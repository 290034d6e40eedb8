"""Whole kernels on the interpreter of PTX: results, races, what they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from gemmgen.families import FAMILIES, family_named
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import ARCHS
from gemmgen.problem.mma import MMAS
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator.driver import EmulatorExecutor
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.verification.checks import Wrong, check
from gemmgen.verification.random_kernels import RandomKernel, draw_points
from gemmgen.verification.verifier import stratified_test

LARGEST = 96
EACH = 4  # kernels of a schedule that are drawn one behind the other


@pytest.fixture(scope="module")
def interpreter(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


def drawn(arch: str, count: int, *families: str) -> Iterator[RandomKernel]:
    chosen = [family_named(name) for name in families or FAMILIES]
    return islice(draw_points(chosen, ARCHS[arch].limits, 5), count)


def rendered(point: RandomKernel, arch: str = "sm_90") -> KernelSource:
    return render(point.problem, point.family, point.config, arch)


def lacking(source: KernelSource, arch: str) -> list[str]:
    """Products of fp8 of which the architecture makes several others: the emulator judges none."""
    used = re.findall(r"\bmma_m\w+", source.text)
    return [name for name in used if name in MMAS and MMAS[name].why_not(ARCHS[arch]) is not None]


def judge(interpreter: EmulatorExecutor, source: KernelSource, examples: int) -> None:
    kernel = interpreter.load(source)
    try:
        stratified_test(lambda one: check(kernel, one), source.problem, LARGEST, examples, seed=1)
    finally:
        kernel.close()


@pytest.mark.parametrize(
    ("arch", "count", "families"),
    [
        ("sm_90", 28, ()),
        ("sm_120", 8, ("mma", "batchedmma")),
        pytest.param("sm_90", 52, (), marks=pytest.mark.soak),
        *(pytest.param(arch, 40, (), marks=pytest.mark.soak) for arch in ("sm_80", "sm_120")),
    ],
)
def test_right_kernels_of_all_schedules_pass(
    arch: str, count: int, families: tuple[str, ...], interpreter: EmulatorExecutor
) -> None:
    for point in islice(drawn(arch, count, *families), 0, None, EACH):
        source = rendered(point, arch)
        if not lacking(source, arch):
            judge(interpreter, source, 6)


def test_a_missing_barrier_is_found(interpreter: EmulatorExecutor) -> None:
    source = next(one for one in map(rendered, drawn("sm_90", 20, "simt")) if one.text.count("__syncthreads();") > 1)
    judge(interpreter, source, 6)
    broken = replace(source, text=source.text.replace("__syncthreads();", ""))
    with pytest.raises((CandidateFailed, Wrong), match="race"):
        judge(interpreter, broken, 30)


def test_a_deadlock_says_who_waits_for_what(interpreter: EmulatorExecutor) -> None:
    freed = "mbarrier_arrive(&shared.empty[stage]);"
    source = next(one for one in map(rendered, drawn("sm_90", 20, "wgmma")) if freed in one.text)
    waits = (
        r"deadlock in block \d+: .* wait at line \d+, called from line \d+, for phase [01] \(parity [01]\) of the"
        r" mbarrier at byte \d+ of dynamic"
    )
    with pytest.raises(CandidateFailed, match=waits):
        judge(interpreter, replace(source, text=source.text.replace(freed, ";")), 12)


def test_a_function_out_of_line_and_printf(interpreter: EmulatorExecutor, capfd: pytest.CaptureFixture[str]) -> None:
    source = rendered(next(drawn("sm_90", 1, "naive")))
    speaks = "__device__ __noinline__ bool speaks(int thread) { return thread == 0; }\n"
    says = 'if (speaks(threadIdx.x + blockIdx.x)) printf("%d %s %.1f\\x1b\\n", 7, "times", 2.5);'
    before, extern, kernel = source.text.rpartition('extern "C"')
    head, brace, body = kernel.partition("{\n")
    text = f"{before}{speaks}{extern}{head}{brace}{says}\n{body}"
    judge(interpreter, replace(source, text=text), 3)
    said = capfd.readouterr()
    assert "7 times 2.5\\x1b\n" in said.err and not said.out
