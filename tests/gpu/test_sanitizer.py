"""compute-sanitizer on a GPU: right kernels pass all four tools, and each tool finds its kind of bug. selfcheck too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gemmgen.families import NAIVE
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.problem.wgmma import ARCH
from gemmgen.proof.bugs import BUGS, NAIVE_RR, Subject
from gemmgen.proof.bugs.subjects import ASYNC, DOUBLE_VECTORS, SINGLE, SINGLE_FIXED
from gemmgen.proof.bugs.tensor_subjects import WGMMA_PAIR, WGMMA_RC
from gemmgen.proof.selfcheck import check_kernels, correct_kernels, plant, rendered, try_bugs
from gemmgen.render.kernel_text import render
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.run.target import Target, open_target
from gemmgen.support.files import Store
from gemmgen.verification.parallel import Lanes
from gemmgen.verification.sanitizers.tool import TOOLS, Tool, why_no_sanitizer
from gemmgen.verification.verifier import Verdict, verify
from gemmgen.verification.with_sanitizers import SITUATIONS, draw, run_tool, sanitize


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    target = open_target("gpu", "auto", Store(tmp_path_factory.mktemp("store")))
    with target.executor:
        yield target


@pytest.fixture
def watched(gpu: Target) -> GpuExecutor:
    reason = why_no_sanitizer()
    if reason is not None:
        pytest.skip(reason)
    assert gpu.gpu is not None
    return gpu.gpu


def edited(target: Target, subject: Subject, old: str, new: str) -> KernelSource:
    source = rendered(subject, target.spec.arch.limits)
    assert old in source.text
    return replace(source, text=source.text.replace(old, new))


@pytest.mark.parametrize("subject", [NAIVE_RR, SINGLE_FIXED, DOUBLE_VECTORS, ASYNC], ids=str)
def test_a_right_kernel_passes_all_tools(gpu: Target, watched: GpuExecutor, subject: Subject) -> None:
    source = rendered(subject, gpu.spec.arch.limits)
    verdict = sanitize(watched, source, verify(watched, source, examples=5), TOOLS)
    assert verdict.passed, verdict.failure
    assert [result.tool for result in verdict.sanitizers] == list(TOOLS)
    assert all(result.situations == SITUATIONS and not result.sampled for result in verdict.sanitizers)


@pytest.mark.parametrize("subject", [WGMMA_RC, WGMMA_PAIR], ids=str)
def test_a_right_kernel_of_tensor_maps_passes_all_tools(gpu: Target, watched: GpuExecutor, subject: Subject) -> None:
    """Its launch is cuda.bindings', not pycuda's."""
    if watched.arch.rstrip("a") != ARCH.rstrip("a"):
        pytest.skip(f"wgmma needs {ARCH}, and the GPU here is {watched.arch}")
    watched.compile_for(ARCH)
    source = rendered(subject, gpu.spec.arch.limits)
    verdict = sanitize(watched, source, verify(watched, source, examples=2), TOOLS)
    assert verdict.passed, verdict.failure
    assert all(result.situations for result in verdict.sanitizers)


def test_operands_of_groups_whose_elements_share_bytes(gpu: Target, watched: GpuExecutor) -> None:
    problem = Problem(None, 72, 96, types="f16,s4,f16", layout="rr", inputs="scales=32+groups=5")
    verdict = sanitize(watched, render(problem, NAIVE, NAIVE.default(problem)), Verdict("", 0, 0, 0.0), TOOLS)
    assert verdict.passed, verdict.failure


@pytest.mark.parametrize(
    ("tool", "subject", "old", "new", "words"),
    [
        ("memcheck", NAIVE_RR, "n >= s.N", "n > s.N", r"Invalid __global__ (read|write) of size 4 bytes at line \d+"),
        ("racecheck", SINGLE, "__syncthreads();  // the tiles are complete", "", r"Race reported .* at line \d+"),
        ("initcheck", NAIVE_RR, "beta == 0.0f ? alpha * acc :", "", "Uninitialized __global__ memory read .*of C's"),
        (
            "synccheck",
            SINGLE,
            "__syncthreads();  // the tiles are complete",
            "if (threadIdx.x % 32 < 16) __syncthreads();",
            "Barrier error",
        ),
    ],
)
def test_each_tool_finds_its_bug(
    gpu: Target, watched: GpuExecutor, tool: Tool, subject: Subject, old: str, new: str, words: str
) -> None:
    source = edited(gpu, subject, old, new)
    result = run_tool(watched, source, draw(source.problem, 0), tool)
    assert result.failure is not None and result.failure.source == tool
    assert result.findings and result.findings[0].lines
    assert re.search(words, str(result.findings[0])), result.findings


def test_what_a_tool_alone_finds_fails_the_verdict(gpu: Target, watched: GpuExecutor) -> None:
    source = edited(gpu, SINGLE, "__syncthreads();  // the tiles are complete", "__syncwarp();")
    passed = replace(verify(watched, source, examples=1), failure=None, situation=None, mismatch=None)
    verdict = sanitize(watched, source, passed, ("racecheck",))
    assert not verdict.passed and verdict.failure is not None and verdict.failure.source == "racecheck"


def test_selfcheck_in_lanes(gpu: Target, tmp_path_factory: pytest.TempPathFactory) -> None:
    lanes = Lanes(gpu, Store(tmp_path_factory.mktemp("lanes")))
    names = ("alpha is dropped", "no barrier between stages", "a misaligned vector copy", "> for >= at the last row")
    bugs = [bug for bug in BUGS if bug.name in names]
    outcomes = try_bugs(lanes, bugs, examples=40)
    assert [outcome.trouble for outcome in outcomes] == [None] * len(bugs)
    assert [outcome.source for outcome in outcomes] == [plant(bug, gpu.spec.arch.limits) for bug in bugs]
    assert check_kernels(lanes, list(correct_kernels(6, 0, gpu.spec.arch.limits))) == ()
