"""Where a kernel's text gets probes: its conditions and blocks, found by its tokens.

What is not understood stays without a probe. Each operand of && and || is a condition of its own, and so is each
comparison whose value is kept. Those that are the same in every run have no probe: loops over constants, what hangs on
their variables alone, `if constexpr`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from gemmgen.run.emulator.probes import MOST_SITES, Probed, Probes
from gemmgen.run.emulator.tokens import (
    AND,
    ASSIGNMENTS,
    CLOSING,
    NAME,
    NOT,
    OR,
    Tokens,
    behind,
    closing_angle,
    comparison_in,
    find,
    opening_of,
    split,
    tokens_of,
    top_level,
)

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
# A statement with one of these declares no variable of a thread, or gives it a value.
NEVER_UNSET = frozenset(
    [
        *("return", "goto", "throw", "delete", "new", "using", "typedef", "struct", "class", "union", "enum", "friend"),
        *(
            "static",
            "extern",
            "thread_local",
            "constexpr",
            "const",
            "auto",
            "void",
            "bool",
            "operator",
            "=",
            "&",
            "asm",
        ),
        *("__shared__", "__device__", "__constant__"),
    ]
)
BEFORE_TYPE = frozenset(("volatile", "typename", "unsigned", "signed", "long", "short", "int", "char"))
STARTS_BLOCK = frozenset((")", "else", "do", "const", "noexcept", "mutable"))


def probed(text: str) -> Probed:
    """`text` with probes at its conditions and blocks; none where it has more than MOST_SITES."""
    writer = Probes(text)
    _Reader(writer, tokens_of(text)).statements()
    return writer.probed() if len(writer.sites) <= MOST_SITES else Probed(text, ())


@dataclass
class _Reader:
    """Walks over tokens, statement by statement, and has `writer` put probes where runs may differ.

    constants  names of numbers that are the same in every run: also of unrolled loops' variables
    """

    writer: Probes
    tokens: Tokens
    constants: set[str] = field(default_factory=set)
    certain: set[int] = field(default_factory=set)  # where the bodies of loops over constants begin
    bodies: list[bool] = field(default_factory=list)  # of the braces that are open: whether statements run there

    def statements(self) -> None:
        """All of `tokens`."""
        at, open_blocks = 0, []
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.text == "{":
                previous = self.tokens[at - 1].text if at else ""
                starts = previous in STARTS_BLOCK and not self._declares_no_code(at)
                self.bodies.append(previous in STARTS_BLOCK or (self._runs and previous in (";", "{", "}")))
                open_blocks.append(self.writer.block(token) if starts and at not in self.certain else None)
                at += 1
            elif token.text == "}":
                self.bodies = self.bodies[:-1]
                number = open_blocks.pop() if open_blocks else None
                if number is not None:
                    self.writer.block_ends(number, token)
                at += 1
            else:
                at = self._statement(at)

    @property
    def _runs(self) -> bool:
        """Whether this is amid statements: no members of a struct."""
        return bool(self.bodies) and self.bodies[-1]

    def _declares_no_code(self, at: int) -> bool:
        """Whether the parentheses before the brace at `at` are an attribute's, or those of a switch."""
        if self.tokens[at - 1].text != ")":
            return False
        opening = opening_of(self.tokens, at - 1)
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
        if self._runs and self._text(end) == ";":
            for name in _declared_unset(self.tokens[at:end]):
                self.writer.unset(name, self.tokens[end])
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
        end = closing_angle(self.tokens, at)
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
            return behind(self.tokens, opening + 1)
        if self._text(opening) != "(":
            return opening
        end = behind(self.tokens, opening)
        inside = self.tokens[opening + 1 : end - 1]
        if word == "for":
            self._for(inside, end)
        else:
            *before, condition = split(inside, (";",))
            for some in before:
                self._simple(some)
            self._expression(condition, word != "switch" and not _declares(condition))
            if word == "switch":
                self._switch(condition, end)
        return end

    def _switch(self, chosen: Tokens, body: int) -> None:
        """Its labels are comparisons, told where it begins."""
        labels = self._labels(body)
        if chosen and labels and not _declares(chosen) and not self._constant(chosen):
            self.writer.choice(chosen, labels)

    def _labels(self, body: int) -> list[Tokens]:
        """The constants of `case` between the braces that open at `body`, but for those in braces of their own."""
        found = []
        if self._text(body) == "{":
            inside = self.tokens[body + 1 : behind(self.tokens, body) - 1]
            for at in top_level(inside):
                if inside[at].text == "case":
                    label = split(inside[at + 1 :], (":",))[0]
                    found += [label] if label and not {"?", "...", ";"} & {token.text for token in label} else []
        return found

    def _for(self, inside: Tokens, body: int) -> None:
        parts = split(inside, (";",))
        if len(parts) != 3:
            return  # over a range
        start, condition, step = parts
        names = [some[0].text for declared in split(start, (",",)) if (some := _before_assignment(declared))]
        values = [token for declared in split(start, (",",)) for token in _after_assignment(declared)]
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
            at = behind(self.tokens, at) if text in CLOSING else at + 1
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
        if len(parts := split(tokens, (",",))) > 1:
            for part in parts[:-1]:
                self._expression(part, False)
            self._expression(parts[-1], condition)
        elif (at := find(tokens, ASSIGNMENTS)) is not None:
            self._assignment(tokens, at, condition)
        elif (at := find(tokens, ("?",))) is not None:
            self._choice(tokens, at)
        elif len(parts := split(tokens, OR)) > 1 or len(parts := split(tokens, AND)) > 1:
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
        for place in top_level(tokens[at + 1 :]):
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
        if inner and inner[0].text == "(" and behind(inner, 0) == len(inner):
            self._expression(inner[1:-1], condition)
            return
        at = comparison_in(tokens)
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
            end = behind(tokens, at)
            inside = tokens[at + 1 : end - 1]
            if text == "{":
                _Reader(self.writer, inside, self.constants).statements()
            elif at == 0 or not (tokens[at - 1].text in UNEVALUATED or _is_asm(tokens, at)):
                self._expression(inside, False)
            at = end

    def _text(self, at: int) -> str:
        return self.tokens[at].text if at < len(self.tokens) else ""


def _is_asm(tokens: Tokens, at: int) -> bool:
    return any(token.text in ("asm", "__asm__") for token in tokens[max(0, at - 3) : at])


def _declares(condition: Tokens) -> bool:
    """Whether it is `int x = ...`."""
    return len(_before_assignment(condition)) > 0 and find(condition, ("=",)) not in (None, 1)


def _before_assignment(tokens: Tokens) -> Tokens:
    """The name that a declaration or an assignment gives a value, as one token; none where there is no such."""
    at = find(tokens, ("=",))
    return tokens[at - 1 : at] if at else []


def _after_assignment(tokens: Tokens) -> Tokens:
    at = find(tokens, ("=",))
    return [] if at is None else tokens[at + 1 :]


def _declared_unset(tokens: Tokens) -> list[str]:
    """The variables that a statement declares and gives no value: `Vec<float, 4> old, a[2][TM]`."""
    words = [token.text for token in tokens]
    if not words or not NAME.fullmatch(words[0]) or not NEVER_UNSET.isdisjoint(words):
        return []
    first, *others = split(tokens, (",",))
    start = _type_end(first)
    names = [_name_declared(first[start:]), *map(_name_declared, others)] if start else []
    return [name for name in names if name is not None] if None not in names else []


def _type_end(tokens: Tokens) -> int:
    """Behind the type that a declaration begins with."""
    at = 0
    while at < len(tokens) and tokens[at].text in BEFORE_TYPE:
        at += 1
    if at == 0 or tokens[at - 1].text in ("volatile", "typename"):
        at += 1
    while at < len(tokens) and tokens[at].text in ("<", "::", "*"):
        if tokens[at].text == "<":
            end = closing_angle(tokens, at)
            if end is None:
                return 0
            at = end + 1
        else:
            at += 2 if tokens[at].text == "::" else 1
    return at


def _name_declared(tokens: Tokens) -> str | None:
    """That of `a` or `a[2][TM]`; None for anything else."""
    if not tokens or not NAME.fullmatch(tokens[0].text):
        return None
    at = 1
    while at < len(tokens) and tokens[at].text == "[":
        at = behind(tokens, at)
    return tokens[0].text if at == len(tokens) else None


def _names_assigned(tokens: Tokens) -> set[str]:
    return {name[0].text for part in split(tokens, (",",)) if (name := _before_assignment(part))}
