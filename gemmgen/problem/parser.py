"""The text of an epilogue's expression, as Python's own parser reads it, becomes a tree."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass

from gemmgen.problem.functions import FUNCTIONS
from gemmgen.problem.nodes import Binary, Call, Name, Negation, Node, Number, Operator
from gemmgen.problem.operands import OPERANDS
from gemmgen.support.errors import InvalidInput, require

LONGEST = 500  # characters of an expression
# Functions that forms call by their numbers alone.
FORM_CALLS = tuple(
    f"{name}({', '.join(one.parameters[1:])})"
    for name, one in FUNCTIONS.items()
    if 0 < one.constants == len(one.parameters) - 1
)
HINTS = {"bias": "write bias_n (one for each column) or bias_m (one for each row)"}  # on what is a form, and no name
CHARACTERS = re.compile(r"[A-Za-z0-9_ .,+\-*/()]*", re.ASCII)


def parse(text: str, names: tuple[str, ...], forms: bool = False) -> Node:
    """The tree of an expression that may read `names`. Raises InvalidInput with the place of what is wrong.

    In a sum of `forms` a call leaves out its first argument, which is what the forms before it make.
    """
    require(len(text) <= LONGEST, f"an epilogue has at most {LONGEST} characters, not {len(text)}")
    sound = CHARACTERS.match(text)
    end = sound.end() if sound else 0
    require(end == len(text), f"epilogue: {text[end : end + 1]!r} means nothing here (character {end + 1} of {text!r})")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's doubts about `1or x` and its like
            body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        place = ""
        if isinstance(error, SyntaxError):  # which has no place where the text ends
            place = f" (from character {error.offset} on)" if error.offset else " (it ends too early)"
        raise InvalidInput(f"epilogue: {text!r} is no expression{place}") from error
    return _Parser(text, names, forms).node(body)


@dataclass(frozen=True)
class _Parser:
    """Of Python's tree, ours."""

    text: str
    names: tuple[str, ...]
    forms: bool

    def node(self, node: ast.expr) -> Node:
        match node:
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return self._number(node, value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                negated = self.node(operand)
                return Number(-negated.value) if isinstance(negated, Number) else Negation(negated)
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
                return self._binary(node)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._call(node, name, arguments)
        raise self._wrong(node, "is neither a number, a name, a sum, a product nor a call")

    def _name(self, node: ast.expr, name: str) -> Name:
        if name not in self.names:
            known = f"known are {', '.join((*self.names, *(FORM_CALLS if self.forms else ())))}"
            hint = f"{name} takes an argument" if name in FUNCTIONS or name in OPERANDS else HINTS.get(name, known)
            raise self._wrong(node, f"is no name here: {hint}")
        return Name(name)

    def _number(self, node: ast.expr, value: float) -> Number:
        if not abs(value) < 1e30:
            raise self._wrong(node, "is out of range: numbers stay below 1e30")
        return Number(float(value))

    def _binary(self, node: ast.BinOp) -> Node:
        operators: dict[type[ast.operator], Operator] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
        left, right = self.node(node.left), self.node(node.right)
        if isinstance(node.op, ast.Div) and (not isinstance(right, Number) or right.value == 0):
            raise self._wrong(node.right, "divides: only numbers other than 0 do")
        return Binary(operators[type(node.op)], left, right)

    def _call(self, node: ast.expr, name: str, given: list[ast.expr]) -> Node:
        writers = [operand.name for operand in OPERANDS.values() if operand.written]
        if name not in FUNCTIONS and name not in writers:
            raise self._wrong(node, f"is no function: known are {', '.join((*FUNCTIONS, *writers))}")
        parameters = (FUNCTIONS[name].parameters if name in FUNCTIONS else ("x",))[self.forms :]
        if len(given) != len(parameters):
            raise self._wrong(node, f"takes {len(parameters)} arguments ({', '.join(parameters)}), not {len(given)}")
        arguments = tuple(self.node(argument) for argument in given)
        constants = FUNCTIONS[name].constants if name in FUNCTIONS else 0
        for index in range(len(given) - constants, len(given)):
            if not isinstance(arguments[index], Number):
                raise self._wrong(given[index], f"is {parameters[index]} of {name}, which has to be a number")
        match name, arguments:
            case "clamp", (*_, Number(lo), Number(hi)) if lo > hi:
                raise self._wrong(node, f"has lo = {lo:g} above hi = {hi:g}")
        return Call(name, arguments)

    def _wrong(self, node: ast.expr, what: str) -> InvalidInput:
        lead = len(self.text) - len(self.text.lstrip())
        start, end = node.col_offset + lead, (node.end_col_offset or 0) + lead
        place = f"character {start + 1} of {self.text!r}"
        return InvalidInput(f"epilogue: {self.text[start:end]!r} {what} ({place})")
