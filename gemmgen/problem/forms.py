"""Epilogues by the names of what they are made of: `bias+gelu`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial, reduce
from itertools import product, takewhile

from gemmgen.problem.functions import FUNCTIONS
from gemmgen.problem.nodes import Binary, Call, Name, Node, inside, substitute, unparse
from gemmgen.problem.operands import ACC, ACCUMULATORS, DEPTH, OPERANDS, SCALARS, SUMS, C
from gemmgen.problem.parser import FORM_CALLS, parse
from gemmgen.support.errors import InvalidInput

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
# Gates, which begin: of two products, one through a function and times the other; of four an LSTM's hidden state, whose
# cell state it writes to `aux`, and finds the last one in `residual`.
_GATED = {
    "swiglu": "silu(acc) * acc2",
    "geglu": "gelu(acc) * acc2",
    "lstm": "sigmoid(acc4) * tanh(aux(sigmoid(acc) * residual + sigmoid(acc2) * tanh(acc3)))",
}
# What --epilogue calls by a name: an expression over x, the value so far.
_FORMS = {
    "bias": "x + bias_n",
    "bias_n": "x + bias_n",
    "bias_m": "x + bias_m",
    **{name: f"x * {name}" for name in ("scale_m", "scale_n", "scale_a", "scale_b")},
    "residual": "x + residual",
    **{name: f"{name}(x)" for name, operand in OPERANDS.items() if operand.written},
    **{name: f"{name}(x)" for name, one in FUNCTIONS.items() if len(one.parameters) == 1},
}
FORM_NAMES = (*_GATED, *_ZERO_POINTS, *_FORMS)  # of all forms, but for those that take numbers: FORM_CALLS
_SCALES = ("scale_m", "scale_n", "scale_a", "scale_b")

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hardswish")
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
    ("row_amax",),
    ("column_amax",),
)
GATED = tuple(_GATED)
FORMS = (*GATED, *(name for names in CHOICES for name in names))  # that names of kernels are made of
MOST_FORMS = 8  # of a kernel's name


@cache
def _form(expression: str) -> Node:
    return parse(expression, ("x", *ACCUMULATORS, *SUMS, DEPTH, *OPERANDS))


def parse_forms(text: str) -> Node:
    """The tree that forms joined by + mean: bias+gelu is gelu(alpha * acc + beta * C + bias_n). Raises InvalidInput."""
    forms = list(_terms(parse(text, FORM_NAMES, forms=True)))
    if isinstance(forms[0], Name) and forms[0].name in _GATED:
        return reduce(partial(_applied, text), forms[1:], _form(_GATED[forms[0].name]))
    zeros = frozenset(form.name for form in takewhile(_is_zero_point, forms) if isinstance(form, Name))
    acc = substitute(_form(_ZEROS[zeros]), {"x": Name(ACC)}) if zeros in _ZEROS else Name(ACC)
    value: Node = Binary("*", Name("alpha"), acc)
    plain = True
    for form in forms[len(zeros) if zeros in _ZEROS else 0 :]:
        if plain and not (isinstance(form, Name) and form.name in _SCALES):
            value, plain = Binary("+", value, Binary("*", Name("beta"), Name(C))), False
        value = _applied(text, value, form)
    return value if not plain else Binary("+", value, Binary("*", Name("beta"), Name(C)))


def _is_zero_point(form: Node) -> bool:
    return isinstance(form, Name) and form.name in _ZERO_POINTS


def _terms(tree: Node) -> Iterator[Node]:
    if isinstance(tree, Binary) and tree.operator == "+":
        yield from _terms(tree.left)
        yield from _terms(tree.right)
    else:
        yield tree


def _applied(text: str, value: Node, form: Node) -> Node:
    """What `form` makes of `value`: a name's expression, or clamp(lo, hi)."""
    match form:
        case Name(name) if name in _FORMS:
            return substitute(_form(_FORMS[name]), {"x": value})
        case Call("clamp", (lo, hi)):
            return Call("clamp", (value, lo, hi))
    if isinstance(form, Name) and form.name in _GATED:
        raise InvalidInput(
            f"epilogue: {form.name} stands behind others in {text!r}, and it begins: it takes acc and others"
        )
    if _is_zero_point(form):
        raise InvalidInput(
            f"epilogue: {unparse(form)} in {text!r}: zero points come first, one of A's and one of B's at most"
        )
    known = ", ".join((*FORM_NAMES, *FORM_CALLS))
    raise InvalidInput(
        f"epilogue: {unparse(form)!r} of {text!r} is no form, and without acc it is no expression: forms are {known}"
    )


def forms_of(epilogue: Node) -> str | None:
    """FORMS joined by + that mean `epilogue`; None where none do, or so many that a name would be too long."""
    outer, tree = _peel(epilogue, FORMS)
    gated = [name for name, form in _GATED.items() if tree == _form(form)]
    if gated:
        return "+".join((gated[0], *outer)) if len(outer) < MOST_FORMS else None
    value = inside(parse("x + beta * C", ("x", *SCALARS, C)), tree)
    inner, tree = _peel(value or tree, _SCALES)
    acc = inside(parse("alpha * x", ("x", *SCALARS)), tree)
    zeros = [zeros for zeros, form in _ZEROS.items() if acc == substitute(_form(form), {"x": Name(ACC)})]
    forms = (*sorted(zeros[0] if zeros else ()), *inner, *outer)
    text = "+".join(forms)
    return text if 0 < len(forms) <= MOST_FORMS and parse_forms(text) == epilogue else None


def _peel(tree: Node, names: tuple[str, ...]) -> tuple[tuple[str, ...], Node]:
    """The forms of `names` that stand around the rest of `tree`, the outermost last, and that rest."""
    for name in names:
        value = inside(_form(_FORMS[name]), tree) if name in _FORMS else None
        if value is not None:
            forms, rest = _peel(value, names)
            return (*forms, name), rest
    return (), tree
