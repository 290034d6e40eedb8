"""Fuzzing: right kernels pass, a planted bug is found, made small, kept, replayed first and reproduced by a command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from gemmgen.cli import main
from gemmgen.families import FAMILIES, NAIVE, SKINNY, WGMMA
from gemmgen.families.base import first_rejection
from gemmgen.problem.device import ARCHS
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.child import Child, ChildDied, crew
from gemmgen.support.errors import Failure
from gemmgen.support.files import Store
from gemmgen.verification import fuzz as fuzzing
from gemmgen.verification.corpus import entries, read
from gemmgen.verification.fuzz import Budget, fuzz
from gemmgen.verification.fuzz_jobs import SmallerJob, Tried
from gemmgen.verification.parallel import lanes_like
from gemmgen.verification.random_kernels import LAYOUTS, draw_points, schedules
from gemmgen.verification.situation import ALL_DATA_KINDS

LIMITS = ARCHS["sm_90"].limits
COUNT = 56  # kernels drawn: some of every schedule


@pytest.fixture
def environment(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Own folder, shared cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def lanes(shared_store: Store) -> Iterator[Sequence[Child]]:
    with EmulatorExecutor(shared_store) as emulator, crew(lanes_like(emulator)) as children:
        yield children


def plant(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """From now on every kernel that has `old` in its text is rendered with `new` there."""

    def wrong(*point: Any) -> Any:
        source = render(*point)
        return replace(source, text=source.text.replace(old, new))

    monkeypatch.setattr(fuzzing, "render", wrong)


def test_a_short_run_passes(environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fuzz", "--examples", "80", "--family", "batched", "--device", "emulator", "--json"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] and report["situations"] == 80 and report["kernels"] == 2
    assert set(report["data"]) == set(ALL_DATA_KINDS) and all(report["data"].values())
    assert 0 < report["worst_error_over_bound"] <= 1
    assert not list(environment.glob("gemmgen-corpus/*"))


def test_the_same_seed_tries_the_same_cases(lanes: Sequence[Child], tmp_path: Path) -> None:
    runs = [fuzz(lanes, "emulator", LIMITS, [NAIVE], tmp_path, Budget(situations=20), seed=7).tally for _ in range(2)]
    assert runs[0].data == runs[1].data and runs[0].worst == runs[1].worst


def test_drawn_kernels_are_accepted_and_meet_every_schedule() -> None:
    drawn = draw_points(list(FAMILIES.values()), LIMITS, seed=0)
    points = [next(drawn) for _ in range(COUNT)]
    assert all(first_rejection(point.family, point.problem, point.config, LIMITS) is None for point in points)
    known = {schedule for family in FAMILIES.values() for schedule in schedules(family)}
    assert {point.schedule for point in points} == known
    assert {str(point.problem.layout) for point in points} == set(LAYOUTS)
    assert len({point.name for point in points}) == COUNT
    by_pointers = {point.family for point in points if point.problem.pointers}
    assert by_pointers and SKINNY not in by_pointers


def test_a_planted_bug_is_found_shrunk_kept_and_replayed(
    environment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as planted:
        plant(planted, "k < s.K;", "k < s.K - (s.K > 20);")
        assert main(["fuzz", "--examples", "4000", "--family", "naive", "--device", "emulator", "--seed", "1"]) == 1
        shown = capsys.readouterr().out
        ((path, entry),) = entries(Path("gemmgen-corpus"))
        assert "FAIL" in shown and entry.kernel in shown and str(path) in shown

        case = entry.situation.case
        assert (case.m, case.n, case.k) == (1, 1, 21), "the smallest shape that shows the bug"
        assert case.problem == Problem(None, None, None), "of the plainest problem"
        assert entry.failure.kind == "wrong" and "C[0][0]" in entry.failure.reason

        command = next(line for line in shown.splitlines() if "--replay" in line).strip()
        assert main(shlex.split(command)[1:]) == 1, "the printed command reproduces it"
        assert "the kernel is wrong, its text as it was" in capsys.readouterr().out

        assert main(["fuzz", "--examples", "1000", "--device", "emulator", "--json"]) == 1
        report = json.loads(capsys.readouterr().out)
        assert report["situations"] == 0, "the corpus comes first"
        assert report["replays"][0]["found"]["failure"]["kind"] == "wrong"

    # Repaired:
    assert main(["fuzz", "--examples", "10", "--family", "naive", "--device", "emulator", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["replays"][0]["passed"] and report["replays"][0]["text_changed"] and report["situations"] == 10
    assert read(path) == entry, "an entry stays when its bug is gone"


@pytest.mark.parametrize(
    ("old", "new", "data"),
    [
        ("float acc = 0.0f;", "float acc = 0.0f; if (A == nullptr || s.K > 0 && A[0] != A[0]) acc = -acc;", None),
        ("acc = fmaf(a, b, acc);", "acc = fmaf(a < 1e-38f && a > -1e-38f ? 0.0f : a, b, acc);", "denormal"),
        pytest.param(
            *("acc = fmaf(a, b, acc);", "if (a != 0.0f) acc = fmaf(a, b, acc);", "special"),  # 0 * Inf is NaN
            marks=pytest.mark.soak,
        ),
        pytest.param(
            *("acc = fmaf(a, b, acc);", "acc = fmaf(a, b, acc); if (acc > 1e30f) acc = 1e30f;", None),
            marks=pytest.mark.soak,
        ),
    ],
    ids=["the same kernel", "denormals are flushed", "zeros are skipped", "large sums are clipped"],
)
def test_unusual_data_shows_unusual_bugs(
    old: str, new: str, data: str | None, lanes: Sequence[Child], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, old, new)
    monkeypatch.setattr(fuzzing, "SHRINK_TRIALS", 2)  # that it is found is enough here
    harmless = "-acc" in new
    budget = Budget(situations=80 if harmless else 400)
    report = fuzz(lanes, "emulator", LIMITS, [NAIVE], tmp_path, budget, seed=1)
    if harmless:
        assert report.passed
    else:
        assert report.found is not None and report.found.failure.kind == "wrong"
        assert data is None or report.found.situation.data == data


def test_a_kernel_that_does_not_compile_is_found(
    lanes: Sequence[Child], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "float acc", "flaot acc")
    report = fuzz(lanes, "emulator", LIMITS, [NAIVE], tmp_path, Budget(situations=40))
    assert report.found is not None and report.found.failure.kind == "compile" and report.found.situation is None
    ((path, entry),) = entries(tmp_path)
    assert path == report.path and entry.situation is None


class DyingLane:
    """Passes all kernels but the second, which ends its process; later ones that are to be simpler do likewise."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def request(self, job: Any) -> Any:
        self.asked.append(job.source.name)
        if len(self.asked) == 2 or isinstance(job, SmallerJob):
            raise ChildDied("its process was ended by SIGSEGV", timed_out=False)
        tried = Tried()
        tried.data["exact"] = job.examples
        return tried


def test_a_kernel_that_ends_its_process_is_found_and_made_simple(tmp_path: Path) -> None:
    lane = DyingLane()
    report = fuzz([cast(Child, lane)], "emulator", LIMITS, [NAIVE], tmp_path, Budget(situations=1000))
    assert report.found is not None and report.tally.situations == 40 and report.simplified > 0
    assert report.found.failure == Failure("crash", "its process was ended by SIGSEGV", "lane")
    assert report.found.source.problem == Problem(None, None, None), "of the plainest problem"


class PassingLane:
    """Passes all kernels."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def request(self, job: Any) -> Any:
        self.problems.append(job.source.problem)
        tried = Tried()
        tried.data["exact"] = job.examples
        return tried


def test_only_kernels_that_leave_the_wanted_sizes_to_run_time_are_tried(tmp_path: Path) -> None:
    lane = PassingLane()
    given = [cast(Child, lane)], "emulator", LIMITS, [WGMMA, NAIVE], tmp_path, Budget(situations=160)
    assert fuzz(*given, open_sizes=("M", "K")).passed
    assert len(lane.problems) == 4 and all(one.m is None and one.k is None for one in lane.problems)
    assert {one.n is None for one in lane.problems} == {True, False}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no entry of a fuzzing corpus"),
        ("[]", "is no entry of a fuzzing corpus"),
        ("{}", "no 'kernel'"),
        ('{"kernel": "gemm"}', "'gemm' is not the full name of a gemmgen kernel"),
    ],
)
def test_a_corrupt_corpus_is_named(
    text: str, message: str, environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corrupt = environment / "gemmgen-corpus" / "wrong_0.json"
    corrupt.parent.mkdir()
    corrupt.write_text(text)
    assert main(["fuzz", "--examples", "1", "--device", "emulator"]) == 2
    shown = capsys.readouterr().err
    assert "wrong_0.json" in shown and message in shown and "restore it or delete it" in shown


def test_an_interrupt_says_what_is_kept(
    environment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gemmgen.cli.fuzz.run", interrupted)
    assert main(["fuzz", "--device", "emulator", "--corpus", "found"]) == 130
    shown = capsys.readouterr().err
    assert "is in found; the same --seed starts from the beginning again" in shown and "resumes" not in shown
