"""Concurrent work in a kernel: loads of k tiles while others are multiplied, and a tile of C that is stored
meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gemmgen.judge.explain import Explanation

STEPS = 10  # drawn
TILE_STEPS, STORE_STEPS = 3, 2  # of a tile's products, and of its stores, as they are drawn
MOST_STAGES = 8


@dataclass(frozen=True)
class Span:
    """The bar of step, or tile, `number` in `row`: `length` steps from `start`; `computes`, or is moved."""

    row: int
    start: int
    length: int
    number: int
    computes: bool


@dataclass(frozen=True)
class Pipeline:
    """A row per stage, or per consumer; time goes from left to right, in steps of the main loop."""

    rows: int
    steps: int
    spans: tuple[Span, ...]
    sentence: str


def pipeline(it: Explanation) -> Pipeline | None:
    """The pipeline of the main loop; None if it keeps no tile, so that every load is waited for at once."""
    plan = it.plan
    ahead, depth = plan.work.prefetch, plan.work.depth
    if not 0 < ahead < MOST_STAGES or it.steps < 2:
        return None
    who = "the producer warps load" if plan.work.producers else "all threads load"
    sentence = f"{who} a step of {depth} k {ahead} {'step' if ahead == 1 else 'steps'} before it is multiplied"
    sentence += "; a row a stage, solid while it is multiplied"
    return Pipeline(ahead + 1, STEPS, tuple(_spans(ahead, min(it.steps, STEPS))), sentence)


def turns(it: Explanation) -> Pipeline | None:
    """The turns of the consumers; None if no warps take turns."""
    rows = it.plan.work.turns
    if rows == 1:
        return None
    sentence = "consumers take turns at the block's tiles; a row each, solid while it multiplies, pale while C leaves"
    return Pipeline(rows, STEPS, tuple(_turns(rows)), sentence)


def _turns(rows: int) -> Iterator[Span]:
    for tile in range(STEPS // TILE_STEPS):
        stored = (tile + 1) * TILE_STEPS
        yield Span(tile % rows, tile * TILE_STEPS, TILE_STEPS, tile, True)
        yield Span(tile % rows, stored, min(STORE_STEPS, STEPS - stored), tile, False)


def _spans(ahead: int, steps: int) -> Iterator[Span]:
    """The bars of loads and products. Time 0 is the first load: the first `ahead` steps fill the stages."""
    for step in range(steps):
        stage, multiplied = step % (ahead + 1), step + ahead  # as the load begins, the stage has just been multiplied
        if multiplied < STEPS:
            yield Span(stage, step, ahead, step, False)
            yield Span(stage, multiplied, 1, step, True)
