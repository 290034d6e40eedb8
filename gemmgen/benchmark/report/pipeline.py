"""The pipeline of a main loop: when the loads of a k tile are under way, and when it is multiplied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gemmgen.benchmark.explain import Explanation

STEPS = 10  # drawn
MOST_STAGES = 8


@dataclass(frozen=True)
class Span:
    """Of step `number`, in stage `stage`: from `start` on, `length` steps long; `computes` or is loaded."""

    stage: int
    start: int
    length: int
    number: int
    computes: bool


@dataclass(frozen=True)
class Pipeline:
    """A row for each stage; time goes from left to right, in steps of the main loop."""

    stages: int
    steps: int
    spans: tuple[Span, ...]
    sentence: str


def pipeline(it: Explanation) -> Pipeline | None:
    """None where the main loop keeps no tile: every load is waited for at once."""
    plan = it.plan
    ahead, depth = plan.work.prefetch, plan.work.depth
    if not 0 < ahead < MOST_STAGES or it.steps < 2:
        return None
    who = "the producer warps load" if plan.work.producers else "all threads load"
    sentence = f"{who} a step of {depth} k {ahead} {'step' if ahead == 1 else 'steps'} before it is multiplied"
    return Pipeline(ahead + 1, STEPS, tuple(_spans(ahead, min(it.steps, STEPS))), sentence)


def _spans(ahead: int, steps: int) -> Iterator[Span]:
    """Time 0 is the first load: the first `ahead` steps fill the stages."""
    for step in range(steps):
        stage, multiplied = step % (ahead + 1), step + ahead  # as the load begins, the stage has just been multiplied
        if multiplied < STEPS:
            yield Span(stage, step, ahead, step, False)
            yield Span(stage, multiplied, 1, step, True)
