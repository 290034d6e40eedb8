"""Text of a `.cu` that not every compiler sees: preprocessor conditionals on what the text itself does not define.

The emulator runs what the host's compiler sees of a kernel, and a GPU what nvcc does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

# What no directive begins in, and what looks like one but is a comment or a string.
OPAQUE = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL
)
DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:)[ \t]*(\w+)((?:\\\n|[^\n])*)", re.MULTILINE)
OPENING = ("if", "ifdef", "ifndef")
NAME = re.compile(r"\b[A-Za-z_]\w*")


@dataclass(frozen=True)
class Conditional:
    """An outermost `#if` to its `#endif`: its first and last line, from 1, and what stands there."""

    first: int
    last: int
    text: str

    def moved(self, lines: int) -> Conditional:
        """The same in a file that has so many lines before."""
        return replace(self, first=self.first + lines, last=self.last + lines)

    def __str__(self) -> str:
        return f"lines {self.first} to {self.last}"


def conditionals(text: str) -> Iterator[Conditional]:
    """Those whose condition another compiler may see otherwise."""
    lines, plain = text.splitlines(), OPAQUE.sub(_blank, text)
    own: set[str] = set()
    depth, first, foreign = 0, 0, False
    for found in DIRECTIVE.finditer(plain):
        word, rest = found[1], found[2].replace("\\\n", " ")
        number = plain.count("\n", 0, found.start()) + 1
        if word == "define" and depth == 0:
            own |= _defined(rest, own)
        if word in OPENING:
            first, foreign = (first, foreign) if depth else (number, False)
            depth += 1
        if word.startswith(("if", "elif")):
            foreign |= any(name not in own for name in NAME.findall(rest) if name != "defined")
        if word == "endif":
            depth -= 1
            if depth == 0 and foreign:
                yield _between(lines, first, number)
    if depth > 0 and foreign:
        yield _between(lines, first, len(lines))


def code_and_others(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and whether each is code: comments and strings are not."""
    end = 0
    for found in OPAQUE.finditer(text):
        yield text[end : found.start()], True
        yield found[0], False
        end = found.end()
    yield text[end:], True


def unlike(text: str, reference: str) -> tuple[Conditional, ...]:
    """The conditionals of `text` that `reference` has not."""
    known = {one.text for one in conditionals(reference)}
    return tuple(one for one in conditionals(text) if one.text not in known)


def _between(lines: list[str], first: int, last: int) -> Conditional:
    return Conditional(first, last, "\n".join(line.rstrip() for line in lines[first - 1 : last]))


def _blank(found: re.Match[str]) -> str:
    """Comments and strings go, their lines stay."""
    return " " + "\n" * found[0].count("\n")


def _defined(rest: str, own: set[str]) -> set[str]:
    """The name that `#define` gives a meaning of the text's own: numbers and such names make it up."""
    name, *body = NAME.findall(rest) or [""]
    return {name} if all(one in own for one in body) else set()
