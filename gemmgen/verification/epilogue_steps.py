"""An epilogue as steps that an executor takes for each element of a large C; `roundings` does the same for arrays.

templates/device/plain/judge.cu computes them and shares no code with `roundings`; `judge` compares a sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gemmgen.problem.dtype import DType
from gemmgen.problem.functions import Function
from gemmgen.problem.gemm import Case
from gemmgen.problem.nodes import Binary, Name, Negation, Node, Number
from gemmgen.problem.operands import ACCUMULATORS, C
from gemmgen.run.acceptance import FUNCTION_STEPS, MOST_STEPS, STEPS, Rule, Step
from gemmgen.verification.linear import denormal_field, nonzero_terms, root_of
from gemmgen.verification.reference import scalar_inputs
from gemmgen.verification.roundings import Arithmetic, Bounded, Walk
from gemmgen.verification.situation import EXACT_KINDS, Situation
from gemmgen.verification.tensor_bound import beyond, needs_largest


def rule_of_steps(situation: Situation) -> Rule | None:
    """The acceptance rule for C's elements behind an epilogue.

    None if numpy must judge: with sums of A's rows or B's columns, outputs beside C, scalars other than f32, functions
    that FUNCTION_STEPS lack, or more than MOST_STEPS steps.
    """
    case, types = situation.case, situation.case.problem.types
    epilogue = case.problem.epilogue
    if epilogue.sums or epilogue.outputs or types.scalar is not DType.F32:
        return None
    arithmetic = Arithmetic(types.scalar)
    steps = Steps(case, arithmetic).of_epilogue()
    if len(steps) > MOST_STEPS or not {step.name for step in steps} <= {*STEPS, *FUNCTION_STEPS}:
        return None
    rounding, tiny = arithmetic.rounding
    of_steps = Rule(
        alpha=1.0,
        beta=0.0,
        steps=steps,
        rounding=rounding,
        tiny=tiny,
        reordering=arithmetic.reordering,
        most=types.scalar.largest,
    )
    if situation.data in EXACT_KINDS or types.accumulator.is_integer or case.k == 0:
        return of_steps
    terms = nonzero_terms(situation)
    numbers = beyond(types, case.k, terms, denormal_field(situation))
    return replace(
        of_steps,
        exact=False,
        sizes=True,
        largest=needs_largest(types),
        of_terms=root_of(terms, rooted=True) * types.accumulator.unit_roundoff,
        least=case.k * types.accumulator.smallest + numbers.least,
        of_sum=numbers.of_sum,
        of_spread=numbers.of_spread,
        of_size=numbers.of_size,
        of_size_spread=numbers.of_size_spread,
    )


class Steps(Walk[int]):
    """Collects steps, each once and behind those whose results it takes; a value is the number of its step."""

    def __init__(self, case: Case, arithmetic: Arithmetic) -> None:
        self.case, self.arithmetic = case, arithmetic
        self.integer_sums = case.problem.types.accumulator.is_integer
        self.short = case.problem.short_results
        self.numbers: dict[Step, int] = {}

    def of_epilogue(self) -> tuple[Step, ...]:
        """The steps of the epilogue; the last one's result is C's element."""
        epilogue, scalars = self.case.problem.epilogue, scalar_inputs(self.case)
        names = {name: self._leaf(name, scalars) for name in dict.fromkeys(epilogue.names)}
        last = self.value(epilogue.tree, names)
        if last < len(self.numbers) - 1:  # it is that of a name
            self._step(Step("+", (last,)))
        return tuple(self.numbers)

    def _step(self, step: Step) -> int:
        return self.numbers.setdefault(step, len(self.numbers))

    def _leaf(self, name: str, scalars: Mapping[str, Bounded]) -> int:
        if name in ACCUMULATORS:
            return self._step(Step(name))
        if name in scalars:
            return self._constant(scalars[name])
        unread = name == C and self.case.beta == 0
        return self.constant(0.0) if unread else self._step(Step("operand", operand=name))

    def _constant(self, one: Bounded) -> int:
        return self._step(Step("constant", value=float(one.value), bound=float(one.bound)))

    def constant(self, value: float) -> int:
        return self._constant(self.arithmetic.constant(value))

    def negated(self, x: int) -> int:
        return self._step(Step("negated", (x,)))

    def sum(self, terms: list[int]) -> int:
        return self._step(Step("+", tuple(terms)))

    def of_two(self, operator: str, a: int, b: int) -> int:
        return self._step(Step(operator, (a, b)))

    def function(self, function: Function, arguments: list[int]) -> int:
        times, least = self.arithmetic.own_error(function)
        return self._step(Step(function.name, tuple(arguments), times, least, of_x=function.of_x))

    def output(self, name: str, value: int) -> int:
        raise AssertionError(f"{name} is written beside C")

    def of_integers(self, node: Node, names: Mapping[str, int]) -> int:
        return self._step(Step("float", (self._integer(node, names),)))

    def _integer(self, node: Node, names: Mapping[str, int]) -> int:
        match node:
            case Name(name):
                return names[name]
            case Number(value):
                return self._step(Step("constant", value=value))
            case Negation(value):
                return self._step(Step("int negated", (self._integer(value, names),)))
            case Binary(operator, left, right):
                return self._step(Step(f"int {operator}", (self._integer(left, names), self._integer(right, names))))
        raise AssertionError(f"{node} is no integer")
