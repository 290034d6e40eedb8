"""What ran of a kernel's text: what its plan rules out, what situations are sought for, and what is required."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from gemmgen.cli import main
from gemmgen.cli.verify import passed_in_part
from gemmgen.exports.kernelfile import read_kernel
from gemmgen.families import MMA, NAIVE, SIMT, WGMMA
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.render.kernel_text import render
from gemmgen.run.coverage import Coverage, Untaken
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.errors import Failure
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import Verdict, verify

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


def test_blocks_of_all_cores_count(emulator):
    """Of a large launch the first and the last one run on different ones."""
    lines = "    if (blockIdx.x == 0) __threadfence();\n    if (blockIdx.x + 1 == gridDim.x) __threadfence();"
    source, first = edited(lines)
    for shape, lacks in (((5, 7, 9), [False, False]), ((400, 400, 100), [])):
        kernel = emulator.load(source)
        situation = Situation(PROBLEM.case(*shape), "exact", 0)
        kernel.run(situation.case, make_operands(situation), watch=False)
        assert [one.outcome for one in kernel.coverage().untaken if one.line in (first, first + 1)] == lacks
        kernel.close()


RING = {"STAGES": 2, "ASYNC": 1, "K_UNROLL": 4}
REFILLS = ("padded - k > (STAGES - 1) * BK", True)
WRAPS = ("stage + 1 < STAGES", False)
IDLE = ("stream_block >= schedule.stream_blocks", True)
STAGED, EMPTY = ("padded > stage * BK", False), ("padded > 0", False)
IMPOSSIBLE = {  # family, problem, axes, and the outcomes in its PTX that the plan rules out
    "whole tiles": (NAIVE, Problem(32, 32, 8), {}, {("m >= s.M", True)}),
    "a tile at the edge": (NAIVE, Problem(33, 32, 8), {}, set()),
    "as many k tiles as stages": (SIMT, Problem(64, 64, 32), {**RING, "BK": 16}, {REFILLS, WRAPS}),
    "one more": (SIMT, Problem(64, 64, 48), {**RING, "BK": 16}, set()),
    "all blocks stream": (SIMT, Problem(128, 64, 128), {**RING, "BK": 8, "STREAM": 3}, {IDLE, STAGED, EMPTY}),
    "one does not": (SIMT, Problem(128, 64, 16), {**RING, "BK": 8, "STREAM": 3}, {REFILLS, WRAPS, EMPTY}),
    "eight k tiles, mma": (MMA, Problem(64, 64, 256, types="bf16", layout="rc"), {"STAGES": 4, "BK": 32}, set()),
    "whole accesses at an edge, mma": (
        *(MMA, Problem(32, 40, 256, types="bf16", layout="rc"), {"EXCHANGE": 1, "WN": 32}),
        {("i < valid", True)},
    ),
    "whole accesses at all edges": (
        *(SIMT, Problem(20, 24, 28), {"STAGES": 2, "ASYNC": 0, "BK": 8, "VEC": 4, "TA": 1, "TB": 0}),
        {("i < valid", True)},
    ),
    "a ring that does not go round": (
        *(WGMMA, Problem(64, 16, 64, types="bf16", layout="rc"), {"STAGES": 4}),
        {WRAPS, ("stage == 0", True)},
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
    source = render(problem, WGMMA, WGMMA.default(problem).with_values(**WGMMA.small))
    coverage = verify(emulator, source, examples=5, runs=1).coverage
    lines = source.text.splitlines()
    a, b = (number for number, line in enumerate(lines, 1) if "if (line >= lines" in line)
    assert "prepare_b_kernel" in "".join(lines[a:b])
    found = [(one.line, one.text, one.outcome) for one in coverage.unreachable if "lines" in one.text]
    assert found == [(b, "line >= lines", True)]


def test_a_plan_says_nothing_of_an_edited_text(emulator):
    source = render(Problem(32, 32, 8), NAIVE, NAIVE.default(Problem(32, 32, 8)))
    by_hand = replace(source, text=source.text.replace("float acc = 0.0f;", "float acc = 0.0f;  // by hand"))
    coverage = verify(emulator, by_hand, examples=5, runs=1).coverage
    assert [one.text for one in coverage.untaken] == ["m >= s.M"] and not coverage.unreachable


def test_an_outcome_that_came_is_not_called_impossible(emulator):
    """Whatever the plan says."""
    source = render(Problem(33, 32, 8), NAIVE, NAIVE.default(Problem(33, 32, 8)))
    situation, found = Situation(source.problem.case(), "exact", 0), []
    for told in (False, True):
        kernel = emulator.load(source)
        if told:
            conditions = enumerate(kernel._counters._sites.conditions)
            kernel._counters._never = {(number, 1): "wrong" for number, one in conditions if one.text == "m >= s.M"}
            assert kernel._counters._never
        kernel.run(situation.case, make_operands(situation))
        found.append(kernel.coverage())
        kernel.close()
    assert found[0] == found[1] and found[0].branches > 2, "it stays a branch"


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
    assert main(words) == 4
    shown = capsys.readouterr().out
    assert "PASSED IN PART" in shown and f"branches taken; never ran: {never}" in shown
    assert main([*words, "--require-coverage"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "FAIL uncovered" in shown and never in shown and "--examples 3 --require-coverage" in shown
    assert main([*words, "--json"]) == 4
    document = json.loads(capsys.readouterr().out)
    found = document["verification"]["coverage"]
    assert document["in_part"] is True
    assert found["untaken"] == [{"line": first, "text": "alpha == 77.0f", "outcome": True}]
    assert found["taken"] == found["branches"] - 1 and found["lines"] == []


def test_conditions_inside_of_lines_that_never_ran_are_not_named_again():
    untaken = tuple(Untaken(line, "k < K", None) for line in (2, 3, 4, 5, 6))
    words = [one.partition(":")[0] for one in Coverage(20, untaken, lines=((3, 5), (8, 8))).never()]
    assert words == ["line 2", "line 3", "lines 3 to 5", "line 6", "line 8"]


def test_only_an_edited_text_passes_in_part():
    missing = Coverage(branches=2, untaken=(Untaken(1, "k < K", True),), lines=())
    verdict = Verdict("emulator", examples=1, seed=0, worst=0.0, coverage=missing)
    assert not passed_in_part(SOURCE, verdict)
    added = replace(SOURCE, text=f"{SOURCE.text}// edited\n")
    assert passed_in_part(added, verdict)
    assert not passed_in_part(added, replace(verdict, coverage=replace(missing, untaken=())))
    assert not passed_in_part(added, replace(verdict, failure=Failure("wrong", "off", "verifier")))
