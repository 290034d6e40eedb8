"""selfcheck on a GPU, which an emulator in its lanes plays here: who finds a bug, and what that makes of the check."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemmgen.cli import main
from gemmgen.problem.device import ARCHS, DEVICES
from gemmgen.problem.gemm import Problem
from gemmgen.proof import selfcheck
from gemmgen.proof.bugs import BUGS
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.target import Target
from gemmgen.support.bounded_cache import Recent
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.files import Store
from gemmgen.verification import host_memory
from gemmgen.verification import parallel as lanes
from gemmgen.verification.host_memory import host_bytes
from gemmgen.verification.parallel import EmulatorLane, Lanes, VerifyJob, verify_many
from gemmgen.verification.sanitizers.tool import SanitizerResult

LIMITS = ARCHS["sm_90"].limits


class EmulatedLane:
    """A Child whose answer comes from an emulator; as a GPU's lane it passes for a GPU and sees nothing of RACING."""

    def __init__(self, factory: str, store: str, lanes: str, *timeout: str, environment: object) -> None:
        assert factory in ("gemmgen.verification.parallel:Lane", "gemmgen.verification.parallel:EmulatorLane")
        self._plays_gpu = factory.endswith(":Lane")
        self._emulator = EmulatorExecutor(Store(Path(store)))

    def request(self, job: VerifyJob) -> object:
        verdict = replace(job, shrink=False).run(self._emulator)  # that something fails is enough here
        if not self._plays_gpu:
            return verdict
        if verdict.failure is not None and job.source.text in RACING:
            verdict = replace(verdict, failure=None, situation=None, found_after=None)
            if job.tools:
                verdict = replace(verdict, sanitizers=(SANITIZED,), failure=SANITIZED.failure)
        return replace(verdict, executor="gpu")

    def kill(self) -> None:
        """`close` is enough here."""

    def close(self) -> None:
        self._emulator.close()


SANITIZED = SanitizerResult("racecheck", "1", 8, (), 1.0, failure=Failure("crash", "Race reported", "racecheck"))


@pytest.fixture
def target(monkeypatch):
    """A machine whose GPU is played."""
    monkeypatch.setattr(lanes, "Child", EmulatedLane)
    monkeypatch.setattr(Target, "gpu", property(lambda target: target.executor))
    with EmulatorExecutor() as executor:
        yield Target(executor, "sm_90", next(iter(DEVICES.values())))


def test_lanes_are_no_more_than_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each keeps its part of what one process alone would."""
    small, large = Problem(64, 64, 64), Problem(8192, 8192, 8192)
    monkeypatch.setattr(host_memory, "installed_bytes", lambda: 7 * host_bytes(large))
    with EmulatorExecutor() as executor:
        for problems, count in (([small] * 9, 8), ([small, large] * 9, 3), ([small], 1)):
            made = lanes.emulator_lanes(executor, problems, processes=8)
            assert len(made) == count
    monkeypatch.setattr(lanes, "OPERANDS", mine := Recent(9, 1000))
    monkeypatch.setattr(lanes, "EXPECTED", Recent(9, 1000))
    EmulatorLane(str(Store().root), "4", "1.0")
    mine.get("a", lambda: np.zeros(200, np.uint8), lambda array: (array,))
    mine.get("b", lambda: np.zeros(100, np.uint8), lambda array: (array,))
    assert mine.bytes == 100


def lanes_of(target: Target) -> Lanes:
    return Lanes(target, Store())


def bugs(*names: str):
    return tuple(next(bug for bug in BUGS if bug.name == name) for name in names)


RACE, VALUE = bugs("no barrier between stages", "alpha is dropped")
RACING = [selfcheck.plant(bug, LIMITS).text for bug in BUGS if "between stages" in bug.name]


def test_what_survives_on_the_gpu_is_tried_in_the_emulator(target):
    race, value = selfcheck.try_bugs(lanes_of(target), (RACE, VALUE), examples=40)
    assert value.found and not value.only_emulated and value.emulated is None
    assert not race.found and race.only_emulated
    assert race.emulated is not None and race.emulated.failure is not None


def test_a_survivor_of_both_and_a_missing_emulator_are_trouble(target, monkeypatch):
    harmless = replace(VALUE, old="value.at[v] = alpha * sums", new="value.at[v] = sums[j + v] * alpha; // ")
    (outcome,) = selfcheck.try_bugs(lanes_of(target), (harmless,), examples=5)
    assert outcome.trouble == "survived 5 situations on the emulator"

    def missing(store: Store) -> EmulatorExecutor:
        raise CandidateFailed(Failure("unavailable", "no C++ compiler", "emulator"))

    monkeypatch.setattr(selfcheck, "EmulatorExecutor", missing)
    (outcome,) = selfcheck.try_bugs(lanes_of(target), (RACE,), examples=5)
    assert re.fullmatch(r"survived \d+ situations on the gpu", str(outcome.trouble))


def test_a_sanitizer_finds_what_runs_do_not(target):
    (race,) = selfcheck.try_bugs(lanes_of(target), (RACE,), examples=5, tools=("racecheck",))
    assert race.found and race.sanitizers == ("racecheck",) and race.trouble is None and not race.only_emulated


def test_correct_kernels_pass_in_lanes(target):
    done: list[None] = []
    sources = [selfcheck.rendered(bug.subject, LIMITS) for bug in bugs("alpha is dropped", "beta is taken as 1")]
    assert selfcheck.check_kernels(lanes_of(target), sources, on_kernel=lambda: done.append(None)) == ()
    assert len(done) == 2


def test_verdicts_come_in_the_jobs_order(target):
    sources = [selfcheck.plant(bug, LIMITS) for bug in (VALUE, RACE, VALUE)]
    verdicts = verify_many([VerifyJob(source, 20, 0) for source in sources], "sm_90", Store())
    assert [verdict.passed for verdict in verdicts] == [False, True, False]


def test_the_command_lists_what_only_the_emulator_finds(target, monkeypatch, capsys):
    monkeypatch.setattr(EmulatorExecutor, "name", "gpu")
    words = ["selfcheck", "--device", "emulator", "--only", "between stages", "--kernels", "1", "--examples", "30"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "found on the GPU: 0 by what" in shown and "only the emulator finds: 2" in shown
