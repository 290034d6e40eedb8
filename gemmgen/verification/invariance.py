"""Whether the bits of a row of C depend on M, on the other rows, or on where the row stands.

Kernels of one class of summation (`SumOrder.summation`) add the same products in the same order, whatever their tiles.
So a row of C is the same function of its row of A in every call, whichever kernel serves it. This module shows it by
running: all rows of A are copies of a few, in an order that differs from call to call, and all columns of B are copies
of a few. Every element of C must then have the bits that its copies have in all other calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.families import summation_of
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Case
from gemmgen.problem.inputs import OF_CODES
from gemmgen.problem.operands import OPERANDS
from gemmgen.run.executor import Executor, Floats, LoadedKernel, Operands
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.verification.bit_replay import order_of, replay
from gemmgen.verification.checks import POISON, runs_whole, sampled
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.tensor_core_recordings import is_recorded

SIZES = (1, 2, 7, 63, 64, 65, 129, 271, 1000, 4096)  # of M: edges of tiles, and what lies between
ROWS, COLUMNS = 8, 16  # rows of A, and columns of B, of which all others are copies
SOURCE = "invariance"  # of a Failure
DRAWN_SEED = 1  # of situations that run in part if they are expensive: see `runs_whole`

Integers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class Call:
    """A launch of one product, and the kernel that computes it. The calls of a product differ in M and in how their
    operands lie, not in N, K and the batch."""

    source: KernelSource
    case: Case


@dataclass(frozen=True)
class Invariance:
    """What was found.

    calls     number of calls that ran
    elements  elements of C that were compared
    kernels   names of the kernels that computed them
    classes   their classes of summation; None stands for an order that no plan states
    replayed  number of elements whose bits are those that the class predicts; None if it predicts none
    failure   the first element with other bits, or the launch that failed; None if there is none
    """

    executor: str
    seed: int
    calls: int
    elements: int
    kernels: tuple[str, ...]
    classes: tuple[str | None, ...]
    replayed: int | None = None
    failure: Failure | None = None

    @property
    def passed(self) -> bool:
        return self.failure is None


class _Different(Exception):
    """Ends the comparison: an element has other bits than its copies."""


def check_invariance(
    executor: Executor, calls: Sequence[Call], *, seed: int = 0, on_call: Callable[[], None] = lambda: None
) -> Invariance:
    """Run all `calls` on `executor`, and compare the bits of equal rows.

    Large calls run in part where the executor can (the emulator). The scalars are alpha = 1 and beta = 0, and then
    beta = 1 if the epilogue reads C.
    """
    compared = _Compared(_few(calls[0].case, seed), seed)
    kernels: dict[str, LoadedKernel] = {}
    ran, failure = 0, None
    try:
        for call in calls:
            kernel = kernels.get(call.source.name)
            if kernel is None:
                kernel = kernels[call.source.name] = executor.load(call.source)
            compared.run(kernel, call)
            ran += 1
            on_call()
        replayed = compared.replay(calls[0].source, executor.name)
    except CandidateFailed as error:
        failure, replayed = error.failure, None
    except _Different as different:
        failure, replayed = Failure("wrong", str(different), SOURCE), None
    finally:
        for kernel in kernels.values():
            kernel.close()
    sources = {call.source.name: call.source for call in calls}
    classes = dict.fromkeys(summation_of(source) for source in sources.values())
    if failure is None and len(classes) > 1:
        told = "; ".join(f"{one.name}: {summation_of(one)}" for one in sources.values())
        equal = f"none of {compared.elements} elements differs, but other data would show the order of summation"
        failure = Failure("wrong", f"the kernels are of {len(classes)} classes of summation ({told}); {equal}", SOURCE)
    return Invariance(executor.name, seed, ran, compared.elements, tuple(sources), tuple(classes), replayed, failure)


def _few(call: Case, seed: int) -> Situation:
    """A product with ROWS rows, whose rows and first columns those of all calls repeat."""
    batch = call.batch if call.problem.batched else None
    return Situation(call.problem.case(m=ROWS, n=call.n, k=call.k, batch=batch), "random", seed)


class _Compared:
    """The bits of the elements that ran so far, and the calls that computed them first."""

    def __init__(self, few: Situation, seed: int) -> None:
        self.elements = 0
        self._few, case, operands = few, few.case, make_operands(few)
        self._operands_of_few = _cancelling(case, operands)
        self._source = {name: one.view(self._operands_of_few.by_name[name]) for name, one in case.tensors.items()}
        self._columns = min(COLUMNS, case.n)
        self._rng = np.random.default_rng(seed)
        self._bits: dict[float, Codes] = {}  # by beta
        self._known: dict[float, npt.NDArray[np.bool_]] = {}
        self._first: dict[tuple[float, int], str] = {}  # the call, by beta and the element's number

    def run(self, kernel: LoadedKernel, call: Call) -> None:
        """Run `call` with rows in a new order. Raises _Different and CandidateFailed."""
        case, launch = replace(call.case, alpha=1.0, beta=0.0), call.source.launch
        rows = self._rng.integers(0, ROWS, case.m)
        operands = self._operands(case, rows)
        situation = Situation(case, "random", DRAWN_SEED)
        blocks = None
        if not runs_whole(kernel, situation):
            blocks = launch.blocks_of(case, sampled(case, launch, int(self._rng.integers(2**16)))).tolist()
        dtype = case.c.dtype
        poison = np.full(operands.c.nbytes, POISON, np.uint8).view(dtype.numpy)
        got = self._run(kernel, case, replace(operands, c=poison), blocks)
        ran = got != case.c.view(poison.view(dtype.bits))
        self._compare(call, case, rows, ran, got)
        if case.problem.epilogue.reads_c:
            added = replace(case, beta=1.0)
            self._compare(call, added, rows, ran, self._run(kernel, added, operands, blocks))

    def _run(self, kernel: LoadedKernel, case: Case, operands: Operands, blocks: list[int] | None) -> Codes:
        result = kernel.run(case, operands, seed=DRAWN_SEED, watch=False, blocks=blocks)
        return case.c.view(result.view(case.c.dtype.bits))

    def _operands(self, case: Case, rows: Integers) -> Operands:
        """The operands of `case`: row m repeats row rows[m], and column n repeats column n % COLUMNS."""
        columns = np.arange(case.n) % self._columns
        made: dict[str, Floats] = {}
        usual = make_operands(Situation(case, "random", DRAWN_SEED)).by_name
        for name, tensor in case.tensors.items():
            flat = usual[name].copy()
            source = self._source[name]
            if name == "scales_a":  # of blocks: a column for each row of A
                source = source[..., rows]
            elif name == "scales_b" and case.problem.inputs.squares:  # the columns that repeat lie in the first block
                source = source[:1]
            else:
                down, across = _along(name)
                if down:
                    source = source[..., rows, :]
                if across:
                    matrices = tensor.cols // case.n
                    source = source[..., np.concatenate([one * case.n + columns for one in range(matrices)])]
            tensor.view(flat)[...] = source
            made[name] = flat
        return Operands(made.pop("A"), made.pop("B"), made.pop("C"), made)

    def _compare(self, call: Call, case: Case, rows: Integers, ran: npt.NDArray[np.bool_], got: Codes) -> None:
        shape = (*got.shape[:-2], ROWS, self._columns)
        bits = self._bits.setdefault(case.beta, np.zeros(shape, got.dtype).ravel())
        known = self._known.setdefault(case.beta, np.zeros(bits.size, np.bool_))
        at = np.argwhere(ran)
        place = (*at[:, :-2].T, rows[at[:, -2]], at[:, -1] % self._columns)
        number, values = np.ravel_multi_index(place, shape), got[ran]
        fresh, first = np.unique(number, return_index=True)
        first, fresh = first[~known[fresh]], fresh[~known[fresh]]
        bits[fresh], known[fresh] = values[first], True
        text = f"M = {case.m} by {call.source.name}"
        self._first |= {(case.beta, one): text for one in fresh.tolist()}
        self.elements += len(values)
        other = np.flatnonzero(values != bits[number])
        if len(other):
            one = int(other[0])
            indices = "".join(f"[{index}]" for index in at[one])
            raise _Different(
                f"C{indices} is 0x{int(values[one]):x} at {text}, and 0x{int(bits[number[one]]):x} for the same row of "
                f"A and column of B at {self._first[case.beta, int(number[one])]}, with beta = {case.beta:g}"
            )

    def replay(self, source: KernelSource, executor: str) -> int | None:
        """Compare with the bits that the class of `source` predicts; return how many elements there were.

        None if no plan predicts them. Raises _Different.
        """
        order, arch = order_of(source), parse_arch(source.arch)
        known = np.flatnonzero(self._known[0.0])
        if order is None or (executor != "emulator" and not is_recorded(order.mma, arch)) or not len(known):
            return None
        shape = (*self._few.case.c.view(make_operands(self._few).c).shape[:-1], self._columns)
        at = tuple(np.unravel_index(known, shape))
        planned, got = replay(order, arch, self._few, at, self._operands_of_few), self._bits[0.0][known]
        agrees = planned.agrees(got)
        if not agrees.all():
            one = int(np.argmin(agrees))
            place = "".join(f"[{int(axis[one])}]" for axis in at)
            raise _Different(
                f"the copies of C{place} are 0x{int(got[one]):x} in all calls, planned {planned.shown(one)}, by {order}"
            )
        return len(known)


def _cancelling(case: Case, operands: Operands) -> Operands:
    """`operands` with an A and a B whose products cancel in half of the rows: what is left is the rounding of sums.

    Elsewhere rounding to a narrow type would hide the order of summation. Integers are not rounded. Scales and zero
    points are mirrored as well.
    """
    if case.problem.types.accumulator.is_integer:
        return operands
    made = {name: flat.copy() for name, flat in operands.by_name.items()}
    rows = case.a.view(made["A"])[..., : ROWS // 2, :]
    half = case.k // 2
    rows[..., case.k - half :] = -rows[..., :half][..., ::-1]
    for name in ("B", "scales_a", *OF_CODES):
        if name in made:
            lines = case.tensors[name].view(made[name])
            if name == "scales_b" and case.problem.inputs.squares:
                lines = lines.T
            half = lines.shape[-2] // 2
            lines[..., lines.shape[-2] - half :, :] = lines[..., :half, :][..., ::-1, :]
    return Operands(made.pop("A"), made.pop("B"), made.pop("C"), made)


def _along(name: str) -> tuple[bool, bool]:
    """Whether the tensor called `name` has a row for each row of C, and a column for each of its columns."""
    if name in ("A", "B", "C"):
        return name != "B", name != "A"
    if name in OF_CODES:
        return False, True
    along = OPERANDS[name].along
    return "m" in along, "n" in along
