"""Every block of a grid that takes too long whole: at a smaller K, and what is wrong there at the kernel's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.families import BATCHED_MMA, NAIVE, SIMT, WGMMA
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.proof import selfcheck
from gemmgen.proof.bugs import BUGS
from gemmgen.proof.bugs.base import Subject
from gemmgen.proof.edits import EDITS
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.errors import CandidateFailed
from gemmgen.verification import whole_grid
from gemmgen.verification.checks import Wrong
from gemmgen.verification.domain import DomainTally
from gemmgen.verification.shorter_k import shortened
from gemmgen.verification.verifier import verify
from gemmgen.verification.whole_grid import UNEVEN, check_grid, grid_situations

PROBLEM = Problem(512, 512, 1024, lda=1040)
SOURCE = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
STORE = "    float* const to ="
TILE_M = "const int tile_m = blockIdx.x / columns"


@pytest.fixture(autouse=True)
def none_is_soon_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small kernels stand for large ones, whose grids run at a smaller K."""
    monkeypatch.setattr(whole_grid, "OWN_FLOPS", 0.0)


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor() as executor:
        yield executor


def edited(old: str, new: str, source: KernelSource = SOURCE) -> KernelSource:
    assert source.text.count(old) == 1
    return replace(source, text=source.text.replace(old, new))


def tried(emulator: EmulatorExecutor, source: KernelSource) -> DomainTally:
    (situation,), tally, kernel = grid_situations(source), DomainTally(), emulator.load(source)
    try:
        check_grid(emulator, kernel, situation, tally)
    finally:
        kernel.close()
    return tally


def test_the_text_for_a_smaller_k_is_the_same_but_for_it() -> None:
    source = edited(STORE, "    if (blockIdx.x == 517) acc += 1;\n" + STORE)
    short = shortened(source, 100)
    assert short is not None
    assert short.problem.k == 16
    assert (short.problem.lda, short.problem.ldb) == (1040, 512)
    assert short.text == source.text.replace("constexpr int K = 1024;", "constexpr int K = 16;") != source.text


@pytest.mark.parametrize("layout", ["rc", "cr"])
def test_a_ragged_k_and_what_divides_it_stay(layout: str) -> None:
    problem = Problem(512, 512, 1023, layout=layout)
    short = shortened(render(problem, SIMT, SIMT.default(problem)), 200)
    assert short is not None
    assert short.problem.k is not None
    assert short.problem.k % 16 == 1023 % 16


@pytest.mark.parametrize("problem", ["bf16 rc", "bf16 rr copied"])
def test_sizes_in_one_line_and_in_copies_have_other_numbers(problem: str) -> None:
    size = 4097 if "copied" in problem else 4096
    whole = Problem(size, size, size, types="bf16", layout=problem.split()[1])
    source = render(whole, WGMMA, WGMMA.default(whole))
    assert bool(source.launch.copies) == ("copied" in problem)
    added = edited("    Ring ring;\n", "    Ring ring;  // edited\n    __nanosleep(1);\n", source)
    short = shortened(added, 1000)
    assert short is not None and short.problem.k is not None and short.problem.k < 1000
    assert f"K = {short.problem.k};" in short.text and f"K = {size};" not in short.text
    assert short.text.count("__nanosleep(1);") == 1
    assert (f"length = {short.problem.k};" in short.text) == ("copied" in problem)


def test_not_every_text_has_one() -> None:
    runtime = Problem(512, 512, None)
    assert shortened(render(runtime, NAIVE, NAIVE.default(runtime)), 100) is None
    assert shortened(SOURCE, 15) is None, "no smaller K is small enough"
    assert shortened(edited("constexpr int K = 1024", "constexpr int K = 1 << 10"), 100) is None
    assert shortened(replace(SOURCE, family="by hand"), 100) is None


def test_rasters_of_run_time_sizes_are_such_that_reciprocals_fall_short() -> None:
    one = np.float32(1)
    assert all(np.float32(count) * (one / np.float32(count)) < 1 for count in UNEVEN)
    runtime = Problem(None, None, None)
    for seed in range(8):
        cases = [one.case for one in grid_situations(render(runtime, NAIVE, NAIVE.default(runtime)), seed)]
        counts = [(case.m // 16, case.n // 16) for case in cases]
        assert counts[0] == counts[1][::-1] and min(counts[0]) == 9 and max(counts[0]) in UNEVEN
        large = grid_situations(render(runtime, SIMT, SIMT.default(runtime)), seed)
        assert len(large) == 1, "of large tiles one, by the seed"
        assert (large[0].case.m > large[0].case.n) == seed % 2


def test_every_block_of_a_right_kernel_runs(emulator: EmulatorExecutor) -> None:
    ends = "and 4 of its tiles at the kernel's own K"
    assert tried(emulator, SOURCE).grid == f"all 1,024 blocks of one grid at K = 16, {ends}"
    small = Problem(70, 64, 64)
    assert tried(emulator, render(small, NAIVE, NAIVE.default(small))).grid == "all 20 blocks of one grid at K = 64"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (STORE, "if (blockIdx.x == 517) acc += 1;\n" + STORE, r"C\[256\]\[80\] is"),
        (STORE, "if (blockIdx.x == 517) return;\n" + STORE, r"write \d tiles? of C, not"),
        (
            TILE_M,
            "const int tile_m = (blockIdx.x == 517 ? 5 : blockIdx.x) / columns",
            r"blocks \[\d+, \d+\] write 1 tiles",
        ),
    ],
    ids=["adds", "loses a tile", "another's tile"],
)
def test_one_wrong_block_of_a_thousand_is_found(old: str, new: str, words: str, emulator: EmulatorExecutor) -> None:
    with pytest.raises((Wrong, CandidateFailed), match=words):
        tried(emulator, edited(old, new))


def test_a_grid_that_takes_little_runs_whole_where_its_text_is_none_for_a_smaller_k(emulator: EmulatorExecutor) -> None:
    problem = Problem(32, 32, 32, batch=8192, types=Types.parse("bf16"))
    source = render(problem, BATCHED_MMA, BATCHED_MMA.default(problem))
    assert shortened(source, 31) is None
    assert tried(emulator, source).grid == "all 2,048 blocks of one grid at K = 32"
    product = "const int product = blockIdx.x * WARPS + threadIdx.x / 32"
    with pytest.raises(Wrong, match="matrix 1234"):
        tried(emulator, edited(product, f"{product} + (blockIdx.x == 308 && threadIdx.x / 32 == 2)", source))


def test_who_counts_on_k_may_be_right(emulator: EmulatorExecutor) -> None:
    tally = tried(emulator, edited("k < s.K", "k < 1024"))
    assert tally.grid is None
    assert tally.no_grid == "with K = 16 in its text it is wrong; the same tiles are right at its own K"


def test_a_kernel_may_number_its_tiles_itself(emulator: EmulatorExecutor) -> None:
    limits = parse_arch("sm_90").limits
    right = next(edit for edit in EDITS if edit.name == "tiles in the order in which blocks come, sampled")
    wrong = next(bug for bug in BUGS if bug.name == "a tile is taken twice, another never")
    passed, failed = (
        verify(emulator, one, examples=3, runs=1, shrink=False)
        for one in (selfcheck.edited(right, limits), selfcheck.plant(wrong, limits))
    )
    assert passed.failure is None and passed.domain is not None and not passed.domain.numbered
    assert failed.failure is not None and "some write the same, of this and other samples" in failed.failure.reason
    assert not failed.depends


def test_all_tiles_of_a_large_grid_may_come_from_few_blocks(emulator: EmulatorExecutor) -> None:
    """No tile is sampled at the kernel's own K, as nobody knows which block computes it."""
    right = next(edit for edit in EDITS if edit.name == "blocks that take tiles while there are any")
    large = replace(right, subject=Subject("naive, large", PROBLEM, family=NAIVE))
    source = selfcheck.edited(large, parse_arch("sm_90").limits)
    (situation,), tally, kernel = grid_situations(source), DomainTally(), emulator.load(source)
    tally.numbered = False
    with closing(kernel):
        check_grid(emulator, kernel, situation, tally)
    assert tally.grid == "all 1,024 blocks of one grid at K = 16" and tally.no_grid is None
