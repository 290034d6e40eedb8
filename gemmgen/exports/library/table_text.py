"""The rules of a product as tables in C++."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gemmgen.exports.library.choice import Choice, Rule
from gemmgen.exports.library.estimates import Estimates, EstimatesText, EstimateText
from gemmgen.exports.library.members import Contestant, CublasLt
from gemmgen.exports.library.steps import Steps
from gemmgen.exports.library.table import FEATURES, Box
from gemmgen.problem.device import arch_number


@dataclass(frozen=True)
class RuleText:
    """A rule: its needs, the ranges of M, N, K and M * N in columns, and what decides: a kernel, or estimates."""

    needs: str
    columns: str
    decides: str


@dataclass(frozen=True)
class StepsText:
    """Steps along a size: bounds as C++ writes them, and the kernel up to each."""

    name: str
    axis: str
    steps: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TableText:
    """The rules of a product on one architecture.

    least   least compute capability of devices that have them, as 10 times major plus minor
    exact   whether only devices of exactly that capability have them
    compares  whether some rule of the library has estimated times, so that each of its records has the field
    """

    choice: Choice
    exact: bool
    compares: bool = False

    @property
    def name(self) -> str:
        return f"{self.choice.product.name}_sm_{self.least}"

    @property
    def least(self) -> int:
        return arch_number(self.choice.arch)

    @property
    def rules(self) -> tuple[RuleText, ...]:
        rules = zip(self.choice.rules, self._ranges, strict=True)
        return tuple(
            RuleText(rule.needs.text, self._columns([f"{one}," for one in ranges]), self._decides(number, rule))
            for number, (rule, ranges) in enumerate(rules)
        )

    def _decides(self, number: int, rule: Rule) -> str:
        if rule.steps is not None:
            return f"nullptr, {'nullptr, ' if self.compares else ''}&{self.name}_steps_{number}"
        if rule.estimates is not None:
            return f"nullptr, &{self.name}_times_{number}"
        return f"&{identifier(self.choice.members[rule.kernels[0]])}_kernel"

    @property
    def steps(self) -> tuple[StepsText, ...]:
        """The steps of the rules along a size."""
        return tuple(
            StepsText(f"{self.name}_steps_{number}", rule.steps.axis, tuple(self._bounded(rule, rule.steps)))
            for number, rule in enumerate(self.choice.rules)
            if rule.steps is not None
        )

    def _bounded(self, rule: Rule, steps: Steps) -> Iterator[tuple[str, str]]:
        members = self.choice.members
        for bound, place in zip((*map(str, steps.bounds), "SIZE_LIMIT"), steps.kernels, strict=True):
            yield bound, identifier(members[rule.kernels[place]])

    @property
    def estimates(self) -> tuple[EstimatesText, ...]:
        """The estimates of the rules that compare kernels' times."""
        return tuple(
            EstimatesText(f"{self.name}_times_{number}", rule.estimates, self._compared(rule, rule.estimates))
            for number, rule in enumerate(self.choice.rules)
            if rule.estimates is not None
        )

    def _compared(self, rule: Rule, estimates: Estimates) -> tuple[EstimateText, ...]:
        members = self.choice.members
        return tuple(
            EstimateText(identifier(members[kernel]), one.tiling, tuple(f"{cost:.6g}" for cost in one.costs))
            for kernel, one in zip(rule.kernels, estimates.kernels, strict=True)
        )

    @property
    def heading(self) -> str:
        """The heading above the columns."""
        return self._columns(FEATURES)

    @cached_property
    def _ranges(self) -> list[tuple[str, ...]]:
        return [tuple(map(range_text, rule.box.least, rule.box.most, WIDEST)) for rule in self.choice.rules]

    def _columns(self, texts: Sequence[str]) -> str:
        widths = [max(map(len, column)) for column in zip(FEATURES, *self._ranges, strict=True)]
        return "".join(f"{text:{width + 2}}" for text, width in zip(texts, widths, strict=True))

    @property
    def source(self) -> str:
        """The origin of its times."""
        device = self.choice.device
        if not self.choice.times:
            return "nothing to choose from: one kernel serves each call"
        if self.choice.kind == "measured":
            return f"times measured on {device}"
        return f"times predicted for {device} by a model: nothing was measured"


def identifier(member: Contestant) -> str:
    """The dispatcher's name for a kernel; cuBLASLt has a different name for each product."""
    return f"{member.product.name}_{member.name}" if isinstance(member, CublasLt) else member.name


WIDEST = Box().most


def range_text(least: int, most: int, widest: int) -> str:
    """A range as text: "{1, 16}"; "ALL" without bounds; MOST for a missing upper bound."""
    if (least, most) == (0, widest):
        return "ALL"
    return f"{{{least}, {'MOST' if most == widest else most}}}"
