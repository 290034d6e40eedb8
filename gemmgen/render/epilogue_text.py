"""CUDA's text of an epilogue: the functions that it calls, and a statement for each step.

A sum with a product is written as fma, as the compiler would compile it anyway. Integers go through functions that wrap
around, as overflow of C++'s own operators is undefined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import Epilogue, is_old
from gemmgen.problem.functions import FUNCTIONS, Function, function_named
from gemmgen.problem.nodes import (
    Binary,
    Call,
    Name,
    Negation,
    Node,
    Number,
    is_integer,
    parts,
    unparse,
    walk,
    with_parts,
)
from gemmgen.problem.operands import OPERANDS, Operand
from gemmgen.problem.parser import parse

_LIBRARY = re.compile(r"(\w+\{f\})\([\w, ]+\)")  # a call of CUDA's math library and nothing else
_NAMED = re.compile(r"[\w.]+")  # a name, of a member maybe, or a number
_CHOSEN, _ADDED, _MULTIPLIED, _ATOM = range(4)  # how strongly a text's operator binds: ?:, + and -, * and /, none


class _Term(NamedTuple):
    """A term of a sum."""

    node: Node
    negative: bool


@dataclass(frozen=True)
class Statement:
    """The statement `const T name = text;`, or a store of `text` to `output`."""

    name: str
    text: str
    output: Operand | None = None


@dataclass(frozen=True)
class DeviceFunction:
    """A function that the kernel defines: `T name(T ...parameters) { return text; }`, or the macro of `template`."""

    name: str
    parameters: tuple[str, ...]
    text: str
    template: str = ""


@dataclass(frozen=True)
class Position:
    """The place in C that a function is told: the sizes, row m and column n, or some of them."""

    shape: bool
    row: bool
    column: bool

    @property
    def names(self) -> tuple[str, ...]:
        """As the kernel calls them."""
        return ("s",) * self.shape + ("m",) * self.row + ("n",) * self.column


@dataclass(frozen=True)
class EpilogueText:
    """The parts of an epilogue that a template places.

    functions   the kernel's own functions, each before those that call it
    statements  its statements in order
    result      C's new element
    operands    tensors that it reads or writes
    adds        whether it calls multiply_add of templates/device/convert.cu
    subtracts   whether it calls multiply_subtract
    inputs      the position that loads of its inputs are told
    element     the further position that the element function is told,
    late        or is told if its inputs are loaded there
    stores      the position that stores of C and of other outputs are told
    """

    functions: tuple[DeviceFunction, ...]
    statements: tuple[Statement, ...]
    result: str
    operands: tuple[Operand, ...]
    adds: bool
    subtracts: bool
    inputs: Position
    element: Position
    late: Position
    stores: Position


def epilogue_text(
    epilogue: Epilogue, dtype: DType, names: dict[str, str], integer_sums: bool = False, short: bool = False
) -> EpilogueText:
    """Return the CUDA text of `epilogue`, computed in `dtype`. `names` renames acc, alpha, beta, C and K.

    `integer_sums`: acc is an integer, whatever `dtype` is. `short`: use the `short` functions.
    """
    writer = _Writer(dtype, names, split=True, integer_sums=integer_sums)
    result, _ = writer.write(epilogue.tree)
    called = dict.fromkeys(name for root in _calls(epilogue.tree) for name in _needed(root))
    functions = dict.fromkeys(one for name in called for one in _device_functions(function_named(name, short), dtype))
    texts = (result, *(statement.text for statement in writer.statements))
    adds, subtracts = (any(name in text for text in texts) for name in ("multiply_add", "multiply_subtract"))
    rows, columns, writes = epilogue.reads_rows, epilogue.reads_columns, bool(epilogue.written_matrices)
    return EpilogueText(
        tuple(functions),
        tuple(writer.statements),
        result,
        epilogue.operands,
        adds,
        subtracts,
        inputs=Position(epilogue.reads_matrix, rows, columns),
        element=Position(epilogue.reads_shape, rows, columns),
        late=Position(epilogue.reads_depth, False, False),
        stores=Position(epilogue.reads_shape or writes, rows or writes, columns or writes),
    )


@dataclass(frozen=True)
class ReferenceFunction:
    """A function of a C++ reference, over its class of values: see `reference_text`.

    text     its expression: over that class if it is `defined` by other functions, else over plain numbers
    library  the functions of the C++ library that it calls in the latter case
    ulps     see `Function`, as of `of_x`
    """

    name: str
    parameters: tuple[str, ...]
    text: str
    defined: bool
    library: tuple[str, ...]
    ulps: float
    of_x: bool


@dataclass(frozen=True)
class ReferenceText:
    """The C++ reference of an epilogue: the functions that it calls, callees first, and C's new element.

    operators  operators of all expressions, including those of the functions: "+", "-", "*", "/", and "~" for a
               negation
    numbers    whether an expression contains a number
    """

    functions: tuple[ReferenceFunction, ...]
    result: str
    operators: frozenset[str]
    numbers: bool


def reference_text(
    epilogue: Epilogue, integer_sums: bool = False, integers: bool = False, short: bool = False
) -> ReferenceText:
    """Return `epilogue` for a C++ program that has the classes Bounded and Integer, and their operators.

    number(x) is a Bounded as the kernel's float type holds it, Integer(x) one of 32 bits that wraps around; an Integer
    becomes a Bounded where it meets one. With `integer_sums` acc and its like are Integers, with `integers` everything;
    with `short` functions are those of results of at most 16 bits.
    """
    called = dict.fromkeys(name for root in _calls(epilogue.tree) for name in _closure(root))
    trees = (epilogue.tree, *(_defined(FUNCTIONS[name]) for name in called if FUNCTIONS[name].definition))
    nodes = [node for tree in trees for node in walk(tree)]
    operators = {
        node.operator if isinstance(node, Binary) else "~" for node in nodes if isinstance(node, Binary | Negation)
    }
    return ReferenceText(
        functions=tuple(_reference_function(function_named(name, short)) for name in called),
        result=unparse(_typed(epilogue.tree, integer_sums, integers)),
        operators=frozenset(operators),
        numbers=any(isinstance(node, Number) for node in nodes),
    )


def _typed(node: Node, integer_sums: bool = False, integers: bool = False) -> Node:
    """Return `node` with its numbers as constructor calls of their class."""
    integers = integers or (integer_sums and is_integer(node))
    if isinstance(node, Number):
        return Name(f"Integer({int(node.value)})" if integers else f"number({node.value!r})")
    return with_parts(node, [_typed(part, integer_sums, integers) for part in parts(node)])


def _closure(name: str) -> Iterator[str]:
    for callee in re.findall(r"(\w+)\(", FUNCTIONS[name].definition):
        yield from _closure(callee)
    yield name


def _defined(function: Function) -> Node:
    return parse(function.definition, function.parameters)


def _reference_function(function: Function) -> ReferenceFunction:
    text = function.cuda.format(f="")
    if function.definition:
        text = unparse(_typed(_defined(function)))
    library = tuple(sorted(set(re.findall(r"(\w+)\(", function.cuda.format(f="")))))
    return ReferenceFunction(
        function.name, function.parameters, text, bool(function.definition), library, function.ulps, function.of_x
    )


def _calls(tree: Node) -> list[str]:
    return [node.name for node in Epilogue(tree).nodes if isinstance(node, Call) and node.name in FUNCTIONS]


def _needed(name: str) -> Iterator[str]:
    """The functions that a kernel which calls `name` defines, callees first."""
    function = FUNCTIONS[name]
    for callee in re.findall(r"(\w+)\(", function.definition):
        yield from _needed(callee)
    if function.definition or not _LIBRARY.fullmatch(function.cuda):
        yield name


def _device_functions(function: Function, dtype: DType) -> Iterator[DeviceFunction]:
    """The device function of `function`, preceded by its dependencies."""
    if function.f32 and dtype == DType.F32:
        if function.f32_helper:
            yield DeviceFunction(PurePath(function.f32_helper).stem, (), "", function.f32_helper)
        yield DeviceFunction(function.name, function.parameters, "", function.f32)
    elif function.cuda:
        yield DeviceFunction(function.name, function.parameters, function.cuda.format(f=_suffix(dtype)))
    else:
        text, _ = _Writer(dtype, {}, split=False).write(parse(function.definition, function.parameters))
        yield DeviceFunction(function.name, function.parameters, text)


def _suffix(dtype: DType) -> str:
    return "f" if dtype == DType.F32 else ""


@dataclass
class _Writer:
    """Writes nodes as (text, precedence of its operator); with `split`, arguments of calls become statements."""

    dtype: DType
    names: dict[str, str]
    split: bool
    integer_sums: bool = False
    statements: list[Statement] = field(default_factory=list)

    def write(self, node: Node) -> tuple[str, int]:
        return (self._integer(node), _ATOM) if self._in_integers(node) else self._rounding(node)

    def _in_integers(self, node: Node) -> bool:
        return self.dtype.is_integer or (self.integer_sums and is_integer(node))

    def _rounding(self, node: Node) -> tuple[str, int]:
        match node:
            case Name(name):
                return self.names.get(name, name), _ATOM
            case Number(value):
                return self._literal(value), _ATOM if value >= 0 else _MULTIPLIED
            case Negation(value):
                return f"-{self._at_least(_ATOM, value)}", _MULTIPLIED
            case Call(name, arguments):
                return self._call(name, arguments), _ATOM
            case Binary("+" | "-"):
                return self._sum(node)
            case Binary(operator, left, right):
                factor = self._at_least(_MULTIPLIED, left)
                return f"{factor} {operator} {self._at_least(_ATOM, right)}", _MULTIPLIED

    def _integer(self, node: Node) -> str:
        """The text of a node if everything is an integer."""
        match node:
            case Name(name):
                return self.names.get(name, name)
            case Number(value):
                return str(int(value))
            case Call(name, arguments):
                return self._call(name, arguments)
            case Negation(value):
                return self._integer_sum(Binary("-", Number(0.0), value))
            case Binary():
                return self._integer_sum(node)

    def _integer_sum(self, node: Binary) -> str:
        """A sum of integers as one function call: a product added to or subtracted from a term."""
        term, product = node.left, node.right
        if node.operator == "*":
            term, product = Number(0.0), node
        elif node.operator == "+" and isinstance(term, Binary) and term.operator == "*":
            term, product = product, term
        called = "multiply_subtract" if node.operator == "-" else "multiply_add"
        if isinstance(product, Binary) and product.operator == "*":
            return f"{called}({self._factors(product)}, {self._integer(term)})"
        return f"{called}(1, {self._integer(product)}, {self._integer(term)})"

    def _factors(self, product: Binary) -> str:
        return f"{self._integer(product.left)}, {self._integer(product.right)}"

    def _sum(self, node: Binary) -> tuple[str, int]:
        """A sum in this order: terms that are not products, the old C, then products, each as an fma.

        Beside what is no product, what C held is left out where beta = 0: compilers write that case apart, but may not
        drop an fma of zero. Beside products alone it gained nothing (docs/lab/wgmma-notebook.md).
        """
        terms = sorted(self._terms(node), key=lambda term: term.negative)
        plain = [term for term in terms if not self._is_product(term.node)]
        old = [term for term in terms if is_old(term.node)]
        products = [term for term in terms if self._is_product(term.node) and not is_old(term.node)]
        text, strength = self._plain_sum(plain or [(products or old).pop(0)])
        if plain and old:
            rest = text if _NAMED.fullmatch(text) else self._variable(text)
            beta, zero = self.names.get("beta", "beta"), self.dtype.arithmetic.zero
            text, strength = f"{beta} == {zero} ? {rest} : {self._added(old.pop(0), rest)}", _CHOSEN
        for term in old + products:
            text, strength = self._added(term, text), _ATOM
        return text, strength

    def _terms(self, node: Node, negative: bool = False) -> Iterator[_Term]:
        """The terms of a sum, whatever its parentheses; a part that is computed in integers is one term."""
        if isinstance(node, Binary) and node.operator in "+-" and not self._in_integers(node):
            yield from self._terms(node.left, negative)
            yield from self._terms(node.right, negative ^ (node.operator == "-"))
        else:
            yield _Term(node, negative)

    def _is_product(self, node: Node) -> bool:
        return isinstance(node, Binary) and node.operator == "*" and not self._in_integers(node)

    def _plain_sum(self, terms: list[_Term]) -> tuple[str, int]:
        first, *others = terms
        text, strength = self.write(first.node)
        if first.negative:
            bare = strength >= _MULTIPLIED and not text.startswith("-")  # -- is C++'s decrement
            text, strength = f"-{text if bare else f'({text})'}", _MULTIPLIED
        for term in others:
            text = f"{text} {'-' if term.negative else '+'} {self._at_least(_MULTIPLIED, term.node)}"
        return text, _ADDED if others else strength

    def _added(self, term: _Term, rest: str) -> str:
        """The sum of a product and the text `rest`; if neither is short, a factor that contains a call gets its own
        line."""
        assert isinstance(term.node, Binary)
        factor = self._at_least(_ATOM if term.negative else _CHOSEN, term.node.left)
        if self.split and "(" in factor and not _NAMED.fullmatch(rest):
            factor = self._variable(factor)
        factors = f"-{factor}" if term.negative else factor, self._at_least(_CHOSEN, term.node.right)
        return f"{self.dtype.arithmetic.fma}({', '.join(factors)}, {rest})"

    def _call(self, name: str, arguments: tuple[Node, ...]) -> str:
        if name not in FUNCTIONS:
            return self._output(OPERANDS[name], arguments[0])
        library = _LIBRARY.fullmatch(FUNCTIONS[name].cuda)
        called = library[1].format(f=_suffix(self.dtype)) if library else name
        return f"{called}({', '.join(self._argument(argument) for argument in arguments)})"

    def _output(self, operand: Operand, value: Node) -> str:
        text = self._at_least(0, value)
        if operand.is_amax:  # which is not the value
            text = text if _NAMED.fullmatch(text) else self._variable(text)
        self.statements.append(Statement(operand.name, text, operand))
        return text if operand.is_amax else operand.name

    def _argument(self, node: Node) -> str:
        text = self._at_least(0, node)
        if not self.split or isinstance(node, Name | Number) or node == Negation(Name("acc")):
            return text
        if isinstance(node, Call) and node.name not in FUNCTIONS:
            return text
        return self._variable(text)

    def _variable(self, text: str) -> str:
        number = sum(statement.output is None for statement in self.statements) + 1
        self.statements.append(Statement("x" if number == 1 else f"x{number}", text))
        return self.statements[-1].name

    def _at_least(self, strength: int, node: Node) -> str:
        text, own = self.write(node)
        return text if own >= strength else f"({text})"

    def _literal(self, value: float) -> str:
        if self.dtype == DType.F32:
            text = str(np.float32(value))
            return f"{text}f" if set(text) & set(".e") else f"{text}.0f"
        return repr(value)
