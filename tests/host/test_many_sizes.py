"""One search for many sizes: candidates are compiled once and timed at all; the best of each size stay."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pytest

from gemmgen.families import MMA
from gemmgen.kernel.model import predict
from gemmgen.problem.device import DEVICES
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render_plan
from gemmgen.run.compile import CompiledKernel
from gemmgen.run.gpu.timing import InterleavedTimings, Timing
from gemmgen.run.target import Target
from gemmgen.search import explorer, many_sizes
from gemmgen.search.many_sizes import tune_many
from gemmgen.support.errors import CandidateFailed, Failure, GemmgenError
from gemmgen.support.files import Store

A100 = DEVICES["A100"]
SIZES = (16, 100, 1000, 4096)


def problem(m: int) -> Problem:
    return Problem(None, 1024, 1024, "bf16", layout="rc", typical={"M": m})


class Here:
    """An explorer in this process, of one family."""

    def __init__(self, *_: object) -> None:
        self._explorer = explorer.Explorer()

    def request(self, message: Any) -> Any:
        return self._explorer(message)

    def kill(self) -> None:
        pass

    close = kill


class Played:
    """A GPU that is played: a kernel takes what the model says, by a factor of its own."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.timed: Counter[tuple[str, int]] = Counter()
        self.beside = 0  # runs that asked for cuBLASLt

    def load_compiled(self, source: Any, compiled: Any) -> Any:
        if self.broken:
            raise CandidateFailed(Failure("launch", "too much shared memory", "gpu"))
        return Kernel(source)

    def measure_many(
        self, kernels: Sequence[Any], case: Any, protocol: Any, *, beside: Any = None
    ) -> InterleavedTimings:
        if beside is not None:
            self.beside += 1
            raise CandidateFailed(Failure("unavailable", "cuBLASLt is missing", "gpu"))
        self.timed.update((kernel.source.name, case.m) for kernel in kernels)
        return InterleavedTimings(tuple(Timing((us(kernel.source, case.m),), {}) for kernel in kernels))


class Kernel:
    def __init__(self, source: Any) -> None:
        self.source = source

    def close(self) -> None:
        pass


def us(source: Any, m: int) -> float:
    plan = MMA.plan(problem(m), MMA.config_type().with_values(**source.config))
    return predict(plan, A100).time_us * (1 + 0.2 * math.sin(sum(map(ord, source.name))))


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Searches of `mma` alone whose kernels nobody compiles; the names of those that were."""
    names: list[str] = []

    def compile_many(sources: Sequence[Any], *_: object, **__: object) -> list[CompiledKernel]:
        names.extend(source.name for source in sources)
        return [CompiledKernel(one.digest, "sm_80", b"", 64, 0, 0, 0, "NVRTC 13", (), 0.0) for one in sources]

    @contextmanager
    def crew(children: Sequence[Any]) -> Iterator[Sequence[Any]]:
        yield children

    monkeypatch.setattr(explorer, "SEARCHED", (MMA,))
    monkeypatch.setattr(many_sizes, "Child", Here)
    monkeypatch.setattr(many_sizes, "compile_many", compile_many)
    monkeypatch.setattr(many_sizes, "crew", crew)
    return names


def target(gpu: Played | None) -> Target:
    return cast(Target, type("Played", (), {"gpu": gpu, "spec": A100, "arch": "sm_80"}))


def test_candidates_are_compiled_once_and_the_fastest_of_each_size_stay(searched: list[str], store: Store) -> None:
    gpu = Played()
    found = tune_many([problem(m) for m in SIZES], target(gpu), store, each=2)
    assert len(set(searched)) == len(searched) == found.tried
    assert {m for _, m in gpu.timed} == set(SIZES) and gpu.beside == 1, "cuBLASLt is missing: nobody asks again"
    for place, m in enumerate(SIZES):
        timed = {name for name, size in gpu.timed if size == m}
        every = {trial.source.name: us(trial.source, m) for trial in found.trials if trial.source.name in timed}
        assert np.nanmin(found.times_us[place]) == pytest.approx(min(every.values()))
    assert len(gpu.timed) < found.tried * len(SIZES)  # small tiles are not tried on large products


def test_later_rounds_find_more_than_the_models_first_choice(searched: list[str], store: Store) -> None:
    problems = [problem(m) for m in SIZES]
    best = tune_many(problems, target(Played()), store, each=2).times_us.min(axis=1)
    first = [explorer.search_of(one, (MMA,), A100)[0].first(1)[0] for one in problems]
    sources = [render_plan(one.plan, "sm_80") for one in first]
    times = [us(source, m) for source, m in zip(sources, SIZES, strict=True)]
    assert (best <= np.array(times) * 1.0001).all() and best.sum() < sum(times)


def test_without_a_gpu_only_the_smallest_set_is_compiled(searched: list[str], store: Store) -> None:
    found = tune_many([problem(m) for m in SIZES], target(None), store)
    assert len(searched) == found.tried == len(found.trials) <= len(SIZES)
    assert found.times_us.shape == (len(SIZES), len(found.trials))


def test_where_no_candidate_loads_the_search_fails(searched: list[str], store: Store) -> None:
    with pytest.raises(GemmgenError, match=r"^no kernel for \S+ bf16 rc at 1 size: 1 candidate failed to"):
        tune_many([problem(16)], target(Played(broken=True)), store, each=1)
