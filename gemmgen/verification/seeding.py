"""Draws by hypothesis from a seed: the same seed gives the same draws in every process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import hypothesis
import numpy.random  # noqa: F401 - hypothesis imports it with the first draw, where an interrupt would be lost

Drawn = TypeVar("Drawn")


def for_each(
    strategy: hypothesis.strategies.SearchStrategy[Drawn],
    call: Callable[[Drawn], None],
    *,
    examples: int,
    seed: int,
) -> None:
    """Call `call` with at most `examples` draws. An exception of `call` ends the draws and is raised again.

    hypothesis does not shrink: gemmgen.verification.reduction finds smaller situations.
    """

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,  # an emulated launch takes what it takes
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        phases=(hypothesis.Phase.generate,),
    )
    @hypothesis.given(strategy)
    def drawn(value: Drawn) -> None:
        try:
            call(value)
        except Exception as error:
            raise _Stop(error) from error

    try:
        with _no_found_constants():
            drawn()
    except _Stop as stop:
        raise stop.error from stop.error.__cause__


class _Stop(BaseException):
    """Carries `error` through hypothesis, which would repeat the draw for an Exception."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@contextmanager
def _no_found_constants() -> Iterator[None]:
    """Keep newer versions of hypothesis from mixing constants of imported modules into draws.

    Otherwise another command, another script around gemmgen.verify, an installed package or a checkout would draw
    different situations.
    """
    providers = sys.modules.get("hypothesis.internal.conjecture.providers")
    if providers is None or not hasattr(providers, "_get_local_constants"):
        yield
        return
    from unittest import mock  # it imports asyncio, which a verdict from the cache does without

    known = providers.CONSTANTS_CACHE
    with mock.patch.multiple(
        providers, _get_local_constants=providers.Constants, CONSTANTS_CACHE=type(known)(known.max_size)
    ):
        yield
