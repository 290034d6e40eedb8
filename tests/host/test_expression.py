"""Expressions mean the same in Python and in C++."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmgen.families import FAMILIES
from gemmgen.kernel.expression import assign, evaluate, first_false, holds_in, names_in, show_values
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout

# What both languages read alike. `not` binds differently, and `a < b < c` compares a truth value in C++.
SHARED = (
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod),
    *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
    *(ast.BoolOp, ast.And, ast.Or, ast.Constant, ast.Name, ast.Load, ast.Expression),
)
LAYOUTS = ("rr", "rc", "cr", "cc")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7 / 2", 3),
        ("(A + 127) / 128 * 4", 8),
        ("A % 128 == 72", 1),
        ("(A == 0) == (B == 0)", 0),
        ("B == 0 or A % B == 0", 1),
        ("A > 0 and B > 0", 0),
    ],
)
def test_values(text: str, value: int) -> None:
    assert evaluate(text, {"A": 200, "B": 0}) == value


@given(st.integers(0, 2**31), st.integers(1, 2**31))
def test_division_is_exact_for_large_numbers(a: int, b: int) -> None:
    assert evaluate("A / B * B + A % B", {"A": a, "B": b}) == a


def test_a_missing_name_is_an_error() -> None:
    with pytest.raises(NameError, match="TYPO"):
        evaluate("TYPO + 1", {"A": 1})


def test_builtins_are_out_of_reach() -> None:
    with pytest.raises(NameError, match="__import__"):
        evaluate("__import__('os')", {})


@given(
    st.lists(st.sampled_from(("A % 3 == 0", "A / 4 > B", "B == 0 or A % B == 0", "A + B < 90")), max_size=6), st.data()
)
def test_the_first_false_one_is_that_of_one_by_one(texts: list[str], data: st.DataObject) -> None:
    names = {name: data.draw(st.integers(0, 60), name) for name in "AB"}
    one_by_one = next((place for place, text in enumerate(texts) if not evaluate(text, names)), len(texts))
    assert first_false(texts)(names) == one_by_one


def test_names() -> None:
    assert names_in("WM == 0 or BM % WM == 0") == {"WM", "BM"}
    assert names_in("4 * 4") == frozenset()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("BM % WM == 0", "BM % WM is 64; BM = 192, WM = 128"),
        ("WM == 0 or BM % WM == 0", "BM % WM is 64; BM = 192, WM = 128"),
        ("WM == 128 and BM / WM == 2", "BM / WM is 1; BM = 192, WM = 128"),
        ("BM <= WM", "BM = 192, WM = 128"),
    ],
)
def test_shown_values_are_those_of_the_comparison_that_decides(text: str, shown: str) -> None:
    assert show_values(text, {"BM": 192, "WM": 128}) == shown


def expressions() -> list[str]:
    rules = [rule.expression for family in FAMILIES.values() for rule in (*family.constraints, *family.pruning)]
    derived = [
        derived.expression
        for family in FAMILIES.values()
        for layout in LAYOUTS
        for problem in [Problem(512, 512, 512, layout=Layout.parse(layout), types=next(iter(family.types), "f32"))]
        for derived in family.derive(problem, family.default(problem))
    ]
    return sorted({*rules, *derived})


@pytest.mark.parametrize("text", expressions())
def test_families_keep_to_the_shared_grammar(text: str) -> None:
    for node in ast.walk(ast.parse(text, mode="eval")):
        assert isinstance(node, SHARED), f"{type(node).__name__} in {text!r}"
        assert not isinstance(node, ast.Compare) or len(node.ops) == 1, f"{text!r} chains comparisons"
        assert not isinstance(node, ast.Constant) or type(node.value) is int


@given(
    st.sampled_from(("A % 3 == 0 and B > 4", "(A > 9) + (B > 9) > 1", "B == 0 or A % B == 0", "(A == 0) == (B == 0)")),
    st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 60)), min_size=1, max_size=8),
)
def test_columns_hold_what_each_row_holds(text: str, rows: list[tuple[int, int]]) -> None:
    columns = {name: np.array(column, np.float64) for name, column in zip("AB", zip(*rows, strict=True), strict=True)}
    assert holds_in(text)(columns).tolist() == [bool(evaluate(text, {"A": a, "B": b})) for a, b in rows]


def test_no_product_of_sizes_overflows_a_column() -> None:
    assert not holds_in("A * A * A <= 1000")({"A": np.array([2.0**31])}).item()


def test_constants_follow_one_from_the_other() -> None:
    names = {"A": 200}
    assign([("B", "A / 7"), ("C", "B > 3"), ("D", "C + (A == 200)")], names)
    assert names == {"A": 200, "B": 28, "C": 1, "D": 2} and type(names["C"]) is int
    with pytest.raises(NameError, match="TYPO"):
        assign([("E", "TYPO + 1")], names)
