"""Integer expressions that Python evaluates and C++ compiles from the same text.

A kernel's constants and constraints are written once, in the grammar that both languages share
(`+ - * / %`, comparisons, `and or`, parentheses; `/` divides integers, none of them negative). Not in it, for the
languages read them differently: `not`, and chains such as `a < b < c`. Python checks them; the rendered kernel
carries them as `constexpr` and `static_assert`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cache, lru_cache
from types import CodeType
from typing import Any

import numpy as np
import numpy.typing as npt

Names = Mapping[str, int]
Numbers = npt.NDArray[np.float64]  # whole ones: they are exact up to 2^53, and no product of sizes overflows
NO_BUILTINS: dict[str, Any] = {"__builtins__": {}}


class _IntegerDivision(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Div):
            node.op = ast.FloorDiv()
        return node


@cache
def _parse(text: str) -> ast.expr:
    tree = _IntegerDivision().visit(ast.parse(text, mode="eval"))
    assert isinstance(tree, ast.Expression)
    return tree.body


@cache
def _code(text: str) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Expression(_parse(text))), f"<{text}>", "eval")


@cache
def names_in(text: str) -> frozenset[str]:
    """The names that the expression reads."""
    return frozenset(node.id for node in ast.walk(_parse(text)) if isinstance(node, ast.Name))


def evaluate(text: str, names: Names) -> int:
    """Return the expression's value, 0 or 1 for a comparison; raise NameError if a name is missing."""
    return int(eval(_code(text), NO_BUILTINS, names))


def assign(lines: Sequence[tuple[str, str]], names: dict[str, int]) -> None:
    """Add each (name, expression) of `lines` to `names`, in order, as one `evaluate` per line would."""
    exec(_assignments(tuple(lines)), NO_BUILTINS, names)


@lru_cache(maxsize=4096)  # a space's configs share a few
def _assignments(lines: tuple[tuple[str, str], ...]) -> CodeType:
    text = "\n".join(f"{name} = +({python_text(text)})" for name, text in lines)  # + makes a number of a comparison
    return compile(text, "<constants>", "exec")


@cache
def python_text(text: str) -> str:
    """The expression for Python, where `//` divides integers."""
    return ast.unparse(_parse(text))


class _OfColumns(ast.NodeTransformer):
    """Rewrites an expression so that its comparisons, `and` and `or` work on columns, and give 0 or 1 per row."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        return _number(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        both = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
        first, *others = (ast.Compare(value, [ast.NotEq()], [ast.Constant(0)]) for value in node.values)
        truth: ast.expr = first
        for other in others:
            truth = ast.BinOp(truth, both, other)
        return _number(truth)


def _number(truth: ast.expr) -> ast.expr:
    return ast.BinOp(truth, ast.Mult(), ast.Constant(1))


@cache
def holds_in(text: str) -> Callable[[Mapping[str, Numbers]], npt.NDArray[np.bool_]]:
    """Return a function that says in which rows of columns `text` is true; division by zero is not an error there."""
    tree = _OfColumns().visit(deepcopy(_parse(text)))
    code = compile(ast.fix_missing_locations(ast.Expression(tree)), f"<{text}>", "eval")

    def holds(columns: Mapping[str, Numbers]) -> npt.NDArray[np.bool_]:
        with np.errstate(divide="ignore", invalid="ignore"):
            truth: npt.NDArray[np.bool_] = np.asarray(eval(code, NO_BUILTINS, columns)) != 0
        return truth

    return holds


def first_false(texts: Sequence[str]) -> Callable[[Names], int]:
    """Return a function that gives the index of the first of `texts` that is false, or their number if none is.

    One call replaces one `evaluate` per text.
    """
    tree: ast.expr = ast.Constant(len(texts))
    for place in reversed(range(len(texts))):
        tree = ast.IfExp(_parse(texts[place]), tree, ast.Constant(place))
    code = compile(ast.fix_missing_locations(ast.Expression(tree)), "<rules>", "eval")

    def place_of(names: Names) -> int:
        return int(eval(code, NO_BUILTINS, names))

    return place_of


def count_false(texts: Sequence[str]) -> Callable[[Names], int]:
    """Return a function that counts how many of `texts` are false or divide by zero."""
    tree: ast.expr = ast.Constant(0)
    for text in texts:
        false = ast.UnaryOp(ast.Not(), _parse(text))
        tree = ast.BinOp(tree, ast.Add(), false)
    code = compile(ast.fix_missing_locations(ast.Expression(tree)), "<rules>", "eval")

    def count(names: Names) -> int:
        try:
            return int(eval(code, NO_BUILTINS, names))
        except ZeroDivisionError:  # of a divisor that another text rules out
            return sum(not _holds(text, names) for text in texts)

    return count


def _holds(text: str, names: Names) -> bool:
    try:
        return bool(evaluate(text, names))
    except ZeroDivisionError:
        return False


def without_guards(text: str, names: Names) -> str | None:
    """The condition of `guard or condition` where `names` are fixed, or None if a guard holds.

    A guard compares a name with a number. One or several stand before the condition: "WM == 0 or BM % WM == 0".
    """
    tree = ast.parse(text, mode="eval").body
    if not (isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.Or) and _is_guard(tree.values[0])):
        return text
    if _value(tree.values[0], names):
        return None
    return without_guards(text[tree.values[1].col_offset :], names)


def _is_guard(tree: ast.expr) -> bool:
    sides = (tree.left, tree.comparators[0]) if isinstance(tree, ast.Compare) else ()
    return tuple(map(type, sides)) == (ast.Name, ast.Constant)


def show_values(text: str, names: Names) -> str:
    """Text for a message: both sides of the comparison that decides `text`, then the values of the names that it
    reads.

    For `WM == 0 or BM % WM == 0`: "BM % WM is 64; BM = 192, WM = 128".
    """
    tree = _decisive(_parse(text), names)
    reads = ", ".join(f"{name} = {names[name]}" for name in sorted(names_in(text)) if name in names)
    if not isinstance(tree, ast.Compare):
        return reads
    computed = [side for side in (tree.left, tree.comparators[0]) if not isinstance(side, ast.Constant | ast.Name)]
    sides = [f"{ast.unparse(side).replace('//', '/')} is {_value(side, names)}" for side in computed]
    return "; ".join([", ".join(sides), reads]) if sides else reads


def _decisive(tree: ast.expr, names: Names) -> ast.expr:
    """The comparison that a person must change: the first false one of an `and`, the last one of an `or`."""
    while isinstance(tree, ast.BoolOp):
        parts = tree.values if isinstance(tree.op, ast.And) else tree.values[-1:]
        tree = next((part for part in parts if not _value(part, names)), tree.values[-1])
    return tree


def _value(tree: ast.expr, names: Names) -> int:
    code = compile(ast.fix_missing_locations(ast.Expression(tree)), "<part>", "eval")
    return int(eval(code, NO_BUILTINS, names))
