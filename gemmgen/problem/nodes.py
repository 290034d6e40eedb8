"""An epilogue's expression as a tree: its nodes, what they are made of, and their text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gemmgen.problem.operands import ACCUMULATORS, DEPTH, OPERANDS, SUMS

Operator = Literal["+", "-", "*", "/"]


@dataclass(frozen=True)
class Name:
    """One of ACCUMULATORS or SUMS, `K`, a scalar, `C`, an operand, or a parameter of a function's definition."""

    name: str


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Negation:
    value: Node


@dataclass(frozen=True)
class Binary:
    operator: Operator
    left: Node
    right: Node


@dataclass(frozen=True)
class Call:
    """A function of FUNCTIONS, or an operand that takes its argument."""

    name: str
    arguments: tuple[Node, ...]


Node = Name | Number | Negation | Binary | Call


def parts(node: Node) -> tuple[Node, ...]:
    """What it is made of."""
    match node:
        case Negation(value):
            return (value,)
        case Binary(_, left, right):
            return left, right
        case Call(_, arguments):
            return arguments
    return ()


def with_parts(node: Node, changed: list[Node]) -> Node:
    """`node`, made of others."""
    match node:
        case Negation():
            return Negation(*changed)
        case Binary(operator):
            return Binary(operator, *changed)
        case Call(name):
            return Call(name, tuple(changed))
    return node


def walk(node: Node) -> Iterator[Node]:
    """All of the tree, each behind its parts."""
    for part in parts(node):
        yield from walk(part)
    yield node


_WHOLE = frozenset({*ACCUMULATORS, DEPTH, *SUMS, *(name for name, operand in OPERANDS.items() if operand.summed)})


def is_whole(node: Node) -> bool:
    """Whether integer sums make it an integer: it is made of them, zero points and whole numbers by +, - and *."""
    match node:
        case Name(name):
            return name in _WHOLE
        case Number(value):
            return value.is_integer() and abs(value) < 2**31
        case Binary("/"):
            return False
        case Negation() | Binary():
            return all(map(is_whole, parts(node)))
    return False


def is_integer(node: Node) -> bool:
    """Whether kernels with integer sums compute it in integers, whatever it is part of: no number alone."""
    return is_whole(node) and any(isinstance(part, Name) for part in walk(node))


_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2}


def _plain(value: float) -> str:
    return repr(value) if value != int(value) or abs(value) >= 2**53 else str(int(value))


def unparse(node: Node, strength: int = 0) -> str:
    """As `parser.parse` reads it; in parentheses where its operator binds less than `strength`."""
    match node:
        case Name(name):
            return name
        case Number(value):
            return _plain(value)
        case Negation(value):
            text = f"-{unparse(value, 4)}"
            return f"({text})" if strength > 3 else text  # -- is C++'s decrement
        case Call(name, arguments):
            return f"{name}({', '.join(unparse(argument) for argument in arguments)})"
        case Binary(operator, left, right):
            own = _STRENGTH[operator]
            text = f"{unparse(left, own)} {operator} {unparse(right, own + 1)}"
            return f"({text})" if own < strength else text


def substitute(tree: Node, values: dict[str, Node]) -> Node:
    """`tree` with `values` in the place of names."""
    if isinstance(tree, Name):
        return values.get(tree.name, tree)
    return with_parts(tree, [substitute(part, values) for part in parts(tree)])


def inside(pattern: Node, tree: Node) -> Node | None:
    """What stands in `tree` where `pattern` has x; None where they differ elsewhere."""
    if pattern == Name("x"):
        return tree
    if type(pattern) is type(tree):
        for part, other in zip(parts(pattern), parts(tree), strict=False):
            found = inside(part, other)
            if found is not None and substitute(pattern, {"x": found}) == tree:
                return found
    return None
