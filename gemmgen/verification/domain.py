"""The domain of a verification: the sizes, strides, scalars and data that its verdict covers, and the errors found.

Everything here is counted while situations run; nothing is a constant of the strategy that draws them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.gemm import Case
from gemmgen.verification.bit_replay import Replayer
from gemmgen.verification.comparison import Compared
from gemmgen.verification.reference import Index
from gemmgen.verification.situation import EDGES, EXACT_KINDS, SIMPLE_SCALARS, Situation, edges
from gemmgen.verification.window import Window

Range = tuple[int, int]  # smallest and largest
QUANTILES = (0.5, 0.9, 0.99, 0.999)
USUAL_EXPONENT = 32  # of two: other scalars are huge or tiny


@dataclass(frozen=True)
class Domain:
    """A summary of the situations of a verification.

    shapes           number of different M x N x K (x batch)
    sizes            ranges of M, N, K and batch
    padding          ranges, in elements, by which leading dimensions and strides exceed dense ones; shared matrices
                     (stride 0) do not count
    alphas, betas    the simple values tried, ascending
    scalars          number of situations with alpha or beta in each of SCALAR_CLASSES
    data, edges      number of situations by kind of data, and by class of situation.EDGES
    schedules        number of different seeds of the executor
    whole, sampled   number of situations whose grid ran whole, and of those in which some blocks ran
    largest_whole    M x N x K (x batch) of the one with the most work among `whole`; None if there is none
    watched          number of situations in which every block that ran was watched for data races
    watched_part     number of those in which only some blocks were
    largest_watched  M x N x K of the one with the most work among `watched`
    extent           largest offset, in elements, in matrices whose rows or strides lay gigabytes apart
    no_extent        why such offsets were not judged; None otherwise
    grid             how every block of a grid of fixed sizes ran; None if sizes are left to run time
    no_grid          why not every block ran
    ring             how much of C was right in ring mode: see gemmgen.verification.ring
    no_ring          why ring mode could not judge the kernel
    numbered         blocks of samples wrote the tiles of the plan; False: the kernel numbers its tiles itself
    """

    shapes: int
    sizes: dict[str, Range]
    padding: dict[str, Range]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    data: dict[str, int]
    edges: dict[str, int]
    schedules: int
    whole: int
    sampled: int
    largest_whole: str | None
    watched: int
    watched_part: int
    largest_watched: str | None
    scalars: dict[str, int] = field(default_factory=dict)  # in older records there are none, nor what follows
    extent: dict[str, int] = field(default_factory=dict)
    no_extent: str | None = None
    grid: str | None = None
    no_grid: str | None = None
    ring: str | None = None
    no_ring: str | None = None
    numbered: bool = True


@dataclass(frozen=True)
class Errors:
    """The errors of random data: error over bound, element by element.

    elements        number of elements compared
    quantiles       (share of elements, error over bound that they stay below), over `sampled` of the elements: at most
                    SAMPLED_RATIOS of each comparison
    worst_in        the situation with the largest ratio
    largest_bound   the largest absolute error that was allowed, and in which situation
    """

    elements: int
    sampled: int
    quantiles: tuple[tuple[float, float], ...]
    worst_in: str
    largest_bound: float
    largest_bound_in: str


class DomainTally:
    """Counts situations as they run; `domain` and `errors` summarise them."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self._data: Counter[str] = Counter()
        self._edges: Counter[str] = Counter()
        self._seeds: set[int] = set()
        self._whole: list[Case] = []
        self._watched: list[Case] = []
        self._watched_part = 0
        self._elements = 0
        self._ratios: list[npt.NDArray[np.float64]] = []
        self._worst = (-1.0, "")
        self._bound = (0.0, "")
        self._extent: dict[str, int] = {}
        self._whole_apart = 0
        self.replayer: Replayer | None = None  # of the kernel, where its bits are to be compared
        self.no_extent: str | None = None
        self.grid: str | None = None
        self.no_grid: str | None = None
        self.ring: str | None = None
        self.no_ring: str | None = None
        self.numbered = True
        # Whether all blocks together are right at a smaller K; False if that cannot be tried.
        self.right_at_small_k: Callable[[Situation], bool] = lambda _: False

    def empty(self) -> DomainTally:
        """A tally that has counted nothing, for runs of the same kernel that the verdict does not count."""
        made = DomainTally()
        made.replayer, made.numbered, made.right_at_small_k = self.replayer, self.numbered, self.right_at_small_k
        return made

    def planned_places(self, situation: Situation, window: Window) -> Index | None:
        """The elements of C whose bits are to be compared."""
        return None if self.replayer is None else self.replayer.places(situation, window)

    def ran_apart(self, case: Case) -> None:
        """Record that a situation ran whole whose matrices are as far apart as those of `case`."""
        self._whole_apart += 1
        for name, offset in reach(case).items():
            if offset >= 2**31:
                self._extent[name] = max(offset, self._extent.get(name, 0))

    def ran(self, situation: Situation, blocks: int, watched: int, *, whole: bool) -> None:
        """Record that a situation ran with `blocks` blocks, `watched` of them under watch; `whole`: they were the whole
        grid."""
        case = situation.case
        self.cases.append(case)
        self._data[situation.data] += 1
        self._edges.update(edges(case))
        self._seeds.add(situation.seed)
        if whole:
            self._whole.append(case)
        if watched >= blocks:
            self._watched.append(case)
        elif watched:
            self._watched_part += 1

    def compared(self, situation: Situation, comparison: Compared) -> None:
        """Record the `comparison` of `situation`, in which nothing is wrong."""
        if situation.data in EXACT_KINDS:
            return
        self._elements += comparison.elements
        self._ratios.append(comparison.ratios.ravel())
        self._worst = max(self._worst, (comparison.worst, str(situation)))
        self._bound = max(self._bound, (comparison.largest_bound, str(situation)))

    def domain(self) -> Domain | None:
        """The domain so far; None if nothing ran."""
        if not self.cases:
            return None
        return Domain(
            shapes=len({(case.m, case.n, case.k, case.batch) for case in self.cases}),
            **ranges(self.cases),
            alphas=tuple(sorted({case.alpha + 0.0 for case in self.cases} & SIMPLE_SCALARS)),
            betas=tuple(sorted({case.beta + 0.0 for case in self.cases} & SIMPLE_SCALARS)),
            scalars=_scalar_classes(self.cases),
            data=dict(sorted(self._data.items())),
            edges={name: self._edges[name] for name in EDGES if self._edges[name]},
            schedules=len(self._seeds),
            whole=len(self._whole) + self._whole_apart,
            sampled=len(self.cases) - len(self._whole),
            largest_whole=_largest(self._whole),
            watched=len(self._watched),
            watched_part=self._watched_part,
            largest_watched=_largest(self._watched),
            extent=self._extent,
            no_extent=self.no_extent,
            grid=self.grid,
            no_grid=self.no_grid,
            ring=self.ring,
            no_ring=self.no_ring,
            numbered=self.numbered,
        )

    def errors(self) -> Errors | None:
        """The errors so far; None if no random data was compared."""
        if not self._elements:
            return None
        sampled = np.concatenate(self._ratios)
        return Errors(
            elements=self._elements,
            sampled=sampled.size,
            quantiles=tuple((share, float(np.quantile(sampled, share))) for share in QUANTILES),
            worst_in=self._worst[1],
            largest_bound=self._bound[0],
            largest_bound_in=self._bound[1],
        )


def reach(case: Case) -> dict[str, int]:
    """The offset in elements of the last element of each matrix."""
    return {sizes.name: case.tensors[sizes.name].elements - 1 for sizes in case.problem.matrices}


def ranges(cases: Sequence[Case]) -> dict[str, dict[str, Range]]:
    """`Domain.sizes` and `Domain.padding` of these cases."""
    names = ("M", "N", "K", "batch") if cases[0].problem.batched else ("M", "N", "K")
    found = {"sizes": {name: [int(case.values[name]) for case in cases] for name in names}, "padding": _padding(cases)}
    return {
        what: {name: (min(values), max(values)) for name, values in by_name.items()} for what, by_name in found.items()
    }


# Where they are not simple; -0 counts as 0.
SCALAR_CLASSES = ("of full mantissa", "huge or tiny", "NaN or Inf")


def _scalar_classes(cases: list[Case]) -> dict[str, int]:
    classes = ({_scalar_class(scalar) for scalar in (case.alpha, case.beta)} for case in cases)
    counts = Counter(name for names in classes for name in names)
    return {name: counts[name] for name in SCALAR_CLASSES if counts[name]}


def _scalar_class(scalar: float) -> str:
    if scalar in SIMPLE_SCALARS:
        return ""
    if not math.isfinite(scalar):
        return "NaN or Inf"
    return "of full mantissa" if abs(math.frexp(scalar)[1]) <= USUAL_EXPONENT else "huge or tiny"


def domain_from(fields: Mapping[str, Any]) -> Domain:
    """Read a Domain from its JSON. Raises TypeError or KeyError for anything else."""
    ranges = {name: {key: (low, high) for key, (low, high) in fields[name].items()} for name in ("sizes", "padding")}
    return Domain(**{**fields, **ranges, "alphas": tuple(fields["alphas"]), "betas": tuple(fields["betas"])})


def errors_from(fields: Mapping[str, Any]) -> Errors:
    """Read Errors from their JSON. Raises TypeError or KeyError for anything else."""
    return Errors(**{**fields, "quantiles": tuple((share, ratio) for share, ratio in fields["quantiles"])})


def _largest(cases: list[Case]) -> str | None:
    """M x N x K of the case with the most work."""
    if not cases:
        return None
    case = max(cases, key=lambda one: one.flops)
    batch = f" x {case.batch}" if case.problem.batched else ""
    return f"{case.m}x{case.n}x{case.k}{batch}"


def _padding(cases: Sequence[Case]) -> dict[str, list[int]]:
    """The padding of each case, per leading dimension, and per stride if matrices lie apart."""
    found: dict[str, list[int]] = {}
    for index, letter in enumerate("abc"):
        matrices = [case.matrices[index] for case in cases]
        found[f"ld{letter}"] = [matrix.ld - matrix.line_length for matrix in matrices]
        apart = [matrix.stride - matrix.lines * matrix.ld for matrix in matrices if matrix.stride]
        if apart and cases[0].problem.strided:
            found[f"stride_{letter}"] = [max(0, elements) for elements in apart]
    return found
