"""An epilogue in float64, and the error bound of a kernel's value: the accumulator's error, carried through the
tree.

Each value comes with a bound of its error. An operation on values that are off adds its own rounding:

    a + b      bound(a) + bound(b)                                            + rounding
    a * b      |a| bound(b) + |b| bound(a) + bound(a) bound(b)                + rounding
    f(a)       bound(a) * the largest slope of f within bound(a) of a         + f's own error
    rounding   u |value| + half the smallest denormal; nothing where exact operands have a result that the type holds

A kernel may add three terms or more in any order, as it may sum over K. Whatever it adds first is no larger than all
terms of one sign together, (sum of |t| + |sum of t|) / 2: all sums but the last may round such a number as well. Even
if no sum rounds in the written order, one may in another order, unless all terms are small multiples of one number.

Infinity times a number that may be 0, or of either sign, is in doubt: NaN or infinite, and any result is right.
Examples are silu(acc) * acc2 if acc is so far below 0 that sigmoid(acc) vanishes in a kernel but not in float64, and
gelu(x) if x may or may not overflow.

These are worst cases, not probabilities: an epilogue has few operations. A kernel that fuses a product and a sum rounds
once less. Integer arithmetic is exact modulo 2^32, and rounded when it becomes a float.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial, reduce
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import Epilogue
from gemmgen.problem.functions import FUNCTIONS, Function, function_named
from gemmgen.problem.gemm import Problem
from gemmgen.problem.nodes import Binary, Call, Name, Negation, Node, Number, is_integer
from gemmgen.problem.parser import parse

FLOAT64 = 2.0**-30  # of a bound: more than float64's own rounding takes away

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Value = TypeVar("Value")


@dataclass(frozen=True)
class Bounded:
    """Values, and the error bounds of a kernel's values. The shapes broadcast."""

    value: Doubles
    bound: Doubles

    @classmethod
    def exact(cls, value: npt.ArrayLike) -> Bounded:
        values = np.asarray(value, np.float64)
        return cls(values, np.zeros_like(values))

    @property
    def doubtful(self) -> Mask:
        return doubtful(self.value, self.bound)

    @property
    def may_vanish(self) -> Mask:
        """A mask of the elements where a kernel's value may be 0, or differ from this one."""
        return np.asarray((np.abs(self.value) <= self.bound) & (self.bound > 0))

    @property
    def may_overflow(self) -> Mask:
        """A mask of the elements where a kernel's value may or may not be infinite."""
        return np.asarray(np.isfinite(self.value) & np.isinf(self.bound))


def doubtful(value: Doubles, bound: Doubles) -> Mask:
    """A mask of the elements where any result is right."""
    return np.asarray(np.isnan(value) & np.isinf(bound))


@dataclass(frozen=True)
class Results:
    """C's new elements, and the values of each output, by its name."""

    c: Bounded
    outputs: Mapping[str, Bounded]


def apply_epilogue(
    epilogue: Epilogue,
    inputs: Mapping[str, Bounded],
    dtype: DType,
    exact: bool = False,
    integer_sums: bool = False,
    short: bool = False,
) -> Results:
    """Apply `epilogue` to its inputs by name, as a kernel computes it in `dtype`; `short`: with the `short`
    functions.

    `exact` states for f64 that sums and products of exact inputs have no error, which float64 cannot tell. With
    `integer_sums` acc and other values of its type are integers, and so are nodes for which `is_integer` holds.
    """
    outputs: dict[str, Bounded] = {}
    with np.errstate(all="ignore"):
        return Results(Arithmetic(dtype, exact, integer_sums, outputs, short).value(epilogue.tree, inputs), outputs)


def results_of(problem: Problem, inputs: Mapping[str, Bounded], exact: bool = False) -> Results:
    """Apply the epilogue of `problem` to its inputs by name; see `apply_epilogue`."""
    types = problem.types
    integer_sums = types.accumulator.is_integer
    return apply_epilogue(problem.epilogue, inputs, types.scalar, exact, integer_sums, problem.short_results)


class Walk(ABC, Generic[Value]):
    """A walk through an epilogue's tree for any kind of value: arrays with bounds, or the steps of an executor."""

    integer_sums: bool
    short: bool

    def value(self, node: Node, names: Mapping[str, Value]) -> Value:
        """The value of `node`, for values by name."""
        return self.of_integers(node, names) if self._is_integer(node) else self._of_floats(node, names)

    def _is_integer(self, node: Node) -> bool:
        return self.integer_sums and is_integer(node)

    def _of_floats(self, node: Node, names: Mapping[str, Value]) -> Value:
        match node:
            case Name(name):
                return names[name]
            case Number(value):
                return self.constant(value)
            case Negation(value):
                return self.negated(self.value(value, names))
            case Call(name, arguments):
                return self._called(name, [self.value(argument, names) for argument in arguments])
            case Binary("+" | "-"):
                return self.sum(self._terms(node, names))
            case Binary(operator, left, right):
                return self.of_two(operator, self.value(left, names), self.value(right, names))

    def _called(self, name: str, arguments: list[Value]) -> Value:
        if name not in FUNCTIONS:
            return self.output(name, arguments[0])
        function = function_named(name, self.short)
        if not function.definition:
            return self.function(function, arguments)
        return self.value(_definition(name), dict(zip(function.parameters, arguments, strict=True)))

    def _terms(self, node: Node, names: Mapping[str, Value]) -> list[Value]:
        """The terms of a sum, whatever its parentheses; a part that is computed in integers is one term."""
        match node:
            case Binary("+" | "-" as operator, left, right) if not self._is_integer(node):
                of_right = self._terms(right, names)
                return self._terms(left, names) + (of_right if operator == "+" else list(map(self.negated, of_right)))
        return [self.value(node, names)]

    @abstractmethod
    def constant(self, value: float) -> Value: ...

    @abstractmethod
    def negated(self, x: Value) -> Value: ...

    @abstractmethod
    def sum(self, terms: list[Value]) -> Value:
        """A sum of terms, in any order."""

    @abstractmethod
    def of_two(self, operator: str, a: Value, b: Value) -> Value:
        """A product, or a quotient by a number."""

    @abstractmethod
    def function(self, function: Function, arguments: list[Value]) -> Value:
        """A function without a definition by others."""

    @abstractmethod
    def output(self, name: str, value: Value) -> Value:
        """Return `value`, after storing it to an output."""

    @abstractmethod
    def of_integers(self, node: Node, names: Mapping[str, Value]) -> Value:
        """The value of a part that is computed in integers, as a float."""


@dataclass(frozen=True)
class Arithmetic(Walk[Bounded]):
    """Arithmetic with bounds, as a kernel computes in `dtype`; see `apply_epilogue`."""

    dtype: DType
    exact: bool = False
    integer_sums: bool = False
    outputs: dict[str, Bounded] = field(default_factory=dict)
    short: bool = False

    def value(self, node: Node, names: Mapping[str, Bounded]) -> Bounded:
        return Bounded.exact(self._integer(node, names)) if self.dtype.is_integer else super().value(node, names)

    def of_integers(self, node: Node, names: Mapping[str, Bounded]) -> Bounded:
        values = self._integer(node, names).astype(np.float64)
        return self._rounded(values, np.zeros_like(values))

    def _integer(self, node: Node, names: Mapping[str, Bounded]) -> Integers:
        """The value modulo 2^32, in the range of s32."""
        match node:
            case Name(name):
                return DType.S32.wrap(names[name].value.astype(np.int64))
            case Number(value):
                return np.asarray(value, np.int64)
            case Negation(value):
                return DType.S32.wrap(-self._integer(value, names))
            case Call(name, arguments):
                values = [self._integer(argument, names) for argument in arguments]
                if name not in FUNCTIONS:
                    self.outputs[name] = Bounded.exact(values[0])
                    return values[0]
                return np.asarray(FUNCTIONS[name].reference(*values), np.int64)
            case Binary(operator, left, right):
                operation = {"+": np.add, "-": np.subtract, "*": np.multiply}[operator]
                return DType.S32.wrap(operation(self._integer(left, names), self._integer(right, names)))

    def constant(self, value: float) -> Bounded:
        return self._rounded(np.asarray(value), np.zeros(()))

    def negated(self, x: Bounded) -> Bounded:
        return Bounded(-x.value, x.bound)

    def output(self, name: str, value: Bounded) -> Bounded:
        self.outputs[name] = value
        return value

    def sum(self, terms: list[Bounded]) -> Bounded:
        total = reduce(partial(self.of_two, "+"), terms)
        if len(terms) == 2:
            return total
        size = reduce(np.add, (np.abs(term.value) + term.bound for term in terms))
        most = (size + np.abs(total.value)) / 2
        times, least = self.rounding
        last = np.where(total.bound > 0, total.bound, times * np.abs(total.value) + least)
        others = last + (len(terms) - 2) * self.reordering * most
        others = np.where(np.abs(total.value) + others > self.dtype.largest, np.inf, others)
        rounds = np.isfinite(total.value) & ((total.bound > 0) | ~self._exact_in_any_order(total, terms, size))
        return Bounded(total.value, np.where(rounds, others, total.bound))

    def _exact_in_any_order(self, total: Bounded, terms: list[Bounded], size: Doubles) -> Mask:
        """Whether the type holds all partial sums of exact terms: small multiples of one unit."""
        if (total.bound > 0).all():
            return np.ones((), bool)
        unit = reduce(np.minimum, (_lowest_bit(term.value) for term in terms))
        return np.asarray(size * self.dtype.unit_roundoff < unit)

    def of_two(self, operator: str, a: Bounded, b: Bounded) -> Bounded:
        return _doubting(self._binary(operator, a, b), [a, b], lambda: _opposed(operator, a, b))

    def _binary(self, operator: str, a: Bounded, b: Bounded) -> Bounded:
        if operator == "+":
            return self._rounded(a.value + b.value, a.bound + b.bound)
        if operator == "/":  # by a number
            divisor = np.abs(b.value) - b.bound
            return self._rounded(a.value / b.value, (a.bound + np.abs(a.value / b.value) * b.bound) / divisor)
        inherited = np.abs(b.value) * a.bound
        if b.bound.any():
            inherited = inherited + (np.abs(a.value) + a.bound) * b.bound
        return self._rounded(a.value * b.value, inherited)

    def function(self, function: Function, arguments: list[Bounded]) -> Bounded:
        def said() -> Mask:  # x, which may be infinite, times what vanishes far from 0
            return arguments[0].may_overflow if function.of_x else np.zeros((), bool)

        return _doubting(self._applied(function, arguments), arguments, said)

    def _applied(self, function: Function, arguments: list[Bounded]) -> Bounded:
        x = arguments[0]
        value = np.asarray(function.reference(*(argument.value for argument in arguments)), np.float64)
        widest = reduce(np.maximum, (argument.bound for argument in arguments))
        inherited = np.where(widest > 0, widest * function.slope(x.value - widest, x.value + widest), 0.0)
        times, least = self.own_error(function)
        if times == 0:
            return self._finite(value, inherited)
        unit = np.abs(x.value) + x.bound if function.of_x else np.abs(value) + inherited
        bound, limit = inherited + times * unit + least, np.isinf(x.value)
        if limit.any():  # libraries return it exactly; what is off by so much of x is off here as of 1
            bound = np.where(limit, times + least if function.of_x else 0.0, bound)
        return self._finite(value, bound)

    def own_error(self, function: Function) -> tuple[float, float]:
        """A function's own error: (relative to its result or argument, absolute)."""
        if function.ulps == 0:
            return 0.0, 0.0
        least = 2.0 ** (1 - self.dtype.max_exponent)  # results below it may be zero
        return self._roundings * 2 * function.ulps * self.dtype.unit_roundoff, self._roundings * least

    @property
    def rounding(self) -> tuple[float, float]:
        """The error of one rounding of a result: (relative, absolute)."""
        unit, times = self.dtype.unit_roundoff * (1 + FLOAT64), self._roundings
        return times * unit, times * self.dtype.smallest / 2  # half of f64's is zero

    @property
    def reordering(self) -> float:
        """The further error of adding three terms in another order, relative to their largest partial sum."""
        return self._roundings * self.dtype.unit_roundoff

    def _rounded(self, value: Doubles, inherited: Doubles) -> Bounded:
        times, least = self.rounding
        own = np.abs(value) + inherited
        own *= times  # in place: of large arrays new memory is what takes time
        own += least
        exact = inherited == 0
        if exact.any():
            own = np.where(exact & self._held(value), 0.0, own)
        own += inherited
        return self._finite(value, own)

    def _finite(self, value: Doubles, bound: Doubles) -> Bounded:
        """The values with NaN and infinities exact; numbers that the type cannot hold become infinite, as in a
        kernel."""
        most = self.dtype.largest
        if max(value.max(initial=0.0), -value.min(initial=0.0)) + bound.max(initial=0.0) <= most:  # nor is there a NaN
            return Bounded(value, bound)
        value = np.where(np.abs(value) - bound > most, np.copysign(np.inf, value), value)
        bound = np.where(np.isnan(bound) | (np.abs(value) + bound > most), np.inf, bound)
        return Bounded(value, np.where(np.isfinite(value), bound, 0.0))

    def _held(self, value: Doubles) -> npt.NDArray[np.bool_]:
        """A mask of the elements where the type holds the exact value."""
        held = value == 0 if self.dtype == DType.F64 else self.dtype.nearest(value) == value
        return np.asarray(held | (self.exact and self.dtype == DType.F64))

    @property
    def _roundings(self) -> int:
        """Roundings per operation: in f64 the reference rounds as the kernel does."""
        return 2 if self.dtype == DType.F64 else 1


def _lowest_bit(x: Doubles) -> Doubles:
    """The largest power of two of which x is a multiple; infinite for 0."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(x), x, 0.0))
    bits = np.ldexp(mantissa, 53).astype(np.int64)
    return np.where(bits == 0, np.inf, np.ldexp((bits & -bits).astype(np.float64), exponent - 53))


def _opposed(operator: str, a: Bounded, b: Bounded) -> Mask:
    """A mask of the elements where a kernel's operation may, but need not, combine infinity and 0 or two infinities to
    NaN."""
    infinite = np.isinf(a.value), np.isinf(b.value)
    if operator == "*":
        ours = infinite[0] & b.may_vanish | a.may_overflow & (b.may_vanish | (b.value == 0))
        return np.asarray(ours | infinite[1] & a.may_vanish | b.may_overflow & (a.may_vanish | (a.value == 0)))
    if operator == "/":  # by a number
        return np.zeros(a.value.shape, bool)
    return np.asarray(a.may_overflow & (b.may_overflow | infinite[1]) | infinite[0] & b.may_overflow)


def _doubting(result: Bounded, of: Sequence[Bounded], said: Callable[[], Mask]) -> Bounded:
    """`result`, marked as in doubt where `said` says so, and where one of the values that it is made `of` is."""
    if np.isfinite(result.value.sum()) and np.isfinite(result.bound.sum()):  # of infinity and NaN comes none of these
        return result
    doubt: Mask = np.logical_or.reduce(np.broadcast_arrays(said(), *(part.doubtful for part in of)))
    if not doubt.any():
        return result
    return Bounded(np.where(doubt, np.nan, result.value), np.where(doubt, np.inf, result.bound))


@cache
def _definition(name: str) -> Node:
    return parse(FUNCTIONS[name].definition, FUNCTIONS[name].parameters)
