"""The suite's libraries of run-time M: the values that are timed, what is kept of each product, and the page."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from gemmgen.cli import main
from gemmgen.exports.library import building
from gemmgen.exports.library.choice import Choice, Timed
from gemmgen.exports.library.choices_json import choice_again, choice_document
from gemmgen.exports.library.members import Member, Needs
from gemmgen.exports.library.rules import choose
from gemmgen.exports.library.table import Sizes
from gemmgen.families import NAIVE, WGMMA
from gemmgen.lab.gallery import check, unreadable, write_readme
from gemmgen.lab.runtime_m import BANDS, PRODUCTS, VALUES, band_of, chosen, problem_of, reach_of
from gemmgen.lab.runtime_page import COLUMNS, read_score
from gemmgen.lab.suite import runtime, steps
from gemmgen.lab.suite.plan import ShapeOutcome, SuitePlan
from gemmgen.lab.suite.runtime import library_digest, measure_products
from gemmgen.problem.device import device_named
from gemmgen.render.kernel_text import render
from gemmgen.run.compile import CompiledKernel
from gemmgen.run.gpu.timing import BEST, FINAL, LIBRARY, Baseline, InterleavedTimings, Timing
from gemmgen.support.errors import Failure
from gemmgen.support.files import Store
from gemmgen.support.jsontext import json_text
from gemmgen.verification.verifier import Verdict

PRODUCT = PRODUCTS[0]
WRONG = Failure("wrong", "C[0][0] is off", "verifier")
GENERAL, SMALL, LARGE, RIVAL = 8, 16, 64, 32  # tiles of the kernels


def drawn() -> list[tuple[int, ...]]:
    """The bands, of numbers that differ from each other: 20 of each, in this order."""
    random_, seen = random.Random(1), set[int]()

    def log_uniform(most: int) -> int:
        return round(most ** random_.random())

    def band(draw: Callable[[], int]) -> tuple[int, ...]:
        found: list[int] = []
        while len(found) < 20:
            value = draw()
            if value not in seen:
                seen.add(value)
                found.append(value)
        return tuple(sorted(found))

    return [
        band(lambda: log_uniform(8192)),
        band(lambda: 64 * log_uniform(127) + 1 + int(8 * random_.random())),
        band(lambda: 512 + int(7681 * random_.random())),
    ]


def test_the_values_of_m_are_those_of_one_draw() -> None:
    assert [band.values for band in BANDS] == drawn()
    assert len(VALUES) == len(set(VALUES)) == 60 and [*VALUES] == sorted(VALUES)
    log_uniform, beyond_a_tile, uniform = BANDS
    assert min(log_uniform.values) >= 1 and max(VALUES) <= 8192
    assert all(1 <= value % 64 <= 8 and value > 64 for value in beyond_a_tile.values)
    assert min(uniform.values) >= 512
    assert [reach_of(m).name for m in (1, 64, 65, 512, 513, 8192)] == [
        *("M <= 64", "M <= 64", "65..512", "65..512", "M > 512", "M > 512")
    ]
    assert {reach_of(m).name: sum(reach_of(one) is reach_of(m) for one in VALUES) for m in VALUES} == {
        "M <= 64": 8,
        "65..512": 11,
        "M > 512": 41,
    }


def test_products_have_one_range() -> None:
    assert len({product.name for product in PRODUCTS}) == len(PRODUCTS) == 9
    assert {str(product.m) for product in PRODUCTS} == {"1..8192"}
    assert str(problem_of(PRODUCT)) == "?x4096x4096 bf16 rc"
    assert [one.name for one in chosen(["x2560", "s8"])] == ["bf16_rc_151936x2560", "s8_rc_4096x4096_scaled"]
    assert sum((chosen([], (index, 2)) for index in (2, 1)), ()) == (*PRODUCTS[1::2], *PRODUCTS[::2])


# A product on a card that is played


def time_us(tile: int, m: int) -> float:
    """One kernel is the faster up to 2000 rows, another one beyond; a third is the fastest at one size alone."""
    if tile == RIVAL:
        return 1.0 if m == 3845 else 200.0
    return {GENERAL: 100.0, SMALL: 10 + m / 100, LARGE: 20 + m / 200}[tile] * (1 + (tile == GENERAL) * m)


def members(general: int = GENERAL) -> list[Member]:
    problems = {general: PRODUCT.general, **dict.fromkeys((SMALL, LARGE, RIVAL), PRODUCT.fixed(512, 4096, 4096))}
    made = []
    for tile, problem in problems.items():
        source = render(problem, NAIVE, NAIVE.default(problem).with_values(BM=tile, BN=8))
        compiled = CompiledKernel(source.digest, "sm_90", b"code", 32, 0, 0, 0, "NVRTC 13.0", (), 0.2)
        made.append(Member(PRODUCT, source, "sm_90", compiled))
    return made


class Played:
    """A clock of the card."""

    kind: Literal["measured", "predicted"] = "measured"
    spec, most = device_named("H200"), 64

    def times(self, members: Sequence[Any], points: Sequence[Sizes], given: Needs) -> list[Timed]:
        return [Timed([time_us(one.source.config["BM"], sizes[0]) for one in members]) for sizes in points]


class PlayedGpu:
    """The card: cuBLASLt takes `theirs` times as long as the library's best kernel; None: it has no kernel."""

    arch, description = "sm_90", "NVIDIA H200 (sm_90, 132 SMs), driver 580.1"

    def __init__(self) -> None:
        self.properties = SimpleNamespace(name="NVIDIA H200", driver="580.1")
        self.theirs: float | None = 1.1
        self.asked: list[int] = []
        self.loaded: list[str] = []
        self.fails = 0  # the tile of a kernel that cannot be timed

    def load_compiled(self, source: Any, compiled: CompiledKernel) -> Any:
        self.loaded.append(source.name)
        return SimpleNamespace(tile=source.config["BM"], close=lambda: self.loaded.remove(source.name))

    def measure_many(
        self, kernels: Sequence[Any], case: Any, protocol: Any, *, beside: Any = None
    ) -> InterleavedTimings:
        """All candidates in a first run, which is faster than the second: that of the finalists beside cuBLASLt."""
        first = protocol == LIBRARY
        assert len(kernels) <= (len(self.loaded) if first else 2) and protocol in (LIBRARY, FINAL)
        assert beside == (None if first else BEST)
        self.asked += [case.m] if first else []
        times = tuple(
            Failure("launch", "no memory", "gpu")
            if one.tile == self.fails
            else Timing((time_us(one.tile, case.m) * (0.9 if first else 1),) * 3, {})
            for one in kernels
        )
        if self.theirs is None:
            return InterleavedTimings(times)
        theirs = Timing((self.theirs * min(time_us(tile, case.m) for tile in (SMALL, LARGE)),) * 3, {})
        return InterleavedTimings(times, Baseline(2, 8, theirs, theirs, "cuBLASLt 13.1.0"))


class Card:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.gpu, self.searches, self.verdict = PlayedGpu(), 0, Verdict("gpu", 20, 0, 0.1)
        self.verified: list[str] = []
        executor: Any = nullcontext()
        executor.name, executor.description, executor.environment = "gpu", self.gpu.description, "a card"
        self.target: Any = SimpleNamespace(gpu=self.gpu, executor=executor, spec=device_named("H200"), arch="sm_90")
        self.plan = SuitePlan((), folder, "gemmgen suite", products=(PRODUCT,))
        monkeypatch.setattr(building._Maker, "_tuned", self._tuned)
        monkeypatch.setattr(building._Maker, "_clock", Played())
        monkeypatch.setattr(building._Maker, "_show", self._show)
        monkeypatch.setattr(building, "certified_record", self._certified)
        monkeypatch.setattr(runtime, "compile_kernel", lambda source, *_: members()[0].compiled)

    def run(self, **changes: Any) -> ShapeOutcome:
        outcomes: list[ShapeOutcome] = []
        store = Store(self.plan.folder.parent / "store")
        measure_products(replace(self.plan, **changes), self.target, store, outcomes.append)
        (outcome,) = outcomes
        return outcome

    @property
    def path(self) -> Path:
        return self.plan.folder / "runtime_m" / f"{PRODUCT.name}.json"

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())
        return found

    def page(self) -> str:
        write_readme(self.plan.folder)
        assert check(self.plan.folder.parent) == []
        return (self.plan.folder / "runtime_m" / "README.md").read_text()

    def _tuned(self, *_: Any) -> list[Member]:
        self.searches += 1
        return members()

    def _certified(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {"verification": {"examples": self.verdict.examples}}

    def _show(self, members: Sequence[Member]) -> list[building.Shown]:
        self.verified += [one.name for one in members]
        return [building.Shown(one.compiled, self.verdict, {"name": "gpu"}) for one in members]


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Card:
    return Card(monkeypatch, tmp_path / "sm_90")


def test_a_product_is_kept_with_all_that_was_timed(card: Card) -> None:
    outcome = card.run()
    assert (outcome.state, outcome.problem, outcome.ratio) == (
        "done",
        problem_of(PRODUCT),
        pytest.approx(1.1, rel=1e-3),
    )
    record = card.record
    held = [one["name"] for one in record["choice"]["kernels"]]
    assert [*VALUES] == card.gpu.asked == [row[0] for row in record["rows"]] and record["columns"] == [*COLUMNS]
    assert sorted(card.verified) == sorted(record["verified"]) == sorted(held) and len(held) == 3
    assert record["choice"]["object_bytes"] == len(held) * len(b"code") and record["making"]["seconds"] >= 0
    assert (record["card"], record["driver"], record["cublaslt"]) == ("NVIDIA H200", "580.1", "cuBLASLt 13.1.0")
    assert card.gpu.loaded == [] and [path.name for path in card.path.parent.iterdir()] == [card.path.name]
    rows = {row.m: row for row in read_score(card.path).rows}
    small, large = (next(one.name for one in members() if one.source.config["BM"] == tile) for tile in (SMALL, LARGE))
    assert (rows[1].kernel, rows[1].best, rows[1].us) == (small, small, pytest.approx(10.01))
    assert rows[8063].kernel == rows[3845].kernel == large and rows[1].algorithm == "#2 of 8"
    assert rows[3845].best not in held and rows[3845].best_us == 1.0, "of all candidates"
    assert read_score(card.path).regret.worst == pytest.approx(time_us(LARGE, 3845) - 1)


def test_what_is_on_file_stays_until_code_or_card_change(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    card.run()
    assert card.run().state == card.run(budget=0).state == "on file" and card.searches == 1
    assert card.run(again=True).state == "done" and card.searches == 2
    card.gpu.properties.name = "NVIDIA H100"
    assert card.run().state == "done" and card.searches == 3
    monkeypatch.setattr(runtime, "library_digest", lambda: "other code")
    assert card.run().state == "done" and card.searches == 4
    record = card.record
    card.path.write_text(json_text({**record, "rows": record["rows"][1:]}))
    assert card.run().state == "done", "a value of M is missing"
    card.path.write_text("{")
    assert card.run().state == "done" and card.searches == 4


def test_a_library_that_was_made_and_not_timed_is_not_made_again(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runtime, "_timed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            card.run()
    assert not card.path.exists()
    assert card.run().state == "done" and card.searches == 1
    first = card.record
    assert card.run(again=True).state == "done" and card.searches == 2
    assert card.record["choice"] == first["choice"] and card.record["rows"] == first["rows"]


def test_nothing_starts_after_the_deadline(card: Card) -> None:
    measure_products(replace(card.plan, deadline=0.0), card.target, Store(card.plan.folder), pytest.fail)
    assert card.searches == 0


def test_a_budget_of_0_times_the_library_on_file_again(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = card.run(budget=0)
    assert outcome.state == "failed" and "no library of bf16_rc_4096x4096 is on file" in str(outcome.reason)
    card.run()
    card.path.write_text(json_text({**card.record, "choice": {**card.record["choice"], "load_ms": 2.5}}))
    before, made = card.record, library_digest()
    monkeypatch.setattr(runtime, "library_digest", lambda: "other code")
    card.gpu.theirs = 2.0
    card.verified.clear()
    assert card.run(budget=0).ratio == pytest.approx(2.0, rel=1e-3) and card.searches == 1
    after = card.record
    assert after["suite"] == {"made": made, "timed": "other code"} and after["making"] == before["making"]
    assert after["choice"] == before["choice"] and after["configs"] == before["configs"]
    assert sorted(card.verified) == sorted(after["verified"]), "on this card, by today's code"
    assert card.run(budget=0).state == "on file"
    assert card.run().state == "done" and card.searches == 2, "no search by this code had made it"


def test_a_library_with_a_wrong_kernel_is_a_failed_row(card: Card) -> None:
    card.verdict = Verdict("gpu", 3, 0, 9.0, WRONG)
    outcome = card.run()
    assert outcome.state == "failed" and "is wrong" in str(outcome.reason) and card.gpu.asked == []
    page = card.page()
    assert "- bf16_rc_4096x4096 failed: " in page and "C[0][0] is off" in page
    assert "- not measured: bf16_rc_14336x4096" in page
    card.verdict = Verdict("gpu", 20, 0, 0.1)
    card.run()
    assert "failed" not in card.page()
    card.verdict = Verdict("gpu", 3, 0, 9.0, WRONG)
    card.run(again=True)
    assert "failed" in card.page() and read_score(card.path).geomean == pytest.approx(1.1, rel=1e-3), (
        "nothing is taken away"
    )


def test_a_chosen_kernel_that_cannot_be_timed_is_a_failed_row(card: Card) -> None:
    card.gpu.fails = RIVAL
    assert card.run().state == "done" and read_score(card.path).regret.worst < 0.05
    card.gpu.fails = LARGE
    outcome = card.run(again=True)
    assert outcome.state == "failed" and "no memory" in str(outcome.reason) and card.gpu.loaded == []


# The page


def test_the_page_has_each_size_and_names_the_goals_that_are_missed(card: Card) -> None:
    card.run()
    page = card.page()
    assert "# Libraries of run-time M on an H200" in page
    (row,) = [line for line in page.splitlines() if line.startswith("| bf16_rc_4096x4096: ?x4096x4096 bf16 rc |")]
    small, _, middle, _, large, _, fifth, *bands, p95, _, kernels, _, _ = [
        cell.strip() for cell in row.split("|")[2:-1]
    ]
    assert small == "1.100x (goal 1.200x)" and (middle, large, fifth) == ("1.100x",) * 3 and len(bands) == 3
    assert kernels == "3" and "goal" not in p95
    assert (
        sum(line.startswith(tuple(f"| {m} | {band_of(m).name} |" for m in VALUES)) for line in page.splitlines()) == 60
    )
    assert "\n4. naive " in page and page.count(", not in the library") == 1
    card_page = (card.plan.folder / "README.md").read_text()
    assert "](runtime_m/README.md)" in card_page
    card.gpu.theirs = 0.8
    card.run(again=True)
    page = card.page()
    assert all(f"0.800x (goal {goal})" in page for goal in ("1.050x", "1.000x", "0.970x"))
    assert page.count("x (goal 0.930x)") == 3 + 60


def test_a_large_regret_is_named(card: Card) -> None:
    card.run()
    record = card.record
    rows = [[m, us, kernel, us / 1.05, *others] for m, us, kernel, _, *others in record["rows"]]
    card.path.write_text(json_text({**record, "rows": rows}))
    assert "| 5.0% (goal 3.0%) | 5.0% |" in card.page()


def test_what_cublaslt_has_no_kernel_for_has_no_ratio(card: Card) -> None:
    card.gpu.theirs = None
    outcome = card.run()
    assert (outcome.state, outcome.ratio) == ("done", None)
    assert "no baseline: `gemmgen suite`" in card.page()


@pytest.mark.parametrize(
    "damage", ["{", "{}", '{"rows": [[1, 2]], "problem": {}}', "of another M", "of another product"]
)
def test_what_cannot_be_read_is_named_and_passed_over(card: Card, damage: str) -> None:
    card.run()
    second = card.path.with_name("bf16_rc_6144x4096.json")
    record = {**card.record, "product": second.stem}
    others = {
        "of another M": {**record, "rows": [[6, *record["rows"][0][1:]]]},
        "of another product": {**record, "product": PRODUCT.name},
    }
    reasons = {
        "of another M": "times at M = 6, which are not among the suite's 60 values",
        "of another product": "it is of product bf16_rc_4096x4096, and its file is named for bf16_rc_6144x4096",
    }
    second.write_text(json_text(others[damage]) if damage in others else damage)
    write_readme(card.plan.folder)
    root = card.plan.folder.parent
    assert [one.path for one in unreadable(root)] == [one.path for one in check(root)] == [second]
    assert reasons.get(damage, "") in check(root)[0].reason
    assert "## bf16_rc_4096x4096" in (second.parent / "README.md").read_text()


def test_a_library_of_another_card_is_a_stranger(card: Card) -> None:
    card.gpu.properties.name = "NVIDIA H100 80GB HBM3"
    card.run()
    write_readme(card.plan.folder)
    (found,) = check(card.plan.folder.parent)
    assert found.path == card.path and "was measured on NVIDIA H100 80GB HBM3" in found.reason


# The command


@pytest.fixture
def words(card: Card, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    monkeypatch.setattr("gemmgen.lab.commands.suite.missing_for", lambda step: None)
    monkeypatch.setattr(steps, "open_target", lambda *_: card.target)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return ["suite", "--group", "run-time M", "--out", str(card.plan.folder.parent)]


def test_the_command_measures_products(card: Card, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--only", PRODUCT.name]) == 0
    captured = capsys.readouterr()
    assert "1/1  measure   ?x4096x4096 bf16 rc" in captured.err and "1.100x  bf16_rc_4096x4096" in captured.err
    assert check(card.plan.folder.parent) == []
    assert main([*words, "--only", PRODUCT.name, "--budget", "0", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["state"], row["kernel"]) == ("on file", PRODUCT.name)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--only", "f64"], "no product of 'run-time M' has 'f64' in it"),
        (["--budget", "3"], "--budget 3 is for shapes"),
        (["--step", "emulate"], "has no shapes, and is only measured"),
        (["--arch", "sm_80"], "leave out --arch"),
    ],
)
def test_what_a_product_does_not_take_is_refused(
    more: list[str], message: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, *more]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ([], [one.name for one in PRODUCTS]),
        (["--part", "9/9"], [PRODUCTS[8].name]),
        (["--group", "f64"], []),
        (["--group", "f64", "--group", "run-time M", "--only", "f16"], None),
        (["--step", "emulate"], []),
    ],
)
def test_the_whole_suite_has_products_where_it_measures(
    more: list[str], names: list[str] | None, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    plans: list[SuitePlan] = []
    monkeypatch.setattr("gemmgen.lab.commands.suite.run_step", lambda step, plan, *_: plans.append(plan))
    assert main(["suite", *words[3:], *more]) == (0 if names is not None else 2), "no f64 has f16 in it"
    if names is not None:
        assert [one.name for one in plans[0].products] == names and plans[0].problems


def test_a_choice_is_rendered_again_as_it_was() -> None:
    problem = PRODUCT.fixed(512, 4096, 4096)
    wide = Member(PRODUCT, render(problem, WGMMA, WGMMA.default(problem), "sm_90"), "sm_90a")
    choice: Choice = choose(PRODUCT, "sm_90", [*members(), wide], PlayedBy(wide))
    assert wide in choice.kernels
    again = choice_again(PRODUCT, json.loads(json_text(choice_document(choice))))
    assert [(one.source.text, one.arch) for one in again.kernels] == [
        (one.source.text, one.arch) for one in choice.kernels
    ]
    assert [one.source.text for one in again.rivals] == [one.source.text for one in choice.rivals]
    sizes = [(m, 4096, 4096) for m in VALUES]
    assert [again.chosen(one, Needs.ALIGNED) for one in sizes] == [choice.chosen(one, Needs.ALIGNED) for one in sizes]


class PlayedBy(Played):
    """As the other, with a kernel that is the fastest from 4000 rows on."""

    def __init__(self, fast: Member) -> None:
        self.fast = fast

    def times(self, members: Sequence[Any], points: Sequence[Sizes], given: Needs) -> list[Timed]:
        return [
            Timed(
                [(m < 4000) * 99.0 + 1 if one is self.fast else time_us(one.source.config["BM"], m) for one in members]
            )
            for m, _, _ in points
        ]
