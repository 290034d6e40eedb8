"""What a notebook shows of results, and a terminal of work under way."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

import gemmgen
from gemmgen.api.asked import shown as shown_here
from gemmgen.families import config_of
from gemmgen.judge.explain import explain
from gemmgen.kernel.model import predict
from gemmgen.kernel.plan import Plan
from gemmgen.problem.device import DEVICES
from gemmgen.search.bars import Bars
from gemmgen.search.result import Pick
from gemmgen.search.trial import Progress
from gemmgen.verification.bit_replay import Replayed

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


def standard_error(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> io.StringIO:
    """Standard error, which is a terminal or is not."""
    written = io.StringIO()
    written.isatty = lambda: terminal  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setenv("TERM", "xterm")
    return written


def steps(progress: Progress) -> None:
    progress.stage("compile", 2)
    for _ in range(2):
        progress.step("compile", None)


def vanishes(written: io.StringIO) -> bool:
    """Whether a bar was full, and its line is taken away after that."""
    _, full, behind = written.getvalue().rpartition("2/2")
    return bool(full) and "\x1b[2K" in behind


def test_a_script_in_a_terminal_shows_bars_that_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    written = standard_error(monkeypatch, terminal=True)
    with shown_here(None) as progress:
        assert isinstance(progress, Bars)
        steps(progress)
    assert "compile" in written.getvalue() and vanishes(written)


def test_bars_vanish_where_the_work_fails_too(monkeypatch: pytest.MonkeyPatch) -> None:
    written = standard_error(monkeypatch, terminal=True)
    monkeypatch.setattr("gemmgen.api.kernels.search", failing_search)
    with pytest.raises(gemmgen.GemmgenError, match="failed after 2 steps"):
        gemmgen.tune(PROBLEM, device="emulator")
    assert "compile" in written.getvalue() and vanishes(written)


def failing_search(*given: Any, progress: Progress, **named: Any) -> None:
    steps(progress)
    raise gemmgen.GemmgenError("failed after 2 steps")


def test_nothing_is_shown_where_standard_error_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for forced in (False, True):
        if forced:
            monkeypatch.setenv("FORCE_COLOR", "1")
        written = standard_error(monkeypatch, terminal=False)
        with shown_here(None) as progress:
            steps(progress)
        assert type(progress) is Progress and written.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", None)  # of a program without a console
    with shown_here(None) as progress:
        assert type(progress) is Progress


def test_a_progress_that_is_given_hears_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    written, given = standard_error(monkeypatch, terminal=True), Progress()
    with shown_here(given) as progress:
        steps(progress)
    assert progress is given and written.getvalue() == ""
