"""Blocks that share a tile: what a launch needs for it is data, and every reader of that data agrees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gemmgen as api
from gemmgen.exports.kernelfile import read_kernel
from gemmgen.families import SKINNY
from gemmgen.families.skinny.operands import roles
from gemmgen.kernel.launch import Launch, Workspace
from gemmgen.kernel.model import predict
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DEVICES
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator.arena import ArenaLayout
from gemmgen.run.gpu import arena
from gemmgen.search.space import explore
from gemmgen.support.errors import CandidateFailed, InvalidInput

FLAT = Problem(8, 4096, 4096)
FREE = Problem(None, 5, None)
CARD = DEVICES["H200"]


def kernel(problem: Problem, **axes: int) -> KernelSource:
    return render(problem, SKINNY, SKINNY.default(problem).with_values(**axes))


def test_a_launch_says_what_workspace_a_case_takes() -> None:
    launch = Launch(64, (("M", 8), ("N", 32)), splits=3)
    case = Problem(None, None, None).case(9, 65, 7)
    assert (launch.tiles(case), launch.blocks(case)) == (6, 18)
    assert launch.workspace(case) == Workspace(partials=4 * 18 * 256, semaphores=6)
    assert Launch(64, (("M", 8), ("N", 32))).workspace(case) == Workspace(0, 0)
    with pytest.raises(InvalidInput, match="0 blocks share a tile"):
        Launch(64, (), splits=0)


def test_only_kernels_that_split_have_a_workspace() -> None:
    whole, split = kernel(FLAT), kernel(FLAT, SPLIT=4)
    assert [p.name for p in whole.parameters] == ["A", "B", "C", "alpha", "beta"]
    assert [p.name for p in split.parameters] == ["A", "B", "C", "partials", "semaphores", "alpha", "beta"]
    assert split.launch.splits == 4 and whole.launch.splits == 1
    for word in ("partials", "semaphores", "SPLIT", "atomicInc", "__threadfence"):
        assert word in split.text and word not in whole.text
    assert "// Split-K 4 blocks compute a tile, each over a part of K" in split.text


def test_the_record_of_a_kernel_keeps_its_splits(tmp_path: Path) -> None:
    source = api.generate(FREE, family="skinny", SPLIT=2, out=tmp_path)
    path = tmp_path / f"{source.name}.cu"
    assert read_kernel(path).source == source
    path.with_suffix(".json").unlink()
    assert read_kernel(path).source == source  # from its name
    whole = api.generate(FREE, family="skinny", out=tmp_path)
    path = tmp_path / f"{whole.name}.json"
    assert "splits" not in json.loads(path.read_text())["launch"]
    assert read_kernel(path.with_suffix(".cu")).source == whole


def test_a_record_of_when_kernels_could_add_with_atomics_still_reads(tmp_path: Path) -> None:
    source = api.generate(FREE, family="skinny", SPLIT=2, out=tmp_path)
    path = tmp_path / f"{source.name}.json"
    record = json.loads(path.read_text())
    record["deterministic"], record["launch"]["atomic"], record["config"]["ATOMIC"] = True, False, 0
    path.write_text(json.dumps(record))
    assert read_kernel(path.with_suffix(".cu")).source == source
    record["config"]["ATOMIC"] = 1
    path.write_text(json.dumps(record))
    with pytest.raises(InvalidInput, match=r"\.json: ATOMIC = 1: kernels have ATOMIC = 0 by now"):
        read_kernel(path.with_suffix(".cu"))


@pytest.mark.parametrize("seed", [0, 5])
def test_each_part_is_aligned_as_promised_and_no_more(seed: int) -> None:
    problem = Problem(5, 70, 9, pointer_align=16)
    launch = Launch(64, (("M", 8), ("N", 32)), splits=2)
    aligns = {"partials": 4, "semaphores": 4}
    assert launch.workspace(problem.case()).aligns == aligns
    layout = arena.place_workspace(launch, problem.case(), seed)
    assert layout is not None and layout.lengths == {"partials": 4 * 6 * 256, "semaphores": 4 * 3}
    assert {name: offset % (2 * aligns[name]) for name, offset in layout.offsets.items()} == aligns
    emulated = ArenaLayout.of(problem.case(), launch.workspace(problem.case()), 1, seed)
    assert (
        emulated.segments["partials"].skew % 16 == 4 + 8 * (seed == 0) and emulated.segments["semaphores"].skew % 8 == 4
    )
    assert arena.place_workspace(replace(launch, splits=1), problem.case(), seed) is None


def test_the_sums_of_a_clusters_blocks_need_no_workspace() -> None:
    case = Problem(5, 70, 9).case()
    launch = Launch(64, (("M", 8), ("N", 32)), splits=4, cluster=4)
    assert launch.adds_up and not launch.leaves_partials and launch.parts == ()
    assert launch.blocks(case) == 4 * launch.tiles(case) == 12
    assert launch.blocks_of(case, [1]).tolist() == [4, 5, 6, 7]
    assert launch.workspace(case).lengths == {"partials": 0, "semaphores": 0}
    with pytest.raises(InvalidInput, match="4 blocks share K in clusters of 2"):
        replace(launch, cluster=2)


def test_the_gpu_guards_the_workspace() -> None:
    launch = Launch(64, (("M", 5), ("N", 2)), splits=3)
    layout = arena.place_workspace(launch, Problem(5, 7, 9).case(), 3)
    assert layout is not None
    good = np.full(layout.size // arena.WORD, arena.CANARY, np.uint32)
    partials, semaphores = layout.words("partials"), layout.words("semaphores")
    good[partials], good[semaphores] = 1, 0
    layout.check(good)
    for word, words in (
        (partials.stop, "0 bytes after the end of partials"),
        (partials.start - 1, "4 bytes before partials"),
        (semaphores.start - 1, "4 bytes before semaphores"),
        (semaphores.stop + 1, "4 bytes after the end of semaphores"),
        (semaphores.start + 2, r"leaves semaphores\[2\] = 8"),
    ):
        after = good.copy()
        after[word] = 8
        with pytest.raises(CandidateFailed, match=words):
            layout.check(after)


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
    space = explore(SKINNY, Problem(*shape), CARD)  # type: ignore[arg-type]
    assert bool(space.accepted) == suits


def test_splitting_fills_a_card_that_few_tiles_leave_idle() -> None:
    def predicted(problem: Problem, **axes: int) -> float:
        return predict(SKINNY.plan(problem, SKINNY.default(problem).with_values(UNROLL=8, **axes)), CARD).time_us

    narrow, wide = Problem(8, 1024, 16384), Problem(8, 65536, 16384)
    assert predicted(narrow, SPLIT=16) < predicted(narrow) / 2
    assert predicted(wide, SPLIT=16) == pytest.approx(predicted(wide), rel=0.05)
