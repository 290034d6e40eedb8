"""Blocks that share a tile: what a launch needs for it is data, and every reader of that data agrees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemmgen import api
from gemmgen.artifacts.kernelfile import read_kernel
from gemmgen.kernel.families import SIMT, SKINNY, Family
from gemmgen.kernel.families.base import SAME_BITS, first_rejection
from gemmgen.kernel.families.skinny import roles
from gemmgen.kernel.model import predict
from gemmgen.kernel.render import render
from gemmgen.kernel.source import KernelSource, Launch, Workspace
from gemmgen.problem.device import DEVICES
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
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
    assert launch.workspace(case) == Workspace(partials=18 * 256, tickets=6)
    assert Launch(64, (("M", 8), ("N", 32))).workspace(case) == Workspace(0, 0)
    with pytest.raises(InvalidInput, match="0 blocks share a tile"):
        Launch(64, (), splits=0)


def test_blocks_that_add_share_one_tile_of_sums() -> None:
    launch = Launch(64, (("M", 8), ("N", 32)), splits=3, atomic=True)
    case = Problem(None, None, None, dtype=DType.F64).case(9, 65, 7)
    assert (launch.tiles(case), launch.blocks(case)) == (6, 18)
    workspace = launch.workspace(case)
    assert workspace == Workspace(partials=6 * 256 * 2, tickets=6, zeroed=True)
    assert workspace.zero == ("partials", "tickets") and replace(launch, atomic=False).workspace(case).zero == (
        "tickets",
    )
    with pytest.raises(InvalidInput, match="share no tile"):
        Launch(64, (), atomic=True)


def test_a_kernel_that_adds_with_atomics_says_so() -> None:
    ordered, atomic = kernel(FLAT, SPLIT=4), kernel(FLAT, SPLIT=4, ATOMIC=1)
    assert atomic.name == f"{ordered.name}_atomic1" and "atomic" not in ordered.name
    assert ordered.deterministic and not atomic.deterministic
    assert atomic.launch == replace(ordered.launch, atomic=True) and atomic.parameters == ordered.parameters
    assert "add_atomically" in atomic.text and "add_atomically" not in ordered.text
    header = atomic.text.partition("namespace {")[0]
    assert "may differ from run to run" in header and "may differ" not in ordered.text
    assert "partials: ceil(M / 8) * ceil(N / 128) * 1024 floats, zero before the first launch" in header
    assert "denormal numbers count as zero" in atomic.text
    doubles = Problem(512, 512, 512, dtype=DType.F64)
    text = render(doubles, SIMT, SIMT.default(doubles).with_values(SPLIT=4, ATOMIC=1)).text
    assert "red.global.add.f64" in text and "denormal" not in text, "only f32 atomics flush"


@pytest.mark.parametrize("family", [SIMT, SKINNY], ids=lambda family: family.name)
def test_atomics_need_blocks_that_share_a_tile(family: Family) -> None:
    config = family.default(FLAT)
    for changes, words in (({"ATOMIC": 1}, "only blocks that share a tile"), ({"ATOMIC": 2, "SPLIT": 2}, "0 or 1")):
        rejection = first_rejection(family, FLAT, config.with_values(**changes), CARD.arch.limits)
        assert rejection is not None and words in str(rejection)
    assert first_rejection(family, FLAT, config.with_values(ATOMIC=1, SPLIT=2), CARD.arch.limits) is None


@pytest.mark.parametrize("family", [SIMT, SKINNY], ids=lambda family: family.name)
def test_the_search_tries_atomics_only_where_asked(family: Family) -> None:
    ordered, both = (explore(family, FLAT, CARD, atomics=atomics) for atomics in (False, True))
    assert all(config.deterministic for config in ordered.accepted)
    assert SAME_BITS in dict(ordered.rejected) and SAME_BITS not in dict(both.rejected)
    assert set(ordered.accepted) == {config for config in both.accepted if config.deterministic}
    atomic = {config.with_values(ATOMIC=0) for config in both.accepted if not config.deterministic}
    assert atomic == {config for config in ordered.accepted if config.values["SPLIT"] > 1}, "each split, both ways"


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
    atomic = api.generate(FREE, family="skinny", SPLIT=2, ATOMIC=1, out=tmp_path)
    path = tmp_path / f"{atomic.name}.cu"
    assert read_kernel(path).source == atomic and atomic.launch.atomic
    path.with_suffix(".json").unlink()
    assert read_kernel(path).source == atomic
    whole = api.generate(FREE, family="skinny", out=tmp_path)
    path = tmp_path / f"{whole.name}.json"
    record = json.loads(path.read_text())
    del record["launch"]["splits"], record["launch"]["atomic"]  # as records were before
    path.write_text(json.dumps(record))
    assert read_kernel(path.with_suffix(".cu")).source == whole


@pytest.mark.parametrize("align", [4, 16])
@pytest.mark.parametrize("seed", [0, 5])
def test_the_workspace_is_aligned_as_operands_are(align: int, seed: int) -> None:
    problem = Problem(5, 70, 9, pointer_align=align)
    launch = Launch(64, (("M", 8), ("N", 32)), splits=2)
    layout = arena.place_workspace(launch, problem.case(), seed)
    assert layout is not None and layout.word_counts == {"partials": 6 * 256, "tickets": 3}
    assert [offset % (2 * align) for offset in layout.offsets.values()] == [align] * 2
    assert arena.place_workspace(replace(launch, splits=1), problem.case(), seed) is None


def test_the_gpu_guards_the_workspace() -> None:
    launch = Launch(64, (("M", 5), ("N", 2)), splits=3)
    layout = arena.place_workspace(launch, Problem(5, 7, 9).case(), 3)
    assert layout is not None
    good = np.full(layout.size // arena.WORD, arena.GUARD_WORD, np.uint32)
    partials, tickets = layout.words("partials"), layout.words("tickets")
    good[partials], good[tickets] = 1, 0
    layout.check(good)
    for word, words in (
        (partials.stop, "0 bytes after the end of partials"),
        (partials.start - 1, "4 bytes before partials"),
        (tickets.start - 1, "4 bytes before tickets"),
        (tickets.stop + 1, "4 bytes after the end of tickets"),
        (tickets.start + 2, r"leaves tickets\[2\] = 8"),
    ):
        after = good.copy()
        after[word] = 8
        with pytest.raises(CandidateFailed, match=words):
            layout.check(after)


def test_the_gpu_wants_sums_to_be_zero_again() -> None:
    launch = Launch(64, (("M", 5), ("N", 2)), splits=3, atomic=True)
    layout = arena.place_workspace(launch, Problem(5, 7, 9, dtype=DType.F64).case(), 3)
    assert layout is not None and layout.word_counts == {"partials": 4 * 10 * 2, "tickets": 4}
    good = np.full(layout.size // arena.WORD, arena.GUARD_WORD, np.uint32)
    partials, tickets = layout.words("partials"), layout.words("tickets")
    good[partials], good[tickets] = 0, 0
    layout.check(good)
    high_word_of_two = 0x40000000
    for word, words in (
        (partials.start + 7, r"leaves partials\[3\] = 2.0: the next launch needs it to be zero"),
        (tickets.start + 2, r"leaves tickets\[2\]"),
        (partials.stop, "0 bytes after the end of partials"),
    ):
        after = good.copy()
        after[word] = high_word_of_two
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
        return predict(problem, SKINNY, SKINNY.default(problem).with_values(UNROLL=8, **axes), CARD).time_us

    narrow, wide = Problem(8, 1024, 16384), Problem(8, 65536, 16384)
    assert predicted(narrow, SPLIT=16) < predicted(narrow) / 2
    assert predicted(wide, SPLIT=16) == pytest.approx(predicted(wide), rel=0.05)
    assert predicted(narrow, SPLIT=16, ATOMIC=1) < predicted(narrow, SPLIT=16), "one tile of sums is read, not 16"
    assert predicted(narrow, SPLIT=2, ATOMIC=1) == predicted(narrow, SPLIT=2), "and set to zero"
