"""What ran of a kernel's text: counted in every process, reported, and required where asked."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from gemmgen.artifacts.kernelfile import read_kernel
from gemmgen.cli import main
from gemmgen.cli.verify import covered
from gemmgen.kernel.families import MMA, NAIVE, SIMT, WGMMA
from gemmgen.kernel.render import render
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.run.coverage import Near, Untaken
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import verify

PROBLEM = Problem(None, None, None)
SOURCE = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))


@pytest.fixture(scope="module")
def emulator():
    with EmulatorExecutor() as executor:
        yield executor


def edited(lines, source=SOURCE):
    """`source` with `lines` before its first statement, and the number of the first of them."""
    start = source.text.index("{\n", source.text.index("__global__")) + 2
    text = source.text[:start] + lines + "\n" + source.text[start:]
    return replace(source, text=text), source.text.count("\n", 0, start) + 1


def ran(emulator, source, shape=(5, 7, 9), watch=True, **options):
    """The coverage of one launch."""
    kernel = emulator.load(source)
    try:
        situation = Situation(replace(PROBLEM.case(*shape), **options), "exact", 0)
        kernel.run(situation.case, make_operands(situation), watch=watch)
        return kernel.coverage()
    finally:
        kernel.close()


def test_all_of_a_rendered_kernel_runs(emulator):
    coverage = verify(emulator, SOURCE, examples=20).coverage
    assert coverage is not None and coverage.complete and coverage.taken == coverage.branches > 4


# One kernel for what follows: each takes seconds to compile.
LINES = """\
    if (K > 40 && K < 50) {
        if (M == 3)
            return;
    }
    while (K % 37 == 36 || alpha == 1.5f) K = 0;
    const int some = K & 7;
    if (some < 8) M += 0;
    if (sizeof(float) == 8) M = 0;
    if (blockIdx.x == 0) M += 0;
    if (blockIdx.x + 1 == gridDim.x) M += 0;
    if (lda < 2 * K) M += 0;
    constexpr int FOUR = sizeof(float) > 2 ? 4 : 2;
    const int zeros[FOUR > 3 && FOUR < 9 ? FOUR : 1] = {};
    const auto last = [&](int i) { return i == 3 ? 1 : 0; };
    if (zeros[0] > M || last(M) > 1 || A == 0) return;"""
EDITED, FIRST = edited(LINES)


def untaken(coverage, first, last):
    """Of the lines of LINES from `first` on."""
    return [one for one in coverage.untaken if first <= one.line - FIRST <= last]


@pytest.mark.parametrize("watch", [False, True])
def test_what_one_launch_ran(emulator, watch):
    found = ran(emulator, EDITED, watch=watch)
    assert found.lines[0] == (FIRST, FIRST + 3)
    assert untaken(found, 0, 4) == [
        Untaken(FIRST, "K > 40", True),
        Untaken(FIRST, "K < 50", None),
        Untaken(FIRST + 1, "M == 3", None),
        Untaken(FIRST + 4, "K % 37 == 36", True),
        Untaken(FIRST + 4, "alpha == 1.5f", True),
    ]
    words = list(found.never())
    assert f"line {FIRST}: `K > 40` was never true" in words and f"lines {FIRST} to {FIRST + 3}" in words
    assert not any("M == 3" in one for one in words), "the lines around it never ran"
    taken = ran(emulator, EDITED, shape=(5, 7, 41), watch=watch)
    assert Untaken(FIRST, "K < 50", False) in taken.untaken and taken.taken > found.taken


def test_outcomes_that_the_compiler_finds_impossible_do_not_count(emulator):
    assert not untaken(ran(emulator, EDITED), 5, 7), "neither `some < 8` nor what sizeof decides"
    assert not untaken(ran(emulator, EDITED), 11, 12), "constants of the language stay so, with probes around them"


def test_all_processes_count(emulator):
    """Blocks of a large launch are shared by helpers."""
    assert len(untaken(ran(emulator, EDITED, watch=False), 8, 9)) == 2, "the only block is the first and the last"
    assert not untaken(ran(emulator, EDITED, shape=(400, 400, 100), watch=False), 8, 9)


def test_operands_close_to_what_never_ran(emulator):
    kernel = emulator.load(EDITED)
    situation = Situation(PROBLEM.case(5, 4, 37, lda=90), "exact", 0)
    kernel.run(situation.case, make_operands(situation))
    first, second = kernel.lacking(), kernel.lacking()
    assert {Near("K > 40", 37, 40), Near("lda < 2 * K", 90, 74)} <= {*first.values()}
    assert first.keys() == second.keys() and not any(second.values()), "forgotten since"
    kernel.close()


def test_a_text_that_probes_break_runs_without(emulator):
    source, _ = edited("#define BOTH(a, b) a b\n    const bool odd = BOTH(K < 4 +, 1);\n    if (odd) M += 0;")
    verdict = verify(emulator, source, examples=2)
    assert verdict.passed and verdict.coverage is None
    assert covered(verdict).failure.kind == "uncovered" and "not counted" in covered(verdict).failure.reason


RING = {"STAGES": 2, "ASYNC": 1, "K_UNROLL": 4}
REFILLS = ("padded - k > (STAGES - 1) * BK", True)
IDLE = ("stream_block >= schedule.stream_blocks", True)
STAGED, EMPTY = ("padded > stage * BK", False), ("padded > 0", False)
IMPOSSIBLE = {  # family, problem, axes, and the outcomes that the plan rules out and no compiler does
    "whole tiles": (NAIVE, Problem(32, 32, 8), {}, {("m >= s.M", True)}),
    "a tile at the edge": (NAIVE, Problem(33, 32, 8), {}, set()),
    "as many k tiles as stages": (SIMT, Problem(64, 64, 32), {**RING, "BK": 16}, {REFILLS}),
    "one more": (SIMT, Problem(64, 64, 48), {**RING, "BK": 16}, set()),
    "all blocks stream": (SIMT, Problem(128, 64, 128), {**RING, "BK": 8, "STREAM": 3}, {IDLE, STAGED, EMPTY}),
    "one does not": (SIMT, Problem(128, 64, 16), {**RING, "BK": 8, "STREAM": 3}, {REFILLS, EMPTY}),
    "one k tile, mma": (MMA, Problem(64, 64, 32, types="bf16", layout="rc"), {"STAGES": 3, "BK": 32}, set()),
    "two, mma": (
        *(MMA, Problem(64, 64, 64, types="bf16", layout="rc")),
        *({"STAGES": 3, "BK": 32}, {("read + 1 < STAGES", False)}),
    ),
    "four, mma": (MMA, Problem(64, 64, 128, types="bf16", layout="rc"), {"STAGES": 3, "BK": 32}, set()),
    "whole accesses at an edge, mma": (
        *(MMA, Problem(32, 40, 256, types="bf16", layout="rc"), {"EXCHANGE": 1, "WN": 32}),
        {("i < valid", True), ("beta == 0.0f", True), ("beta == 0.0f", False)},
    ),
    "whole accesses at all edges": (
        *(SIMT, Problem(20, 24, 28), {"STAGES": 2, "ASYNC": 0, "BK": 8, "VEC": 4, "TA": 1, "TB": 0}),
        {("i < valid", True), ("beta == 0.0f", True), ("beta == 0.0f", False)},
    ),
    "a ring that does not go round": (
        *(WGMMA, Problem(64, 16, 64, types="bf16", layout="rc"), {"STAGES": 4}),
        {("stage + 1 < STAGES", False), ("stage == 0", True)},
    ),
    "promoted, wgmma": (
        *(WGMMA, Problem(64, 16, 1024, types=Types.parse("e4m3,e4m3,bf16", Compute.PROMOTED), layout="rc")),
        *({}, {("previous >= 0", False)}),
    ),
}


@pytest.mark.parametrize("sample", IMPOSSIBLE)
def test_what_a_plan_rules_out_does_not_count(emulator, sample):
    """And all else runs: a plan that ruled out more would name it here."""
    family, problem, axes, wanted = IMPOSSIBLE[sample]
    source = render(problem, family, family.default(problem).with_values(**{**family.small, **axes}))
    coverage = verify(emulator, source, examples=5, runs=1).coverage
    assert coverage is not None and coverage.complete, list(coverage.never())
    assert {(one.text, one.outcome) for one in coverage.unreachable} == wanted
    lines = source.text.splitlines()
    assert all(one.text in lines[one.line - 1] for one in coverage.unreachable)


def test_a_plan_speaks_of_one_of_two_copies(emulator):
    """Both have the same text, and whole tiles divide the lines of one."""
    problem = Problem(60, 64, 63, types="bf16", layout="rc")
    source = render(problem, WGMMA, WGMMA.default(problem))
    coverage = verify(emulator, source, examples=5, runs=1).coverage
    lines = source.text.splitlines()
    a, b = (number for number, line in enumerate(lines, 1) if "if (line >= lines" in line)
    assert "prepare_b_kernel" in "".join(lines[a:b])
    found = [(one.line, one.text, one.outcome) for one in coverage.unreachable if "lines" in one.text]
    assert found == [(b, "line >= lines", True)]


def test_a_plan_says_nothing_of_an_edited_text(emulator):
    source = render(Problem(32, 32, 8), NAIVE, NAIVE.default(Problem(32, 32, 8)))
    text = source.text.replace("m >= s.M ||", "m + 1 >= s.M + 1 || m >= s.M ||")
    coverage = verify(emulator, replace(source, text=text), examples=5, runs=1).coverage
    assert [one.text for one in coverage.untaken] == ["m + 1 >= s.M + 1", "m >= s.M"] and not coverage.unreachable


def test_an_outcome_that_came_is_not_called_impossible(emulator):
    """Whatever the plan says."""
    source = render(Problem(33, 32, 8), NAIVE, NAIVE.default(Problem(33, 32, 8)))
    kernel = emulator.load(source)
    kernel._counters._never = {
        (number, 1): "wrong" for number, site in enumerate(kernel._counters._sites) if "m >= s.M" in str(site)
    }
    situation = Situation(source.problem.case(), "exact", 0)
    kernel.run(situation.case, make_operands(situation))
    found = kernel.coverage()
    assert kernel._counters._never and not found.unreachable and "m >= s.M" not in str(found.untaken)
    assert found.branches == 6, "it stays a branch"
    kernel.close()


SOUGHT = "if (K > 500 && K % 24 == 5 || alpha == 1.3125f && M > N) return;"


def test_situations_are_sought_for_what_has_not_run(emulator):
    source, _ = edited(f"    {SOUGHT}")
    verdict = verify(emulator, source, examples=100)
    assert verdict.failure is not None and verdict.situation is not None
    case = verdict.situation.case
    assert (case.k > 500 and case.k % 24 == 5) or case.alpha == 1.3125
    assert verdict.found_after <= 100 and case.m * case.n <= 2, "and reduced"


def test_the_command_fails_what_never_ran(tmp_path, shared_cache, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    monkeypatch.chdir(tmp_path)
    assert main(["generate", "5x6x7", "--family", "naive"]) == 0
    (path,) = tmp_path.glob("gemmgen-out/*.cu")
    words = ["verify", str(path), "--device", "emulator", "--examples", "3"]
    capsys.readouterr()
    assert main([*words, "--require-coverage"]) == 0
    assert re.search(r"all \d+ branches taken", capsys.readouterr().out)
    source, first = edited("    if (alpha == 77.0f) return;", read_kernel(path).source)
    path.write_text(source.text)
    never = f"line {first}: `alpha == 77.0f` was never true"
    assert main(words) == 0
    assert f"branches taken; never ran: {never}" in capsys.readouterr().out
    assert main([*words, "--require-coverage"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "FAIL uncovered" in shown and never in shown and "--examples 3 --require-coverage" in shown
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["verification"]["coverage"]
    assert found["untaken"] == [{"line": first, "text": "alpha == 77.0f", "outcome": True}]
    assert found["taken"] == found["branches"] - 1 and found["lines"] == []
