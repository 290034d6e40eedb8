"""Probes in a kernel's text: calls that note which branch outcomes ran, between the characters that a person wrote.

A probe stands in the text because the compilers' own instrumentation comes too late (a branch has become arithmetic),
costs too much (a counter in every unrolled step) or differs from compiler to compiler. Lines stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gemmgen.run.emulator.tokens import EQUALITY, RELATIONS, Token, Tokens

COMPARISONS = (*EQUALITY, *RELATIONS)  # as probes.hpp numbers them
MOST_SITES = 2048  # as in probes.hpp
LONGEST = 60  # characters of a condition that are shown


@dataclass(frozen=True)
class Condition:
    """`text` in `line`, which is true or false whenever it is evaluated."""

    line: int
    text: str


@dataclass(frozen=True)
class Block:
    """The lines between two braces, from `line` to `last`."""

    line: int
    last: int


Site = Condition | Block


@dataclass(frozen=True)
class Probed:
    """A kernel's text with probes, and what each of them stands at, by number."""

    text: str
    sites: tuple[Site, ...]


class Probes:
    """What goes between the characters of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sites: list[Site] = []
        self._opening: dict[int, list[str]] = {}
        self._closing: dict[int, str] = {}
        self._replaced: dict[int, tuple[int, str]] = {}

    def condition(self, tokens: Tokens) -> None:
        """A probe around `tokens`."""
        self._wrap(tokens, f"taken<{self._site(tokens)}>(")

    def comparison(self, tokens: Tokens, at: int) -> None:
        """One that sees both operands of the comparison at `tokens[at]`."""
        operator = tokens[at]
        self._wrap(tokens, f"compared<{self._site(tokens)}, {COMPARISONS.index(operator.text)}>(")
        self._replaced[operator.start] = operator.end, ","

    def choice(self, chosen: Tokens, labels: Sequence[Tokens]) -> None:
        """One around what a switch is `chosen` by, and around the probes in it: a comparison with each of `labels`."""
        shown = self._shown(chosen)
        sites = [self._add(label[0].start, f"{shown} == {self._shown(label)}") for label in labels]
        calls = [
            f", ::gemmgen::Label<{site}, (long long)({self._shown(label)})>{{}}"
            for site, label in zip(sites, labels, strict=True)
        ]
        self._opening.setdefault(chosen[0].start, []).insert(0, " ::gemmgen::chosen(")
        self._closing[chosen[-1].end] = self._closing.get(chosen[-1].end, "") + "".join(calls) + ")"

    def block(self, opening: Token) -> int:
        """A probe behind `opening`; returns its number."""
        line = self._line(opening.start)
        self.sites.append(Block(line, line))
        self._opening.setdefault(opening.end, []).append(f" ::gemmgen::reached<{len(self.sites) - 1}>();")
        return len(self.sites) - 1

    def unset(self, name: str, semicolon: Token) -> None:
        """What is behind the declaration of a variable that has no value yet: one by which a use of it shows."""
        self._opening.setdefault(semicolon.end, []).append(f" ::gemmgen::unset({name});")

    def block_ends(self, number: int, closing: Token) -> None:
        self.sites[number] = Block(self.sites[number].line, self._line(closing.start))

    def probed(self) -> Probed:
        pieces, last = [], 0
        for place in sorted({*self._opening, *self._closing, *self._replaced}):
            pieces += [self.text[last:place], self._closing.get(place, ""), *self._opening.get(place, ())]
            last, new = self._replaced.get(place, (place, ""))
            pieces.append(new)
        return Probed("".join([*pieces, self.text[last:]]), tuple(self.sites))

    def _wrap(self, tokens: Tokens, call: str) -> None:
        self._opening.setdefault(tokens[0].start, []).append(f" ::gemmgen::{call}")
        self._closing[tokens[-1].end] = self._closing.get(tokens[-1].end, "") + ")"

    def _site(self, tokens: Tokens) -> int:
        return self._add(tokens[0].start, self._shown(tokens))

    def _shown(self, tokens: Tokens) -> str:
        return " ".join(self.text[tokens[0].start : tokens[-1].end].split())

    def _add(self, place: int, shown: str) -> int:
        short = shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 3]}..."
        self.sites.append(Condition(self._line(place), short))
        return len(self.sites) - 1

    def _line(self, place: int) -> int:
        return self.text.count("\n", 0, place) + 1
