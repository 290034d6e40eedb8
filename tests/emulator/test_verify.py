"""The verifier rejects kernels that are wrong: each edit below plants one bug in a rendered kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from gemmgen.emulator import EmulatorExecutor
from gemmgen.families import NAIVE, SIMT
from gemmgen.problem import Problem
from gemmgen.render import render
from gemmgen.source import KernelSource
from gemmgen.verifier import verify

PROBLEM = Problem(None, None, None)
SMALL = SIMT.default(PROBLEM).with_values(BM=32, BN=64, TM=4, TN=4, WM=16, WN=32)


@dataclass(frozen=True)
class Bug:
    """Replace `old`, found exactly once, by `new` in the kernel with these settings."""

    name: str
    settings: dict[str, int]
    old: str
    new: str


ASYNC = {"STAGES": 3, "ASYNC": 1}
BUGS = (
    Bug("no barrier before the tiles are read", {"STAGES": 1}, "__syncthreads();  // the tiles are complete", ""),
    Bug("no barrier before they are overwritten", {"STAGES": 1}, "__syncthreads();  // nobody reads them any more", ""),
    Bug("no barrier between stages", {"STAGES": 2}, "__syncthreads();  // the next tile is complete", "//"),
    Bug("waits for one tile too few", ASYNC, "cp_async_wait<STAGES - 2>()", "cp_async_wait<STAGES - 1>()"),
    Bug("the wrong stage", ASYNC, "write = STAGES - 1;", "write = STAGES - 2;"),
    Bug("the K tail is dropped", {}, "for (int k = 0; k < s.K; k += BK)", "for (int k = 0; k + BK <= s.K; k += BK)"),
    Bug("<= for < at the edge", {}, "EDGE_M && m >= rows", "EDGE_M && m > rows"),
    Bug("no zero fill along K", {}, "return EDGE_K ? depth - at.k : VA;", "return VA;"),
    Bug("lda where ldc belongs", {}, "Offset(m) * s.ldc + n", "Offset(m) * s.lda + n"),
    Bug("beta = 0 reads C", {}, "if (beta != 0.0f)", "if (true)"),
    Bug("alpha is dropped", {}, "value.at[v] = alpha * acc[i][j + v]", "value.at[v] = acc[i][j + v]"),
    Bug("one product is missing", {}, "for (int k = 0; k < BK; ++k)", "for (int k = 0; k < BK - 1; ++k)"),
    Bug(
        "a row twice",
        {},
        "const int m = place.m + i / FM * STEP_M + i % FM;",
        "const int m = place.m + i / FM * STEP_M;",
    ),
    Bug("the last group of tiles is wrong", {}, "min(GROUP, rows - first)", "GROUP"),
)


# A big tile leaves small sizes with one tile; the map from blocks to tiles shows on a grid of many.
MAP_BUGS = (
    (
        "tile rows and columns swapped",
        "(first + within % height) * BM, within / height * BN",
        "within / height * BM, 0",
    ),
    ("the first group for all", "const int first = group * GROUP;", "const int first = 0;"),
    ("the last column of tiles twice", "within / height * BN}", "min(within / height, max(columns - 2, 0)) * BN}"),
)


@pytest.fixture(scope="module")
def emulator():
    with EmulatorExecutor() as executor:
        yield executor


def planted(bug: Bug) -> KernelSource:
    source = render(PROBLEM, SIMT, SMALL.with_values(**bug.settings))
    assert source.text.count(bug.old) == 1, f"{bug.name}: {bug.old!r} stands {source.text.count(bug.old)} times"
    return replace(source, text=source.text.replace(bug.old, bug.new))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug, emulator):
    verdict = verify(emulator, planted(bug), examples=200)
    assert not verdict.passed
    assert verdict.situation is not None


def test_a_counterexample_is_shrunk_and_shown(emulator):
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    wrong = replace(source, text=source.text.replace("k < s.K", "k < s.K - (s.K > 20)"))
    verdict = verify(emulator, wrong, examples=200)
    assert verdict.situation is not None and verdict.mismatch is not None
    case = verdict.situation.case
    assert (case.m, case.n, case.k) == (1, 1, 21), "the smallest shape that shows the bug"
    assert "C[0][0]" in str(verdict.mismatch)


def test_a_kernel_that_does_not_compile_is_a_verdict(emulator):
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    verdict = verify(emulator, replace(source, text=source.text.replace("float acc", "flaot acc")), examples=1)
    assert verdict.failure is not None and verdict.failure.kind == "compile"


def test_the_same_seed_gives_the_same_verdict(emulator):
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    assert verify(emulator, source, examples=20, seed=3) == verify(emulator, source, examples=20, seed=3)


@pytest.mark.parametrize(("name", "old", "new"), MAP_BUGS, ids=[bug[0] for bug in MAP_BUGS])
def test_a_wrong_tile_map_is_found_with_big_tiles(name, old, new, emulator):
    config = SIMT.default(PROBLEM).with_values(BM=256, BN=256, TM=16, TN=8, WM=64, WN=64)
    source = render(PROBLEM, SIMT, config)
    assert source.text.count(old) == 1
    assert not verify(emulator, replace(source, text=source.text.replace(old, new)), examples=100).passed


def test_samples_of_a_big_grid_together_show_a_tile_that_nobody_writes(emulator):
    problem = Problem(2048, 2048, 64)  # 512 blocks of 64 x 128, of which a sample runs four
    source = render(problem, SIMT, SIMT.default(problem).with_values(BM=64, WM=64))
    old, new = "within / height * BN}", "min(within / height, columns - 2) * BN}"
    assert source.text.count(old) == 1
    verdict = verify(emulator, replace(source, text=source.text.replace(old, new)), examples=60)
    assert verdict.sampled and verdict.failure is not None
    assert "tiles of C" in verdict.failure.reason
