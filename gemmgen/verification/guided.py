"""Situations for branches of a kernel that have not run: sizes, strides and scalars from the operands of
comparisons.

A comparison in the kernel that has always come out the same way shows how far its operands were from the other way. If
one operand is a size, a scalar, a multiple of one or a number that grows with one, the other operand says what it has
to be. If nothing is known of it, the difference of the two may still be what a size lacks.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from gemmgen.families import k_tile_of
from gemmgen.kernel.launch import Launch
from gemmgen.problem.gemm import Case
from gemmgen.run.coverage import Near
from gemmgen.run.executor import LoadedKernel, tells
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.checks import SAMPLE_TILES, runs_whole, sampled
from gemmgen.verification.situation import (
    EXACT_KINDS,
    EXACT_SCALARS,
    FAR_SIZES,
    SHALLOW,
    DataKind,
    Situation,
    distances_of,
    free_sizes,
    kind_for,
    resized,
)

MOST_TRIES = 24  # for an outcome,
EMPTY_TRIES = 3  # for one that launches have run which tell nothing,
NAMELESS_TRIES = 12  # and for one of a comparison that may be the compiler's own
SOUGHT_FLOPS, SOUGHT_ELEMENTS = 2e7, 3e6  # of a case at most
SCALARS, A_TILE, DATA = ("alpha", "beta"), "a tile", "data"
ODD_DATA: tuple[DataKind, ...] = ("denormal", "huge", "special", "sparse")  # an aim's value is the number of one
FLOATING = re.compile(r"\d\.\d*f?\b")  # a number that a comparison of elements names
# How sure it is that an aim meets its outcome, most first.
IS_DATA, IS_LAST, IS_OPERAND, IS_RATIO, IS_DISTANCE, IS_TILE, GROWS = range(7)
IS_SAMPLED = IS_TILE  # a tile of a grid that does not run whole; IS_LAST: its last one
SEEDS_TRIED = 30_000  # for one by which a sample has a tile: a second or two
UNNAMED = 4  # steps of that, for what a comparison does not name that names others
# Names that speak of the number of tiles.
TILES = frozenset({"blockIdx", "gridDim", "block", "tile", "tiles", "tile_m", "tile_n"})

# Scalars, and the least M and N, with which a situation runs again where it was the first to meet an outcome: what is
# seldom met is to meet others than it happened to have. The last of such situations are the rarest.
AGAIN = ((-1.6180339, -0.7071068, 1), (1.0, 0.0, 1), (1.0, 0.0, 97))
AGAIN_OF_INTEGERS = ((-77.0, -3.0, 1), (1.0, 0.0, 1), (1.0, 0.0, 97))
MOST_AGAIN = 3  # situations
PLAIN = 2.0**-20, 2.0**20  # a scalar between these hides nothing that the other one multiplies


class Known(NamedTuple):
    """A situation, and how close it brought a comparison to its missing outcome."""

    situation: Situation
    near: Near


@dataclass(frozen=True, order=True)
class Aim:
    """A `value` for the number called `name`; `step` is its distance from the operand."""

    chance: int
    step: int
    name: str
    value: float
    unnamed: int = 0


class Seeker:
    """Watches which parts of `kernel` run, and proposes situations for the rest. `largest` bounds run-time sizes."""

    def __init__(self, kernel: LoadedKernel, largest: int) -> None:
        self._kernel, self._largest, self._k_tile = kernel, largest, k_tile_of(kernel.source)
        # By comparison, and whether an operand was a number of the case.
        self._known: dict[tuple[int, bool], Known] = {}
        self._tries: Counter[int] = Counter()
        self._tries_of: Counter[tuple[int, int]] = Counter()  # by what they were worth
        self._aim: tuple[int, str] | None = None  # of the situation proposed last: for which outcome, by what
        self._moves: set[tuple[int, str]] = set()  # of such those that brought operands closer
        self._tried: set[tuple[Case, DataKind, int | None]] = set()  # and the tile, where one was sought
        self._lacked: frozenset[int] = frozenset()  # an outcome, before what ran last
        self._first: list[Situation] = []  # each the first to meet one
        self._again: Iterator[Situation] | None = None

    def ran(self, situation: Situation) -> None:
        """Learn from `situation`, which has run."""
        lacking = self._kernel.lacking()
        if not self._lacked <= lacking.keys():
            self._first.append(situation)
        self._lacked = frozenset(lacking)
        self._known = {key: known for key, known in self._known.items() if key[0] in lacking}
        for number, near in lacking.items():
            if near is None:
                continue
            key = number, _is_number_of(situation.case, near)
            if key not in self._known or near.distance < self._known[key].near.distance:
                if self._aim is not None and self._aim[0] == number:
                    self._moves.add(self._aim)
                self._known[key] = Known(situation, near)
        self._aim = None

    def next(self) -> Situation | None:
        """A situation for an outcome that has not run; none comes twice. Then situations for outcomes that were met
        late. None if it knows no more."""
        aims = [
            (self._rank(key[0], aim), aim, key)
            for key, (situation, near) in self._known.items()
            if self._tries[key[0]] < (EMPTY_TRIES if near.empty else MOST_TRIES if near.text else NAMELESS_TRIES)
            for aim in aims_of(situation.case, self._kernel.source.launch, near, self._k_tile)
        ]
        for _, aim, key in sorted(aims):
            situation, near = self._known[key]
            sought = self._aimed(telling(situation), aim)
            if sought is None:
                continue
            if tells(sought.case) or not near.empty:
                self._tries[key[0]] += 1
                self._tries_of[key[0], aim.chance] += 1
                self._aim = key[0], aim.name
                return sought
        if self._again is None:
            self._again = again(self._first[: -MOST_AGAIN - 1 : -1])
        return next(self._again, None)

    def _aimed(self, situation: Situation, aim: Aim) -> Situation | None:
        """`situation` changed once as `aim` says."""
        tile = int(aim.value) if aim.name == A_TILE else None
        sought = situation if tile is not None else aimed(situation, aim, self._largest)
        if sought is None or (sought.case, sought.data, tile) in self._tried:
            return None
        self._tried.add((sought.case, sought.data, tile))
        return sought if tile is None else sampling(self._kernel, sought, tile)

    def _rank(self, number: int, aim: Aim) -> int:
        """A rank that is low for aims that are likely and have not been tried often."""
        tries = self._tries[number] + self._tries_of[number, aim.chance]
        unlikely = 0 if (number, aim.name) in self._moves else aim.chance + aim.unnamed
        return unlikely + aim.step + tries


def again(met: list[Situation]) -> Iterator[Situation]:
    """Each of `met` with scalars of either kind, and with data that shows what becomes of them."""
    for situation in met:
        case, scalar = situation.case, situation.case.problem.types.scalar
        taken = case.problem.epilogue.scalars
        for alpha, beta, least in AGAIN_OF_INTEGERS if scalar.is_integer else AGAIN:
            wanted = replace(
                _as_large(case, least),
                alpha=float(scalar.numpy.type(alpha)) if "alpha" in taken else case.alpha,
                beta=float(scalar.numpy.type(beta)) if "beta" in taken else case.beta,
            )
            if least == 1 or (wanted.m, wanted.n) != (case.m, case.n):
                yield replace(situation, case=wanted, data="random")


def _as_large(case: Case, least: int) -> Case:
    """`case` with M and N of at least `least`, if they are left to run time and that costs little."""
    for name in ("M", "N"):
        if name in case.problem.runtime_names and int(case.values[name]) < least:
            larger = _with_size(case, name, least, None)
            case = larger if _affordable(larger) else case
    return case


def telling(situation: Situation) -> Situation:
    """`situation` with data and scalars that show a missing or wrong product."""
    case = situation.case
    data = situation.data if situation.data in ("exact", "random") else "random"
    alpha = case.alpha if tells(replace(case, beta=0.0)) and 2**-20 < abs(case.alpha) < 2**20 else 1.0
    beta = case.beta if math.isfinite(case.beta) else 0.0
    return replace(situation, case=replace(case, alpha=alpha, beta=beta), data=data)


def _is_number_of(case: Case, near: Near) -> bool:
    """Whether an operand is a number of `case` that the comparison names, or a size, so that it tells less."""
    words = _words(near.text)
    named = {number for name, number in case.values.items() if name in words}
    numbers = named or {case.values[name] for name in case.problem.runtime_names}
    return not {near.left, near.right}.isdisjoint(numbers - {0})


def _words(text: str) -> set[str]:
    return {*re.findall(r"[A-Za-z_]\w*", text)}


def aims_of(case: Case, launch: Launch, near: Near, k_tile: int = 1) -> Iterator[Aim]:
    """Aims that may give the comparison its other outcome, from operands that `case` had."""
    words = _words(near.text)
    known = TILES.union(case.values)
    if FLOATING.search(near.text) and words.isdisjoint(case.values):
        yield from (Aim(IS_DATA, step, DATA, step) for step in range(len(ODD_DATA)))
    yield from _last_aims(case, launch, words)
    for aim in _any_aims(case, launch, near):
        named = not words.isdisjoint(TILES if aim.chance == IS_TILE else (aim.name,))
        yield aim if named or (near.text and words.isdisjoint(known)) else replace(aim, unnamed=UNNAMED)
    tiles = {"K": k_tile, **dict(launch.grid)}
    for name in ("K", "M", "N", "batch"):  # whatever is left beyond the last tile stays
        if name in case.problem.runtime_names and name in tiles:
            yield from (Aim(GROWS, 2 * more, name, int(case.values[name]) + more * tiles[name]) for more in (1, 2))


def _any_aims(case: Case, launch: Launch, near: Near) -> Iterator[Aim]:
    free = [name for name in case.problem.runtime_names if name in case.values]
    for here, there in ((near.left, near.right), (near.right, near.left)):
        for name in SCALARS:
            yield from _scalar_aims(name, float(case.values[name]), here, there)
        if here.is_integer() and there.is_integer():
            for name in free:
                yield from _size_aims(name, int(case.values[name]), int(here), int(there))
            yield from _tile_aims(case, launch, int(there))
            yield from _sample_aims(case, launch, near, int(there))


def _scalar_aims(name: str, value: float, here: float, there: float) -> Iterator[Aim]:
    if abs(value) == abs(here):
        for step, aim in enumerate((there, 2 * there, there / 2, there - there / 2048, there + there / 2048, -there)):
            yield Aim(IS_OPERAND, step, name, aim)


def _size_aims(name: str, value: int, here: int, there: int) -> Iterator[Aim]:
    for place, step in enumerate((0, 1, -1)):
        goal = there + step
        if value == here:
            yield Aim(IS_OPERAND, place, name, goal)
            continue
        yield Aim(IS_DISTANCE, place, name, value + goal - here)
        yield Aim(IS_DISTANCE, place, name, value - goal + here)
        if here > 1 and value > 1 and (value % here == 0 or here % value == 0):
            yield Aim(IS_RATIO, place, name, goal * value // here)
        if 0 < here < value and goal > 0:
            yield Aim(GROWS, place, name, value * (2 * goal + 1) // (2 * here + 1))


def _tile_aims(case: Case, launch: Launch, there: int) -> Iterator[Aim]:
    """Sizes whose tiles include the number `there`, or whose tile count is `there`."""
    for size, tile in launch.grid:
        if size in case.problem.runtime_names and there > 0:
            yield Aim(IS_TILE, 0, size, there * tile + 1)
            yield Aim(IS_TILE, 1, size, there * tile)


def _last_aims(case: Case, launch: Launch, words: set[str]) -> Iterator[Aim]:
    """The last tile of fixed sizes that do not run whole: few other tiles end where rows and columns of C end.

    If a comparison names tiles, the tile number that it asks for comes first.
    """
    problem, tiles = case.problem, launch.tiles(case)
    if None not in (problem.m, problem.n) and tiles > 2 * SAMPLE_TILES:
        chance, step = (IS_LAST, 0) if words.isdisjoint(TILES) else (IS_SAMPLED, 1)
        yield Aim(chance, step, A_TILE, tiles - 1)


def _sample_aims(case: Case, launch: Launch, near: Near, there: int) -> Iterator[Aim]:
    """Tiles of a grid that does not run whole: the tile, the block, or the row or column of tiles with that number."""
    tiles = launch.tiles(case)
    if tiles <= 2 * SAMPLE_TILES or there < 0 or TILES.isdisjoint(_words(near.text)):
        return
    columns = -(-case.n // dict(launch.grid).get("N", case.n))
    for step, tile in enumerate((there // launch.blocks_per_tile, there, there + 1, there - 1, there * columns)):
        if 0 <= tile < tiles:
            yield Aim(IS_SAMPLED, step, A_TILE, tile)


def sampling(kernel: LoadedKernel, situation: Situation, tile: int) -> Situation | None:
    """`situation` with another seed, whose sample includes `tile`; None if it runs whole, or if no tried seed gives
    one."""
    if runs_whole(kernel, replace(situation, seed=situation.seed | 1)):
        return None
    for seed in range(situation.seed, situation.seed + SEEDS_TRIED):
        found = replace(situation, seed=seed)
        if tile in sampled(situation.case, kernel.source.launch, seed) and not runs_whole(kernel, found):
            return found
    return None


def aimed(situation: Situation, aim: Aim, largest: int) -> Situation | None:
    """`situation` changed as `aim` says, with other sizes reduced if it gets costly; None if that is impossible."""
    case = situation.case
    try:
        if aim.name == DATA:
            kind = ODD_DATA[int(aim.value)]
            return replace(situation, data=kind) if kind_for(case.problem.types, kind) == kind else None
        if aim.name in SCALARS:
            return _with_scalar(situation, aim)
        if aim.value < 0 or (largest < FAR_SIZES[-1] and aim.value > largest):
            return None
        usual = _with_size(case, aim.name, int(aim.value), None)
        if _affordable(usual) and aim.chance != IS_TILE:
            return replace(situation, case=usual)
        small = _with_size(case, aim.name, int(aim.value), SHALLOW)
        return replace(situation, case=small, seed=situation.seed | 1) if _affordable(small) else None
    except (InvalidInput, OverflowError):  # sizes that the problem does not take
        return None


def _with_scalar(situation: Situation, aim: Aim) -> Situation:
    dtype = situation.case.problem.types.scalar
    if abs(aim.value) > dtype.largest:
        raise InvalidInput(f"{aim.name} = {aim.value} is no {dtype.label}")
    value = float(dtype.numpy.type(aim.value)) if not dtype.is_integer else aim.value
    simple = value in EXACT_SCALARS or situation.data not in EXACT_KINDS
    case = situation.case
    plain = dtype.is_integer or PLAIN[0] < abs(value) < PLAIN[1]
    if aim.name == "alpha":
        case = replace(case, alpha=value, beta=case.beta if plain else 0.0)
    else:
        case = replace(case, alpha=case.alpha if plain or value in (0.0, math.inf, -math.inf) else value, beta=value)
    return replace(situation, case=case, data=situation.data if simple else "random")


def _with_size(case: Case, name: str, value: int, most: int | None) -> Case:
    """`case` with another size, leading dimension or stride, and other sizes of at most `most`."""
    problem, sizes, distances = case.problem, free_sizes(case), distances_of(case)
    if most is not None:
        sizes = {size: min(number, most) for size, number in sizes.items()}
    if name.lower() in sizes:
        sizes[name.lower()] = value
    else:
        dense = problem.case(**sizes)
        distances[name] = value - getattr(dense, name)
        if distances[name] < 0:
            raise InvalidInput(f"{name} = {value} is too short")
    return resized(case, sizes, distances)


def _affordable(case: Case) -> bool:
    elements = sum(matrix.elements for matrix in case.matrices)
    return case.flops <= SOUGHT_FLOPS and elements <= SOUGHT_ELEMENTS
