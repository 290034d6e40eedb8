"""Launches that prepare operands, as data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemmgen.exports.interface import Interface
from gemmgen.exports.json_records import kernel_document
from gemmgen.exports.kernelfile import source_from_record
from gemmgen.families import NAIVE, WGMMA
from gemmgen.families.base import first_rejection
from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.prepare import LineSums, Prepare
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import TensorMap
from gemmgen.problem.device import ARCHS
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.arguments import arguments_of
from gemmgen.run.emulator.launches import long_preparation
from gemmgen.run.gpu import arena
from gemmgen.support.errors import CandidateFailed, InvalidInput

BATCH = Problem(None, None, None, layout="cr", types="bf16", batch=None)
A_BY_ROWS, B_BY_ROWS = Prepare("A", "r"), Prepare("B", "r")


def test_a_copy_has_lines_of_whole_chunks() -> None:
    case = BATCH.case(5, 9, 11, lda=7, ldb=10, batch=3)
    a, b = A_BY_ROWS.matrix(case), B_BY_ROWS.matrix(case)
    assert (a.order, a.ld, a.stride, a.rows, a.cols) == ("r", 16, 80, 5, 11)
    assert (b.order, b.ld, b.stride) == ("r", 16, 176)
    assert (A_BY_ROWS.transposes(BATCH), B_BY_ROWS.transposes(BATCH)) == (True, False)
    assert A_BY_ROWS.bytes(case) == 3 * 80 * 2
    shared = BATCH.case(5, 9, 11, batch=3, stride_b=0)
    assert B_BY_ROWS.matrix(shared).stride == 176  # a copy for each product


def test_tiles_cover_the_copy() -> None:
    case = BATCH.case(100, 9, 600, batch=3)
    tiles = [Launch(256, one.grid(BATCH)).tiles(case) for one in (A_BY_ROWS, B_BY_ROWS)]
    assert tiles == [3 * 2 * 10, 3 * 75 * 1]
    nothing = BATCH.case(100, 9, 0, batch=3)
    assert [Launch(256, one.grid(BATCH)).tiles(nothing) for one in (A_BY_ROWS, B_BY_ROWS)] == [0, 0]


def test_the_kernel_takes_the_copy_in_the_operand_s_place() -> None:
    launch = Launch(64, (("M", 8), ("N", 8), ("batch", 1)), prepares=(A_BY_ROWS, B_BY_ROWS))
    assert [one.name for one in Contract.of(BATCH, launch).parameters][:3] == ["prepared_a", "prepared_b", "C"]
    mapped = replace(launch, maps=(TensorMap("A", (8, 8, 1)),))
    contract = Contract.of(BATCH, mapped)
    assert [one.name for one in contract.parameters][:3] == ["map_a", "prepared_b", "C"]
    case = BATCH.case(5, 9, 11, lda=7, batch=3)
    told = []
    pointers = {"prepared_a": 16, "prepared_b": 32, "C": 48}
    arguments_of(contract, case, pointers, lambda *one: told.append(one) or bytes(128))
    ((tensor, address),) = told
    assert (tensor.sizes, tensor.strides, address) == ((11, 5, 3), (32, 160), 16)


def test_a_program_is_its_launches_in_their_order(program: Callable[..., KernelSource]) -> None:
    """And is so when it has been written and read."""
    source = program("rr", "bf16")
    record = json.loads(json.dumps(kernel_document(source)))
    assert source_from_record(record, Path("k.json")).program == tuple(replace(one, text="") for one in source.program)
    first, second, last = source.program
    assert [one.name for one in source.program] == ["k_prepare_a_kernel", "k_prepare_b_kernel", "k"] and last is source
    assert [one.name for one in first.parameters] == ["A", "prepared_a", "M", "K", "lda"]
    assert [one.name for one in second.parameters] == ["B", "prepared_b", "N", "K", "ldb"]
    plain = render(Problem(4, 4, 4), NAIVE, NAIVE.default(Problem(4, 4, 4)))
    assert plain.program == (plain,)


def test_a_name_that_a_user_gives_names_all_functions(program: Callable[..., KernelSource]) -> None:
    renamed = program("rr", "bf16").renamed("mine")
    assert all(f"\n{one.name}(" in renamed.text for one in renamed.program)


def test_the_workspace_holds_the_copies(program: Callable[..., KernelSource]) -> None:
    source = program("rr", "bf16")
    case = source.problem.case(5, 9, 11)
    lengths = {"partials": 0, "semaphores": 0, "prepared_a": 2 * 5 * 16, "prepared_b": 2 * 9 * 16}
    assert source.launch.workspace(case).lengths == lengths
    assert source.launch.parts == ("prepared_a", "prepared_b")
    layout = arena.place_workspace(source.launch, case, 3)
    assert layout is not None
    free = [layout.words(name) for name in source.launch.parts]
    words = np.full(layout.size // arena.WORD, arena.CANARY, np.uint32)
    for part in free:
        words[part] = 1
    layout.check(words)
    words[free[0].stop] = 1
    with pytest.raises(CandidateFailed, match=r"1 words .* 0 bytes after the end of prepared_a"):
        layout.check(words)
    assert all(layout.offsets[name] % 32 == 16 for name in source.launch.parts)


@pytest.mark.parametrize(
    ("operand", "order", "align", "words"),
    [
        ("C", "r", 16, "no launch prepares C"),
        ("A", "x", 16, "unknown order 'x'"),
        ("A", "r", 64, "lines of a copy 64 bytes apart: known are 16, 128"),
    ],
)
def test_what_nothing_prepares(operand: str, order: str, align: int, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Prepare(operand, order, align)  # type: ignore[arg-type]


def test_lines_of_a_copy_begin_with_those_of_l2_where_an_axis_says_so() -> None:
    problem = Problem(130, 1025, 1027, types="bf16", layout="rc")
    default = WGMMA.default(problem)
    launches = [WGMMA.plan(problem, default.with_values(COPY_ALIGN=align)).launch for align in (16, 128)]
    distances = [[one.matrix(problem.case()).ld for one in launch.prepares] for launch in launches]
    assert distances == [[1032, 1032], [1088, 1088]] and default.values["COPY_ALIGN"] == 128


@pytest.mark.parametrize(
    ("problem", "cut"),
    [
        (Problem(130, 1025, 1027, types="bf16", layout="rc"), 1),
        (Problem(130, 1025, None, types="bf16", layout="rc"), 1),
        (Problem(130, 1024, 1024, types="bf16", layout="rc"), 0),  # copied by nobody
        (Problem(130, 1024, 1023, types="bf16", layout="rc"), 0),  # 2046 bytes, and two of zeros
        (Problem(128, 128, 128, types="s8,s8,s32", layout="rr"), 0),
        (Problem(128, 128, 112, types="s8,s8,s32", layout="rr"), 1),
    ],
)
def test_lines_of_copies_that_are_whole_lines_of_l2_have_one_way_to_lie(problem: Problem, cut: int) -> None:
    default = WGMMA.default(problem)
    aligned = default.with_values(COPY_ALIGN=128)
    assert WGMMA.facts(problem)["CUT_LINES"] == cut
    assert (first_rejection(WGMMA, problem, aligned, ARCHS["sm_90"].limits) is None) == bool(cut)


def test_two_launches_do_not_copy_one_operand() -> None:
    with pytest.raises(InvalidInput, match="two launches write one part of the workspace: prepared_a, prepared_a"):
        Launch(64, (("M", 8),), prepares=(A_BY_ROWS, Prepare("A", "c")))


@pytest.mark.parametrize(
    ("layout", "ld_align", "epilogue", "steps"),
    [
        ("rc", 16, "zero_a", (LineSums("B", copied=False),)),
        ("rc", 16, "zero_m+zero_n", (LineSums("A", copied=False), LineSums("B", copied=False))),
        ("rr", 16, "zero_n", (Prepare("B", "c", 128), LineSums("A", copied=False))),
        ("rr", 16, "zero_a", (Prepare("B", "c", 128), LineSums("B", copied=True))),
        ("rc", 1, "zero_b", (Prepare("A", "r", 128), Prepare("B", "c", 128), LineSums("A", copied=True))),
        ("rc", 16, "alpha * (acc - zero_a * sum_n)", ()),
    ],
)
def test_wgmma_has_those_lines_summed_that_zero_points_take(
    layout: str, ld_align: int, epilogue: str, steps: tuple[Prepare | LineSums, ...]
) -> None:
    """From the copy where there is one, with lines along K; sums that are given take no launch."""
    problem = Problem(None, None, None, layout=layout, types="u8,s8,s8", ld_align=ld_align, epilogue=epilogue)
    source = render(problem, WGMMA, WGMMA.default(problem))
    assert source.launch.prepares == steps
    record = json.loads(json.dumps(kernel_document(source)))
    assert source_from_record(record, Path("k.json")).program == tuple(replace(one, text="") for one in source.program)
    renamed = source.renamed("mine")
    assert all(f"\n{one.name}(" in renamed.text for one in renamed.program)
    sums = [one.part for one in steps if isinstance(one, LineSums)]
    case = problem.case(5, 72, 9, lda=32, ldb=80)
    lengths = source.launch.workspace(case).lengths
    assert [lengths[part] for part in sums] == [{"sums_a": 4 * 5, "sums_b": 4 * 72}[part] for part in sums]
    assert [one.name for one in source.parameters if one.name.startswith("sums_")] == sums
    said = " and ".join(Interface(source, "sm_90").made_of.values())
    lines = {"sums_a": "sums A's rows", "sums_b": "sums B's columns"}
    assert [words in said for words in lines.values()] == [part in sums for part in lines]


def test_sums_of_floats_are_no_zero_points_of_wgmma() -> None:
    problem = Problem(64, 64, 64, layout="rc", types="bf16", epilogue="zero_m")
    rejected = first_rejection(WGMMA, problem, WGMMA.default(problem), ARCHS["sm_90"].limits)
    assert rejected is not None and "zero points are of s8 and u8" in str(rejected)


def test_what_is_summed_is_the_copy_where_there_is_one() -> None:
    with pytest.raises(InvalidInput, match="prepared_a is summed, and A is not copied"):
        Launch(64, (("M", 8),), prepares=(LineSums("A", copied=True),))


def test_matrices_behind_pointers_are_not_prepared() -> None:
    with pytest.raises(InvalidInput, match="whose matrices lie where pointers say"):
        A_BY_ROWS.of(Problem(4, 4, 4, batch=2, pointers=True))


def test_a_copy_of_many_lines_may_take_long() -> None:
    """Of so many lines of one element it took 20 s while it was watched, and 31 s on a busy machine: its limit then."""
    problem = Problem(None, None, 1, types="s8,s8,s32")
    source = render(problem, WGMMA, WGMMA.default(problem))
    assert long_preparation(source.contract, problem.case(2112000, 1)) > 60
    assert long_preparation(source.contract, problem.case(64, 64)) < 0.5
