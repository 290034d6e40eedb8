"""Probes in a kernel's text: calls that note which branch outcomes ran, between the characters that a person wrote.

A probe stands in the text because the compilers' own instrumentation comes too late (a branch has become arithmetic),
costs too much (a counter in every unrolled step) or differs from compiler to compiler. Lines stay as they are. The
text is read by its tokens: what is not understood stays without a probe.

Each operand of && and || is a condition of its own, and so is each comparison whose value is kept. Those that are the
same in every run have no probe: loops over constants, what hangs on their variables alone, `if constexpr`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gemmgen.kernel.conditionals import DIRECTIVE, OPAQUE

TOKEN = re.compile(
    r"[A-Za-z_]\w*|(?:\d|\.\d)(?:[eEpP][+-]|[\w.'])*|<<=|>>=|\.\.\.|->|::|&&|\|\||[-+*/%^&|<>=!]=|<<|>>|\+\+|--|[^\s\w]"
)
NAME = re.compile(r"[A-Za-z_]\w*")
CLOSING = {"(": ")", "[": "]", "{": "}"}
ASSIGNMENTS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<<=", ">>="))
EQUALITY, RELATIONS = ("==", "!="), ("<", ">", "<=", ">=")
OR, AND, NOT, BITWISE = ("||", "or"), ("&&", "and"), ("!", "not"), ("|", "^", "bitor", "xor", "bitand")
COMPARISONS = (*EQUALITY, *RELATIONS)  # as probes.hpp numbers them
# What precedes parentheses that no run evaluates.
UNEVALUATED = frozenset(
    [
        "static_assert",
        "__launch_bounds__",
        "alignas",
        "__align__",
        "__attribute__",
        "sizeof",
        "alignof",
        "decltype",
        "noexcept",
        "asm",
        "__asm__",
        "__builtin_assume",
    ]
)
# In an expression of constants, beside their names.
WORDS_OF_CONSTANTS = frozenset(
    [
        "static_cast",
        "sizeof",
        "int",
        "unsigned",
        "long",
        "short",
        "char",
        "bool",
        "float",
        "double",
        "size_t",
        "const",
        "true",
        "false",
    ]
)
UNFIT_FOR_ARGUMENTS = frozenset((";", "{", "}", "&&", "||", "?", "==", "!=", "<=", ">=", *ASSIGNMENTS))
AFTER_ARGUMENTS = frozenset(("(", ")", "::", "{", "&", "*", ">", ",", ";", "...", ">>", "["))
STARTS_BLOCK = frozenset((")", "else", "do", "const", "noexcept", "mutable"))
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


@dataclass(frozen=True)
class _Token:
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


Tokens = Sequence[_Token]


def probed(text: str) -> Probed:
    """`text` with probes at its conditions and blocks; none where it has more than MOST_SITES."""
    writer = _Writer(text)
    _Reader(writer, _tokens(text)).statements()
    return writer.probed() if len(writer.sites) <= MOST_SITES else Probed(text, ())


def _tokens(text: str) -> list[_Token]:
    """Those of code; a string is a number, a template's arguments are one token with its name."""
    plain = OPAQUE.sub(lambda found: _blank(found[0]), text)
    plain = DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), plain)
    return [_Token(found[0], found.start()) for found in TOKEN.finditer(plain)]


def _blank(opaque: str) -> str:
    """Spaces for a comment, zeros for a string."""
    return re.sub(r"[^\n]", " " if opaque.startswith("/") else "0", opaque)


class _Writer:
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

    def block(self, opening: _Token) -> int:
        """A probe behind `opening`; returns its number."""
        line = self._line(opening.start)
        self.sites.append(Block(line, line))
        self._opening.setdefault(opening.end, []).append(f" ::gemmgen::reached<{len(self.sites) - 1}>();")
        return len(self.sites) - 1

    def block_ends(self, number: int, closing: _Token) -> None:
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
        shown = " ".join(self.text[tokens[0].start : tokens[-1].end].split())
        short = shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 3]}..."
        self.sites.append(Condition(self._line(tokens[0].start), short))
        return len(self.sites) - 1

    def _line(self, place: int) -> int:
        return self.text.count("\n", 0, place) + 1


@dataclass
class _Reader:
    """Walks over tokens, statement by statement, and has `writer` put probes where runs may differ.

    constants  names of numbers that are the same in every run: also of unrolled loops' variables
    """

    writer: _Writer
    tokens: Tokens
    constants: set[str] = field(default_factory=set)
    certain: set[int] = field(default_factory=set)  # where the bodies of loops over constants begin

    def statements(self) -> None:
        """All of `tokens`."""
        at, open_blocks = 0, []
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.text == "{":
                previous = self.tokens[at - 1].text if at else ""
                is_code = previous in STARTS_BLOCK and at not in self.certain and not self._declares_no_code(at)
                open_blocks.append(self.writer.block(token) if is_code else None)
                at += 1
            elif token.text == "}":
                number = open_blocks.pop() if open_blocks else None
                if number is not None:
                    self.writer.block_ends(number, token)
                at += 1
            else:
                at = self._statement(at)

    def _declares_no_code(self, at: int) -> bool:
        """Whether the parentheses before the brace at `at` are an attribute's, or those of a switch."""
        if self.tokens[at - 1].text != ")":
            return False
        opening = _opening(self.tokens, at - 1)
        return opening > 0 and self.tokens[opening - 1].text in (*UNEVALUATED, "switch")

    def _statement(self, at: int) -> int:
        """The one that begins at `at`, or its head; returns where what follows begins."""
        word = self.tokens[at].text
        if word in (";", "else", "do"):
            return at + 1
        if word in ("case", "default"):
            return self._label(at)
        if word == "template" and self._text(at + 1) == "<":
            return self._template(at + 1)
        if word in ("if", "while", "for", "switch"):
            return self._head(at)
        end = self._end(at)
        self._simple(self.tokens[at:end])
        return end

    def _label(self, at: int) -> int:
        end = at
        while self._text(end) not in (":", ";", "{", "}", ""):
            end += 1
        if self._text(end) != ":":
            return max(end, at + 1)
        number = self.writer.block(self.tokens[end])
        self.writer.block_ends(number, self.tokens[end])
        return end + 1

    def _template(self, at: int) -> int:
        """Skips the parameters; those that are numbers are constants."""
        end = _closing_angle(self.tokens, at)
        if end is None:
            return at + 1
        inside = self.tokens[at + 1 : end]
        self.constants |= {
            name.text
            for kind, name in pairwise(inside)
            if NAME.fullmatch(name.text) and kind.text not in ("typename", "class", "=")
        }
        return end + 1

    def _head(self, at: int) -> int:
        """`if (...)` and its like."""
        word, opening = self.tokens[at].text, at + 1
        if self._text(opening) == "constexpr":
            return _after(self.tokens, opening + 1)
        if self._text(opening) != "(":
            return opening
        end = _after(self.tokens, opening)
        inside = self.tokens[opening + 1 : end - 1]
        if word == "for":
            self._for(inside, end)
        else:
            *before, condition = _split(inside, (";",))
            for some in before:
                self._simple(some)
            self._expression(condition, word != "switch" and not _declares(condition))
        return end

    def _for(self, inside: Tokens, body: int) -> None:
        parts = _split(inside, (";",))
        if len(parts) != 3:
            return  # over a range
        start, condition, step = parts
        names = [some[0].text for declared in _split(start, (",",)) if (some := _before_assignment(declared))]
        values = [token for declared in _split(start, (",",)) for token in _after_assignment(declared)]
        if self._constant(values) and self._constant([one for one in condition if one.text not in names]):
            self.constants |= {*names}
            self.certain.add(body)
            return
        self.constants -= {*names}
        self._simple(start)
        self._expression(condition, True)
        self._simple(step)

    def _end(self, at: int) -> int:
        """Where the statement at `at` ends: before `;` or a brace that opens or closes a block."""
        start, assigned = at, False
        while at < len(self.tokens):
            text = self.tokens[at].text
            if text in (";", "}"):
                break
            if text == "{" and not assigned:
                break
            assigned |= text in ASSIGNMENTS or text in ("return", "?")
            at = _after(self.tokens, at) if text in CLOSING else at + 1
        return max(at, start + 1)

    def _simple(self, tokens: Tokens) -> None:
        """A statement without a head of its own."""
        if not tokens or tokens[0].text in ("using", "typedef", "enum", "struct", "namespace", "extern"):
            return
        words = [token.text for token in tokens]
        if "constexpr" in words[:3]:
            self.constants |= _names_assigned(tokens)
            return
        value = _after_assignment(tokens)
        if words[0] == "const" and value and self._constant(value):
            self.constants |= _names_assigned(tokens)
            return
        self._expression(tokens[1:] if words[0] == "return" else tokens, False)

    def _constant(self, tokens: Tokens) -> bool:
        known = self.constants | WORDS_OF_CONSTANTS
        return all(token.text in known for token in tokens if NAME.fullmatch(token.text))

    def _expression(self, tokens: Tokens, condition: bool) -> None:
        """What `tokens` compute; `condition` says that they are true or false."""
        if not tokens or self._constant(tokens):
            return
        if len(parts := _split(tokens, (",",))) > 1:
            for part in parts[:-1]:
                self._expression(part, False)
            self._expression(parts[-1], condition)
        elif (at := _find(tokens, ASSIGNMENTS)) is not None:
            self._assignment(tokens, at, condition)
        elif (at := _find(tokens, ("?",))) is not None:
            self._choice(tokens, at)
        elif len(parts := _split(tokens, OR)) > 1 or len(parts := _split(tokens, AND)) > 1:
            for part in parts:
                self._expression(part, True)
        else:
            self._operand(tokens, condition)

    def _assignment(self, tokens: Tokens, at: int, condition: bool) -> None:
        if condition:
            self.writer.condition(tokens)
        self._groups(tokens[:at])
        self._expression(tokens[at + 1 :], False)

    def _choice(self, tokens: Tokens, at: int) -> None:
        self._expression(tokens[:at], True)
        depth = 0
        for place in _top_level(tokens[at + 1 :]):
            text = tokens[at + 1 + place].text
            depth += text == "?"
            if text == ":":
                if depth == 0:
                    self._expression(tokens[at + 1 : at + 1 + place], False)
                    self._expression(tokens[at + 2 + place :], False)
                    return
                depth -= 1

    def _operand(self, tokens: Tokens, condition: bool) -> None:
        """What no logical operator divides."""
        inner = tokens
        while condition and inner and inner[0].text in NOT:
            inner = inner[1:]
        if inner and inner[0].text == "(" and _after(inner, 0) == len(inner):
            self._expression(inner[1:-1], condition)
            return
        at = _comparison(tokens)
        if at is not None:
            self.writer.comparison(tokens, at)
            self._groups(tokens[:at])
            self._groups(tokens[at + 1 :])
            return
        if condition:
            self.writer.condition(tokens)
        self._groups(tokens)

    def _groups(self, tokens: Tokens) -> None:
        """What stands in brackets."""
        at = 0
        while at < len(tokens):
            text = tokens[at].text
            if text not in CLOSING:
                at += 1
                continue
            end = _after(tokens, at)
            inside = tokens[at + 1 : end - 1]
            if text == "{":
                _Reader(self.writer, inside, self.constants).statements()
            elif at == 0 or not (tokens[at - 1].text in UNEVALUATED or _is_asm(tokens, at)):
                self._expression(inside, False)
            at = end

    def _text(self, at: int) -> str:
        return self.tokens[at].text if at < len(self.tokens) else ""


def _after(tokens: Tokens, at: int) -> int:
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place].text in CLOSING) - (tokens[place].text in CLOSING.values())
        if depth <= 0:
            return place + 1
    return len(tokens)


def _opening(tokens: Tokens, at: int) -> int:
    """The bracket that the one at `at` closes."""
    depth = 0
    for place in range(at, -1, -1):
        depth += (tokens[place].text in CLOSING.values()) - (tokens[place].text in CLOSING)
        if depth == 0:
            return place
    return 0


def _top_level(tokens: Tokens) -> Iterator[int]:
    """The places outside of brackets, of a template's too; a bracket that opens is one of them."""
    at = 0
    while at < len(tokens):
        yield at
        text = tokens[at].text
        if text in CLOSING:
            at = _after(tokens, at)
        elif text == "<" and (end := _closing_angle(tokens, at)) is not None:
            at = end + 1
        else:
            at += 1


def _closing_angle(tokens: Tokens, at: int) -> int | None:
    """Where the arguments of a template end that begin with the `<` at `at`; None where this compares."""
    if at == 0 or not NAME.fullmatch(tokens[at - 1].text):
        return None
    header = tokens[at - 1].text == "template"
    depth, place = 0, at
    while place < len(tokens):
        text = tokens[place].text
        if text in CLOSING:
            place = _after(tokens, place)
            continue
        if text in CLOSING.values() or (text in UNFIT_FOR_ARGUMENTS and not (header and text == "=")):
            return None
        depth += (text == "<") - (text == ">") - 2 * (text == ">>")
        if depth <= 0:
            after = tokens[place + 1].text if place + 1 < len(tokens) else ";"
            return place if header or after in AFTER_ARGUMENTS or NAME.fullmatch(after) else None
        place += 1
    return None


def _split(tokens: Tokens, separators: Sequence[str]) -> list[Tokens]:
    found, start = [], 0
    for at in _top_level(tokens):
        if tokens[at].text in separators:
            found.append(tokens[start:at])
            start = at + 1
    return [*found, tokens[start:]]


def _find(tokens: Tokens, wanted: Sequence[str] | frozenset[str]) -> int | None:
    return next((at for at in _top_level(tokens) if tokens[at].text in wanted), None)


def _comparison(tokens: Tokens) -> int | None:
    """The one that is computed last, where there is one at most of its kind and nothing binds less."""
    places = [at for at in _top_level(tokens) if 0 < at < len(tokens) - 1 and tokens[at - 1].text != "operator"]
    if any(tokens[at].text in BITWISE or (tokens[at].text == "&" and _ends(tokens[at - 1])) for at in places):
        return None
    for kinds in (EQUALITY, RELATIONS):
        found = [at for at in places if tokens[at].text in kinds and _closing_angle(tokens, at) is None]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _ends(token: _Token) -> bool:
    """Whether `token` ends an operand."""
    return token.text in (")", "]") or token.text[0].isalnum() or token.text[0] == "_"


def _is_asm(tokens: Tokens, at: int) -> bool:
    return any(token.text in ("asm", "__asm__") for token in tokens[max(0, at - 3) : at])


def _declares(condition: Tokens) -> bool:
    """Whether it is `int x = ...`."""
    return len(_before_assignment(condition)) > 0 and _find(condition, ("=",)) not in (None, 1)


def _before_assignment(tokens: Tokens) -> Tokens:
    """The name that a declaration or an assignment gives a value, as one token; none where there is no such."""
    at = _find(tokens, ("=",))
    return tokens[at - 1 : at] if at else []


def _after_assignment(tokens: Tokens) -> Tokens:
    at = _find(tokens, ("=",))
    return [] if at is None else tokens[at + 1 :]


def _names_assigned(tokens: Tokens) -> set[str]:
    return {name[0].text for part in _split(tokens, (",",)) if (name := _before_assignment(part))}
