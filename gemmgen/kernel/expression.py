"""Integer expressions that Python evaluates and C++ compiles from the same text.

A kernel's constants and constraints are written once, in the grammar that both languages share
(`+ - * / %`, comparisons, `and or`, parentheses; `/` divides integers, none of them negative). Not in it, for the
languages read them differently: `not`, and chains such as `a < b < c`. Python checks them; the rendered kernel
carries them as `constexpr` and `static_assert`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import CodeType
from typing import Any

Names = Mapping[str, int]
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
    """The expression's value (a comparison's is 0 or 1); raises NameError where a name is missing."""
    return int(eval(_code(text), NO_BUILTINS, names))


def first_false(texts: Sequence[str]) -> Callable[[Names], int]:
    """A function of names that gives the place of the first of `texts` that is false, or their number.

    One call of it does what `evaluate` would take one for each text to do.
    """
    tree: ast.expr = ast.Constant(len(texts))
    for place in reversed(range(len(texts))):
        tree = ast.IfExp(_parse(texts[place]), tree, ast.Constant(place))
    code = compile(ast.fix_missing_locations(ast.Expression(tree)), "<rules>", "eval")

    def place_of(names: Names) -> int:
        return int(eval(code, NO_BUILTINS, names))

    return place_of


def count_false(texts: Sequence[str]) -> Callable[[Names], int]:
    """A function of names that counts those of `texts` that are false, or divide by zero."""
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
    """What `guard or condition` asks where `names` are fixed: the condition, or None where the guard holds.

    A guard compares a name with a number, and stands before the condition: "WM == 0 or BM % WM == 0".
    """
    tree = ast.parse(text, mode="eval").body
    if not (isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.Or) and _is_guard(tree.values[0])):
        return text
    if _value(tree.values[0], names):
        return None
    return text[tree.values[1].col_offset :]


def _is_guard(tree: ast.expr) -> bool:
    sides = (tree.left, tree.comparators[0]) if isinstance(tree, ast.Compare) else ()
    return tuple(map(type, sides)) == (ast.Name, ast.Constant)


def show_values(text: str, names: Names) -> str:
    """Both sides of the comparison that decides `text`, then the names it reads, with their values.

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
    """The comparison that a person must change: the first false one of an `and`, the last of an `or`."""
    while isinstance(tree, ast.BoolOp):
        parts = tree.values if isinstance(tree.op, ast.And) else tree.values[-1:]
        tree = next((part for part in parts if not _value(part, names)), tree.values[-1])
    return tree


def _value(tree: ast.expr, names: Names) -> int:
    code = compile(ast.fix_missing_locations(ast.Expression(tree)), "<part>", "eval")
    return int(eval(code, NO_BUILTINS, names))
