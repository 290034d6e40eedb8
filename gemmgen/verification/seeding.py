"""Hypothesis, driven by a seed: the same seed draws the same in every process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import hypothesis

Drawn = TypeVar("Drawn")


def for_each(
    strategy: hypothesis.strategies.SearchStrategy[Drawn],
    call: Callable[[Drawn], None],
    *,
    examples: int,
    seed: int,
    shrink: bool = True,
) -> None:
    """Call `call` with `examples` draws at most; what it raises on is shrunk, if `shrink`, and raised at the end."""
    generate = (hypothesis.Phase.generate,)

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,  # an emulated launch takes what it takes
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        phases=(*generate, hypothesis.Phase.shrink) if shrink else generate,
    )
    @hypothesis.given(strategy)
    def drawn(value: Drawn) -> None:
        call(value)

    with _no_found_constants():
        drawn()


@contextmanager
def _no_found_constants() -> Iterator[None]:
    """Newer versions of hypothesis mix into draws the constants of whatever modules the process has imported.

    Another command, another script around gemmgen.verify, an installed package or a checkout: each would draw others.
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
