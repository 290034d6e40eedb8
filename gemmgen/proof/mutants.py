"""Mutants of a kernel: one small mistake each, at random places of its text or of its launch.

The catalogue (`bugs/`) holds mistakes that somebody thought of; mutants are mistakes that nobody thought of. An
operator proposes edits from the tokens of the text; comments, preprocessor lines and `static_assert`s stay as they are.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource


@dataclass(frozen=True)
class Token:
    """A word of a text, and where it starts."""

    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True)
class Edit:
    """An edit: the characters from `start` (inclusive) to `end` (exclusive) of a text become `new`."""

    start: int
    end: int
    new: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]


@dataclass(frozen=True)
class Mutant:
    """`source` with one mistake: `before` became `after` in `line` of its text, or in its launch (line 0)."""

    operator: str
    line: int
    before: str
    after: str
    original: KernelSource
    source: KernelSource

    def __str__(self) -> str:
        return f"{self.operator}, {f'line {self.line}' if self.line else 'launch'}: {self.before} -> {self.after}"


class Code:
    """A kernel's text, and those of its tokens that may change."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.live = _blanked(text)
        self.tokens = [Token(match[0], match.start()) for match in TOKEN.finditer(self.live)]
        self.partners = _partners({token.text for token in self.tokens if token.text.isidentifier()})

    def is_infix(self, token: Token) -> bool:
        """Whether spaces are on both sides: a binary operator, not a template's bracket, a pointer or a sign."""
        return self.live[token.start - 1] == " " and self.live[token.end] in " \n"

    def statements(self) -> Iterator[Token]:
        """Lines that are a single statement without declarations."""
        for match in STATEMENT.finditer(self.live):
            yield Token(match[1], match.start(1))


TOKEN = re.compile(r"0x\w+|\d+\.\d+f?|[A-Za-z_]\w*|\d+|[-+*/%^&|]=|[<>=!]=|&&|\|\||\+\+|--|[^\s\w]")
DECLARES = r"const|constexpr|static|int|float|unsigned|using|struct|extern|template|__shared__"
STATEMENT = re.compile(rf"^[ ]+((?!(?:{DECLARES})\b|Vec<|Tile)[^\s}}{{#][^{{}}\n]*;)[ ]*$", re.MULTILINE)
# In __launch_bounds__ fewer threads are a bug of the catalogue, more threads and other blocks a matter of speed alone;
# so is what a vector is aligned to, up to what its accesses need.
DEAD = re.compile(
    r"//[^\n]*|^\s*#[^\n]*|^static_assert[^\n]*|__launch_bounds__\([^)]*\)|alignas\([^)]*\)", re.MULTILINE
)


def _blanked(text: str) -> str:
    """`text` with spaces in place of everything that no operator may change."""
    return DEAD.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


RELATIONS = ("<", "<=", ">", ">=", "==", "!=")
ARITHMETIC = ("+", "-", "*", "/", "%")
ASSIGNMENTS = ("=", "+=", "-=", "*=", "^=")
# Names that a slip of the pen takes one for another: those of one role differ in one letter of a group, whatever the
# family calls them (lda and ldb, TM and TN, fetch_a and fetch_b), and some roles have words.
LETTERS = ("ABC", "abc", "MNK", "mnk", "ijv", "ik")
WORDS = """
    rows columns depth, alpha beta, read write, load load_edge, lane warp, group first within, min max, tile thread,
    threadIdx blockIdx, continue break, value old, STAGES GROUP, THREADS BN, cp_async_wait cp_async
"""
ORDERS = re.compile(r"\b(return|break|continue|if|for|__sync\w+|cp_async\w*)\b")
COUNTING = re.compile(r"\(int (\w+) = 0; \1 (<) [^;]+; \+\+\1\)")
GUARD = re.compile(r"^if \(.*\) (return|break|continue);$")
WRITES = re.compile(r"(\w+)(?:\[[^]]*\]|\.\w+)* [-+*^]?= |(\w+)(?:\[[^]]*\])?\);$")
NARROWER = {
    "int": ("short", "signed char", "unsigned", "float"),
    "Offset": ("int", "short", "float"),
    "float": ("int",),
}
# Statements that have another effect if executed twice. An extra barrier, wait or commit only makes threads wait
# longer.
COUNTS = re.compile(r"[-+*^]= |\b(\w+) = \1 |\bacc")


def _partners(names: set[str]) -> dict[str, list[str]]:
    """For each of `names` that has any, the other names with the same role."""
    roles: dict[object, set[str]] = {words: names.intersection(words.split()) for words in WORDS.split(",")}
    for name in names:
        for place, letter in enumerate(name):
            for group in (group for group in LETTERS if letter in group):
                roles.setdefault((group, name[:place], name[place + 1 :]), set()).add(name)
    found: dict[str, set[str]] = {}
    for role in roles.values():
        for name in role if len(role) > 1 else ():
            found.setdefault(name, set()).update(role - {name})
    return {name: sorted(others) for name, others in sorted(found.items())}


def _relations(code: Code) -> Iterator[Edit]:
    counted = {match.start(2) for match in COUNTING.finditer(code.live)}  # comes to its end either way
    yield from (edit for edit in _infix(code, RELATIONS) if edit.start not in counted or edit.new != "!=")


def _arithmetic(code: Code) -> Iterator[Edit]:
    yield from _infix(code, ARITHMETIC)


def _assignments(code: Code) -> Iterator[Edit]:
    for token in code.tokens:
        if token.text in ASSIGNMENTS[1:]:
            yield from _replace(token, [other for other in ASSIGNMENTS if other != token.text])


def _logic(code: Code) -> Iterator[Edit]:
    for token in code.tokens:
        if token.text in ("&&", "||"):
            yield from _replace(token, ["||" if token.text == "&&" else "&&"])
    for match in re.finditer(r"\bif (?:constexpr )?\((.*)\)", code.live):
        for new in (f"!({match[1]})", "true", "false"):
            yield Edit(match.start(1), match.end(1), new)
    for match in re.finditer(r"\? ([^?:;]+) : ([^?:;,]+)(?=[;,)])", code.live):
        yield Edit(match.start(1), match.end(2), f"{match[2]} : {match[1]}")


def _integers(code: Code) -> Iterator[Edit]:
    for token in code.tokens:
        if token.text.isdecimal():
            yield from _replace(token, [str(int(token.text) + 1), str(int(token.text) - 1)])


def _off_by_one(code: Code) -> Iterator[Edit]:
    """Edits that make a name one larger or smaller in an expression."""
    for before, token, after in zip(code.tokens, code.tokens[1:], code.tokens[2:], strict=False):
        if token.text in code.partners and before.text in "[(,+-*/%<>=;?:" and after.text in "]),+-*/%<>;?:":
            yield from _replace(token, [f"({token.text} + 1)", f"({token.text} - 1)"])


def _floats(code: Code) -> Iterator[Edit]:
    for token in code.tokens:
        if token.text == "0.0f":
            yield from _replace(token, ["1.0f", "-0.5f"])


def _names(code: Code) -> Iterator[Edit]:
    for token in code.tokens:
        yield from _replace(token, code.partners.get(token.text, ()))


def _types(code: Code) -> Iterator[Edit]:
    for token in code.tokens:
        yield from _replace(token, NARROWER.get(token.text, ()))


def _deletions(code: Code) -> Iterator[Edit]:
    for statement in code.statements():
        yield Edit(statement.start, statement.end, ";")
        body = re.match(r"(if|for) \(.*?\) (?=\w)", statement.text)
        if body:
            yield Edit(statement.start, statement.start + body.end(), "")


def _repetitions(code: Code) -> Iterator[Edit]:
    for statement in code.statements():
        if COUNTS.search(statement.text):
            yield Edit(statement.end, statement.end, f" {statement.text}")


def _exchanges(code: Code) -> Iterator[Edit]:
    """Edits that exchange a statement with the next one, if one of them needs the other."""
    statements = list(code.statements())
    for first, second in pairwise(statements):
        between = code.text[first.end : second.start]
        if not code.live[first.end : second.start].strip() and not _independent(first.text, second.text):
            yield Edit(first.start, second.end, f"{second.text}{between}{first.text}")


def _independent(first: str, second: str) -> bool:
    """Whether neither statement writes what the other names. A call writes its last argument; control and waits order
    all.

    Two guards are independent: whichever is met first, the code behind them does not run.
    """
    if GUARD.search(first) and GUARD.search(second):
        return True
    if ORDERS.search(first) or ORDERS.search(second):
        return False
    names = [set(re.findall(r"[A-Za-z_]\w*", text)) for text in (first, second)]
    written = [{match[1] or match[2] for match in WRITES.finditer(text)} for text in (first, second)]
    return not (written[0] & names[1] or written[1] & names[0])


def _products(code: Code) -> Iterator[Edit]:
    for match in re.finditer(r"fmaf\(([^(),]+), ([^(),]+), ([^(),]+)\)", code.live):
        x, y, z = match.groups()
        for new in (f"fmaf({x}, {z}, {y})", f"fmaf({x}, {x}, {z})", f"{x} * {y}", f"{x} + {y} * {z}", f"({x} - {y})"):
            yield Edit(match.start(), match.end(), new)


def _arguments(code: Code) -> Iterator[Edit]:
    """Edits that exchange two neighbouring arguments, or indices."""
    word = r"([\w.]+(?:\[\w+\])*)"
    for match in re.finditer(rf"(?<=[(\s]){word}, {word}(?=[,)])", code.live):
        product = code.live.endswith("fmaf(", 0, match.start())  # of two: the same either way
        if match[1] != match[2] and not product:
            yield Edit(match.start(), match.end(), f"{match[2]}, {match[1]}")
    for match in re.finditer(r"\[([^][]+)\]\[([^][]+)\]", code.live):
        if match[1] != match[2]:
            yield Edit(match.start(), match.end(), f"[{match[2]}][{match[1]}]")


def _infix(code: Code, operators: Sequence[str]) -> Iterator[Edit]:
    for token in code.tokens:
        if token.text in operators and code.is_infix(token):
            yield from _replace(token, [other for other in operators if other != token.text])


def _replace(token: Token, others: Sequence[str]) -> Iterator[Edit]:
    for other in others:
        yield Edit(token.start, token.end, other)


OPERATORS: dict[str, Callable[[Code], Iterator[Edit]]] = {
    "relation": _relations,
    "arithmetic": _arithmetic,
    "assignment": _assignments,
    "logic": _logic,
    "constant": _integers,
    "off by one": _off_by_one,
    "zero": _floats,
    "name": _names,
    "type": _types,
    "deletion": _deletions,
    "repetition": _repetitions,
    "order": _exchanges,
    "fma": _products,
    "arguments": _arguments,
}
LAUNCH = "launch"
SIZE = 1009  # of M, N or a batch that is left to run time: a prime, so that other tiles are other blocks


def draw(kernels: Sequence[Callable[[], KernelSource]], seed: int) -> Iterator[Mutant]:
    """Yield mutants without end, none twice; every kernel and operator is equally likely.

    Many do not compile, and some are not mistakes. A kernel is rendered when its first mutant is drawn.
    """
    rng = random.Random(seed)
    waiting: dict[int, tuple[KernelSource, dict[str, list[Edit | Launch]]]] = {}
    left = list(range(len(kernels)))
    while left:
        number = rng.choice(left)
        if number not in waiting:
            waiting[number] = (source := kernels[number]()), _proposals(source)
        source, by_operator = waiting[number]
        if not by_operator:
            left.remove(number)
            continue
        operator = rng.choice(sorted(by_operator))
        proposals = by_operator[operator]
        yield _mutant(source, operator, proposals.pop(rng.randrange(len(proposals))))
        if not proposals:
            del by_operator[operator]


def _proposals(source: KernelSource) -> dict[str, list[Edit | Launch]]:
    code = Code(source.text)
    found: dict[str, list[Edit | Launch]] = {name: list(operator(code)) for name, operator in OPERATORS.items()}
    found[LAUNCH] = [launch for launch in _launches(source.launch) if not _enough_blocks(source, launch)]
    return {name: proposals for name, proposals in found.items() if proposals}


def _enough_blocks(source: KernelSource, launch: Launch) -> bool:
    """Whether another grid has no fewer blocks, with run-time sizes of 1 or SIZE: more blocks are only waste."""
    known, problem = source.launch, source.problem
    if (launch.threads, launch.shared_bytes) != (known.threads, known.shared_bytes):
        return False
    free = [name for name in ("m", "n", "batch") if getattr(problem, name) is None]
    depth = {"k": 1} if problem.k is None else {}
    cases = [
        problem.case(**dict(zip(free, sizes, strict=True)), **depth) for sizes in product((1, SIZE), repeat=len(free))
    ]
    return all(launch.blocks(case) >= known.blocks(case) for case in cases)


def _mutant(source: KernelSource, operator: str, change: Edit | Launch) -> Mutant:
    if isinstance(change, Launch):
        return Mutant(operator, 0, str(source.launch), str(change), source, source.promising(launch=change))
    text = change.apply(source.text)
    first = source.text.count("\n", 0, change.start)
    lines = 1 + source.text.count("\n", change.start, change.end)
    before, after = (
        " ".join(line.partition("//")[0].strip() for line in some.split("\n")[first : first + lines])
        for some in (source.text, text)
    )
    return Mutant(operator, first + 1, before, after, source, replace(source, text=text))


def _launches(launch: Launch) -> Iterator[Launch]:
    """Launches with other numbers of threads, tiles and blocks per tile, or too little shared memory; too much is only
    waste."""
    for threads in (launch.threads // 2, launch.threads - 32, launch.threads - 1, launch.threads + 32):
        if threads > 0:
            yield replace(launch, threads=threads)
    names, tiles = (tuple(column) for column in zip(*launch.grid, strict=True))
    swapped = (*tiles[1::-1], *tiles[2:])
    doubled = (tuple(tile * (2 if place == at else 1) for place, tile in enumerate(tiles)) for at in range(len(tiles)))
    for grid in (swapped, *doubled, (tiles[0] + 1, *tiles[1:])):
        if grid != tiles:
            yield replace(launch, grid=tuple(zip(names, grid, strict=True)))
    yield from _shared_tiles(launch)
    if launch.shared_bytes:
        for less in (4, 16, 128, launch.shared_bytes // 2):
            yield replace(launch, shared_bytes=launch.shared_bytes - less)


def _shared_tiles(launch: Launch) -> Iterator[Launch]:
    """Launches of blocks that share tiles with one block more or less, and another workspace."""
    for more in (-1, 1):
        if launch.splits > 1 and launch.leaves_partials:
            yield replace(launch, splits=launch.splits + more)
        if launch.stream is not None and launch.stream.blocks + more > 0:
            yield replace(launch, stream=replace(launch.stream, blocks=launch.stream.blocks + more))
