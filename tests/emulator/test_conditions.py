"""What ran of a kernel's text, counted by the interpreter in its PTX: conditions, lines, operands that came close."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from gemmgen.families import NAIVE, SIMT
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.coverage import Coverage, Near, Untaken
from gemmgen.run.emulator.driver import EmulatorExecutor
from gemmgen.run.emulator.launches import EmulatedKernel
from gemmgen.run.emulator.statements import Asked, Statements
from gemmgen.support.errors import CandidateFailed
from gemmgen.verification.reference import make_operands
from gemmgen.verification.situation import Situation

PROBLEM = Problem(None, None, None)
SOURCE = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))

LINES = """\
    if (K > 40) {
        __threadfence();
        if (M == 3) return;
    }
    if (alpha == 1.5f) K = 0;
    const int some = K & 7;
    if (some < 8) M += 0;
    if (lda < 2 * K) {
        lda = 2 * lda - K;
        __threadfence();
    }
    for (int i = 0; i < 3; ++i)
        if (N - i > 9) __threadfence();"""


def edited(lines: str, source: KernelSource = SOURCE) -> tuple[KernelSource, int]:
    """`source` with `lines` before its first statement, and the number of the first of them."""
    start = source.text.index("{\n", source.text.index("__global__")) + 2
    text = source.text[:start] + lines + "\n" + source.text[start:]
    return replace(source, text=text), source.text.count("\n", 0, start) + 1


EDITED, FIRST = edited(LINES)
Load = Callable[[KernelSource], EmulatedKernel]


@pytest.fixture(scope="module")
def interpreter() -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor() as executor:
        yield executor


@pytest.fixture
def load(interpreter: EmulatorExecutor) -> Iterator[Load]:
    loaded = []

    def load(source: KernelSource) -> EmulatedKernel:
        loaded.append(interpreter.load(source))
        return loaded[-1]

    yield load
    for kernel in loaded:
        kernel.close()


def run(kernel: EmulatedKernel, shape: tuple[int, int, int] = (5, 7, 9), **options: Any) -> Coverage:
    """The coverage after one more launch."""
    situation = Situation(replace(kernel.source.problem.case(*shape), **options), "exact", 0)
    kernel.run(situation.case, make_operands(situation), watch=False)
    coverage = kernel.coverage()
    assert coverage is not None
    return coverage


def untaken(coverage: Coverage) -> list[Untaken]:
    """Of LINES."""
    return [one for one in coverage.untaken if 0 <= one.line - FIRST <= LINES.count("\n")]


def test_all_of_a_rendered_kernel_runs(load: Load) -> None:
    kernel = load(SOURCE)
    for alpha, beta, depth in ((1.0, 0.0, 9), (2.0, 1.0, 0)):
        coverage = run(kernel, (17, 33, depth), alpha=alpha, beta=beta)
    assert coverage.complete and coverage.taken == coverage.branches > 4, list(coverage.never())


def test_what_one_launch_ran(load: Load) -> None:
    kernel = load(EDITED)
    found = run(kernel)
    assert untaken(found) == [
        Untaken(FIRST, "K > 40", True),
        Untaken(FIRST + 2, "M == 3", None),
        Untaken(FIRST + 4, "alpha == 1.5f", True),
        Untaken(FIRST + 7, "lda < 2 * K", False),
        Untaken(FIRST + 12, "N - i > 9", True),
    ]
    words = list(found.never())
    assert f"line {FIRST}: `K > 40` was never true" in words
    more = run(kernel, (5, 11, 41), lda=90)
    assert untaken(more) == [Untaken(FIRST + 2, "M == 3", True), Untaken(FIRST + 4, "alpha == 1.5f", True)]
    assert more.branches == found.branches and more.taken > found.taken


def test_lines_that_never_ran(load: Load) -> None:
    kernel = load(EDITED)
    block = FIRST + 8, FIRST + 9
    for lda, ran in ((90, False), (9, True)):
        lines = [line for line in run(kernel, lda=lda).lines if line[0] <= block[1] and line[1] >= block[0]]
        assert bool(lines) is not ran, lines


def test_operands_close_to_what_never_ran(load: Load) -> None:
    kernel = load(EDITED)
    run(kernel, (5, 4, 37), lda=90)
    first, second = kernel.lacking(), kernel.lacking()
    near = {one.text: {one.left, one.right} for one in first.values() if one is not None}
    assert near["K > 40"] in ({37, 40}, {37, 41}) and near["lda < 2 * K"] == {90, 74}
    assert near["N - i > 9"] in ({4, 9}, {4, 10}, {3, 9}), "of the copy that came closest"
    assert first.keys() == second.keys() and not any(second.values()), "forgotten since"
    run(kernel, (5, 4, 39), lda=90)
    assert [one.left for one in kernel.lacking().values() if one is not None and one.text == "K > 40"] == [39]


def test_conditions_that_the_compiler_joins(load: Load) -> None:
    """Each has had both outcomes, but not at once; what would have turned the branch is what came close."""
    source, first = edited(
        "    if (K % 24 == 5 && M > 30) C[0] = 0.0f;\n    if (N > 50 || alpha == 2.5f) __threadfence();"
    )
    kernel = load(source)
    run(kernel, (5, 7, 29))
    coverage = run(kernel, (33, 7, 9))
    found = [(one.text, one.outcome) for one in coverage.untaken if one.line == first]
    assert found == [("K % 24 == 5 && M > 30", True)]
    near = {(one.text, one.left, one.right) for one in kernel.lacking().values() if one is not None}
    assert ("K % 24 == 5", 9, 5) in near and ("alpha == 2.5f", 1, 2.5) in near


def test_a_launch_that_tells_nothing_is_no_situation_for_what_it_ran(load: Load) -> None:
    """A wrong branch would have had nothing to do wrong: see executor.tells."""
    kernel = load(EDITED)
    run(kernel)
    lacking = kernel.lacking().keys()
    found = run(kernel, (3, 7, 41), alpha=math.inf)
    assert "K > 40" not in str(untaken(found)), "it ran"
    assert kernel.lacking().keys() == lacking
    run(kernel, (5, 7, 41))
    near = [one for one in kernel.lacking().values() if one is not None and one.text == "M == 3"]
    assert near == [Near("M == 3", 5, 3, empty=True)]


def test_counts_outlive_the_process(load: Load) -> None:
    kernel = load(EDITED)
    before = run(kernel)
    kernel._server._kill()
    assert run(kernel) == before
    kernel.close()
    assert kernel.coverage() is not None, "and the kernel"


def test_a_launch_that_fails_counts_too(load: Load) -> None:
    source, first = edited("    if (K > 40) { C[-1000000000] = 0.0f; }")
    kernel = load(source)
    run(kernel)
    with pytest.raises(CandidateFailed, match="crash"):
        run(kernel, (5, 7, 41))
    assert run(kernel).taken > 4 and first > 0


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("const int zero = 0;\nif (zero > M || (K & 1) > 1) return;", {("zero > M", True)}),
        (
            "const int two = 2, many = 99;\nif (K % 37 * M >= many || N == 77 || (K & 1) >= two) return;",
            {
                ("K % 37 * M >= many", True),
                ("N == 77", True),
                ("K % 37 * M >= many || N == 77 || (K & 1) >= two", True),
            },
        ),
        ("#pragma unroll\nfor (int i = 0; i < 3; ++i)\n    if (i < N) __threadfence();", {("i < N", False)}),
    ],
    ids=["one that is left", "two that are left", "a loop's counter that is a constant"],
)
def test_conditions_have_the_words_of_what_the_compiler_left(
    lines: str, wanted: set[tuple[str, bool]], load: Load
) -> None:
    source, first = edited(lines)
    lacks = [one for one in run(load(source)).untaken if first <= one.line <= first + lines.count("\n")]
    assert {(one.text, one.outcome) for one in lacks} == wanted


def test_copies_of_a_comparison_are_one_condition(load: Load) -> None:
    """Unrolled ones, and those of a function that is inlined twice."""
    kernel = load(render(PROBLEM, SIMT, SIMT.default(PROBLEM)))
    sites = kernel._counters._sites
    assert len(sites.counted) > 3 * len(sites.conditions) > 0
    assert len({(one.line, one.text) for one in sites.conditions}) == len(sites.conditions)
    run(kernel, (130, 70, 40))
    assert kernel._counters._told.mean() > 0.5


@pytest.mark.parametrize(
    ("text", "asked", "shown", "inverted"),
    [
        ("if (m >= rows) return;", Asked("ge"), "m >= rows", False),
        ("if (m >= rows) return;", Asked("lt"), "m >= rows", True),
        ("if (m >= rows) return;", Asked("gt"), "m >= rows", True),  # rows > m
        ("if (s.K > 0) {", Asked("lt", constant_right=True), "s.K > 0", True),  # below 1
        ("if (s.K > 0) {", Asked("gt", constant_left=True), "s.K > 0", True),
        ("while (0 < left[i]) --left;", Asked("gt", constant_right=True), "0 < left[i]", False),
        ("for (int k = 0; k < K; k += BK) {", Asked("eq"), "k < K", True),
        ("for (int k = 0; k < s.K; ++k) {", Asked("ne"), "k < s.K", False),
        ("if (x == 1.5f) y = 0;", Asked("neu", constant_right=True), "x == 1.5f", True),
        ("return a < b ? f<4, float>(a) : 0;", Asked("geu"), "a < b", True),
        ("if (valid >= M) return;", Asked("ge"), "valid >= M", False),
        ("if (valid >= N) return;", Asked("ge"), "setp.ge of valid >= N", False),  # of differences, were N 1
        ("if (!ready) return;", Asked("eq", constant_right=True), "!ready", False),
        ("if (ready) return;", Asked("eq", constant_right=True), "ready", True),
        ("if (a(b, c) + 1) return;", Asked("gt", constant_right=True), "setp.lt of a(b, c) + 1", True),
        ("if (i < n && i == m) {", Asked("eq"), "i == m", False),
        ("const bool in = i < n && p->j >= 4;", Asked("gt", constant_right=True), "p->j >= 4", False),
        ("for (int i = 0; i < COUNT; ++i) {", Asked("ne", constant_right=True), None, False),  # over constants
        ("x = y / z;", Asked("ne", constant_right=True), None, False),  # the compiler's own
    ],
)
def test_the_comparison_that_a_setp_stands_for(text: str, asked: Asked, shown: str | None, inverted: bool) -> None:
    found = Statements(f"  {text}\ntemplate <int N>\nconstexpr int COUNT = 4;").words(asked, 0, [(1, 3)])
    assert (None if found is None else (found.text, found.inverted)) == (None if shown is None else (shown, inverted))


def test_a_condition_that_has_a_name() -> None:
    statements = Statements("  const bool inside = a < b && c < d;\n  int x;\n  if (inside) ++x;\n  if (outside) ++x;")
    found = [statements.words(Asked("lt"), index, [(3, 3)]) for index in (0, 1)]
    assert [one and (one.line, one.text) for one in found] == [(1, "a < b"), (1, "c < d")]
    whole = [statements.joined(all_of, (3, 3)) for all_of in (True, False)]
    assert [one and (one.line, one.text, one.inverted) for one in whole] == [(3, "inside", False), (3, "inside", True)]
    vague = statements.words(Asked("lt"), 0, [(4, 3)])
    assert vague is not None and vague.text == "setp.ge of outside"


def test_a_condition_guards_a_statement_or_what_stands_in_braces():
    statements = Statements("int a;\nif (x)\n  y();\nif (z) {\n  w();\n  v();\n}\nint b;")
    assert statements.body(2) == range(2, 4) and statements.body(4) == range(4, 8)
