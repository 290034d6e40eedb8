"""What a verdict says of a kernel that is wrong. That the verifier finds what it must: test_selfcheck.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmgen.families import BATCHED, NAIVE, SIMT
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.verification.situation import FAR_SIZES, far_situations, vast_situations
from gemmgen.verification.verifier import EXHAUSTIVE, THOROUGH, verify

PROBLEM = Problem(None, None, None)


# A big tile leaves small sizes with one tile; the map from blocks to tiles shows on a grid of many.
MAP_BUGS = (
    ("the first group for all", "const int first = group * GROUP;", "const int first = 0;"),
    ("the last column of tiles twice", "within / height * BN}", "min(within / height, max(columns - 2, 0)) * BN}"),
)


@pytest.fixture(scope="module")
def emulator():
    with EmulatorExecutor() as executor:
        yield executor


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2))])
@pytest.mark.parametrize(
    ("condition", "smallest"),
    [
        ("s.K > 20", {"m": 1, "n": 1, "k": 21}),
        ("s.M > 20", {"m": 21, "n": 1, "k": 1}),
        (
            "s.M > 20 && s.K > 7 && s.lda > s.K && alpha != 1.0f",
            {"m": 21, "n": 1, "k": 8, "lda": 9, "alpha": 2.0},
        ),
    ],
)
def test_a_counterexample_is_the_smallest_and_shown(condition, smallest, seed, emulator):
    problem = replace(PROBLEM, lda=None, ldb=None, ldc=None)
    source = render(problem, NAIVE, NAIVE.default(problem))
    wrong = replace(source, text=source.text.replace("k < s.K", f"k < s.K - ({condition})"))
    assert wrong.text != source.text
    verdict = verify(emulator, wrong, examples=100, seed=seed)
    assert verdict.situation is not None and verdict.mismatch is not None
    assert verdict.situation.case == problem.case(**smallest)
    assert verdict.situation.data == "exact" and "C[0][0]" in str(verdict.mismatch)


def test_a_kernel_that_does_not_compile_is_a_verdict(emulator):
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    verdict = verify(emulator, replace(source, text=source.text.replace("float acc", "flaot acc")), examples=1)
    assert verdict.failure is not None and verdict.failure.kind == "compile"
    assert 'identifier "flaot" is undefined' in verdict.failure.reason


def test_what_the_emulator_lacks_is_not_judged_and_named_with_its_line(emulator):
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    lines = source.text.splitlines()
    at = next(number for number, line in enumerate(lines) if "float acc" in line)
    lines.insert(at + 1, "    if (__fns(7u, 0u, 1) == 0) return;")
    verdict = verify(emulator, replace(source, text="\n".join(lines) + "\n"), examples=1)
    assert verdict.failure is not None and verdict.failure.kind == "unjudged"
    assert "`fns.b32`: it is not emulated" in verdict.failure.reason
    assert f".cu:{at + 2})" in verdict.failure.reason


def test_the_same_seed_gives_the_same_verdict(emulator):
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    assert verify(emulator, source, examples=16, seed=3) == verify(emulator, source, examples=16, seed=3)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [MAP_BUGS[0], pytest.param(*MAP_BUGS[1], marks=pytest.mark.soak)],
    ids=[bug[0] for bug in MAP_BUGS],
)
def test_a_wrong_tile_map_is_found_with_big_tiles(name, old, new, emulator):
    config = SIMT.default(PROBLEM).with_values(BM=256, BN=256, TM=16, TN=8, WM=64, WN=64)
    source = render(PROBLEM, SIMT, config)
    assert source.text.count(old) == 1
    wrong = replace(source, text=source.text.replace(old, new))
    assert not verify(emulator, wrong, examples=100, shrink=False).passed


def test_samples_of_a_big_grid_together_show_a_tile_that_nobody_writes(emulator):
    problem = Problem(2048, 2048, 64)  # 512 blocks of 64 x 128, of which a sample runs four
    source = render(problem, SIMT, SIMT.default(problem).with_values(BM=64, WM=64))
    old, new = "within / height * BN}", "min(within / height, columns - 2) * BN}"
    assert source.text.count(old) == 1
    verdict = verify(emulator, replace(source, text=source.text.replace(old, new)), examples=60, shrink=False)
    assert verdict.sampled and verdict.failure is not None
    assert "tiles of C" in verdict.failure.reason


def test_shrinking_ends_in_time_with_what_it_has(emulator):
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    wrong = replace(source, text=source.text.replace("k < s.K", "k < s.K - (s.K > 20)"))
    verdict = verify(emulator, wrong, examples=200, shrink_seconds=0)
    assert verdict.situation is not None and verdict.mismatch is not None
    assert verdict.examples == verdict.found_after


def test_a_kernel_that_hangs_hangs_once():
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    loop = "for (int k = 0; k < s.K; ++k)"
    assert source.text.count(loop) == 1
    stops = f"volatile int step = s.M <= 20;  // without it a compiler may take it that loops end\n    {loop}"
    wrong = replace(source, text=source.text.replace(loop, stops.replace("++k", "k += step")))
    with EmulatorExecutor(timeout=0.3) as impatient:
        verdict = verify(impatient, wrong, examples=200)
    assert verdict.failure is not None and verdict.failure.kind == "timeout"
    assert verdict.examples == verdict.found_after


def test_a_verdict_says_what_was_run_and_watched(emulator):
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    verdict = verify(emulator, source, examples=30)
    domain = verdict.domain
    assert domain is not None and domain.whole > domain.sampled
    assert domain.whole + domain.sampled == verdict.examples
    assert verdict.sampled == domain.sampled > 0, "some of those that could run whole"
    assert 0 < domain.watched <= verdict.examples - domain.watched_part
    assert verdict.deterministic


def test_a_verdict_of_samples_says_so(emulator):
    problem = Problem(1024, 1024, 512)
    config = SIMT.default(problem).with_values(BM=32, BN=64, TM=4, TN=4, WM=16, WN=32)
    verdict = verify(emulator, render(problem, SIMT, config), examples=3)
    domain, determinism = verdict.domain, verdict.determinism
    assert domain is not None and (domain.whole, domain.sampled, domain.largest_whole) == (0, 3, None)
    assert verdict.sampled == 3
    assert determinism is not None and determinism.difference is None
    assert 2 <= determinism.blocks < determinism.grid == 512


def test_bits_that_depend_on_the_schedule_are_found(emulator):
    """A sum in an order of its own each time stays within the bound: only repetition shows it."""
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    turn = "static unsigned turn = 0;\n    const unsigned first = atomicAdd(&turn, 1u);\n"
    loop = "for (int k = 0; k < s.K; ++k) {\n"
    assert source.text.count(loop) == 1
    first_come = f"{turn}    for (int i = 0; i < s.K; ++i) {{\n        const int k = (i + first) % s.K;\n"
    text = source.text.replace(loop, first_come)
    verdict = verify(emulator, replace(source, text=text), examples=20)
    assert verdict.failure is not None and verdict.failure.kind == "nondeterministic"
    assert "of the same launch" in verdict.failure.reason and verdict.examples == 20


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("const int n =", "const unsigned short n ="),
        pytest.param("const int m =", "const short m =", marks=pytest.mark.soak),
    ],
)
def test_indices_of_16_bits_are_found(old, new, emulator):
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    assert old in source.text
    wrong = replace(source, text=source.text.replace(old, new))
    verdict = verify(emulator, wrong, examples=THOROUGH, shrink=False)
    assert verdict.situation in far_situations(source, FAR_SIZES[-1]) and verdict.examples <= THOROUGH


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("k < s.K", "k < short(s.K)"),
        pytest.param("const int tile_m =", "const short tile_m =", marks=pytest.mark.soak),
    ],
)
def test_depths_and_tiles_of_16_bits_are_found(old, new, emulator):
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    assert old in source.text
    wrong = replace(source, text=source.text.replace(old, new))
    verdict = verify(emulator, wrong, examples=EXHAUSTIVE, shrink=False)
    assert verdict.situation in vast_situations(source, FAR_SIZES[-1])


@pytest.mark.soak
def test_indices_of_32_bits_are_right(emulator):
    assert verify(emulator, render(PROBLEM, NAIVE, NAIVE.default(PROBLEM)), examples=EXHAUSTIVE).passed


def test_a_batch_that_a_block_is_one_product_short_of_is_found(emulator):
    problem = Problem(8, 12, 16, batch=None, pointers=True)
    source = render(problem, BATCHED, BATCHED.default(problem).with_values(MB=4, BATCH_TILES=5))
    assert dict(source.launch.grid)["batch"] == 20
    wrong = source.promising(launch=replace(source.launch, grid=(("batch", 21),)))
    verdict = verify(emulator, wrong, examples=THOROUGH)
    assert verdict.situation is not None and verdict.situation.case.batch == 21
    assert verify(emulator, source, examples=THOROUGH).passed


@pytest.mark.parametrize("columns", [pytest.param("(s.N + BN + 1) / BN", marks=pytest.mark.soak), "(s.N + BN) / BN"])
def test_a_tile_too_many_shows_beyond_a_group(columns, emulator):
    config = SIMT.default(PROBLEM).with_values(BM=32, BN=64, BK=8, TM=4, TN=4, WM=16, WN=32, STAGES=1)
    source = render(PROBLEM, SIMT, config)
    wrong = replace(source, text=source.text.replace("columns = (s.N + BN - 1) / BN", f"columns = {columns}"))
    assert wrong.text != source.text and not verify(emulator, wrong, examples=THOROUGH, shrink=False).passed


def test_a_failure_that_hangs_on_earlier_launches_says_so(emulator):
    """Shrinking counts nowhere: what was run is what came up to the first failure."""
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    start = "    float acc = 0.0f;"
    assert source.text.count(start) == 1
    often = "    static unsigned calls = 0;\n    float acc = atomicAdd(&calls, 1u) > 4000 ? 1.0f : 0.0f;"
    kept, own = (replace(source, text=source.text.replace(start, text)) for text in (often, "    float acc = s.K > 9;"))
    for wrong, depends in ((kept, True), (own, False)):
        verdict = verify(emulator, wrong, examples=30, shrink_seconds=5)
        assert verdict.failure is not None and verdict.depends == depends
        assert verdict.examples == verdict.found_after
