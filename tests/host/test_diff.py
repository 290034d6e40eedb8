"""`gemmgen diff`: what sets two kernels apart, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gemmgen
from gemmgen.cli import main
from gemmgen.cli.diff import show_difference
from gemmgen.cli.output import stdout
from gemmgen.judge.difference import NAME, Difference, body, difference
from gemmgen.judge.explain import explain
from gemmgen.problem.device import DEVICES

PROBLEM = gemmgen.Problem(64, 96, 32)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[gemmgen.KernelSource]:
    """Two kernels of one family in this folder's gemmgen-out, the second as a rung of a ladder."""
    monkeypatch.chdir(tmp_path)
    made = [gemmgen.generate(PROBLEM, family="naive", BM=rows, out="gemmgen-out") for rows in (8, 16)]
    path = tmp_path / "gemmgen-out" / f"{made[1].name}.json"
    rung = {"number": 1, "title": "wide", "lesson": "", "time": None}
    path.write_text(json.dumps({**json.loads(path.read_text()), "rung": rung}))
    return made


def apart(a: gemmgen.KernelSource, b: gemmgen.KernelSource) -> Difference:
    """Without compiling either."""
    ours, theirs = (explain(gemmgen.KernelFile(one), "sm_90", DEVICES["H200"], None) for one in (a, b))
    return difference(ours, theirs)


def test_what_was_chosen_differently_is_named_and_nothing_else(pair: list[gemmgen.KernelSource]) -> None:
    found = apart(*pair)
    assert [(one.name, one.a, one.b) for one in found.chosen] == [("BM", "8", "16")]
    changed = [line for line in found.text if line[:1] in "+-" and not line.startswith(("+++", "---"))]
    assert changed and all(line.startswith(("-", "+")) for line in changed)
    assert any("constexpr int BM = 16" in line for line in changed)
    assert not any(one.name in line for one in pair for line in found.text[2:]), "names differ in every kernel"
    threads = next(one for one in found.figures if one.name == "threads a block")
    assert threads.a != threads.b


def test_a_kernel_does_not_differ_from_itself(pair: list[gemmgen.KernelSource]) -> None:
    found = apart(pair[0], pair[0])
    assert found.chosen == () and found.text == () and found.same_code is None
    assert all(one.a == one.b for one in found.figures)


def test_the_body_is_the_text_behind_the_header(pair: list[gemmgen.KernelSource]) -> None:
    lines = body(pair[0])
    assert not lines[0].startswith("//") and pair[0].text.replace(pair[0].name, NAME).endswith("\n".join(lines) + "\n")


def test_rungs_go_by_their_titles(pair: list[gemmgen.KernelSource], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", pair[0].name, "wide", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["b"] == pair[1].name and document["chosen"] == [{"name": "BM", "a": "8", "b": "16"}]
    show_difference(stdout(), apart(*pair))
    assert "choices" in capsys.readouterr().out


def test_a_title_of_several_ladders_is_refused(
    pair: list[gemmgen.KernelSource], capsys: pytest.CaptureFixture[str]
) -> None:
    record = json.loads(Path("gemmgen-out", f"{pair[1].name}.json").read_text())
    path = Path("gemmgen-out", f"{pair[0].name}.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "rung": record["rung"]}))
    assert main(["diff", pair[0].name, "wide"]) == 2
    assert "'wide' is a rung of several ladders" in capsys.readouterr().err
