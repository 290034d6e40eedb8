"""A search on a GPU, which is played: it takes as long for a kernel as that is long, and finds every kernel right."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from gemmgen.cli.reports.tune import show_tuning
from gemmgen.families import NAIVE
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import device_named
from gemmgen.problem.gemm import Case, Problem
from gemmgen.run.gpu.timing import FINAL, RANK, Protocol, Timing
from gemmgen.run.target import Target
from gemmgen.search import candidate_verdicts as verifying
from gemmgen.search.candidate_times import FINALISTS
from gemmgen.search.experience import was_searched
from gemmgen.search.result import TuneResult
from gemmgen.search.tuner import tune
from gemmgen.support.console import PlainConsole
from gemmgen.support.files import Store
from gemmgen.verification.verifier import Verdict

PROBLEM = Problem(24, 40, 16)


class Card:
    """What a search asks of a GPU, and how often it did."""

    name, description, environment = "gpu", "a card", "a card and its compiler"

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def prepare(self) -> None:
        self.asked["prepare"] += 1

    def load_compiled(self, source: KernelSource, compiled: object) -> SimpleNamespace:
        return SimpleNamespace(source=source, close=lambda: None)

    def measure_many(self, kernels: Sequence[SimpleNamespace], case: Case, protocol: Protocol) -> SimpleNamespace:
        self.asked[protocol.name] += len(kernels)
        times = [Timing((float(len(kernel.source.text)),), {"protocol": protocol.name}) for kernel in kernels]
        return SimpleNamespace(timings=tuple(times))


def searched(
    store: Store, monkeypatch: pytest.MonkeyPatch, problem: Problem = PROBLEM
) -> tuple[TuneResult, Counter[str]]:
    card = Card()

    def verify(executor: object, source: KernelSource, **asked: object) -> Verdict:
        card.asked["verify"] += 1
        return Verdict("gpu", 20, 0, 0.5)

    monkeypatch.setattr(verifying, "verify", verify)
    monkeypatch.setattr(Target, "gpu", property(lambda target: card))
    target = Target(card, "sm_90", device_named("H200"))  # type: ignore[arg-type]
    return tune(problem, target, store, families=(NAIVE,), budget=6), card.asked


def test_a_second_search_times_and_verifies_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times and the verdict are kept, so that an interrupted search resumes, and both find the same winner."""
    store = Store(tmp_path)
    first, asked = searched(store, monkeypatch)
    tried = len(first.trials)
    # All once, the best of each round again together, then the finalists; and one verdict.
    assert asked[RANK.name] > tried and asked[FINAL.name] == len(first.finalists) == min(FINALISTS, tried)
    assert asked["verify"] == 1 and first.winner.verdict is not None and first.winner.verdict.passed
    assert [*first.seconds] == ["explore", "compile", "measure", "compare", "verify"]
    assert len(first.winner.source.text) == min(len(trial.source.text) for trial in first.trials)

    again, asked_again = searched(store, monkeypatch)
    assert again.winner.source.text == first.winner.source.text and len(again.trials) == tried
    assert asked_again["verify"] == 0 and again.winner.verdict == first.winner.verdict
    assert not any(asked_again[one.name] for one in (RANK, FINAL))
    assert was_searched(store, Card.description, PROBLEM)


def test_what_won_is_among_the_first_that_a_search_for_a_similar_problem_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the report says so."""
    store, console = Store(tmp_path), PlainConsole(stderr=False, width=200)
    first, _ = searched(store, monkeypatch)
    assert first.experience == ()
    similar, _ = searched(store, monkeypatch, Problem(24, 40, 32))
    assert similar.experience == (first.winner.config,)
    assert first.winner.config in [trial.config for trial in similar.trials]
    console.file = io.StringIO()
    show_tuning(console, similar)
    assert "Among the first: 1 winner of similar problems on this card" in console.file.getvalue()
