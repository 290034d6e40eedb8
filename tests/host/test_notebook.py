"""What a notebook shows of results, and of work under way."""

from __future__ import annotations

import sys
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest

import gemmgen
from gemmgen.benchmark.explain import explain
from gemmgen.kernel.families import config_of
from gemmgen.kernel.model import predict
from gemmgen.kernel.plan import Plan
from gemmgen.problem.device import DEVICES
from gemmgen.search.notebook import NotebookBars, progress_here
from gemmgen.search.pick import Pick
from gemmgen.search.trial import Silent
from gemmgen.verification.replay import Replayed

PROBLEM = gemmgen.Problem(64, 96, 32)
FAILED = gemmgen.Failure("wrong", "C[0, 1] is <NaN> & more", "verifier")


def trial() -> gemmgen.Trial:
    source = gemmgen.generate(PROBLEM, family="naive")
    family, config = config_of(source)
    plan: Plan = family.plan(PROBLEM, config)
    return gemmgen.Trial(source, plan, predict(plan, DEVICES["H200"]))


def shown(record: Any) -> str:
    """The text of what a notebook shows, which has to be HTML whose elements are closed in order."""
    seen: list[str] = []
    texts: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert seen.pop() == tag

        def handle_data(self, data: str) -> None:
            texts.append(data)

    reader = Reader()
    reader.feed(record._repr_html_())
    reader.close()
    assert seen == []
    return " ".join(" ".join(texts).split())


def test_a_trial_says_whether_its_time_was_measured() -> None:
    text = shown(trial())
    assert trial().source.name in text and "predicted for H200" in text and "not compiled" in text
    assert "<NaN> & more" in shown(replace(trial(), failure=FAILED)), "as text, not as markup"


def test_a_search_shows_its_candidates_and_its_winner() -> None:
    best, other = trial(), replace(trial(), failure=FAILED)
    result = gemmgen.TuneResult(PROBLEM, "H200", "sm_90", "emulator", (), (best, other), (best,), Pick(0, ()))
    text = shown(result)
    assert "2 candidates for 64x96x32 f32 rr on H200" in text and "nothing was measured" in text
    assert "winner" in text and "wrong" in text


def test_a_verdict_passes_or_says_why_not() -> None:
    passed = gemmgen.Verdict("emulator", 20, 0, 0.25, replayed=Replayed(80, 80, None, "sums"))
    assert shown(passed).startswith(".gemmgen") and "PASS 20 situations on the emulator" in shown(passed)
    assert "80 of 80 elements" in shown(passed)
    assert "FAIL" in shown(replace(passed, failure=FAILED)) and "<NaN> & more" in shown(replace(passed, failure=FAILED))
    unjudged = gemmgen.Failure("unjudged", "no twin", "emulator")
    assert "NOT JUDGED" in shown(replace(passed, failure=unjudged))


def test_an_explanation_shows_tiles_and_what_bounds_the_time() -> None:
    source = gemmgen.generate(PROBLEM, family="naive")
    text = shown(explain(gemmgen.KernelFile(source), "sm_90", DEVICES["H200"], None))
    assert "256 threads a block" in text and "us, predicted" in text and "estimated" in text and "memory-bound" in text


class Page:
    """IPython's display, which remembers what it shows."""

    def __init__(self) -> None:
        self.shows: list[str] = []

    def __call__(self, bars: NotebookBars, display_id: bool) -> Page:
        assert display_id
        self.update(bars)
        return self

    def update(self, bars: NotebookBars) -> None:
        self.shows.append(shown(bars))


def test_bars_of_a_notebook_are_renewed_in_their_place() -> None:
    page = Page()
    bars = NotebookBars(page)
    bars.stage("compile", 2)
    bars.step("compile", None)
    bars.stage("verify", 1000)
    for _ in range(1000):
        bars.step("verify", None)
    bars.stage("compile", 1)
    assert page.shows[0] == "compile 0/2" and page.shows[-1] == "compile 1/3 verify 1000/1000"
    assert len(page.shows) < 120


def test_bars_are_for_notebooks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert isinstance(progress_here(), Silent)
    for shell, kind in ((SimpleNamespace(), Silent), (SimpleNamespace(kernel=1), NotebookBars)):
        fake = SimpleNamespace(get_ipython=lambda shell=shell: shell, display=SimpleNamespace(display=Page()))
        monkeypatch.setitem(sys.modules, "IPython", fake)  # type: ignore[arg-type]
        assert isinstance(progress_here(), kind)
