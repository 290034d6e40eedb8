"""Text stands in templates: the families' Python holds no C++. `test_golden.py` looks at what it hands to them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gemmgen.families

FOLDER = Path(gemmgen.families.__file__).parent
# Expressions of axes and constants have capitals alone, as constraints do; C++ has small letters beside an operator.
OPERATOR = r"([-+*/%<>?:=]|[-+*/%<>=!]=)"
CXX = re.compile(
    rf"""\b[a-z_][\w.]*\ {OPERATOR}\ \w | \w\ {OPERATOR}\ [a-z_] | \+\+ | -> | :: | && | \|\| | <<
    | \w\[ | \[\w+\]                                    # an element
    | \b[a-z_]\w*(<\w+>)?\( | \b(for|if|while)\ \(      # a call, a branch, a loop
    | [\w)\]];$ | =[^;]+;[^;]+;                         # a statement, a loop's header
    | ^\W*[a-z_]\w*\.\w+\W*(,|$)                       # a member""",
    re.VERBOSE,
)
TEXT_OF = {"Constraint", "Derived", "Never", "axis"}  # what they are given is Python's own, prose, or only compared


def strings(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """The strings below `node`, with X for what an f-string fills in; those of `TEXT_OF`, and docstrings, left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in TEXT_OF:
            continue
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child, child.value
        elif isinstance(child, ast.JoinedStr):
            yield child, "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in child.values)
            yield from (one for part in child.values if isinstance(part, ast.FormattedValue) for one in strings(part))
        else:
            yield from strings(child)


def functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def without_prose(tree: ast.Module) -> ast.Module:
    """`tree` without `prose`, which writes the header's sentences, and what it calls."""
    known, waiting = functions(tree), ["prose"]
    while waiting:
        node = known.pop(waiting.pop(), None)
        if node is not None:
            waiting += [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
            node.body = []
    return tree


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: str(path.relative_to(FOLDER)))
def test_no_string_of_a_family_is_cxx(path: Path) -> None:
    found = strings(without_prose(ast.parse(path.read_text())))
    assert [f"line {node.lineno}: {text}" for node, text in found if CXX.search(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        *("int k = X; k < s.K; k += BK", "consumer * 64, ", "thread.k", "s.K", "blockIdx.x / CLUSTER", "[i]", "a[X]"),
        *("shared.X[ring.stage]", "static_cast<int>(X)", "min(BM, X)", "i > 0", "begin < end", "return X;", "X += k"),
        *("const int n = BN;", "lines_X - part < PART_A", "load(X);", "k / X * X", ", origin_a.near, origin_a.far"),
    ],
)
def test_what_templates_are_for_is_known_as_cxx(text: str) -> None:
    assert CXX.search(text)
