"""The shapes of the performance suite, a user's own list of them, and the limits that they are held against."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmgen.cli.suite import read_shapes
from gemmgen.dtype import DType
from gemmgen.errors import InvalidInput
from gemmgen.gpu.limits import LimitName, MeasuredLimits
from gemmgen.matrix import Layout
from gemmgen.model import representative
from gemmgen.problem import Problem
from gemmgen.shapes import GROUPS, group_of, select
from gemmgen.shapes import suite as all_shapes

LIMITS = MeasuredLimits("NVIDIA H200", 66.0, 33.0, 4400.0, 3800.0, "2026-11-21")


def test_each_problem_of_the_suite_is_in_its_group() -> None:
    for group in GROUPS.values():
        assert group.problems and all(group_of(problem) is group for problem in group.problems)
    assert len(set(all_shapes())) == len(all_shapes())


def test_parts_are_the_whole() -> None:
    parts = [select(all_shapes(), part=(index, 3)) for index in (1, 2, 3)]
    assert sorted(map(str, sum(parts, ()))) == sorted(map(str, all_shapes()))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_selection_holds_what_is_asked() -> None:
    chosen = select(all_shapes(), ["large"], "4096x4096x4096")
    assert {str(problem.layout) for problem in chosen} == {"rr", "rc", "cr", "cc"}
    with pytest.raises(InvalidInput, match="no shape of f64 has '3x3' in it"):
        select(all_shapes(), ["f64"], "3x3")
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
    for line, message in (("16x16", "mine:2: .*16x16"), ("8x8x8 --bach 3", "mine:2: .*--bach")):
        path.write_text(f"8x8x8\n{line}\n")
        with pytest.raises(InvalidInput, match=message):
            read_shapes(path)
