"""Words for conditions: finds the comparison in a kernel's text that a setp of its PTX stands for.

The result serves only reports. The code knows no C++ beyond parentheses and comparisons; if it is not sure which
comparison a setp is, it says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

LONGEST = 60  # characters of a condition that are shown
MOST_LINES = 12  # of a statement
FARTHEST = 40  # lines to where a variable gets its value
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\.?\d(?:[eE][+-]|[\w.])*|<<=?|>>=?|->|<=|>=|==|!=|&&|\|\||::|\S')
TEMPLATE = re.compile(r"(?<=\w)<[\w\s,:*]*>(?=\s*[(:{&*>]|\s+\w)")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
ENDS = {"&&", "||", "?", ":", ";", ",", "=", "return", "{", "}"}  # of an operand of a comparison
OPENING, CLOSING = "([{", ")]}"
CONTROL = ["if"], ["while"], ["for"], ["switch"], ["case"]
COUNTERS = ("i", "j", "v", "d")  # of loops over constants
STRICT, LESS = ("<", ">", "lt", "gt"), ("<", "<=", "lt", "le")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?[uUlLfF]*")
ZERO = re.compile(r"[-+]?0*\.?0*[uUlLfF]*")
NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
# The declarations that name a constant: its declaration, a macro, or a template of which it is a parameter.
PARAMETER = re.compile(r"\s*(=.*)?$", re.DOTALL)  # what may follow its name
DECLARED = re.compile(r"\bconstexpr\b[\w\s:]*?\b(\w+)\s*=|#\s*define\s+(\w+)|\btemplate\s*<([^<>]*)>")
NUMBERS = re.compile(r"\bconst(?:expr)?\s+\w+\s+([^;{}()]*);")  # `const int lines = 64, other = 2;`
NAMED = re.compile(r"(\w+)\s*=\s*(\d+)\s*(?=,|$)")


@dataclass(frozen=True)
class Asked:
    """The comparison of a setp: "lt", which of its operands are constants, and the constant's value."""

    operation: str
    constant_left: bool = False
    constant_right: bool = False
    number: float | None = None

    @property
    def base(self) -> str:
        """The comparison without its letter for NaN: "lt" for "ltu"."""
        return self.operation[:2]

    @property
    def has_constant(self) -> bool:
        return self.constant_left != self.constant_right

    @property
    def is_equality(self) -> bool:
        return self.base in ("eq", "ne")


@dataclass(frozen=True)
class Comparison:
    """A comparison `left operator right` in a statement.

    constant_left   and constant_right: whether that side is a constant
    loops           whether it is the condition of a loop
    over_constants  whether it is that of a loop whose counter starts at a constant, too
    number          the constant's value, if the text gives it
    """

    left: str
    operator: str
    right: str
    constant_left: bool = False
    constant_right: bool = False
    loops: bool = False
    over_constants: bool = False
    number: float | None = None

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"

    def inverted(self, asked: Asked) -> bool | None:
        """Whether a setp that stands for this comparison is true where this is false; None if that cannot be known."""
        if self.is_equality:
            return (asked.base == "eq") != (self.operator == "==") if asked.is_equality else None
        if asked.is_equality:  # of a counter; or of a number that is on one side of the other one, or at it
            at_end = self.loops or self.operator in STRICT
            return None if self._names_one else (asked.base == "eq") == at_end
        if asked.operation in ("num", "nan"):
            return None
        if asked.has_constant:
            less = (asked.base in LESS) != asked.constant_left
            left = self.constant_left and not self.constant_right
            if not self.has_constant:  # then it is that of a loop which is unrolled
                left = self.left in COUNTERS and self.right not in COUNTERS
            return less != ((self.operator in LESS) != left)
        if self._shifts:
            return None
        return (asked.base in STRICT) != (self.operator in STRICT)

    def may_be(self, asked: Asked) -> bool:
        """Whether the setp may stand for this comparison by its number. Compilers also turn x < 4 and x >= 4 into x <=
        3 and x > 3."""
        if asked.number is None or self.number is None:
            return True
        above = (self.operator in (">", "<=")) != self.constant_left  # 4 < x asks as x > 4 does
        others = () if self.is_equality else (self.number + 1 if above else self.number - 1,)
        return asked.number in (self.number, *others)

    @property
    def is_equality(self) -> bool:
        return self.operator in ("==", "!=")

    @property
    def has_constant(self) -> bool:
        return self.constant_left != self.constant_right

    @property
    def _names_one(self) -> bool:
        return not self.loops and "1" in (self.left, self.right)

    @property
    def _shifts(self) -> bool:
        """Whether a side is a constant other than 0: compilers turn a - b >= 1 into a > b."""
        sides = (self.left, self.constant_left), (self.right, self.constant_right)
        return any(constant and not ZERO.fullmatch(side) for side, constant in sides)


@dataclass(frozen=True)
class Words:
    """The words for a setp: its `text` in `line`, and whether that is true where the setp is false.

    `plain` is the condition in the text; `text` also names the setp if its outcome may differ from the condition's.
    """

    line: int
    text: str
    plain: str
    inverted: bool


class Statements:
    """The statements of a kernel's `text`, by their first line and column, both from 1."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._numbers = _numbers(text)
        self._constants = _constants(text) | self._numbers.keys()
        self._known: dict[tuple[int, int], tuple[str, tuple[Comparison, ...], bool]] = {}

    def words(self, asked: Asked, index: int, places: Sequence[tuple[int, int]]) -> Words | None:
        """The words of a setp that one of the statements at `places` asks; the likeliest places come first.

        It is the `index`-th of the setps that are joined there. None for a compiler's own setp, and for a loop over
        constants.
        """
        places = [place for place in places if 0 < place[0] <= len(self._lines)]
        for place in (*places, *filter(None, map(self._defined, places))):
            found = self._likely(asked, place)
            if found:
                one = found[min(index, len(found) - 1)]
                constant = one.over_constants and asked.has_constant
                return None if constant else Words(place[0], _short(str(one)), str(one), bool(one.inverted(asked)))
        return self._vague(asked, index, places)

    def certain(self, asked: Asked, place: tuple[int, int]) -> Words | None:
        """The words of a setp if exactly one comparison of the statement at `place` can be it; else None."""
        found = self._likely(asked, place)
        if len(found) != 1 or found[0].over_constants:
            return None
        return Words(place[0], _short(str(found[0])), str(found[0]), bool(found[0].inverted(asked)))

    def joined(self, all_of: bool, place: tuple[int, int]) -> Words | None:
        """The words of a predicate that joins several by `and` or `or`: the whole condition of the statement at
        `place`."""
        if not 0 < place[0] <= len(self._lines):
            return None
        head, _, asks = self._statement(place)
        if not asks:
            return None
        defined = self._defined(place)
        joins = head if defined is None else self._statement(defined)[0]
        asked = "||" if "||" in joins else "&&" if "&&" in joins else ""
        if not asked or head.startswith("!"):
            return Words(place[0], f"{'and' if all_of else 'or'} of {_short(head)}", head, False)
        return Words(place[0], _short(head), head, all_of == (asked == "||"))

    def body(self, line: int) -> range:
        """The lines that a condition in `line` guards, by braces or indentation."""
        depth, seen = 0, False
        for number in range(line, min(line + 400, len(self._lines)) + 1):
            text = COMMENT.sub("", self._lines[number - 1])
            for letter in text:
                depth += (letter == "{") - (letter == "}")
                seen |= letter == "{"
                if seen and depth == 0:
                    return range(line, number + 1)
            if not seen and ";" in text:
                return range(line, number + 1)
        return range(line, line + 1)

    def _likely(self, asked: Asked, place: tuple[int, int]) -> list[Comparison]:
        """The comparisons that a setp may be: those most like it, including whether they have a constant."""
        found = [one for one in self._statement(place)[1] if one.may_be(asked) and one.inverted(asked) is not None]
        found = [one for one in found if one.is_equality == asked.is_equality] or found
        return [one for one in found if one.has_constant == asked.has_constant] or found

    def _defined(self, place: tuple[int, int]) -> tuple[int, int] | None:
        """The statement that sets the variable that is the whole condition of the statement at `place`."""
        name = self._statement(place)[0].lstrip("!")
        if not name.isidentifier():
            return None
        assigned = re.compile(rf"\b{name} = ")
        for line in range(place[0] - 1, max(place[0] - FARTHEST, 0), -1):
            if assigned.search(self._lines[line - 1]):
                return line, len(self._lines[line - 1]) - len(self._lines[line - 1].lstrip()) + 1
        return None

    def _vague(self, asked: Asked, index: int, places: Sequence[tuple[int, int]]) -> Words | None:
        for place in places:
            head, comparisons, asks = self._statement(place)
            others, comparisons = comparisons, tuple(one for one in comparisons if one.may_be(asked))
            if not asks or (others and not comparisons):
                continue
            plain = str(comparisons[min(index, len(comparisons) - 1)]) if comparisons else head
            inverted = _of_flag(asked, head) if not comparisons else None
            if inverted is not None:
                return Words(place[0], _short(plain), plain, inverted)
            return Words(place[0], f"{_form(asked)} of {_short(plain)}", plain, _flips(asked))
        return None

    def _number(self, one: Comparison, line: int) -> float | None:
        """The value of the constant of a comparison in `line`: a number, or a name that is given one above."""
        side = one.left if one.constant_left else one.right
        if NUMBER.fullmatch(side):
            return float(side.rstrip("uUlLfF"))
        above = [number for at, number in self._numbers.get(side, ()) if at <= line]
        return above[-1] if above else None

    def _statement(self, place: tuple[int, int]) -> tuple[str, tuple[Comparison, ...], bool]:
        """Return (the condition of the statement at `place`, or all of it; its comparisons; whether it asks
        anything)."""
        if place not in self._known:
            line, column = place
            lines = self._lines[line - 1 : line - 1 + MOST_LINES]
            text = COMMENT.sub(" ", "\n".join([lines[0][max(column - 1, 0) :], *lines[1:]])) if lines else ""
            while (bare := TEMPLATE.sub("", text)) != text:  # the innermost arguments first
                text = bare
            tokens = _of_one(TOKEN.findall(text))
            found = _comparisons(tokens, self._constants)
            comparisons = tuple(replace(one, number=self._number(one, line)) for one in found)
            self._known[place] = _head(tokens), comparisons, bool(comparisons) or _is_condition(tokens)
        return self._known[place]


def _of_one(tokens: Sequence[str]) -> list[str]:
    """The tokens of the first statement, up to its semicolon or its block."""
    found: list[str] = []
    depth = 0
    for token in tokens:
        depth += (token in OPENING) - (token in CLOSING)
        if depth < 0 or (depth <= 1 and token == "{" and found) or (depth == 0 and token == ";"):
            break
        found.append(token)
    return found


def _head(tokens: Sequence[str]) -> str:
    """The condition of an `if`, a `while` or a `for`; all of another statement."""
    if tokens[:1] not in CONTROL or "(" not in tokens:
        return _joined(tokens)
    start = tokens.index("(") + 1
    depth, end = 1, start
    while end < len(tokens) and depth > 0:
        depth += (tokens[end] in OPENING) - (tokens[end] in CLOSING)
        end += 1
    inside = tokens[start : end - 1]
    if tokens[0] == "for" and inside.count(";") == 2:
        first = inside.index(";")
        inside = inside[first + 1 : inside.index(";", first + 1)]
    return _joined(inside)


def _comparisons(tokens: Sequence[str], constants: frozenset[str]) -> Iterator[Comparison]:
    def is_constant(text: str) -> bool:
        return constants.issuperset(NAME.findall(text))

    loops = tokens[:1] in (["for"], ["while"])
    starts = _first_value(tokens)
    for at, token in enumerate(tokens):
        if token not in COMPARISONS:
            continue
        left, right = _joined(_side(tokens, at, -1)), _joined(_side(tokens, at, 1))
        if left and right:
            over_constants = starts is not None and is_constant(starts) and is_constant(right)
            yield Comparison(left, token, right, is_constant(left), is_constant(right), loops, over_constants)


def _first_value(tokens: Sequence[str]) -> str | None:
    """The first value of the counter of a `for` statement; None for another statement."""
    if tokens[:1] != ["for"] or ";" not in tokens:
        return None
    first = tokens[: tokens.index(";")]
    return _joined(first[first.index("=") + 1 :]) if "=" in first else None


def _numbers(text: str) -> dict[str, list[tuple[int, float]]]:
    """The constants with a numeric value in a text, by name: (line of the declaration, number)."""
    found: dict[str, list[tuple[int, float]]] = {}
    for declared in NUMBERS.finditer(text):
        line = text.count("\n", 0, declared.start()) + 1
        for name, number in NAMED.findall(declared[1]):
            found.setdefault(name, []).append((line, float(number)))
    return found


def _constants(text: str) -> frozenset[str]:
    """Names of constants in a text."""
    found: set[str] = set()
    for declared, macro, parameters in DECLARED.findall(text):
        found |= {declared, macro}
        found |= {PARAMETER.sub("", one).split(" ")[-1] for one in parameters.split(",")}
    return frozenset(found - {""})


def _side(tokens: Sequence[str], at: int, step: int) -> list[str]:
    """The operand before, or behind, the comparison at `at`."""
    opening, closing = (OPENING, CLOSING) if step > 0 else (CLOSING, OPENING)
    found, depth, place = [], 0, at + step
    while 0 <= place < len(tokens):
        token = tokens[place]
        depth += (token in opening) - (token in closing)
        if depth < 0 or (depth == 0 and (token in ENDS or token in COMPARISONS)):
            break
        found.append(token)
        place += step
    return found[::step]


def _joined(tokens: Sequence[str]) -> str:
    """The tokens as text, spaced as a person writes it."""
    text = " ".join(tokens)
    text = re.sub(r"(?<=[\w\])\"]) (?=[(\[])|(?<=[(\[!~]) | (?=[)\],;])| ?(::|->|\.(?!\d)) ?", r"\1", text)
    return re.sub(r"\b(if|for|while)\(", r"\1 (", text)


def _is_condition(tokens: Sequence[str]) -> bool:
    return tokens[:1] in CONTROL or any(token in ("?", "&&", "||") for token in tokens)


def _of_flag(asked: Asked, head: str) -> bool | None:
    """Whether a setp that compares a number with 0 is true where `head`, which is that number, is false."""
    if not asked.is_equality or not asked.constant_right or " " in head:
        return None
    return (asked.base == "eq") != head.startswith("!")


def _form(asked: Asked) -> str:
    """One name for all copies of a comparison that mean the same, however the compiler asks it."""
    if asked.is_equality:
        return "setp.eq"
    if asked.operation in ("num", "nan"):
        return "setp.nan"
    return "setp.lt" if asked.has_constant else "setp.ge"


def _flips(asked: Asked) -> bool:
    """Whether a setp is true where that of `_form` is false."""
    if asked.is_equality:
        return asked.base == "ne"
    if asked.operation in ("num", "nan"):
        return asked.operation == "num"
    if asked.has_constant:
        return (asked.base in LESS) == asked.constant_left
    return asked.base in STRICT


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
