"""The shapes of the performance suite, a user's own list of them, and the limits that they are held against."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gemmgen.kernel.model import representative
from gemmgen.lab.commands.suite import read_shapes
from gemmgen.lab.shapes import GROUPS, group_of, select
from gemmgen.lab.shapes import suite as all_shapes
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.images import Conv
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Compute, Types
from gemmgen.run.gpu.limits import LimitName, MeasuredLimits
from gemmgen.support.errors import InvalidInput

LIMITS = MeasuredLimits("NVIDIA H200", 66.0, 33.0, 4400.0, 3800.0, "2026-11-21")


def test_each_problem_of_the_suite_is_in_its_group() -> None:
    for group in GROUPS.values():
        assert group.problems and all(group_of(problem) is group for problem in group.problems)
    assert len(set(all_shapes())) == len(set(map(str, all_shapes()))) == len(all_shapes())


@pytest.mark.parametrize(
    ("problem", "group", "goal"),
    [
        (Problem(2048, 2048, 2048, types="f16"), "f16 large", 0.97),
        (Problem(4095, 4096, 4095, types="bf16"), "awkward", 3.0),
        (Problem(1000, 1000, 1000, types="f16"), "awkward", 1.1),
        (Problem(16, 1000, 1000, types="bf16"), "bf16", 1.05),
        (Problem(4, 4096, 4096, types="f16"), "f16", 1.2),
        (Problem(128, 4096, 4096, types="bf16"), "bf16", 0.98),
        (Problem(16, 16, 16, types="bf16", batch=8), "bf16 batched", 4.0),
        (Problem(32, 32, 32, types="bf16", batch=8), "bf16 batched", 2.0),
        (Problem(64, 64, 64, types="bf16", batch=8), "bf16 batched", 1.2),
        (Problem(1024, 64, 1024, types="bf16", batch=8), "bf16 batched", 1.1),
        (Problem(64, 64, 64, types=Types.parse("e4m3,e5m2,bf16", Compute.PROMOTED)), "fp8", 1.05),
        (Problem(64, 64, 64, types=Types.parse("e4m3,e4m3,f32", Compute.FAST)), "fp8 fast", 1.02),
        (Problem(64, 64, 64, types=Types.parse("f32", Compute.TF32)), "tf32", None),
        (Problem(64, 64, 64, types=Types.parse("f32", Compute.BF16X6)), "f32 by bf16x6", 2.0),
        (Problem(64, 64, 64, types="s8,s8,s32"), "s8", 1.02),
        (Problem(64, 64, 64, types="s8,s8,bf16", epilogue="scale_m+scale_n"), "fused", 1.2),
        (Problem(64, 64, 64, types="bf16", epilogue="bias+silu"), "fused", 1.3),
        (Problem(64, 64, 64, types="f32", epilogue="bias+gelu"), "fused", 1.0),
        (Problem(1024, 1024, 1024, types="f64"), "f64", 1.0),
        (Problem(1024, 1024, 1024, types="bf16", layout="rc", inputs="groups=8"), "experts", None),
        (Conv(2, (9, 9, 8), 64, 3, dtype="f32"), "convolutions", None),
    ],
)
def test_a_goal_follows_from_types_and_sizes(problem: Problem, group: str, goal: float | None) -> None:
    assert (group_of(problem).name, group_of(problem).goal(problem).ratio) == (group, goal)


def test_large_weights_are_to_be_read_at_the_bandwidth() -> None:
    shares = {problem: group_of(problem).goal(problem).share for problem in GROUPS["bf16"].problems}
    assert {problem.m for problem, share in shares.items() if share} == {1, 2, 4, 8, 16}
    assert {(problem.n, problem.k) for problem, share in shares.items() if share} == {(8192, 8192), (16384, 16384)}


def test_skinny_shapes_go_from_1_to_64_and_from_1024_to_16384_in_both_layouts_of_the_weights() -> None:
    skinny = GROUPS["skinny"].problems
    assert all(problem.m is not None and problem.n is not None for problem in skinny)
    rows = [(one.m, max(one.n or 0, one.k or 0), one.layout.b) for one in skinny if (one.m or 0) <= 64]
    columns = [(one.n, max(one.m or 0, one.k or 0), one.layout.a) for one in skinny if (one.m or 0) > 64]
    for thin in (rows, columns):
        for order in ("r", "c"):
            of_order = [(small, large) for small, large, storage in thin if storage == order]
            assert {small for small, _ in of_order} == {1, 2, 4, 8, 16, 32, 64}
            assert {large for _, large in of_order} == {1024, 4096, 8192, 16384}


def test_each_batch_by_pointers_stands_beside_the_same_with_strides() -> None:
    by_pointers = [problem for problem in GROUPS["batched"].problems if problem.pointers]
    assert {problem.m for problem in by_pointers} == {16, 32, 64, 128}
    assert {replace(problem, pointers=False) for problem in by_pointers} < {*GROUPS["batched"].problems}


def test_parts_are_the_whole() -> None:
    parts = [select(all_shapes(), part=(index, 3)) for index in (1, 2, 3)]
    assert sorted(map(str, sum(parts, ()))) == sorted(map(str, all_shapes()))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_selection_holds_what_is_asked() -> None:
    chosen = select(all_shapes(), ["large"], ["4096x4096x4096"])
    assert {str(problem.layout) for problem in chosen} == {"rr", "rc", "cr", "cc"}
    chosen = select(all_shapes(), only=["2x4096x4096 f32 r", "2x8192x8192 f32 rc"])  # and not 32x4096x4096
    assert [str(problem) for problem in chosen] == ["2x4096x4096 f32 rr", "2x4096x4096 f32 rc", "2x8192x8192 f32 rc"]
    of_rows = select(all_shapes(), ["f16"], ["x4096x4096 f16 rc"])
    assert sorted(problem.m for problem in of_rows) == [1, 2, 4, 8, 16, 32, 64, 128]
    with pytest.raises(InvalidInput, match="no shape of f64 has '3x3' in it"):
        select(all_shapes(), ["f64"], ["3x3"])
    with pytest.raises(InvalidInput, match="part 5 of 4"):
        select(all_shapes(), part=(5, 4))


@pytest.mark.parametrize(
    ("problem", "limit"),
    [
        (Problem(4096, 4096, 4096), "FFMA rate"),
        (Problem(1024, 1024, 1024, dtype=DType.F64), "DFMA rate"),
        (Problem(8, 8192, 8192), "read bandwidth"),
        (Problem(32, 32, 32, batch=4096), "copy bandwidth"),
        (Problem(32, 32, 512, batch=4096), "read bandwidth"),
    ],
)
def test_the_limit_has_a_name(problem: Problem, limit: LimitName) -> None:
    assert LIMITS.roof(representative(problem)).limit == limit


def test_the_limit_is_what_the_card_could_do() -> None:
    case = representative(Problem(32, 32, 32, batch=4096))
    seconds = case.bytes_moved / (LIMITS.copy_gbs * 1e9)
    assert LIMITS.roof(case).tflops == pytest.approx(case.flops / seconds / 1e12)


def test_shapes_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text("# mine\n\n16x16x16 --batch 64 --layout rc  # small\n'?x64x64' --dtype f64\n")
    batched = Problem(16, 16, 16, batch=64, layout=Layout.parse("rc"))
    assert read_shapes(path) == [batched, Problem(None, 64, 64, dtype=DType.F64)]
    path.write_text("conv 2x9x8x16 24x3x3 --pad 1 --epilogue relu\n")
    assert read_shapes(path) == [Conv(2, (9, 8, 16), 24, 3, pad=1, epilogue="relu")]
    wrong = (("16x16", "mine:2: .*16x16"), ("8x8x8 --bach 3", "mine:2: .*--bach"), ("'8x8x8", "mine:2: No closing quo"))
    for line, message in wrong:
        path.write_text(f"8x8x8\n{line}\n")
        with pytest.raises(InvalidInput, match=message):
            read_shapes(path)


def test_a_file_without_shapes_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^cannot read .*/mine: No such file or directory$"):
        read_shapes(tmp_path / "mine")
    (tmp_path / "mine").write_text("# none yet\n\n")
    with pytest.raises(InvalidInput, match=r"/mine names no shape"):
        read_shapes(tmp_path / "mine")
    (tmp_path / "mine").write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match=r"/mine is not a text file"):
        read_shapes(tmp_path / "mine")


def test_the_example_has_shapes_that_the_suite_has_not() -> None:
    problems = read_shapes(Path(__file__).parents[2] / "examples" / "shapes.txt")
    assert len(set(problems)) == len(problems) == 45
    assert not set(problems) & set(all_shapes())
