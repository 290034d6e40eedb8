"""The performance suite: what it keeps and replaces, and the page that shows it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gemmgen as api
from gemmgen.cli import main
from gemmgen.exports.cards import card_folder
from gemmgen.exports.json_records import verdict_document
from gemmgen.exports.kernelfile import KernelFile, kernels_in, read_kernel
from gemmgen.families import NAIVE, Config, Family
from gemmgen.judge.accuracy import Accuracy
from gemmgen.judge.bench import BenchRow
from gemmgen.kernel.model import predict, representative
from gemmgen.kernel.source import KernelSource
from gemmgen.lab.gallery import check, readme, write_readme
from gemmgen.lab.report.checks import checks_of
from gemmgen.lab.scores import scores_in, summaries
from gemmgen.lab.shapes import GROUPS, PREDICTED
from gemmgen.lab.suite import checking as judging
from gemmgen.lab.suite import plan, steps
from gemmgen.lab.suite import timing as measuring
from gemmgen.lab.suite.checking import Check, check_all, sanitizer_check
from gemmgen.lab.suite.plan import ShapeOutcome, SuitePlan
from gemmgen.lab.suite.timing import measure_all
from gemmgen.problem.device import DeviceSpec, device_named
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render_plan
from gemmgen.run import card as card_at_hand
from gemmgen.run.compile import CompiledKernel
from gemmgen.run.gpu.capability import DeviceProperties
from gemmgen.run.gpu.limits import MeasuredLimits
from gemmgen.run.gpu.power import Observed
from gemmgen.run.gpu.timing import Baseline, Timing
from gemmgen.search.trial import Trial
from gemmgen.support.errors import CandidateFailed, Failure, GemmgenError
from gemmgen.support.files import TEMPLATES, Store
from gemmgen.verification import with_sanitizers
from gemmgen.verification.sanitizers.tool import TIMEOUT, TOOLS, SanitizerResult, Tool
from gemmgen.verification.verifier import Verdict

SPEC = device_named("H200")
H100 = replace(device_named("H100"), name="H100 80GB HBM3", memory_gb=85.5)  # as its driver reports it
LIMITS = MeasuredLimits("NVIDIA H200", 66.0, 33.0, 4400.0, 3800.0, "2026-11-21")
PROBLEM, OTHER = Problem(256, 256, 256), Problem(128, 256, 64)
WRONG = Failure("wrong", "C[0][0] is off", "verifier")


# Tune and bench, on a card that is played


def trial_of(problem: Problem, tile: int) -> Trial:
    config = NAIVE.default(problem).with_values(BM=tile, BN=8)
    plan = NAIVE.plan(problem, config)
    source = render_plan(plan)
    compiled = CompiledKernel(source.digest, "sm_90", b"", 32, 0, 0, 0, "NVRTC 13.0", (), 0.2)
    return Trial(source, plan, predict(plan, SPEC), compiled, Verdict("gpu", 20, 0, 0.1))


class Card:
    """Plays the search and the measurement: the search finds `tile`, and kernels take `times` by tile, cuBLASLt 10."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.tile, self.times, self.searches = 8, {8: 5.0, 16: 4.0, 32: 8.0}, 0
        self.start: list[int] = []  # tiles that the last search started with
        self.close: tuple[int, ...] = ()  # and of its other finalists
        self.plan = SuitePlan((PROBLEM,), folder, "gemmgen suite", budget=4)
        self.fails: GemmgenError | None = None
        self.serves = True  # whether cuBLASLt has a kernel
        self.accuracy: Accuracy | None = None
        self.limits = LIMITS
        gpu = SimpleNamespace(properties=SimpleNamespace(name=LIMITS.card))
        executor: Any = nullcontext()
        executor.name, executor.description = "gpu", "NVIDIA H200 (sm_90)"
        self.target: Any = SimpleNamespace(gpu=gpu, executor=executor, spec=SPEC, arch="sm_90")
        monkeypatch.setattr(measuring, "tune", self._tune)
        monkeypatch.setattr(measuring, "compare", self._compare)

    def exchange(self, spec: DeviceSpec) -> None:
        """From now on it is the card that `spec` describes, which has a folder of its own."""
        self.limits = replace(LIMITS, card=f"NVIDIA {spec.name}")
        self.target.spec, self.target.gpu.properties.name = spec, self.limits.card
        self.plan = replace(self.plan, folder=self.plan.folder.parent / card_folder("sm_90", spec))

    def run(self, **changes: Any) -> list[ShapeOutcome]:
        outcomes: list[ShapeOutcome] = []
        measure_all(replace(self.plan, **changes), self.target, Store(self.plan.folder / "store"), outcomes.append)
        return outcomes

    @property
    def tiles(self) -> set[int]:
        """Of the kernels on file."""
        return {kernel.source.config["BM"] for kernel in kernels_in(self.plan.folder)}

    def _tune(self, problem: Problem, *_: Any, start: Sequence[tuple[Family, Config]], **__: Any) -> SimpleNamespace:
        self.searches += 1
        self.start = [config.values["BM"] for _, config in start]
        if self.fails is not None:
            raise self.fails
        winner = trial_of(problem, self.tile)
        return SimpleNamespace(winner=winner, finalists=(winner, *(trial_of(problem, tile) for tile in self.close)))

    def _compare(self, kernels: Sequence[KernelFile], *_: Any) -> list[BenchRow | Failure]:
        theirs = Timing((10.0,), {})
        baseline = Baseline(0, 8, theirs, theirs, "cuBLASLt 13.1") if self.serves else None

        def row(kernel: KernelFile) -> BenchRow:
            ours = Timing((self.times[kernel.source.config["BM"]],), {})
            case, moving = representative(kernel.source.problem), Timing((4.5,), {})
            normal = (ours, theirs) if self.serves else None
            return BenchRow(kernel, case, self.limits.card, ours, baseline, self.limits, moving, self.accuracy, normal)

        return [row(kernel) for kernel in kernels]


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Card:
    return Card(monkeypatch, tmp_path / "sm_90")


def test_a_winner_is_kept_with_what_was_measured(card: Card) -> None:
    (outcome,) = card.run()
    assert outcome.state == "done" and outcome.ratio == 2.0
    (kernel,) = kernels_in(card.plan.folder)
    assert kernel.record is not None and not kernel.edited
    assert kernel.record["bench"]["limited_by"] == "FFMA rate" and kernel.record["suite"]["budget"] == 4


def readme_of(card: Card) -> str:
    return write_readme(card.plan.folder)[0].read_text()


def test_energy_is_asked_for_where_it_is_wanted(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Observed(1000, 2.0, 0.5, 700.0, 1410.0, 3201.0, 60.0, ("power",))
    monkeypatch.setattr(measuring, "observed", lambda row, *_: replace(row, energy=(seen, None)))
    card.run()
    assert "TFLOPS/W" not in readme_of(card)
    card.run(again=True, energy=True)
    (kernel,) = kernels_in(card.plan.folder)
    assert kernel.record is not None and kernel.record["bench"]["energy"]["ours"]["energy_j"] == 0.5
    rate = kernel.record["bench"]["energy"]["ours"]["tflops_per_w"]
    assert "| TFLOPS/W | baseline's TFLOPS/W |" in readme_of(card) and f"| {rate:.3f} | - |" in readme_of(card)


def test_what_is_on_file_stays_until_code_card_or_budget_change(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    card.run()
    assert [outcome.state for outcome in card.run()] == ["on file"] and card.searches == 1
    assert card.run(budget=3)[0].state == "on file"
    assert card.run(budget=5)[0].state == "done"
    assert card.run(again=True)[0].state == "done"
    assert card.run(budget=5)[0].state == "on file", "what a larger budget found is where the smaller one started"
    card.target.gpu.properties.name = "NVIDIA H100"
    assert card.run()[0].state == "done"
    card.target.gpu.properties.name = LIMITS.card
    monkeypatch.setattr(plan, "search_digest", lambda: "other code")
    assert card.run()[0].state == "done" and card.searches == 5


def test_the_code_of_a_search_is_its_templates_and_not_those_of_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "host" / "templates"
    shutil.copytree(TEMPLATES, copy)
    known = plan.search_digest()
    monkeypatch.setattr(plan, "TEMPLATES", copy)
    for path, same in (("device/plain/judge.cu", True), ("tiled.cu", False)):
        (copy / path).write_text("// changed\n")
        assert (plan.search_digest.__wrapped__() == known) is same


@pytest.mark.parametrize(("found", "stays"), [(16, 16), (32, 8)])
def test_the_fastest_stays_and_the_other_goes(card: Card, found: int, stays: int) -> None:
    card.run()
    assert card.start == []
    card.tile = found
    card.run(again=True)
    assert card.tiles == {stays} and card.start == [8], "a search starts from what is on file"
    assert len(list(card.plan.folder.glob("*.json"))) == 1


def test_a_rung_of_a_ladder_outlives_its_defeat(card: Card) -> None:
    card.run()
    path = next(card.plan.folder.glob("*.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "rung": {"number": 1}}))
    card.tile = 16
    card.run(again=True)
    assert card.tiles == {8, 16}
    assert "rung" in json.loads(path.read_text()) and "bench" not in json.loads(path.read_text())
    assert [score.kernel.source.config["BM"] for score in scores_in(card.plan.folder) if score.kernel] == [16]


def test_a_winner_found_again_keeps_its_verdicts_while_its_text_is_the_same(card: Card) -> None:
    card.run()
    path = next(card.plan.folder.glob("*.json"))
    record = json.loads(path.read_text())
    verdicts = {"emulator": {"passed": True}, "sanitizers": [{"tool": "memcheck", "passed": True}]}
    path.write_text(json.dumps({**record, **verdicts}))
    card.run(again=True)
    kept = json.loads(path.read_text())
    assert verdicts.items() <= kept.items()
    path.write_text(json.dumps({**kept, "sha256": "of another text"}))
    card.run(again=True)
    assert not verdicts.keys() & json.loads(path.read_text()).keys()


def test_a_budget_of_0_benches_what_is_on_file(card: Card) -> None:
    card.run()
    (searched,) = (kernel.record or {} for kernel in kernels_in(card.plan.folder))
    card.times[8] = 2.5
    found, missing = card.run(problems=(PROBLEM, OTHER), budget=0, again=True)
    assert found.ratio == 4.0 and missing.reason is not None and "no winner" in missing.reason
    (again,) = (kernel.record or {} for kernel in kernels_in(card.plan.folder))
    assert again["suite"] == searched["suite"] and again["time"]["us"] == 2.5 and card.searches == 1


@pytest.mark.parametrize("lacks", ["normal", "its text", "today's baseline", "nothing"])
def test_a_budget_of_0_times_what_lacks_a_time(card: Card, lacks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "verify", lambda *_, **__: Verdict("gpu", 7, 0, 0.2))
    monkeypatch.setattr(measuring, "compile_kernel", lambda source, *_: trial_of(source.problem, 8).compiled)
    problem = Problem(1024, 4096, 1024, epilogue="bias+gelu")
    card.run(problems=(problem,))
    (kernel,) = kernels_in(card.plan.folder)
    assert kernel.path is not None and kernel.record is not None
    record = json.loads(json.dumps(kernel.record))
    if lacks == "normal":
        record["bench"]["normal"] = None
    elif lacks == "its text":
        text = kernel.source.text + "// rendered by an older template\n"
        kernel.path.write_text(text)
        record["sha256"] = replace(kernel.source, text=text).digest
    elif lacks == "today's baseline":
        record["bench"]["cublaslt"]["epilogue"] = "a kernel behind it"
    kernel.path.with_suffix(".json").write_text(json.dumps(record))
    (outcome,) = card.run(problems=(problem,), budget=0)
    assert outcome.state == ("on file" if lacks == "nothing" else "done") and card.searches == 1


def test_a_rival_of_another_text_must_pass_again(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    card.tile = 16
    card.run()
    (old,) = kernels_in(card.plan.folder)
    assert old.path is not None and old.record is not None
    stale = old.source.text + "// rendered by an older template\n"
    old.path.write_text(stale)
    digest = replace(old.source, text=stale).digest
    old.path.with_suffix(".json").write_text(json.dumps({**old.record, "sha256": digest}))
    monkeypatch.setattr(measuring, "verify", lambda *_, **__: Verdict("gpu", 3, 0, 9.0, WRONG))
    card.tile = 8
    card.run(again=True)
    assert card.tiles == {8}, "16 was faster, and is wrong now"


@pytest.mark.parametrize(("right", "kept"), [(True, 16), (False, 8)])
def test_a_finalist_that_is_faster_beside_cublaslt_is_kept_if_it_is_right(
    card: Card, monkeypatch: pytest.MonkeyPatch, right: bool, kept: int
) -> None:
    """The search found 8, and did not verify 16."""
    card.close = (16, 32)
    verdict = Verdict("gpu", 7, 0, 0.2) if right else Verdict("gpu", 3, 0, 9.0, WRONG)
    monkeypatch.setattr(measuring, "verify", lambda *_, **__: verdict)
    monkeypatch.setattr(measuring, "compile_kernel", lambda source, *_: trial_of(source.problem, 16).compiled)
    (outcome,) = card.run()
    (kernel,) = kernels_in(card.plan.folder)
    assert outcome.state == "done" and kernel.source.config["BM"] == kept
    assert kernel.record is not None and kernel.record["verification"]["passed"]


def test_a_row_that_fails_is_a_row_with_its_reason(card: Card) -> None:
    card.fails = GemmgenError("none of 96 candidates survived: a | b")
    outcomes = card.run(problems=(PROBLEM, OTHER))
    assert [outcome.state for outcome in outcomes] == ["failed", "failed"]
    text = readme(card.plan.folder)
    assert text.count("none: none of 96 candidates survived: a / b |") == 2
    card.fails = None
    card.run()
    assert readme(card.plan.folder).count("none: none of 96") == 1
    assert {summary.group: summary.failed for summary in summaries(scores_in(card.plan.folder))}["large"] == 1


def test_a_search_that_failed_takes_no_winner_away(card: Card) -> None:
    card.run()
    card.fails = GemmgenError("the compiler is gone")
    card.run(again=True)
    (score,) = scores_in(card.plan.folder)
    assert score.ratio is not None


def test_what_cannot_be_compared_is_kept_as_tuned(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_baseline(*_: Any) -> None:
        raise CandidateFailed(Failure("unavailable", "no algorithm", "cublaslt"))

    monkeypatch.setattr(measuring, "compare", no_baseline)
    (outcome,) = card.run()
    assert outcome.state == "failed" and outcome.reason is not None and "no algorithm" in outcome.reason
    assert card.tiles == {8}


def test_what_cublaslt_has_no_kernel_for_is_a_row_without_a_ratio(card: Card) -> None:
    card.serves = False
    (outcome,) = card.run()
    assert (outcome.state, outcome.ratio) == ("done", None)
    assert [one.state for one in card.run()] == ["on file"]
    text = readme(card.plan.folder)
    row = next(line for line in text.splitlines() if line.startswith(f"| {PROBLEM} | 5.0 |"))
    assert "| none | - |" in row and "no baseline; measured on the card" in text
    (large,) = (one for one in summaries(scores_in(card.plan.folder)) if one.group == "large")
    assert large.geomean is None and str(PROBLEM) not in large.missing


def test_nothing_starts_after_the_deadline(card: Card) -> None:
    assert card.run(deadline=-math.inf) == [] and card.searches == 0


# Another card of the architecture


@pytest.fixture
def second(card: Card, monkeypatch: pytest.MonkeyPatch) -> Card:
    """An H100, after an H200 has found tile 8 for PROBLEM: the emulator and the sanitizers have passed it there."""
    card.run()
    path = next(card.plan.folder.glob("*.json"))
    emulated = {"executor": "emulator", "passed": True, "examples": 20, "sampled": 0}
    watched = [{"tool": "memcheck", "passed": True, "sampled": False}]
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "emulator": emulated, "sanitizers": watched}))
    monkeypatch.setattr(measuring, "verify", lambda *_, **__: Verdict("gpu", 7, 0, 0.2))
    monkeypatch.setattr(measuring, "compile_kernel", lambda source, *_: trial_of(source.problem, 8).compiled)
    card.exchange(H100)
    card.times[8] = 8.0
    return card


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("gemm_*")}


def test_a_new_card_times_what_others_of_its_architecture_have_on_file(second: Card) -> None:
    theirs = contents(second.plan.folder.with_name("sm_90"))
    (outcome,) = second.run(budget=0)
    assert (outcome.state, outcome.ratio, second.searches) == ("done", 10 / 8, 1)
    assert second.plan.folder.name == "sm_90_h100" and second.tiles == {8}
    (record,) = (kernel.record or {} for kernel in kernels_in(second.plan.folder))
    assert record["verification"]["examples"] == 7 and record["time"]["us"] == 8.0, "of this card"
    assert record["device"] == record["bench"]["limits"]["card"] == "NVIDIA H100 80GB HBM3"
    assert not {"emulator", "sanitizers"} & record.keys()
    assert contents(second.plan.folder.with_name("sm_90")) == theirs
    assert [one.state for one in second.run(budget=0)] == ["on file"], "the same command goes on where it was"
    assert second.run(budget=4)[0].state == "done" and second.searches == 2, "of a search there was nothing"


@pytest.mark.parametrize("step", ["emulate", "sanitize"])
def test_what_passed_on_another_card_is_not_asked_again(second: Card, tmp_path: Path, step: str) -> None:
    second.run(budget=0)
    check = emulated(lambda source: pytest.fail("asked again"))
    if step == "sanitize":
        check = replace(sanitizer_check(Store(tmp_path), H100.name), lanes=check.lanes)
    assert judged(check, second.plan) == [(PROBLEM, "on file", None)]
    (record,) = (kernel.record or {} for kernel in kernels_in(second.plan.folder))
    if step == "emulate":
        assert record["emulator"]["examples"] == 20 and "sanitizers" not in record
    else:
        assert [tool["card"] for tool in record["sanitizers"]] == ["NVIDIA H200"] and "emulator" not in record
    asked = emulated(lambda source: Verdict("emulator", 5, 0, 0.1))
    assert judged(asked, replace(second.plan, again=True)) == [(PROBLEM, "done", None)]


def test_a_search_on_a_new_card_starts_with_winners_of_others_and_retires_none(second: Card) -> None:
    theirs = contents(second.plan.folder.with_name("sm_90"))
    second.tile = 16
    second.run()
    assert second.start == [8] and second.tiles == {16}, "4 us beat 8"
    second.tile = 32
    second.run(again=True)
    assert second.start == [16, 8] and second.tiles == {16}, "its own first"
    assert contents(second.plan.folder.with_name("sm_90")) == theirs


def test_a_winner_of_another_card_takes_the_place_of_a_slower_one(second: Card) -> None:
    theirs = contents(second.plan.folder.with_name("sm_90"))
    second.tile = 16
    second.run()
    second.times[8] = 3.0
    assert second.run(budget=0)[0].state == "on file" and second.tiles == {16}
    assert second.run(budget=0, again=True)[0].ratio == 10 / 3 and second.tiles == {8}
    assert contents(second.plan.folder.with_name("sm_90")) == theirs


def test_what_is_wrong_on_a_new_card_is_no_row_of_it(second: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = contents(second.plan.folder.with_name("sm_90"))
    monkeypatch.setattr(measuring, "verify", lambda *_, **__: Verdict("gpu", 3, 0, 9.0, WRONG))
    (outcome,) = second.run(budget=0)
    assert outcome.state == "failed" and second.tiles == set()
    assert contents(second.plan.folder.with_name("sm_90")) == theirs


def test_a_card_of_another_architecture_starts_with_none_of_them(second: Card) -> None:
    second.plan = replace(second.plan, folder=second.plan.folder.with_name("sm_80"))
    (outcome,) = second.run(budget=0)
    assert outcome.reason is not None and "is on file, and a budget of 0 searches for none" in outcome.reason


def test_the_command_measures_into_the_folder_of_the_card_at_hand(
    second: Card, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = second.plan.folder.parent
    write_readme(root / "sm_90")
    theirs = (root / "sm_90" / "README.md").read_text()
    here = DeviceProperties(second.limits.card, "sm_90", "580.1", 132, 85_520_809_984, 50, 1980.0, 0, 0, 0, 0)
    monkeypatch.setattr(card_at_hand, "arch_here", lambda: here.arch)
    monkeypatch.setattr(card_at_hand, "properties_here", lambda: here)
    monkeypatch.setattr("gemmgen.lab.commands.suite.missing_for", lambda step: None)
    monkeypatch.setattr(steps, "open_target", lambda *_: second.target)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mine").write_text("256x256x256\n")
    words = ["suite", "--shapes", str(tmp_path / "mine"), "--out", str(root), "--budget", "0"]
    assert main([*words, "--step", "measure"]) == 0
    assert f"{second.plan.folder}/README.md" in capsys.readouterr().out
    text = (second.plan.folder / "README.md").read_text()
    assert text.startswith("# Kernels for sm_90, measured on an H100\n")
    assert "NVIDIA H200" not in text and "NVIDIA H100 80GB HBM3, " in text
    assert (root / "sm_90" / "README.md").read_text() == theirs
    assert theirs.startswith("# Kernels for sm_90, measured on an H200\n") and "H100" not in theirs
    assert check(root) == []
    for path in contents(root / "sm_90"):
        shutil.copy(root / "sm_90" / path, second.plan.folder)
    assert any("was measured on NVIDIA H200, whose records have another folder" in one.reason for one in check(root))


@pytest.mark.parametrize(("arch", "folder"), [("H100", "sm_90_h100"), ("H200", "sm_90"), ("sm_90", "sm_90")])
def test_what_a_card_has_on_file_is_emulated_without_one(
    arch: str, folder: str, second: Card, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    second.run(budget=0)
    ran: list[tuple[str, str, int, int]] = []

    def run_step(step: str, plan: SuitePlan, *_: Any) -> None:
        ran.append((step, plan.folder.name, len(plan.problems), len(plan.judged_by("emulate"))))

    monkeypatch.setattr("gemmgen.lab.commands.suite.missing_for", lambda step: None)
    monkeypatch.setattr("gemmgen.lab.commands.suite.run_step", run_step)
    words = ["suite", "--arch", arch, "--out", str(second.plan.folder.parent)]
    monkeypatch.setattr("gemmgen.lab.commands.suite.suite", lambda: (PROBLEM,))
    assert main([*words, "--step", "emulate"]) == 0
    assert main(words) == 0
    assert ran == [("emulate", folder, 1, 1), ("predict", folder, len(PREDICTED), 0)]
    capsys.readouterr()


# What the groups reach


def test_the_page_tells_groups_goals_and_limits(card: Card) -> None:
    slow, fast, batched = PROBLEM, Problem(512, 512, 512), Problem(16, 16, 16, batch=4096)
    card.times = {8: 12.5}
    card.run(problems=(slow,))
    card.times = {8: 5.0}
    card.run(problems=(fast, batched))
    large, skinny, small, *_, f64 = summaries(scores_in(card.plan.folder))
    assert (large.rows, large.below, large.missed, large.lowest) == (2, 1, 1, str(slow))
    assert large.geomean == pytest.approx((0.8 * 2) ** 0.5) and large.minimum == pytest.approx(0.8)
    assert str(fast) not in large.missing and "1024x1024x1024 f32 cc" in large.missing
    scores = scores_in(card.plan.folder)
    unmeasured = [
        replace(one, kernel=replace(one.kernel, record={})) for one in scores if one.problem == fast and one.kernel
    ]
    again = summaries([*unmeasured, *(one for one in scores if one.problem != fast)])[0]
    assert str(fast) in again.missing and again.rows == 1, "a kernel of another time, whose machine code has changed"
    assert skinny.rows == 0 and skinny.geomean is None and len(f64.missing) == len(GROUPS["f64"].problems)
    assert small.missed == small.out_of_reach == 1, "2x, and far from the copy bandwidth, which the bytes are, too"
    assert large.out_of_reach == 0
    lines = readme(card.plan.folder).splitlines()
    row = next(line for line in lines if line.startswith(f"| {slow} "))
    assert "0.800x (goal 1.000x)" in row and "| - | 10.0 |" in row and "FFMA rate | - | gpu 20 | -" in row
    row = next(line for line in lines if line.startswith(f"| {batched} "))
    assert "| 2.000x |" in row and "(goal 85.0%) | copy bandwidth | 90.0%, goal out of reach |" in row
    gbs = representative(batched).bytes_moved / 5.0 / 1000
    assert f"| {gbs:.0f} |" in row


def test_a_row_beside_another_baseline_than_todays_has_no_ratio(card: Card) -> None:
    problem = Problem(1024, 4096, 1024, epilogue="bias+gelu")
    card.run(problems=(problem,))
    (score,) = (one for one in scores_in(card.plan.folder) if one.kernel)
    assert score.ratio is not None and not score.outdated
    path = score.kernel.path.with_suffix(".json")
    record = json.loads(path.read_text())
    assert record["bench"]["cublaslt"]["epilogue"] == "GELU_BIAS"
    record["bench"]["cublaslt"]["epilogue"] = "a kernel behind it"
    record["bench"]["normal"] = {"speedup": 1.5}
    path.write_text(json.dumps(record))
    row = next(line for line in readme(card.plan.folder).splitlines() if line.startswith(f"| {problem} "))
    assert "| cuBLASLt + a kernel behind it, not GELU_BIAS | - | - |" in row
    (fused,) = (one for one in summaries(scores_in(card.plan.folder)) if one.group == "fused")
    assert (fused.rows, fused.geomean) == (0, None) and str(problem) in fused.missing


def test_a_mean_on_normal_data_says_of_how_many_rows_it_is(card: Card) -> None:
    card.run(problems=(PROBLEM, Problem(512, 512, 512)))
    paths = sorted(card.plan.folder.glob("*.json"))
    for path, ratio, shown in zip(paths, (4.5, None), ("3.000x", "4.500x of 1"), strict=True):
        record = json.loads(path.read_text())
        normal = None if ratio is None else {"speedup": ratio}
        path.write_text(json.dumps({**record, "bench": {**record["bench"], "normal": normal}}))
        assert f"| large | 2 | 2.000x | {shown} |" in readme(card.plan.folder)


def test_errors_stand_beside_the_rows_that_have_them(card: Card) -> None:
    card.run()
    assert "error" not in readme(card.plan.folder)
    card.accuracy = Accuracy(0.4375, 4.0625)
    card.run(again=True)
    lines = readme(card.plan.folder).splitlines()
    assert next(line for line in lines if line.startswith(f"| {PROBLEM} ")).endswith(" | 0.44 | 4.06 |")
    assert any(line.endswith("kernel | error | baseline's error |") for line in lines)
    assert "error: the largest of an element over the sum of its products' magnitudes, in units of 2^-24." in lines


def test_the_legend_says_what_a_batch_by_pointers_is_held_against(card: Card) -> None:
    batch = Problem(16, 16, 16, batch=4096, pointers=True)
    card.run(problems=(batch,))
    text = readme(card.plan.folder)
    legend = "For a batch by pointers the baseline, in the same columns, is cuBLAS's gemmBatched."
    row = next(line for line in text.splitlines() if line.startswith(f"| {batch} |"))
    assert "| gemmBatched |" in row and legend in text.replace("\n", " ")


def test_a_page_without_measurements_has_no_summary(tmp_path: Path) -> None:
    api.generate(PROBLEM, family="naive", out=tmp_path)
    assert summaries(scores_in(tmp_path)) == [] and "Not measured" not in readme(tmp_path)


def test_the_gallery_that_a_run_makes_agrees_with_the_templates(card: Card) -> None:
    card.run(problems=(PROBLEM, OTHER))
    write_readme(card.plan.folder)
    assert check(card.plan.folder.parent) == []


# Verdicts of the sanitizers and the emulator


class Lane:
    """A process that is played."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.request, self.closed = answer, False

    def kill(self) -> None:
        """There is nobody to end."""

    def close(self) -> None:
        self.closed = True


def emulated(answer: Callable[[Any], Any]) -> Check:
    def entries(record: dict[str, Any], verdict: Verdict) -> dict[str, Any]:
        return {**record, "emulator": verdict_document(verdict)}

    def lanes(kernels: Sequence[KernelFile]) -> Any:
        return [Lane(answer)]

    def done(record: dict[str, Any]) -> bool:
        return bool((record.get("emulator") or {}).get("passed"))

    def theirs(twin: dict[str, Any]) -> dict[str, Any]:
        return {"emulator": twin["emulator"]}

    return Check("emulate", lanes, lambda source: source, done, lambda verdict: verdict.failure, entries, theirs)


def judged(check: Check, plan: SuitePlan) -> list[tuple[Problem, str, str | None]]:
    outcomes: list[ShapeOutcome] = []
    check_all(check, plan, outcomes.append)
    return [(outcome.problem, outcome.state, outcome.reason) for outcome in outcomes]


def test_verdicts_go_into_the_records_and_are_not_asked_twice(card: Card) -> None:
    plan = replace(card.plan, problems=(PROBLEM, OTHER))
    card.run(problems=plan.problems)
    good, bad = Verdict("emulator", 20, 0, 0.1), Verdict("emulator", 3, 0, 9.0, WRONG)
    first = judged(emulated(lambda source: good if source.problem == PROBLEM else bad), plan)
    assert first == [(PROBLEM, "done", None), (OTHER, "failed", "wrong (verifier): C[0][0] is off")]
    assert judged(emulated(lambda source: good), plan) == [(PROBLEM, "on file", None), (OTHER, "done", None)]
    assert readme(plan.folder).count("gpu 20; emulator 20") == 2


def test_a_lane_that_dies_costs_its_row(card: Card) -> None:
    def dies(source: Any) -> Verdict:
        if source.problem == PROBLEM:
            raise GemmgenError("its process was ended by SIGKILL (out of memory?)")
        return Verdict("emulator", 20, 0, 0.1)

    plan = replace(card.plan, problems=(PROBLEM, OTHER))
    card.run(problems=plan.problems)
    assert {state for _, state, _ in judged(emulated(dies), plan)} == {"failed", "done"}


def test_an_answer_about_another_text_is_dropped(card: Card) -> None:
    card.run()
    (kernel,) = kernels_in(card.plan.folder)
    assert kernel.path is not None

    def edited_meanwhile(source: Any) -> Verdict:
        assert kernel.path is not None
        kernel.path.write_text(source.text + "// edited\n")
        return Verdict("emulator", 20, 0, 0.1)

    judged(emulated(edited_meanwhile), card.plan)
    assert "emulator" not in (read_kernel(kernel.path).record or {})


def test_the_sanitizers_see_each_winner_once(card: Card, monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    asked: list[tuple[str, float]] = []

    class Watching:
        name = "gpu"

        def __init__(self, store: Store) -> None:
            pass

    def run_tool(gpu: Watching, source: KernelSource, situations: Sequence[Any], tool: Tool, timeout: float) -> Any:
        assert situations
        asked.append((tool, timeout))
        return SanitizerResult(tool, "2025.3", len(situations), (), 1.0)

    card.run()
    monkeypatch.setattr(judging, "GpuExecutor", Watching)
    monkeypatch.setattr(with_sanitizers, "run_tool", run_tool)
    watched = on_one_lane(judging.sanitizer_check(store, LIMITS.card), store)
    assert judged(watched, card.plan) == [(PROBLEM, "done", None)]
    assert [tool for tool, _ in asked] == [*TOOLS] and min(timeout for _, timeout in asked) > TIMEOUT
    assert "| gpu 20 | 4 pass |" in readme(card.plan.folder)
    assert judged(watched, card.plan) == [(PROBLEM, "on file", None)] and len(asked) == len(TOOLS)
    elsewhere = on_one_lane(judging.sanitizer_check(store, "NVIDIA H100 80GB HBM3"), store)
    assert judged(elsewhere, replace(card.plan, again=True)) == [(PROBLEM, "done", None)]
    assert "| gpu 20 | 4 pass on NVIDIA H100 80GB HBM3 |" in readme(card.plan.folder)
    (kernel,) = kernels_in(card.plan.folder)
    assert ("racecheck", "passes in 8 situations; on NVIDIA H100 80GB HBM3") in checks_of(kernel)


def test_the_card_at_hand_watches_what_another_of_its_architecture_has(
    card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, str]] = []

    def open_target(device: str, arch: str, store: Store) -> Any:
        opened.append((device, arch))
        return card.target

    checked: list[tuple[str, str]] = []
    monkeypatch.setattr(steps, "open_target", open_target)
    monkeypatch.setattr(steps, "sanitizer_check", lambda store, name: name)
    monkeypatch.setattr(steps, "check_all", lambda check, plan, on_done: checked.append((check, plan.arch)))
    card.exchange(H100)
    steps.run_step("sanitize", replace(card.plan, arch="H200"), Store(card.plan.folder / "store"), lambda outcome: None)
    assert opened == [("gpu", "H200")] and checked == [(card.limits.card, "H200")] and "H100" in card.limits.card


def on_one_lane(check: Check, store: Store) -> Check:
    return replace(check, lanes=lambda kernels: [Lane(judging.Watcher(str(store.root)))])


def test_a_sanitizer_that_finds_something_is_named(card: Card) -> None:
    card.run()
    path = next(card.plan.folder.glob("*.json"))
    record = json.loads(path.read_text())
    passed = {"tool": "memcheck", "passed": True, "failure": None, "sampled": False}
    found = {"tool": "racecheck", "passed": False, "failure": {"kind": "wrong"}, "sampled": True}
    part = {**passed, "sampled": True}
    cells = {"racecheck fails: wrong": [passed, found], "2 pass": [passed, passed], "2 pass in part": [passed, part]}
    for cell, tools in cells.items():
        path.write_text(json.dumps({**record, "sanitizers": tools}))
        assert f"| gpu 20 | {cell} |" in readme(card.plan.folder)


def test_what_ptxas_advises_stands_behind_the_kernel(card: Card) -> None:
    card.run()
    path = next(card.plan.folder.glob("*.json"))
    record = json.loads(path.read_text())
    assert f"({path.stem}.cu) |" in readme(card.plan.folder)
    said = ["C7520: wgmmas are serialized", "C7517: a wait is injected", "C7520: for another reason"]
    path.write_text(json.dumps({**record, "resources": {**record["resources"], "advisories": said}}))
    assert f"({path.stem}.cu), C7520, C7517 |" in readme(card.plan.folder)


# The command


def test_the_command_shows_each_row_and_what_the_groups_reach(
    card: Card, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gemmgen.lab.commands.suite.missing_for", lambda step: None)
    monkeypatch.setattr(steps, "open_target", lambda *_: card.target)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mine").write_text("256x256x256\n128x256x64\n")
    words = ["suite", "--step", "measure", "--shapes", str(tmp_path / "mine"), "--out", str(card.plan.folder.parent)]
    assert main(words) == 0
    captured = capsys.readouterr()
    assert "1/2  measure   256x256x256 f32 rr" in captured.err and "2.000x  gemm_f32_rr_256" in captured.err
    assert "README.md" in captured.out and "Traceback" not in captured.err
    assert check(card.plan.folder.parent) == []
    (record,) = (kernel.record or {} for kernel in kernels_in(card.plan.folder) if kernel.source.problem == OTHER)
    assert record["command"].startswith("gemmgen suite --step measure")
    card.fails = GemmgenError("none survived")
    assert main([*words, "--again", "--json", "--part", "2/2"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["state"] == "failed" and row["reason"] == "none survived" and row["problem"]["m"] == 128


def test_an_interrupted_run_still_makes_the_page(
    card: Card, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(step: Any, plan: SuitePlan, *_: Any) -> None:
        measure_all(plan, card.target, Store(tmp_path / "store"), lambda outcome: None)
        raise KeyboardInterrupt

    monkeypatch.setattr("gemmgen.lab.commands.suite.missing_for", lambda step: None)
    monkeypatch.setattr("gemmgen.lab.commands.suite.run_step", interrupted)
    (tmp_path / "mine").write_text("256x256x256\n")
    words = ["--step", "measure", "--shapes", str(tmp_path / "mine"), "--out", str(card.plan.folder.parent)]
    assert main(["suite", *words]) == 130
    assert check(card.plan.folder.parent) == []


def test_without_a_gpu_measuring_is_refused_and_nothing_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(steps, "why_no_gpu", lambda: "no NVIDIA driver")
    assert main(["suite", "--step", "measure", "--out", str(tmp_path)]) == 1
    assert "no NVIDIA driver" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_where_nothing_is_on_file_and_nothing_can_be_measured_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = {"measure": "no NVIDIA driver", "sanitize": "no NVIDIA driver", "emulate": None}
    monkeypatch.setattr("gemmgen.lab.commands.suite.missing_for", missing.get)
    monkeypatch.setattr("gemmgen.lab.commands.suite.run_step", lambda *_: None)
    monkeypatch.setattr("gemmgen.run.card.arch_here", lambda: None)
    assert main(["suite", "--only", "512x512x512", "--out", str(tmp_path / "new")]) == 0
    captured = capsys.readouterr()
    assert "without measure: no NVIDIA driver" in captured.err
    said = f"nothing is on file for these shapes in {tmp_path / 'new'}/sm_90, and nothing was measured"
    assert captured.out.splitlines() == [said] and not list(tmp_path.iterdir())


@pytest.mark.parametrize(("words", "message"), [("--part 2", "is no part"), ("--part 3/2", "part 3 of 2")])
def test_a_wrong_part_is_wrong_usage(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suite", *words.split()]) == 2
    assert message in capsys.readouterr().err
