"""compute-sanitizer as a part of verification: which situations it sees, and how its findings change a Verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.run.compile import compile_kernel
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.run.gpu.plain import plain_cubin
from gemmgen.run.nvrtc import LINES
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.verification.data import LARGE_EFFORT, effort
from gemmgen.verification.sanitizers.tool import NAME, TIMEOUT, SanitizerResult, Tool, why_no_sanitizer
from gemmgen.verification.sanitizers.tool import sanitize as watch
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import Verdict, stratified_test

SITUATIONS = 8
LARGE_SITUATIONS = 2  # where one takes over LARGE_EFFORT
LARGEST = 160  # of run-time sizes: several tiles each way, and a pipeline that comes round


def require_sanitizer() -> None:
    """Raise CandidateFailed (unavailable) without a GPU or compute-sanitizer."""
    missing = why_no_sanitizer()
    if missing is not None:
        raise CandidateFailed(Failure("unavailable", missing, NAME))


def sanitize(
    gpu: GpuExecutor,
    source: KernelSource,
    verdict: Verdict,
    tools: Sequence[Tool],
    *,
    timeout: float = TIMEOUT,
    on_tool: Callable[[], None] = lambda: None,
) -> Verdict:
    """Return `verdict` with the findings of `tools`; their first failure becomes its own, if it has none.

    They watch a few situations drawn from the verdict's seed, a failing one first. A kernel that does not compile or
    load is not watched. Raises CandidateFailed (unavailable).
    """
    if verdict.failure is not None and verdict.situation is None:
        return verdict
    known = () if verdict.situation is None else (verdict.situation,)
    chosen = (*known, *draw(source.problem, verdict.seed))
    results = []
    for tool in tools:
        results.append(run_tool(gpu, source, chosen, tool, timeout))
        on_tool()
    verdict = replace(verdict, sanitizers=tuple(results))
    failing = next((result for result in results if result.failure is not None), None)
    if verdict.failure is not None or failing is None:
        return verdict
    situation = next((finding.situation for finding in failing.findings), None)
    return replace(verdict, failure=failing.failure, situation=situation)


def run_tool(
    gpu: GpuExecutor, source: KernelSource, situations: Sequence[Situation], tool: Tool, timeout: float = TIMEOUT
) -> SanitizerResult:
    """Run `source` in `situations` under one of compute-sanitizer's tools, in a process of its own.

    Raises CandidateFailed: compile, or unavailable (no compute-sanitizer).
    """
    compiled = compile_kernel(source, gpu.arch, gpu.store, LINES)
    fill = plain_cubin("fill", gpu.arch, gpu.store)
    return watch(source, compiled.cubin, fill, situations, tool, device=gpu.device, timeout=timeout)


def draw(problem: Problem, seed: int) -> list[Situation]:
    """Draw the situations that the tools watch: as verification draws them, but few and small."""
    drawn: list[Situation] = []
    largest = problem.case(**{name.lower(): LARGEST for name in problem.open_sizes})
    count = LARGE_SITUATIONS if effort(largest) > LARGE_EFFORT else SITUATIONS
    stratified_test(drawn.append, problem, LARGEST, count, seed)
    return drawn
