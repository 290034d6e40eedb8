"""Is the kernel right? Exact integers, bounded random data, NaN in the way, and a shrunk counterexample.

Two kinds of data, each with a test that a single wrong or missing product cannot pass:

exact    small integers, whose products and sums float32 represents: equal bit for bit
random   uniform in [-1, 1] against float64, element by element: |c - ref| <= bound

The bound is probabilistic (Higham and Mary, "A New Approach to Probabilistic Rounding Error
Analysis", SIAM J. Sci. Comput. 41, 2019): a sum of K products, each operation rounded by at most u,
is off by at most LAMBDA * sqrt(K) * u * (|A| |B|), with failure probability 2 exp(-LAMBDA^2 / 2) per
element for errors that behave as independent. LAMBDA = 6 makes that 3e-8. For a dot product
of uniform data it is about a tenth of one typical product up to K = 1000, so that a missing one shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import hypothesis
import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from gemmgen.errors import CandidateFailed, Failure
from gemmgen.executor import Executor, Floats, LoadedKernel, Operands
from gemmgen.problem import SIZE_LIMIT, Case, Matrix, Problem
from gemmgen.source import KernelSource

LAMBDA = 6.0
DATA_KINDS: tuple[DataKind, ...] = ("exact", "random")
DataKind = Literal["exact", "random"]
Doubles = npt.NDArray[np.float64]

LARGE_FLOPS = 10**9  # from here on a float64 reference takes long enough to share
LARGE_SEEDS = 2

EXACT_LIMIT = 2**24  # float32 represents every integer up to here
EXACT_SCALARS = (0.0, 1.0, -1.0, 2.0)
RANDOM_SCALARS = (*EXACT_SCALARS, 0.5, -1.75)

# Sizes around which kernels go wrong: one, tiles and their neighbours, primes.
PADDINGS = (0, 1, 2, 3, 7)  # in units of ld_align
RUNTIME_SIZES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 61, 64, 65, 97, 127, 128, 129, 160)


@dataclass(frozen=True)
class Situation:
    """One run to check: sizes and scalars, the kind of data, and the seed of data and schedule."""

    case: Case
    data: DataKind
    seed: int

    def __str__(self) -> str:
        return f"{self.case} data={self.data} seed={self.seed}"


@dataclass(frozen=True)
class Mismatch:
    """The first wrong element in row order, and how many there are.

    error, bound   |got - expected| and what it may be at most; exact data allows none
    """

    row: int
    col: int
    got: float
    expected: float
    error: float
    bound: float
    count: int

    def __str__(self) -> str:
        return (
            f"C[{self.row}][{self.col}] is {self.got:.9g}, not {self.expected:.9g}: "
            f"off by {self.error:.3g}, allowed {self.bound:.3g}; {self.count} elements wrong"
        )


@dataclass(frozen=True)
class Verdict:
    """What verification found.

    executor     "gpu" or "emulator"
    examples     situations that were run
    worst        largest error over its bound, over all random data (at most 1 where the kernel passes)
    failure      None where every situation passed
    situation    the smallest one found that fails
    mismatch     its first wrong element, where it ran to the end
    """

    executor: str
    examples: int
    seed: int
    worst: float
    failure: Failure | None = None
    situation: Situation | None = None
    mismatch: Mismatch | None = None

    @property
    def passed(self) -> bool:
        return self.failure is None


@dataclass(frozen=True)
class Inputs:
    """Storage of A, B and C and what every result is made of, in float64.

    product     A B
    magnitude   |A| |B|, which scales the error bound
    """

    operands: Operands
    product: Doubles
    magnitude: Doubles


def make_inputs(situation: Situation) -> Inputs:
    """A, B and C for `situation`. What a kernel must not use (padding, C with beta = 0) is NaN."""
    case = situation.case
    large = case.flops > LARGE_FLOPS
    seed = situation.seed % LARGE_SEEDS if large else situation.seed
    inputs = _inputs(replace(case, alpha=1.0, beta=1.0), situation.data, seed)
    if case.beta != 0:
        return inputs
    unread = np.full_like(inputs.operands.c, np.nan)
    return replace(inputs, operands=replace(inputs.operands, c=unread))


@lru_cache(maxsize=2 * LARGE_SEEDS)  # the candidates of one search meet the same data again and again
def _inputs(case: Case, data: DataKind, seed: int) -> Inputs:
    rng = np.random.default_rng(seed)

    def fill(matrix: Matrix) -> Floats:
        flat = np.full(matrix.elements, np.nan, np.float32)
        shape = (matrix.rows, matrix.cols)
        if data == "exact":
            limit = _exact_magnitude(case.k)
            values = rng.integers(-limit, limit, shape, endpoint=True).astype(np.float32)
        else:
            values = rng.uniform(-1.0, 1.0, shape).astype(np.float32)
        if matrix.elements:
            matrix.view(flat)[...] = values
        return flat

    operands = Operands(*(fill(matrix) for matrix in case.matrices))
    a = case.a.view(operands.a).astype(np.float64)
    b = case.b.view(operands.b).astype(np.float64)
    return Inputs(operands, a @ b, np.abs(a) @ np.abs(b))


def reference(case: Case, inputs: Inputs) -> tuple[Doubles, Doubles]:
    """(C, bound): the result in float64 and what each element of a float32 kernel may be off by."""
    expected = case.alpha * inputs.product
    size = abs(case.alpha) * inputs.magnitude
    if case.beta != 0:  # beta = 0 must not read C, which may hold NaN
        old = case.c.view(inputs.operands.c).astype(np.float64)
        expected, size = expected + case.beta * old, size + np.abs(case.beta * old)
    unit = case.problem.dtype.unit_roundoff
    bound = LAMBDA * np.sqrt(case.k + 2) * unit * size  # two more roundings: alpha and beta
    return expected, bound


def _exact_magnitude(k: int) -> int:
    """The largest integer whose products, summed K times and scaled by the exact scalars, stay exact."""
    scale = max(abs(scalar) for scalar in EXACT_SCALARS)
    limit = int((EXACT_LIMIT / (scale * (k + 1))) ** 0.5)
    return max(1, min(8, limit))


def compare(situation: Situation, inputs: Inputs, result: Floats) -> tuple[float, Mismatch | None]:
    """(largest error over bound, first wrong element or None). NaN where none is expected is wrong."""
    case = situation.case
    expected, bound = reference(case, inputs)
    if situation.data == "exact":
        bound = np.zeros_like(bound)
    got = case.c.view(result).astype(np.float64)
    error = np.abs(got - expected)
    wrong = ~(error <= bound)  # and not `error > bound`: NaN compares false
    if wrong.any():
        row, col = (int(index) for index in np.argwhere(wrong)[0])
        at = (row, col)
        return np.inf, Mismatch(
            row, col, float(got[at]), float(expected[at]), float(error[at]), float(bound[at]), int(wrong.sum())
        )
    ratios = np.divide(error, bound, out=np.zeros_like(error), where=bound > 0)
    return float(ratios.max(initial=0.0)), None


def check(kernel: LoadedKernel, situation: Situation) -> tuple[float, Mismatch | None]:
    """Run one situation and compare. Raises CandidateFailed where the kernel does not run to the end."""
    inputs = make_inputs(situation)
    result = kernel.run(situation.case, inputs.operands, seed=situation.seed)
    return compare(situation, inputs, result)


@st.composite
def situations(draw: st.DrawFn, problem: Problem, largest: int) -> Situation:
    """Hypothesis' strategy for `problem`: run-time sizes up to `largest`, padded leading dimensions, scalars, data.

    Draws shrink towards small sizes, dense leading dimensions, alpha = 1, beta = 0 and seed 0.
    """
    data = draw(st.sampled_from(DATA_KINDS))
    scalars = EXACT_SCALARS if data == "exact" else RANDOM_SCALARS
    alpha = draw(st.sampled_from(sorted(scalars, key=lambda scalar: (scalar != 1.0, abs(scalar)))))
    beta = draw(st.sampled_from(scalars))
    sizes = {name.lower(): draw(_sizes(name, largest)) for name in "MNK" if problem.sizes[name] is None}
    dense = problem.case(**sizes)
    lines = {
        name: getattr(dense, name) + problem.ld_align * draw(st.sampled_from(PADDINGS))
        for name in ("lda", "ldb", "ldc")
        if problem.sizes[name] is None
    }
    case = problem.case(**sizes, **lines, alpha=alpha, beta=beta)
    return Situation(case, data, draw(st.integers(0, 2**16)))


def _sizes(name: str, largest: int) -> st.SearchStrategy[int]:
    smallest = 0 if name == "K" else 1  # K = 0 gives beta * C
    usual = [size for size in RUNTIME_SIZES if size <= largest]
    return st.one_of(st.integers(smallest, max(smallest, min(largest, SIZE_LIMIT))), st.sampled_from(usual))


class _Wrong(Exception):
    """Stops a property test: this situation fails."""

    def __init__(self, situation: Situation, failure: Failure, mismatch: Mismatch | None) -> None:
        super().__init__(f"{situation}: {failure.reason}")
        self.situation, self.failure, self.mismatch = situation, failure, mismatch


class _Property:
    """The property that hypothesis tests: this kernel computes every situation right."""

    def __init__(self, kernel: LoadedKernel, on_example: Callable[[], None]) -> None:
        self.kernel = kernel
        self.on_example = on_example
        self.examples = 0
        self.worst = 0.0
        self.found: _Wrong | None = None

    def __call__(self, situation: Situation) -> None:
        self.examples += 1
        self.on_example()
        try:
            ratio, mismatch = check(self.kernel, situation)
        except CandidateFailed as error:
            self._fail(situation, error.failure, None)
            return
        if mismatch is not None:
            self._fail(situation, Failure("wrong", str(mismatch), "verifier"), mismatch)
        self.worst = max(self.worst, ratio)

    def _fail(self, situation: Situation, failure: Failure, mismatch: Mismatch | None) -> None:
        self.found = _Wrong(situation, failure, mismatch)  # the last one is the smallest: hypothesis shrinks
        raise self.found


def verify(
    executor: Executor,
    source: KernelSource,
    *,
    examples: int,
    seed: int = 0,
    largest: int = RUNTIME_SIZES[-1],
    on_example: Callable[[], None] = lambda: None,
) -> Verdict:
    """Property-test `source` on `executor`: at most `examples` situations, then shrinking if one fails.

    `largest` bounds run-time sizes. A kernel that does not compile or load is a Verdict with that
    failure and no examples.
    """
    try:
        kernel = executor.load(source)
    except CandidateFailed as error:
        return Verdict(executor.name, 0, seed, np.inf, error.failure)
    tested = _Property(kernel, on_example)
    try:
        _run_hypothesis(tested, situations(source.problem, largest), examples, seed)
    except (_Wrong, hypothesis.errors.Flaky):
        wrong = tested.found
        assert wrong is not None
        return Verdict(executor.name, tested.examples, seed, np.inf, wrong.failure, wrong.situation, wrong.mismatch)
    finally:
        kernel.close()
    return Verdict(executor.name, tested.examples, seed, tested.worst)


def _run_hypothesis(
    tested: Callable[[Situation], None], strategy: st.SearchStrategy[Situation], examples: int, seed: int
) -> None:
    settings = hypothesis.settings(
        max_examples=examples,
        deadline=None,  # an emulated launch takes what it takes
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )

    @hypothesis.seed(seed)
    @settings
    @hypothesis.given(strategy)
    def property_holds(situation: Situation) -> None:
        tested(situation)

    property_holds()
