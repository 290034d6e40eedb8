"""Leading dimensions and strides beyond 32 bits: what has memory is what a launch touches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import pytest

from gemmgen.families import BATCHED_MMA, NAIVE, SIMT, WGMMA
from gemmgen.kernel.launch import Workspace
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import parse_name
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.emulator.arena import ArenaLayout
from gemmgen.support.errors import MEMORY, CandidateFailed, Failure
from gemmgen.verification.checks import Wrong, check_apart
from gemmgen.verification.data import make_operands
from gemmgen.verification.domain import DomainTally, reach
from gemmgen.verification.far_offsets import COUNTS, apart_situations, check_tail, tails
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import verify

PROBLEM = Problem(None, None, None, batch=None, layout="rc", epilogue="bias+residual")
SOURCE = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
LINES, MATRICES = apart_situations(SOURCE)


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor() as executor:
        yield executor


def edited(old: str, new: str) -> KernelSource:
    assert SOURCE.text.count(old) == 1
    return replace(SOURCE, text=SOURCE.text.replace(old, new))


def test_lines_and_matrices_lie_beyond_32_bits() -> None:
    for _, apart in (LINES, MATRICES):
        assert min(reach(apart).values()) > 2**32
    assert LINES[1].lda > 2**30 and MATRICES[1].lda < 100 and MATRICES[1].stride_c > 2**32


def test_c_and_a_wider_pre_activation_share_a_distance() -> None:
    problem = replace(PROBLEM, types=Types.parse("s8"), epilogue=parse_epilogue("aux+relu"))
    source = render(problem, NAIVE, NAIVE.default(problem))
    for situation, apart in apart_situations(source):
        layout = ArenaLayout.of(situation.case, Workspace(0, 0), 1, 0, apart)
        assert {placed.name for placed in layout.placements if len(placed.pack()) == 144} >= {"C", "aux"}


def test_tma_takes_the_matrices_of_a_batch_whose_lines_lie_apart() -> None:
    """Each is as large as the distance to the next, which ends below 2^40 bytes."""
    problem = Problem(None, 264, None, types="bf16", batch=None, ld_align=8)
    config = WGMMA.default(problem).with_values(BN=64, CLUSTER=2)  # two tiles below each other
    source = render(problem, WGMMA, config)
    (situation, apart), *_ = apart_situations(source)
    assert apart.lda > 2**30 > situation.case.stride_a
    for one in source.launch.maps:
        one.of(apart)  # raises where TMA does not take it


def test_nothing_is_apart_where_sizes_are_fixed() -> None:
    fixed = Problem(64, 64, 64)
    assert apart_situations(render(fixed, NAIVE, NAIVE.default(fixed))) == []


@pytest.mark.parametrize(("situation", "apart"), [LINES, MATRICES], ids=["lines", "matrices"])
def test_a_right_kernel_reaches_all_of_it(situation: Situation, apart, emulator: EmulatorExecutor) -> None:
    kernel, tally = emulator.load(SOURCE), DomainTally()
    assert check_apart(kernel, situation, apart, tally) == 0
    tally.ran(situation, 1, 0, whole=True)
    domain = tally.domain()
    assert domain is not None
    assert domain.extent == reach(apart)
    kernel.close()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("C + Offset(m) * s.ldc", "C + unsigned(m) * unsigned(s.ldc)", "reads the padding of C at row 0, column 2147"),
        ("B[Offset(n) * s.ldb", "B[n * s.ldb", "block 0, thread 2 reads 1048568 bytes before the start of B"),
        ("A += matrix * s.stride_a;", "A += int(matrix * s.stride_a);", "reads the padding of A at row"),
    ],
)
def test_an_offset_of_32_bits_is_found(old: str, new: str, words: str, emulator: EmulatorExecutor) -> None:
    kernel = emulator.load(edited(old, new))
    right, wrong = (MATRICES, LINES) if "stride" not in old else (LINES, MATRICES)
    check_apart(kernel, *right, DomainTally())
    with pytest.raises(CandidateFailed) as caught:
        check_apart(kernel, *wrong, DomainTally())
    kernel.close()
    assert words in caught.value.failure.reason


def test_what_no_machine_has_room_for_is_not_judged(emulator: EmulatorExecutor) -> None:
    situation, apart = MATRICES
    kernel = emulator.load(SOURCE)
    with pytest.raises(CandidateFailed, match=r"has no room for the .* bytes that C spans") as caught:
        check_apart(kernel, situation, replace(apart, stride_c=2**44 + PROBLEM.ld_align), DomainTally())
    assert caught.value.failure.kind == "unjudged"
    wanted = make_operands(situation).c.shape
    assert kernel.run(situation.case, make_operands(situation)).shape == wanted, "the next launch runs"
    kernel.close()


def test_a_verdict_names_the_distances(emulator: EmulatorExecutor) -> None:
    verdict = verify(emulator, edited("B[Offset(n) * s.ldb", "B[n * s.ldb"), examples=20, runs=1)
    assert verdict.failure is not None
    assert "bytes before the start of B" in verdict.failure.reason
    assert f"for the kernel lda = {LINES[1].lda}, ldb = " in verdict.failure.reason


MANY = Problem(16, 12, 8, batch=None)
ROWS = Problem(None, 64, 32, epilogue="scale_m+residual")


@pytest.mark.parametrize("problem", [MANY, ROWS, replace(MANY, types=Types.parse("s8"))], ids=str)
def test_the_end_of_a_launch_of_fixed_distances_lies_beyond_32_bits(
    problem: Problem, emulator: EmulatorExecutor
) -> None:
    source = render(problem, NAIVE, NAIVE.default(problem))
    tail, *_ = tails(source.contract)
    kernel, tally = emulator.load(source), DomainTally()
    assert check_tail(kernel, tail, tally) == 0 and tally.no_extent is None
    kernel.close()
    longer = [name for name, one in tail.far.tensors.items() if one.elements > tail.near.tensors[name].elements]
    assert len(longer) >= 2 and min(reach(tail.far)[name] for name in longer if name in "AC") > 2**32


@pytest.mark.parametrize(
    "name",
    [
        "gemm_f32_rr_bB_2x2x5_ldb_ldc6_sa_sb0_sc_la4_simt_"
        "outer1_64x32x8_8x8_w64x32_v1_ta1_tb0_pad4_s2_async1_unroll4_slices2_minb1_g6_split32",
        "gemm_bf16bf16f32_rc_bB_Mx67xK_ldb_pa4_la2_mma_16x32x64_w16x16_s2_async1_swizzle0_g3_split5",
    ],
)
def test_the_end_of_a_split_launch_has_as_many_blocks_as_kernels_count(name: str, emulator: EmulatorExecutor) -> None:
    """And its partial sums take no more memory than has addresses."""
    source = render(*parse_name(name))
    kernel, found = emulator.load(source), list(tails(source.contract, dense=True))
    assert any(tail.size == "batch" for tail in found)
    for tail in found:
        assert source.launch.blocks(tail.far) <= 2**30 and source.launch.workspace(tail.far).partials <= 2**43
        assert check_tail(kernel, tail, DomainTally()) == 0
    kernel.close()


def test_tiles_at_the_end_are_more_than_a_float_counts(emulator: EmulatorExecutor) -> None:
    problem = Problem(None, 16, 64)
    source = render(problem, NAIVE, NAIVE.default(problem).with_values(BM=64, BN=8))
    (tail,) = tails(source.contract, dense=True)
    assert source.launch.tiles(tail.far) > 2**24
    tile = "const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;"
    assert source.text.count(tile) == 1
    counted = f"const float block = blockIdx.x;\n    {tile.replace('blockIdx.x', 'int(block)')}"
    for text, wrong in ((source.text, False), (source.text.replace(tile, counted), True)):
        kernel = emulator.load(replace(source, text=text))
        with pytest.raises(Wrong) if wrong else nullcontext():
            check_tail(kernel, tail, DomainTally())
        kernel.close()


@pytest.mark.parametrize("count", COUNTS)
def test_products_run_where_numbers_of_fewer_bits_end(count: int, emulator: EmulatorExecutor) -> None:
    problem = Problem(32, 32, 32, batch=None, types=Types.parse("bf16"))
    source = render(problem, BATCHED_MMA, BATCHED_MMA.default(problem))
    tail = next(one for one in tails(source.contract) if one.far.batch == count + 1)
    kernel = emulator.load(source)
    assert check_tail(kernel, tail, DomainTally()) == 0
    kernel.close()
    for product in (count - 1, count):
        skipped = source.text.replace("product >= s.batch", f"product == {product} || product >= s.batch")
        kernel = emulator.load(replace(source, text=skipped))
        with pytest.raises(Wrong):
            check_tail(kernel, tail, DomainTally())
        kernel.close()


def test_products_around_a_count_begin_where_operands_are_aligned() -> None:
    for problem in (MANY, Problem(3, 3, 3, batch=None, types=Types.parse("s8"))):
        contract = NAIVE.plan(problem, NAIVE.default(problem)).contract
        ends = [tail for tail in tails(contract) if tail.far.batch - 1 in COUNTS]
        assert len(ends) == len(COUNTS)
        for tail in ends:
            last = tail.situation.case
            assert 2 <= last.batch <= 129
            assert all((tail.far.tensors[name].bytes - one.bytes) % 128 == 0 for name, one in last.tensors.items())


def test_an_end_that_other_blocks_compute_is_not_judged(emulator: EmulatorExecutor) -> None:
    source = render(MANY, NAIVE, NAIVE.default(MANY))
    tail, *_ = tails(source.contract)
    matrix = "const int matrix = blockIdx.x"
    assert source.text.count(matrix) == 1
    turned = source.text.replace(matrix, "const int matrix = s.batch - 1 - blockIdx.x")
    kernel, tally = emulator.load(replace(source, text=turned)), DomainTally()
    assert check_tail(kernel, tail, tally) == 0
    assert tally.no_extent == "the last blocks of a grid do not compute the end of C along batch"
    kernel.close()


@pytest.mark.parametrize("batch", [None, 3])
def test_matrices_behind_pointers_have_lines_beyond_32_bits(batch: int | None, emulator: EmulatorExecutor) -> None:
    problem = Problem(None, None, None, batch=batch, pointers=True, lda=None, ldb=None, ldc=None)
    ((situation, apart),) = apart_situations(render(problem, NAIVE, NAIVE.default(problem)))
    kernel, tally = emulator.load(render(problem, NAIVE, NAIVE.default(problem))), DomainTally()
    assert check_apart(kernel, situation, apart, tally) == 0 and min(reach(apart).values()) > 2**32
    kernel.close()


def test_lines_that_end_on_another_page_than_they_begin_have_both(emulator: EmulatorExecutor) -> None:
    """Of f64 behind pointers a line begins anywhere on a page."""
    problem = Problem(67, None, None, "f64", "cc", ldb=None, ldc=None, batch=17, pointers=True, ld_align=4)
    source = render(problem, SIMT, SIMT.default(problem))
    ((situation, apart),) = apart_situations(source)
    kernel = emulator.load(source)
    assert check_apart(kernel, situation, apart, DomainTally()) == 0
    kernel.close()


@pytest.mark.parametrize("copied", [True, False])
def test_the_end_of_a_launch_has_the_end_of_copies_and_sums(copied: bool, emulator: EmulatorExecutor) -> None:
    layout = "rr" if copied else "rc"
    problem = Problem(40, 24, 48, batch=None, types="u8,s8,bf16", layout=layout, epilogue="zero_m+zero_n")
    source = render(problem, WGMMA, WGMMA.default(problem))
    assert len(source.launch.sums) == 2 and bool(source.launch.copies) == copied
    kernel, tally = emulator.load(source), DomainTally()
    for tail in tails(source.contract):
        assert check_tail(kernel, tail, tally) <= 1 and tally.no_extent is None
    kernel.close()


def test_the_end_of_rows_in_pieces_is_not_judged(emulator: EmulatorExecutor) -> None:
    """A piece is a matrix, and each of them has an end."""
    problem = Problem(None, 32, 64, types="f32_bf16x6", ld_align=4)
    source = render(problem, WGMMA, WGMMA.default(problem))
    (tail,) = tails(source.contract, dense=True)
    kernel, tally = emulator.load(source), DomainTally()
    assert check_tail(kernel, tail, tally) == 0
    assert tally.no_extent == "the last blocks that copy several matrices do not copy their ends along M"
    kernel.close()


@pytest.mark.parametrize("source", [MEMORY, "emulator"])
def test_missing_room_alone_is_excused(
    source: str, emulator: EmulatorExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> float:
        raise CandidateFailed(Failure("unjudged", "it cannot", source))

    monkeypatch.setattr("gemmgen.verification.verifier.check_apart", refuse)
    verdict = verify(emulator, SOURCE, examples=20, runs=1)
    assert verdict.passed == (source == MEMORY)
    if verdict.failure is None:
        assert verdict.domain is not None and verdict.domain.no_extent == "it cannot"
    else:
        assert verdict.failure.kind == "unjudged"
