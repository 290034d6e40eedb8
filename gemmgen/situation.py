"""What a kernel is tried on: one run's sizes, scalars, kind of data and seed, and hypothesis' strategy for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

from gemmgen.problem import Case, Problem

DataKind = Literal["exact", "random"]
DATA_KINDS: tuple[DataKind, ...] = ("exact", "random")

EXACT_SCALARS = (0.0, 1.0, -1.0, 2.0)
RANDOM_SCALARS = (*EXACT_SCALARS, 0.5, -1.75)
PADDINGS = (0, 1, 2, 3, 7)  # of leading dimensions, in units of ld_align
SEEDS = 2**16

# Sizes around which kernels go wrong: one, tiles and their neighbours, primes.
RUNTIME_SIZES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 61, 64, 65, 97, 127, 128, 129, 160)
# One of M and N now and then: several tiles of 256, and more than a group of 8 of them. K is small then.
FAR_SIZES = (515, 2177, 2562)
FAR_DEPTH = 17


@dataclass(frozen=True)
class Situation:
    """One run to check.

    data   "exact": small integers, whose results are exact; "random": uniform in [-1, 1]
    seed   of the data, and of what the executor chooses (thread schedule, placement)
    """

    case: Case
    data: DataKind
    seed: int

    def __str__(self) -> str:
        return f"{self.case} data={self.data} seed={self.seed}"


@st.composite
def situations(draw: st.DrawFn, problem: Problem, largest: int) -> Situation:
    """Hypothesis' strategy for `problem`: run-time sizes up to `largest`, padded leading dimensions, scalars, data.

    One of four draws takes M or N from FAR_SIZES, where `largest` allows it, so that the grid has many tiles.

    Draws shrink towards small sizes, dense leading dimensions, alpha = 1, beta = 0 and seed 0.
    """
    data = draw(st.sampled_from(DATA_KINDS))
    scalars = EXACT_SCALARS if data == "exact" else RANDOM_SCALARS
    alpha = draw(st.sampled_from(sorted(scalars, key=lambda scalar: (scalar != 1.0, abs(scalar)))))
    beta = draw(st.sampled_from(scalars))
    sizes = {name.lower(): draw(_sizes(name, largest)) for name in "MNK" if problem.sizes[name] is None}
    runtime = [name for name in ("lda", "ldb", "ldc") if problem.sizes[name] is None]
    padding = {name: problem.ld_align * draw(st.sampled_from(PADDINGS)) for name in runtime}
    seed = draw(st.integers(0, SEEDS))
    # Drawn last, and whether it is used or not: a failure shrinks best where no draw moves.
    far, distant = draw(st.sampled_from(("", "", "", "", "", "", "m", "n"))), draw(st.sampled_from(FAR_SIZES))
    if far in sizes and distant <= largest:
        sizes[far] = distant
        if "k" in sizes:
            sizes["k"] = min(sizes["k"], FAR_DEPTH)
    dense = problem.case(**sizes)
    lines = {name: getattr(dense, name) + padding[name] for name in runtime}
    return Situation(problem.case(**sizes, **lines, alpha=alpha, beta=beta), data, seed)


def _sizes(name: str, largest: int) -> st.SearchStrategy[int]:
    smallest = 0 if name == "K" else 1  # K = 0 gives beta * C
    top = max(smallest, min(largest, RUNTIME_SIZES[-1]))
    usual = [size for size in RUNTIME_SIZES if size <= top]
    return st.one_of(st.integers(smallest, top), st.sampled_from(usual))
