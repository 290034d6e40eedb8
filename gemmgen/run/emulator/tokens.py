"""A kernel's text as tokens, and what brackets and operators say of their order.

A string is a number, comments and directives are nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gemmgen.kernel.conditionals import DIRECTIVE, OPAQUE

TOKEN = re.compile(
    r"[A-Za-z_]\w*|(?:\d|\.\d)(?:[eEpP][+-]|[\w.'])*|<<=|>>=|\.\.\.|->|::|&&|\|\||[-+*/%^&|<>=!]=|<<|>>|\+\+|--|[^\s\w]"
)
NAME = re.compile(r"[A-Za-z_]\w*")
CLOSING = {"(": ")", "[": "]", "{": "}"}
ASSIGNMENTS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<<=", ">>="))
EQUALITY, RELATIONS = ("==", "!="), ("<", ">", "<=", ">=")
OR, AND, NOT, BITWISE = ("||", "or"), ("&&", "and"), ("!", "not"), ("|", "^", "bitor", "xor", "bitand")
UNFIT_FOR_ARGUMENTS = frozenset((";", "{", "}", "&&", "||", "?", "==", "!=", "<=", ">=", *ASSIGNMENTS))
AFTER_ARGUMENTS = frozenset(("(", ")", "::", "{", "&", "*", ">", ",", ";", "...", ">>", "["))


@dataclass(frozen=True)
class Token:
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


Tokens = Sequence[Token]


def tokens_of(text: str) -> list[Token]:
    """Those of code."""
    plain = OPAQUE.sub(lambda found: _blank(found[0]), text)
    plain = DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), plain)
    return [Token(found[0], found.start()) for found in TOKEN.finditer(plain)]


def _blank(opaque: str) -> str:
    """Spaces for a comment, zeros for a string."""
    return re.sub(r"[^\n]", " " if opaque.startswith("/") else "0", opaque)


def behind(tokens: Tokens, at: int) -> int:
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place].text in CLOSING) - (tokens[place].text in CLOSING.values())
        if depth <= 0:
            return place + 1
    return len(tokens)


def opening_of(tokens: Tokens, at: int) -> int:
    """The bracket that the one at `at` closes."""
    depth = 0
    for place in range(at, -1, -1):
        depth += (tokens[place].text in CLOSING.values()) - (tokens[place].text in CLOSING)
        if depth == 0:
            return place
    return 0


def top_level(tokens: Tokens) -> Iterator[int]:
    """The places outside of brackets, of a template's too; a bracket that opens is one of them."""
    at = 0
    while at < len(tokens):
        yield at
        text = tokens[at].text
        if text in CLOSING:
            at = behind(tokens, at)
        elif text == "<" and (end := closing_angle(tokens, at)) is not None:
            at = end + 1
        else:
            at += 1


def closing_angle(tokens: Tokens, at: int) -> int | None:
    """Where the arguments of a template end that begin with the `<` at `at`; None where this compares."""
    if at == 0 or not NAME.fullmatch(tokens[at - 1].text):
        return None
    header = tokens[at - 1].text == "template"
    depth, place = 0, at
    while place < len(tokens):
        text = tokens[place].text
        if text in CLOSING:
            place = behind(tokens, place)
            continue
        if text in CLOSING.values() or (text in UNFIT_FOR_ARGUMENTS and not (header and text == "=")):
            return None
        depth += (text == "<") - (text == ">") - 2 * (text == ">>")
        if depth <= 0:
            after = tokens[place + 1].text if place + 1 < len(tokens) else ";"
            return place if header or after in AFTER_ARGUMENTS or NAME.fullmatch(after) else None
        place += 1
    return None


def split(tokens: Tokens, separators: Sequence[str]) -> list[Tokens]:
    found, start = [], 0
    for at in top_level(tokens):
        if tokens[at].text in separators:
            found.append(tokens[start:at])
            start = at + 1
    return [*found, tokens[start:]]


def find(tokens: Tokens, wanted: Sequence[str] | frozenset[str]) -> int | None:
    return next((at for at in top_level(tokens) if tokens[at].text in wanted), None)


def comparison_in(tokens: Tokens) -> int | None:
    """The one that is computed last, where there is one at most of its kind and nothing binds less."""
    places = [at for at in top_level(tokens) if 0 < at < len(tokens) - 1 and tokens[at - 1].text != "operator"]
    if any(tokens[at].text in BITWISE or (tokens[at].text == "&" and _ends(tokens[at - 1])) for at in places):
        return None
    for kinds in (EQUALITY, RELATIONS):
        found = [at for at in places if tokens[at].text in kinds and closing_angle(tokens, at) is None]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _ends(token: Token) -> bool:
    """Whether `token` ends an operand."""
    return token.text in (")", "]") or token.text[0].isalnum() or token.text[0] == "_"
