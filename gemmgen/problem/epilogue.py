"""What becomes of the accumulator: an expression over it, alpha and beta, C, further tensors and functions.

    gelu(alpha * acc + beta * C + bias_n) + residual

`acc` is an element of A * B, which K = 0 makes 0; `row_sum` is the sum of its row of A, `column_sum` that of its column
of B, which the kernel computes besides, and `K` the number of their elements. `C` stands for what C holds before the
launch: it occurs only as `beta * C`, and beta = 0 leaves it unread. The value is C's new element, rounded once.

Where sums are integers, what is made of acc, these and zero points by +, - and * alone is computed in integers, which
wrap around, and converted to the type of alpha by what uses it. Where alpha is an integer, all is.

The tree is the single source of CUDA's text (`kernel.epilogue_text`), of the reference and its error bound
(`verification.roundings`), of the operands that a kernel takes, and of its name.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product, takewhile
from typing import Literal

from gemmgen.problem.functions import FUNCTIONS
from gemmgen.support.errors import InvalidInput, require

Along = Literal["", "m", "n", "mn"]
Operator = Literal["+", "-", "*", "/"]

LONGEST = 500  # characters of an expression
MOST_NODES = 100  # of a tree
CHARACTERS = re.compile(r"[A-Za-z0-9_ .,+\-*/()]*", re.ASCII)
SCALARS = ("alpha", "beta")
ACC, C = "acc", "C"
SUMS = ("row_sum", "column_sum")  # of A and B, which kernels compute beside acc
DEPTH = "K"


@dataclass(frozen=True)
class Operand:
    """A tensor that an epilogue may name.

    along    "m": one element a row of C, "n": one a column, "mn": a matrix as large as C, row-major; "": a single one
    written  the kernel writes it: the argument of its call, which goes on as the call's value. It lies as C does
    summed   it is of the type of the sums, rather than of alpha's
    """

    name: str
    along: Along
    meaning: str
    written: bool = False
    summed: bool = False

    @property
    def is_matrix(self) -> bool:
        return self.along == "mn"

    @property
    def size(self) -> str | None:
        """Of a vector: M or N, its elements; a single one has none."""
        return self.along.upper() or None

    @property
    def whose(self) -> str:
        """What of C a vector's element, or the single one, is for."""
        return {"m": "one a row of C", "n": "one a column of C"}.get(self.along, "for all of C")

    @property
    def ld(self) -> str:
        """The name of its leading dimension, which matrices have."""
        return "ldc" if self.written else f"ld_{self.name}"

    @property
    def stride(self) -> str:
        """The name of a matrix' distance to the next of a batch."""
        return "stride_c" if self.written else f"stride_{self.name}"


_OPERANDS = (
    Operand("bias_m", "m", "added to each element of its row"),
    Operand("bias_n", "n", "added to each element of its column"),
    Operand("scale_m", "m", "a factor of each element of its row"),
    Operand("scale_n", "n", "a factor of each element of its column"),
    Operand("scale_a", "", "a factor of all elements: A's, say"),
    Operand("scale_b", "", "a factor of all elements: B's, say"),
    Operand("zero_m", "m", "the zero point of a row of A", summed=True),
    Operand("zero_n", "n", "the zero point of a column of B", summed=True),
    Operand("zero_a", "", "the zero point of all of A", summed=True),
    Operand("zero_b", "", "the zero point of all of B", summed=True),
    Operand("sum_m", "m", "the sum of a row of A, computed before", summed=True),
    Operand("sum_n", "n", "the sum of a column of B, computed before", summed=True),
    Operand("residual", "mn", "added, element by element"),
    Operand("aux", "mn", "takes its argument: the value before an activation, say", written=True),
)
OPERANDS = {operand.name: operand for operand in _OPERANDS}


@dataclass(frozen=True)
class Name:
    """`acc`, one of SUMS, `K`, a scalar, `C`, an operand, or a parameter of a function's definition."""

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


@dataclass(frozen=True)
class Epilogue:
    """The tree of C's new element. Raises InvalidInput for one that no kernel computes."""

    tree: Node

    def __post_init__(self) -> None:
        require(len(self.nodes) <= MOST_NODES, f"an epilogue has at most {MOST_NODES} terms, not {len(self.nodes)}")
        require(ACC in self.names, f"the epilogue {self} leaves out acc, the product of A and B")
        scaled = sum(_is_old(node) for node in self.nodes)
        require(
            self.names.count(C) == scaled,
            f"C stands apart from beta in {str(self)!r}: write beta * C, or residual for another matrix",
        )
        for operand in self.outputs:
            calls = sum(isinstance(node, Call) and node.name == operand.name for node in self.nodes)
            require(calls == 1, f"the epilogue {self} writes {operand.name} {calls} times")

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All of the tree, each behind its parts."""
        return tuple(_walk(self.tree))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes if isinstance(node, Name))

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """What the kernel takes beside A, B and C, in the order of OPERANDS."""
        used = {*self.names, *(node.name for node in self.nodes if isinstance(node, Call))}
        return tuple(operand for name, operand in OPERANDS.items() if name in used)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """Of these, what it writes."""
        return tuple(operand for operand in self.operands if operand.written)

    @property
    def scalars(self) -> tuple[str, ...]:
        """Of alpha and beta those that the kernel takes."""
        return tuple(name for name in SCALARS if name in self.names)

    @cached_property
    def sums(self) -> tuple[str, ...]:
        """Of SUMS those that the kernel computes."""
        return tuple(name for name in SUMS if name in self.names)

    @property
    def reads_shape(self) -> bool:
        """Whether it depends on K or on a leading dimension."""
        return self.has_matrix or self.reads_depth

    @property
    def reads_depth(self) -> bool:
        """Whether it depends on K."""
        return DEPTH in self.names

    @property
    def has_matrix(self) -> bool:
        return any(operand.is_matrix for operand in self.operands)

    @property
    def reads_rows(self) -> bool:
        """Whether an operand's element depends on the row of C."""
        return any("m" in operand.along for operand in self.operands)

    @property
    def reads_columns(self) -> bool:
        """Likewise on the column."""
        return any("n" in operand.along for operand in self.operands)

    @property
    def reads_c(self) -> bool:
        """Whether it reads C, where beta is not 0."""
        return C in self.names

    @property
    def is_linear(self) -> bool:
        """alpha * acc + beta * C."""
        return self == LINEAR

    @property
    def token(self) -> str:
        """In a kernel's name: the forms that it is made of, else digits that are its own. Empty where linear."""
        forms = "" if self.is_linear else forms_of(self)
        return f"ep{self._digest[:8]}" if forms is None else forms.replace("+", "_")

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(str(self).encode()).hexdigest()

    def __hash__(self) -> int:
        """Of the text, once: a search hashes its problem often."""
        return int(self._digest[:15], 16)

    def __str__(self) -> str:
        return unparse(self.tree)


def _is_old(node: Node) -> bool:
    return isinstance(node, Binary) and node.operator == "*" and {node.left, node.right} == {Name("beta"), Name(C)}


def _parts(node: Node) -> tuple[Node, ...]:
    match node:
        case Negation(value):
            return (value,)
        case Binary(_, left, right):
            return left, right
        case Call(_, arguments):
            return arguments
    return ()


def _walk(node: Node) -> Iterator[Node]:
    for part in _parts(node):
        yield from _walk(part)
    yield node


_WHOLE = frozenset({ACC, DEPTH, *SUMS, *(operand.name for operand in _OPERANDS if operand.summed)})


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
            return all(map(is_whole, _parts(node)))
    return False


def is_integer(node: Node) -> bool:
    """Whether kernels with integer sums compute it in integers, whatever it is part of: no number alone."""
    return is_whole(node) and any(isinstance(part, Name) for part in _walk(node))


def require_integers(epilogue: Epilogue) -> None:
    """Raise InvalidInput unless it can be computed in integers throughout."""
    for node in epilogue.nodes:
        match node:
            case Number(value):
                require(is_whole(node), f"the epilogue {epilogue} has {value:g}, and with C of s32 all is integers")
            case Binary("/"):
                require(False, f"the epilogue {epilogue} divides, and with C of s32 all is integers")
            case Call(name) if name in FUNCTIONS:
                known = ", ".join(name for name, one in FUNCTIONS.items() if one.integers)
                require(
                    FUNCTIONS[name].integers,
                    f"the epilogue {epilogue} calls {name}; with C of s32 all is integers, and of functions {known}",
                )


_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2}


def _plain(value: float) -> str:
    return repr(value) if value != int(value) or abs(value) >= 2**53 else str(int(value))


def unparse(node: Node, number: Callable[[float], str] = _plain, strength: int = 0) -> str:
    """As `parse_epilogue` reads it, numbers as `number` writes them.

    In parentheses where its operator binds less than `strength`.
    """
    match node:
        case Name(name):
            return name
        case Number(value):
            return number(value)
        case Negation(value):
            return f"-{unparse(value, number, 3)}"
        case Call(name, arguments):
            return f"{name}({', '.join(unparse(argument, number) for argument in arguments)})"
        case Binary(operator, left, right):
            own = _STRENGTH[operator]
            text = f"{unparse(left, number, own)} {operator} {unparse(right, number, own + 1)}"
            return f"({text})" if own < strength else text


def parse_epilogue(text: str) -> Epilogue:
    """An expression over acc, or names of forms joined by +: `bias+gelu`. Raises InvalidInput.

    Forms apply in their order to alpha * acc; the first that is no scale adds beta * C before. zero_m and zero_n, which
    begin, take the zero points of A's rows and B's columns from acc.
    """
    if re.search(r"\bacc\b", text, re.ASCII):
        read = (name for name, one in OPERANDS.items() if not one.written)
        return Epilogue(parse(text, (ACC, *SUMS, DEPTH, *SCALARS, C, *read)))
    return Epilogue(_joined(text, parse(text, (*_ZERO_POINTS, *_FORMS), forms=True)))


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
        place = f" (from character {error.offset} on)" if isinstance(error, SyntaxError) and error.offset else ""
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
            known = f"known are {', '.join(self.names)}"
            hint = f"{name} takes an argument" if name in FUNCTIONS or name in OPERANDS else known
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
        return Call(name, arguments)

    def _wrong(self, node: ast.expr, what: str) -> InvalidInput:
        lead = len(self.text) - len(self.text.lstrip())
        start, end = node.col_offset + lead, (node.end_col_offset or 0) + lead
        place = f"character {start + 1} of {self.text!r}"
        return InvalidInput(f"epilogue: {self.text[start:end]!r} {what} ({place})")


# What zero points make of acc: the sum of (A - zero_m) * (B - zero_n) over K.
_A_ZEROS, _B_ZEROS = ("zero_m", "zero_a"), ("zero_n", "zero_b")
_ZERO_POINTS = (*_A_ZEROS, *_B_ZEROS)
_ZEROS = {
    **{frozenset({of_a}): f"x - {of_a} * column_sum" for of_a in _A_ZEROS},
    **{frozenset({of_b}): f"x - row_sum * {of_b}" for of_b in _B_ZEROS},
    **{
        frozenset({of_a, of_b}): f"x - {of_a} * (column_sum - K * {of_b}) - row_sum * {of_b}"
        for of_a, of_b in product(_A_ZEROS, _B_ZEROS)
    },
}
# What --epilogue calls by a name: an expression over x, the value so far.
_FORMS = {
    "bias": "x + bias_n",
    "bias_n": "x + bias_n",
    "bias_m": "x + bias_m",
    **{name: f"x * {name}" for name in ("scale_m", "scale_n", "scale_a", "scale_b")},
    "residual": "x + residual",
    "aux": "aux(x)",
    **{name: f"{name}(x)" for name, one in FUNCTIONS.items() if len(one.parameters) == 1},
}
_SCALES = ("scale_m", "scale_n", "scale_a", "scale_b")


@cache
def _form(expression: str) -> Node:
    return parse(expression, ("x", *SUMS, DEPTH, *OPERANDS))


def _joined(text: str, tree: Node) -> Node:
    """The tree that forms joined by + mean: bias + gelu is gelu(alpha * acc + beta * C + bias_n)."""
    forms = list(_terms(tree))
    zeros = frozenset(form.name for form in takewhile(_is_zero_point, forms) if isinstance(form, Name))
    acc = substitute(_form(_ZEROS[zeros]), {"x": Name(ACC)}) if zeros in _ZEROS else Name(ACC)
    value: Node = Binary("*", Name("alpha"), acc)
    plain = True
    for form in forms[len(zeros) if zeros in _ZEROS else 0 :]:
        if plain and not (isinstance(form, Name) and form.name in _SCALES):
            value, plain = Binary("+", value, Binary("*", Name("beta"), Name(C))), False
        value = _applied(text, form, value)
    return value if not plain else Binary("+", value, Binary("*", Name("beta"), Name(C)))


def _is_zero_point(form: Node) -> bool:
    return isinstance(form, Name) and form.name in _ZERO_POINTS


def _terms(tree: Node) -> Iterator[Node]:
    if isinstance(tree, Binary) and tree.operator == "+":
        yield from _terms(tree.left)
        yield from _terms(tree.right)
    else:
        yield tree


def _applied(text: str, form: Node, value: Node) -> Node:
    """What `form` makes of `value`: a name's expression, or clamp(lo, hi)."""
    match form:
        case Name(name) if name in _FORMS:
            return substitute(_form(_FORMS[name]), {"x": value})
        case Call("clamp", (lo, hi)):
            return Call("clamp", (value, lo, hi))
    known = ", ".join((*_ZERO_POINTS, *_FORMS, "clamp(lo, hi)"))
    raise InvalidInput(
        f"epilogue: {unparse(form)!r} of {text!r} is no form, and without acc it is no expression: forms are {known}"
    )


def substitute(tree: Node, values: dict[str, Node]) -> Node:
    """`tree` with `values` in the place of names."""
    match tree:
        case Name(name):
            return values.get(name, tree)
        case Negation(value):
            return Negation(substitute(value, values))
        case Binary(operator, left, right):
            return Binary(operator, substitute(left, values), substitute(right, values))
        case Call(name, arguments):
            return Call(name, tuple(substitute(argument, values) for argument in arguments))
    return tree


LINEAR = parse_epilogue("alpha * acc + beta * C")

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")
# The forms that people join most, of each of these at most one.
CHOICES = (
    _A_ZEROS,
    _B_ZEROS,
    ("scale_m", "scale_a"),
    ("scale_n", "scale_b"),
    ("bias", "bias_m"),
    ("aux",),
    ACTIVATIONS,
    ("residual",),
)
FORMS = tuple(name for names in CHOICES for name in names)  # that names of kernels are made of
MOST_FORMS = 8  # of a kernel's name


def forms_of(epilogue: Epilogue) -> str | None:
    """FORMS joined by + that mean `epilogue`; None where none do, or so many that a name would be too long."""
    outer, tree = _peel(epilogue.tree, FORMS)
    value = _inside(parse("x + beta * C", ("x", *SCALARS, C)), tree)
    inner, tree = _peel(value or tree, _SCALES)
    acc = _inside(parse("alpha * x", ("x", *SCALARS)), tree)
    zeros = [zeros for zeros, form in _ZEROS.items() if acc == substitute(_form(form), {"x": Name(ACC)})]
    forms = (*sorted(zeros[0] if zeros else ()), *inner, *outer)
    text = "+".join(forms)
    return text if 0 < len(forms) <= MOST_FORMS and parse_epilogue(text) == epilogue else None


def _peel(tree: Node, names: tuple[str, ...]) -> tuple[tuple[str, ...], Node]:
    """The forms of `names` that stand around the rest of `tree`, the outermost last, and that rest."""
    for name in names:
        inside = _inside(_form(_FORMS[name]), tree) if name in _FORMS else None
        if inside is not None:
            forms, rest = _peel(inside, names)
            return (*forms, name), rest
    return (), tree


def _inside(pattern: Node, tree: Node) -> Node | None:
    """What stands in `tree` where `pattern` has x; None where they differ elsewhere."""
    if pattern == Name("x"):
        return tree
    if type(pattern) is type(tree):
        for part, other in zip(_parts(pattern), _parts(tree), strict=False):
            inside = _inside(part, other)
            if inside is not None and substitute(pattern, {"x": inside}) == tree:
                return inside
    return None


def epilogue_of_token(token: str) -> Epilogue | None:
    """The epilogue whose `token` this is, where it is made of forms; None for any other text."""
    names = re.findall("|".join(sorted(FORMS, key=len, reverse=True)), token)
    return parse_epilogue("+".join(names)) if names and "_".join(names) == token else None
