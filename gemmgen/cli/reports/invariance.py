"""The output of `gemmgen verify LIBRARY --invariant`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from gemmgen.cli.reports.words import bad, good
from gemmgen.support.words import plural
from gemmgen.verification.invariance import Invariance


def show_invariance(console: Console, found: Mapping[str, Sequence[Invariance]]) -> None:
    """Print, for each product, whether the bits of a row depend on the call."""
    for name, some in found.items():
        for one in some:
            told = good("PASS") if one.passed else bad("FAIL")
            console.print(told, f"{name}: {_words(one)}", sep="  ", soft_wrap=True)


def _words(one: Invariance) -> str:
    if one.failure is not None:
        return one.failure.reason
    kernels = f"{plural(one.calls, 'call')} of {plural(len(one.kernels), 'kernel')} on the {one.executor}"
    told = "not predicted, as no plan states the order" if one.replayed is None else f"{one.replayed:,} as predicted"
    classes = "; ".join(text or "an order that no plan states" for text in one.classes)
    return f"equal rows have equal bits in {kernels}, {one.elements:,} elements compared, bits {told}. Class: {classes}"
