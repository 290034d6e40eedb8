"""The suite for architectures that are not at hand: what it keeps and replaces, and how its page says what it is."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gemmgen.cli import main
from gemmgen.exports.kernelfile import kernels_in
from gemmgen.families import NAIVE
from gemmgen.kernel.model import predict
from gemmgen.lab.gallery import check, readme, write_readmes
from gemmgen.lab.scores import scores_in, summaries
from gemmgen.lab.shapes import PREDICTED
from gemmgen.lab.suite import plan as plans
from gemmgen.lab.suite import predicting, steps
from gemmgen.lab.suite.plan import PREDICTED_BUDGET, ShapeOutcome, SuitePlan
from gemmgen.lab.suite.predicting import predict_all
from gemmgen.problem.device import device_named
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render_plan
from gemmgen.run.compile import CompiledKernel
from gemmgen.search.trial import Trial
from gemmgen.support.errors import GemmgenError
from gemmgen.support.files import Store
from gemmgen.verification.verifier import Verdict

PROBLEM, OTHER = Problem(256, 256, 256), Problem(128, 256, 64)
A100 = device_named("A100")


def trial_of(problem: Problem, tile: int) -> Trial:
    plan = NAIVE.plan(problem, NAIVE.default(problem).with_values(BM=tile, BN=8))
    source = render_plan(plan, "sm_80")
    compiled = CompiledKernel(source.digest, "sm_80", b"", 32, 0, 0, 512, "NVRTC 13.0", (), 0.2)
    return Trial(source, plan, predict(plan, A100), compiled, Verdict("emulator", 20, 0, 0.1))


class Elsewhere:
    """Plays the search for sm_80 on a machine without a GPU: it finds `tile`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.tile, self.searches = 8, 0
        self.plan = SuitePlan((PROBLEM,), folder, "gemmgen suite --arch sm_80", budget=4, arch="sm_80")
        self.fails: GemmgenError | None = None
        executor: Any = nullcontext()
        executor.name, executor.description = "emulator", "the emulator"
        self.target: Any = SimpleNamespace(gpu=None, executor=executor, spec=A100, arch="sm_80")
        monkeypatch.setattr(predicting, "tune", self._tune)

    def run(self, **changes: Any) -> list[ShapeOutcome]:
        outcomes: list[ShapeOutcome] = []
        predict_all(replace(self.plan, **changes), self.target, Store(self.plan.folder / "store"), outcomes.append)
        return outcomes

    @property
    def tiles(self) -> set[int]:
        return {kernel.source.config["BM"] for kernel in kernels_in(self.plan.folder)}

    def _tune(self, problem: Problem, *_: Any, **__: Any) -> SimpleNamespace:
        self.searches += 1
        if self.fails is not None:
            raise self.fails
        return SimpleNamespace(winner=trial_of(problem, self.tile))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Elsewhere:
    return Elsewhere(monkeypatch, tmp_path / "sm_80")


def test_a_prediction_says_that_it_is_one(elsewhere: Elsewhere) -> None:
    assert [outcome.state for outcome in elsewhere.run()] == ["done"]
    (kernel,) = kernels_in(elsewhere.plan.folder)
    record = kernel.record or {}
    assert record["time"]["kind"] == "predicted" and record["time"]["device"] == "A100" and "bench" not in record
    assert record["executor"]["name"] == "emulator" and record["arch"] == "sm_80" and kernel.measured_time is None
    text = readme(elsewhere.plan.folder)
    assert "## Predicted, not measured" in text and "cuBLASLt" not in text
    (row,) = (line for line in text.splitlines() if line.startswith(f"| {PROBLEM} "))
    assert "| A100 |" in row and row.count(" predicted |") == 2 and "| L2 | 32 | 512 | emulator 20 |" in row


def test_a_prediction_stays_until_code_or_budget_change(elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere.run()
    assert [outcome.state for outcome in elsewhere.run()] == ["on file"] and elsewhere.searches == 1
    assert elsewhere.run(budget=3)[0].state == "on file"
    elsewhere.tile = 16
    assert elsewhere.run(budget=5)[0].state == "done" and elsewhere.tiles == {16}
    assert elsewhere.run(budget=5, again=True)[0].state == "done"
    monkeypatch.setattr(plans, "search_digest", lambda: "other code")
    assert elsewhere.run(budget=5)[0].state == "done" and elsewhere.searches == 4


def test_no_prediction_replaces_what_was_measured(elsewhere: Elsewhere) -> None:
    elsewhere.run()
    path = next(elsewhere.plan.folder.glob("*.json"))
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "time": {**record["time"], "kind": "measured"}}))
    elsewhere.tile = 16
    assert elsewhere.run(budget=9, again=True)[0].state == "on file" and elsewhere.tiles == {8}


def test_measured_and_predicted_rows_stand_apart(elsewhere: Elsewhere) -> None:
    """A row without a time is no prediction: its machine code changed since it was measured."""
    elsewhere.run(problems=(PROBLEM, OTHER))
    path = next(elsewhere.plan.folder.glob("*_256x256x256_*.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "time": None}))
    before, _, after = readme(elsewhere.plan.folder).partition("## Predicted, not measured")
    assert f"| {PROBLEM} |" in before and f"| {OTHER} |" in after
    assert f"| {OTHER} |" not in before and f"| {PROBLEM} |" not in after


def test_what_has_no_kernel_is_a_row_with_its_reason(elsewhere: Elsewhere) -> None:
    elsewhere.fails = GemmgenError("no config suits it")
    (outcome,) = elsewhere.run()
    assert (outcome.state, outcome.reason) == ("failed", "no config suits it")
    assert "none: no config suits it" in readme(elsewhere.plan.folder)
    elsewhere.fails = None
    elsewhere.run()
    assert "no config suits it" not in readme(elsewhere.plan.folder)


def test_the_command_makes_a_folder_for_each_architecture(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def open_target(device: str, arch: str, _: Store) -> Any:
        asked.append((device, arch))
        return elsewhere.target

    monkeypatch.setattr("gemmgen.lab.commands.suite.missing_for", lambda step: None)
    monkeypatch.setattr(steps, "open_target", open_target)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "generated"
    words = ["suite", "--arch", "sm_80", "--arch", "RTX 4090", "--out", str(root)]
    assert main(words) == 0
    assert asked == [("emulator", "sm_80"), ("emulator", "RTX 4090")]
    shown = capsys.readouterr()
    assert shown.err.count("predict   ") == 2 * len(PREDICTED) and "sm_89/README.md" in shown.out
    for name in ("sm_80", "sm_89"):
        kernels = kernels_in(root / name)
        assert {kernel.source.problem for kernel in kernels} == {*PREDICTED}
        assert all((kernel.record or {})["suite"]["budget"] == PREDICTED_BUDGET for kernel in kernels)
    assert main([*words, "--only", "512x512x512", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)["architectures"]
    assert [[row["state"] for row in one["rows"]] for one in made] == [["on file"] * 2] * 2


def test_a_folder_of_predictions_agrees_with_its_page_and_has_no_groups(elsewhere: Elsewhere) -> None:
    elsewhere.run()
    root = elsewhere.plan.folder.parent
    write_readmes(root)
    assert check(root) == [] and not (elsewhere.plan.folder / "ratios.svg").exists()
    assert summaries(scores_in(elsewhere.plan.folder)) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--step", "predict"], "--step predict needs --arch"),
        (["--step", "measure", "--arch", "sm_80"], "--step measure judges what is made for the card at hand"),
        (["--arch", "sm_81"], "unknown arch 'sm_81': known are sm_75"),
        (["--arch", "sm_80", "--budget", "0"], "--budget 0 benches what is on file; with --arch nothing is benched"),
    ],
)
def test_what_does_not_go_together_is_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["suite", *words, "--out", str(tmp_path / "new")]) == 2
    assert said in capsys.readouterr().err and not list(tmp_path.iterdir())
