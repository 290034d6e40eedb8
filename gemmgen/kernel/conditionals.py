"""Finds lines of a `.cu` that other compilers may read differently: `#if` on unknown macros, __FILE__, host code.

The verdict is about what NVRTC compiles. Users compile the text by nvcc, which reads it twice: for the host and for the
device. NVRTC refuses host functions and host objects. But it accepts `__host__ __device__`, and it ignores what only
the host's compiler uses: attributes, pragmas and `asm` outside functions. It cannot print a preprocessed text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# Text in which no directive begins, even if it looks like one: comments and strings.
OPAQUE = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL
)
SPLICE = re.compile(r"\\[ \t\r\f\v]*\n")  # compilers join such lines before all else
CONTINUED = re.compile(rf"^(?:[^\n]*{SPLICE.pattern})+[^\n]*", re.MULTILINE)
BREAK = "\x01"  # where a line ends inside of a comment, which ends no directive
SPACE = rf"[ \t\r\f\v{BREAK}]*"
DIRECTIVE = re.compile(rf"^{SPACE}(?:#|%:){SPACE}(\w+)([^\n]*)", re.MULTILINE)
NAME = re.compile(r"\b[A-Za-z_]\w*")
EVERYWHERE = frozenset(("defined", "__CUDACC__", "__cplusplus"))  # NVRTC's, and nvcc's for host and device
MACRO = re.compile(r"\b__[A-Z][A-Z0-9_]*\b")  # of a compiler
ALIKE = frozenset(("__CUDACC__", "__CUDA_ARCH__", "__LINE__"))  # of these, in device code
GAP = rf"[ \t\r\f\v\n{BREAK}]*"
# Host code, and ways to form names of it. An `asm` outside functions has no operands and is not volatile.
HOST = re.compile(
    rf"\b(?:__host__|__attribute(?:__)?|__declspec|__location__|__annotate__|_[A-Z]\w*)\b|##|%:%:"
    rf"|\[{GAP}\[(?!{GAP}(?:maybe_unused|nodiscard|fallthrough|likely|unlikely){GAP}\])|<:{GAP}<:"
    rf"|\basm\b(?!{GAP}(?:(?:__)?volatile(?:__)?\b|\({GAP}:))"
)
PRAGMA = re.compile(r"\s*(?:unroll|nounroll|once|nv_\w+|diag_\w+)\b")  # pragmas of device code
# Words that a text must not redefine, because HOST relies on their meaning.
FIXED = re.compile(r"\s*(?:asm|(?:__)?volatile(?:__)?|maybe_unused|nodiscard|fallthrough|likely|unlikely)\b")
OTHERWISE = "compilers other than NVRTC may read them differently, or run them on the host"
OPENING = ("if", "ifdef", "ifndef")


@dataclass(frozen=True)
class Conditional:
    """The first and last line, from 1, of an outermost `#if` block or of a line that names a compiler's macro."""

    first: int
    last: int

    def moved(self, lines: int) -> Conditional:
        """The same lines in a file that has `lines` more lines before them."""
        return Conditional(self.first + lines, self.last + lines)

    def __str__(self) -> str:
        return f"line {self.first}" if self.first == self.last else f"lines {self.first} to {self.last}"


def conditionals(text: str) -> Iterator[Conditional]:
    """Yield the lines that compilers other than NVRTC may read differently, or run on the host, in order."""
    said = [*directives(text)]
    found = [*_conditionals(said, len(text.splitlines()))]
    inside = {line for one in found for line in range(one.first, one.last + 1)}
    plain = _plain(text)
    lines = {number for number, line in enumerate(_lines(plain), 1) if not ALIKE.issuperset(MACRO.findall(line))}
    lines |= {len(_lines(plain[: match.start()])) for match in HOST.finditer(plain)}
    lines |= {line for line, word, rest in said if word == "pragma" and not PRAGMA.match(rest)}
    lines |= {line for line, word, rest in said if word == "define" and FIXED.match(rest)}
    found += (Conditional(line, line) for line in lines - inside)
    yield from sorted(found, key=lambda one: one.first)


def _lines(plain: str) -> list[str]:
    return plain.replace(BREAK, "\n").split("\n")


def _conditionals(said: Iterable[tuple[int, str, str]], lines: int) -> Iterator[Conditional]:
    """Yield the outermost conditionals on unknown macros, from the directives of a text of `lines` lines."""
    own: dict[str, bool] = {}  # names of the text, and whether each has one meaning, which is the text's own
    depth, first, foreign = 0, 0, False
    for line, word, rest in said:
        names = NAME.findall(rest)
        if word in ("define", "undef") and names:
            once = word == "define" and depth == 0 and names[0] not in own
            own[names[0]] = once and all(own.get(one, False) for one in names[1:])
        if word in OPENING:
            first, foreign = (first, foreign) if depth else (line, False)
            depth += 1
        if word.startswith(("if", "elif")):
            foreign |= any(not own.get(one, False) and one not in EVERYWHERE for one in names)
        if word == "endif":
            depth -= 1
            if depth == 0 and foreign:
                yield Conditional(first, line)
    if depth > 0 and foreign:
        yield Conditional(first, lines)


def directives(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, word, rest) of each directive, with continued lines joined: (3, "define", " N 4")."""
    plain = _plain(text)
    for found in DIRECTIVE.finditer(plain):
        before = plain[: found.start(1)]
        yield before.count("\n") + before.count(BREAK) + 1, found[1], found[2]


def _plain(text: str) -> str:
    """The text with continued lines joined, and with a space in place of each comment and string."""
    return OPAQUE.sub(_blank, CONTINUED.sub(_joined, text))


def code_and_others(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and whether each is code: comments and strings are not."""
    end = 0
    for found in OPAQUE.finditer(text):
        yield text[end : found.start()], True
        yield found[0], False
        end = found.end()
    yield text[end:], True


def _joined(found: re.Match[str]) -> str:
    """The continued lines joined to one; the line breaks follow it, so that the line count stays."""
    joined, count = SPLICE.subn("", found[0])
    return joined + "\n" * count


def _blank(found: re.Match[str]) -> str:
    """A blank in place of a comment or string; its line count stays."""
    return " " + BREAK * found[0].count("\n")
