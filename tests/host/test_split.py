"""Blocks that share a tile: what a launch needs for it is data, and every reader of that data agrees."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gemmgen import api
from gemmgen.device import DEVICES
from gemmgen.errors import CandidateFailed, InvalidInput
from gemmgen.executor import Operands
from gemmgen.families import SKINNY
from gemmgen.families.skinny import roles
from gemmgen.gpu import arena
from gemmgen.kernelfile import read_kernel
from gemmgen.model import predict
from gemmgen.problem import Layout, Problem
from gemmgen.render import render
from gemmgen.source import KernelSource, Launch, Workspace
from gemmgen.space import explore

FLAT = Problem(8, 4096, 4096)
FREE = Problem(None, 5, None)
CARD = DEVICES["H200"]


def kernel(problem: Problem, **axes: int) -> KernelSource:
    return render(problem, SKINNY, SKINNY.default(problem).with_values(**axes))


def test_a_launch_says_what_workspace_a_case_takes() -> None:
    launch = Launch(64, (("M", 8), ("N", 32)), splits=3)
    case = Problem(None, None, None).case(9, 65, 7)
    assert (launch.tiles(case), launch.blocks(case)) == (6, 18)
    assert launch.workspace(case) == Workspace(partials=18 * 256, tickets=6)
    assert Launch(64, (("M", 8), ("N", 32))).workspace(case) == Workspace(0, 0)
    with pytest.raises(InvalidInput, match="0 blocks share a tile"):
        Launch(64, (), splits=0)


def test_only_kernels_that_split_have_a_workspace() -> None:
    whole, split = kernel(FLAT), kernel(FLAT, SPLIT=4)
    assert [p.name for p in whole.parameters] == ["A", "B", "C", "alpha", "beta"]
    assert [p.name for p in split.parameters] == ["A", "B", "C", "partials", "tickets", "alpha", "beta"]
    assert split.launch.splits == 4 and whole.launch.splits == 1
    for word in ("partials", "tickets", "SPLIT", "atomicInc", "__threadfence"):
        assert word in split.text and word not in whole.text
    assert "// Split   4 blocks share a tile" in split.text


def test_the_record_of_a_kernel_keeps_its_splits(tmp_path: Path) -> None:
    source = api.generate(FREE, family="skinny", SPLIT=2, out=tmp_path)
    path = tmp_path / f"{source.name}.cu"
    assert read_kernel(path).source == source
    path.with_suffix(".json").unlink()
    assert read_kernel(path).source == source  # from its name
    whole = api.generate(FREE, family="skinny", out=tmp_path)
    path = tmp_path / f"{whole.name}.json"
    record = json.loads(path.read_text())
    del record["launch"]["splits"]  # as records were before
    path.write_text(json.dumps(record))
    assert read_kernel(path.with_suffix(".cu")).source == whole


def operands(problem: Problem) -> Operands:
    return Operands(*(np.ones(matrix.elements, np.float32) for matrix in problem.case().matrices))


def test_the_gpu_guards_the_workspace() -> None:
    problem = Problem(5, 7, 9)
    layout = arena.place(problem.case(), 3, Workspace(partials=100, tickets=4))
    before = layout.image(operands(problem))
    assert (layout.words(before, "partials") == arena.GUARD_WORD).all()
    assert (layout.words(before, "tickets") == 0).all()
    after = before.copy()
    layout.words(after, "partials")[:] = 1
    layout.words(after, "C")[:] = 2
    layout.result(before, after)
    after[layout.offsets["partials"] // 4 + 100] = 1
    with pytest.raises(CandidateFailed, match="0 bytes after the end of partials"):
        layout.result(before, after)
    layout.words(after, "tickets")[2] = 3
    with pytest.raises(CandidateFailed, match=r"leaves tickets\[2\] = 3"):
        layout.result(before, after)


def test_without_a_workspace_nothing_lies_behind_c() -> None:
    layout = arena.place(Problem(5, 7, 9).case(), 3)
    image = layout.image(operands(Problem(5, 7, 9)))
    assert len(layout.words(image, "partials")) == len(layout.words(image, "tickets")) == 0


@pytest.mark.parametrize(
    ("shape", "small"),
    [((8, 4096, 64), "A"), ((4096, 8, 64), "B"), ((None, 8, 64), "B"), ((8, None, 64), "A"), ((None, 4096, 64), "A")],
)
def test_the_small_operand_is_the_one_that_is_known_to_be_small(shape: tuple[int | None, ...], small: str) -> None:
    names = [role.X for role in roles(Problem(*shape, layout=Layout("r", "c")))]  # type: ignore[arg-type]
    assert names == (["A", "B"] if small == "A" else ["B", "A"])


@pytest.mark.parametrize(
    ("shape", "suits"),
    [((8, 4096, 4096), True), ((4096, 64, 4096), True), ((65, 4096, 4096), False), ((None, 4096, 4096), False)],
)
def test_the_search_serves_small_sizes_that_are_known(shape: tuple[int | None, ...], suits: bool) -> None:
    space = explore(SKINNY, Problem(*shape), CARD.arch.limits)  # type: ignore[arg-type]
    assert bool(space.accepted) == suits


def test_splitting_fills_a_card_that_few_tiles_leave_idle() -> None:
    def predicted(problem: Problem, **axes: int) -> float:
        return predict(problem, SKINNY, SKINNY.default(problem).with_values(UNROLL=8, **axes), CARD).time_us

    narrow, wide = Problem(8, 1024, 16384), Problem(8, 65536, 16384)
    assert predicted(narrow, SPLIT=16) < predicted(narrow) / 2
    assert predicted(wide, SPLIT=16) == pytest.approx(predicted(wide), rel=0.05)
