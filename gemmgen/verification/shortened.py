"""The same kernel for a smaller K: what every block of a large grid can be run at.

A block's addresses, and which tile of C is its own, hang on K in the number of its k tiles alone. The `.cu` has K as
one constant, so that the text with another number there, edits by hand included, is a kernel of another problem, with
the same grid and leading dimensions. It is one where gemmgen renders for that problem what it renders for this one, but
for that constant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import lcm
from typing import Any

from gemmgen.kernel.again import rendered_or_none
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem

MOST_TRIES = 8
FACTORS = ("BK", "SPLIT", "SLICES", "STAGES", "DEPTH")  # of a config, in whose multiples kernels divide K


def shortened(source: KernelSource, most: int) -> KernelSource | None:
    """`source` for a K of at most `most`, or None where its text is none for such."""
    problem = source.problem
    if problem.k is None or _with_k(source.text, problem.k, 0) is None:
        return None
    own = rendered_or_none(source)
    if own is None:  # not gemmgen's own
        return None
    for k in _candidates(source, most):
        other = rendered_or_none(source, problem=_of_k(problem, k))
        if other is not None and _with_k(_code(own.text), problem.k, k) == _code(other.text):
            text = _with_k(source.text, problem.k, k)
            assert text is not None
            return replace(source, text=text, problem=_of_k(problem, k))
    return None


def _candidates(source: KernelSource, most: int) -> Iterator[int]:
    """Smaller K with the same remainders, from the smallest on."""
    k = source.problem.k or 0
    step = lcm(16, *(max(1, source.config.get(name, 1)) for name in FACTORS))
    for times in range(1, MOST_TRIES + 1):
        candidate = k % step + times * step
        if candidate <= min(most, k - 1):
            yield candidate


def _of_k(problem: Problem, k: int) -> Problem:
    """The problem of this K whose matrices lie as those of `problem`."""
    apart = {name: size for name, size in problem.sizes.items() if name.startswith(("ld", "stride_"))}
    distances: dict[str, Any] = dict(apart)
    return replace(problem, k=k, **distances)


def _with_k(text: str, k: int, other: int) -> str | None:
    """`text` with the constant K replaced; None where it does not stand there once."""
    changed, count = re.subn(rf"\b(static constexpr int K = ){k};", rf"\g<1>{other};", text)
    return changed if count == 1 else None


def _code(text: str) -> str:
    """Without comments, and without the kernel's name."""
    name = re.search(r"^(\w+)\($", text, re.MULTILINE)
    lines = (re.sub(r"\s*//.*", "", line) for line in text.splitlines())
    code = "\n".join(line for line in lines if line)
    return code.replace(name[1], "kernel") if name else code
