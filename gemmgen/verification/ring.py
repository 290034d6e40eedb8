"""Ring mode: the kernel runs at its own K on integers modulo 2^32 in place of floats.

Integer sums do not depend on their order. So C equals alpha * A * B + beta * C (or the epilogue's other sum of
products) to the bit, for operands of random bits and for any K, split and promotion. A missing, doubled or misplaced
product shows, even where the error bound of a float sum or the rounding to a narrow C would hide it. The kernel's plan
of the summation is not needed.

In this mode the emulator executes fma, add, sub, mul, neg and tensor-core instructions on integers
(run/emulator/native/ring.cpp): modulo 2^64 for f64, and modulo 2^16 for f16 and bf16. A conversion to a narrower type
keeps the lower bits; one to a wider type adds zero bits; tf32 keeps all bits of an f32. An instruction or constant
without an integer meaning (max, ex2, 0.5) is refused by name.

A right kernel may treat numbers in other ways: it may cut them into pieces by integer instructions, for example. So a
difference in ring mode alone fails no kernel:

- First, a few products must be right while all others are zero: modulo 2^32, else 2^16, else 2^8. If they are wrong
  even modulo 2^8, the kernel is not judged.
- If an element is wrong with all products, bisection finds one column of A and one row of B that make it wrong; this
  works because the element is linear in A and in B. Then the kernel runs on floats that are zero everywhere else. A
  single product is exact in every type, whatever the order of the sums, so an error here is certain. If there is none,
  the kernel is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.dtype import CANARY, DType
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.matrix import Matrix
from gemmgen.problem.nodes import Binary, Name, Negation, Node, unparse
from gemmgen.problem.types import Compute
from gemmgen.run.executor import Floats, LoadedKernel, Operands
from gemmgen.support.blas import multiply
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.verification.checks import Unjudged, Wrong, sampled, tiles_of
from gemmgen.verification.comparison import compare_with
from gemmgen.verification.data import REPEATED
from gemmgen.verification.domain import DomainTally
from gemmgen.verification.linear import no_bound
from gemmgen.verification.reference import Wanted
from gemmgen.verification.situation import FACTORS, Situation, depths, open_case
from gemmgen.verification.window import Window

SEED = 1  # of data and schedule
FEW = 3  # products that must be right first
DIGIT = 16  # bits per factor of a float64 product: sums of 2^21 such products are exact
CHUNK = 2**13  # K per float64 matrix product: few enough for one thread
PART, LEAST_SIDE = 2**22, 64  # a reference is computed from that many elements of A, or B; rows or columns at least
SIMPLE = (1.0, 2.0, -1.0)  # every type holds the product of any two of them

Words = npt.NDArray[np.uint64]
Bits = npt.NDArray[np.unsignedinteger[Any]]
Places = npt.NDArray[np.int64]
Values = npt.NDArray[Any]  # floats, or integers of the ring
Numbers = Callable[[Floats, DType], Values]


@dataclass(frozen=True)
class Ring:
    """Ring mode's result: `elements` of C were equal modulo 2^`bits` at this K."""

    k: int
    elements: int
    bits: int

    def __str__(self) -> str:
        return f"in the ring of integers modulo 2^{self.bits}, at K = {self.k:,}: {self.elements:,} elements equal"


def check_ring(kernel: LoadedKernel, tally: DomainTally) -> None:
    """Judge `kernel` in ring mode and record the result in `tally`. Kernels with integer sums are skipped.

    Raises Wrong.
    """
    if kernel.source.problem.types.accumulator.is_integer or kernel.source.problem.k == 0:
        return
    try:
        tally.ring = str(_judge(kernel))
    except Unjudged as why:
        tally.no_ring = str(why)


def _judge(kernel: LoadedKernel) -> Ring:
    problem = kernel.source.problem
    integers = [dtype.label for dtype in problem.types.operands if dtype.is_integer]
    if integers:
        raise Unjudged(f"it converts between {integers[0]} and floating point")
    if not problem.inputs.is_plain:
        raise Unjudged(f"its inputs are {problem.inputs}")
    _require_sums_of_products(problem)
    case = _case(kernel.source)
    blocks = None
    if not kernel.can_run_whole(case):
        launch = kernel.source.launch
        blocks = [int(block) for block in launch.blocks_of(case, sampled(case, launch, SEED))]
    try:
        twin = kernel.in_ring()
    except CandidateFailed as error:
        raise Unjudged(error.failure.reason) from error
    if twin is None:
        raise Unjudged("only the emulator computes so")
    with closing(twin):
        trial = _Trial(twin, case, blocks)
        few = np.random.default_rng(SEED).choice(case.k, min(FEW, case.k), replace=False)
        bits = _modulus(trial, few)
        errors = trial.errors()
        if not _wrong(errors, bits).any():
            return Ring(case.k, errors.size, bits)
        column, row = _find(trial, bits)
    _confirm(kernel, case, blocks, column, row)
    raise Unjudged(f"A's column {column} and B's row {row} alone give a wrong integer, but are right in floats")


def _require_sums_of_products(problem: Problem) -> None:
    """Raises Unjudged unless C's new element is a sum of products of acc, scalars and operands."""
    epilogue = problem.epilogue
    if epilogue.products > 1 or epilogue.sums or epilogue.reads_depth:
        raise Unjudged(f"its epilogue needs more than one sum of products: {epilogue}")
    for node in epilogue.nodes:
        if not isinstance(node, Name | Negation | Binary) or getattr(node, "operator", "") == "/":
            raise Unjudged(f"its epilogue contains {unparse(node)}, which is not a sum of products")


def _case(source: KernelSource) -> Case:
    """The case to run: fixed sizes as they are, otherwise one tile of C and a long K; random scalars."""
    problem, tile = source.problem, dict(source.launch.grid)
    wanted = {"m": tile.get("M", 1), "n": tile.get("N", 1), "k": _depth(source), "batch": 1}
    rng = np.random.default_rng(SEED)
    alpha, beta = _scalar(problem, rng), _scalar(problem, rng)
    return open_case(problem, wanted, alpha=alpha, beta=beta if problem.epilogue.reads_c else 0.0)


def _depth(source: KernelSource) -> int:
    """The smallest K beyond 16 bits among `depths`, or else the largest of them."""
    known = depths(source) or [0]
    return min((k for k in known if k > 2**16), default=max(known))


def _scalar(problem: Problem, rng: np.random.Generator) -> float:
    """A random finite float whose integer is odd: multiplying by it loses no bits, in any ring."""
    dtype = problem.types.scalar
    while True:
        word = np.array([rng.integers(2**dtype.storage_bits, dtype=np.uint64, endpoint=False)]) | np.uint64(1)
        value = float(_elements(word, dtype)[0])
        if np.isfinite(value):
            return value


def _integers(elements: Floats, dtype: DType) -> Words:
    """The integers that `elements` stand for: see run/emulator/native/ring_numbers.hpp."""
    return _swapped(elements.view(dtype.bits), dtype).astype(np.uint64)


def _elements(integers: Words, dtype: DType) -> Floats:
    """The elements that stand for `integers`, reduced to the bits of `dtype`."""
    elements: Floats = _swapped(integers.astype(dtype.bits), dtype).view(dtype.numpy)
    return elements


def _swapped(bits: Bits, dtype: DType) -> Bits:
    """`bits`, with the 16-bit halves of an f32 or the bytes of an f16 swapped."""
    if dtype not in (DType.F32, DType.F16):
        return bits
    half = bits.dtype.type(dtype.storage_bits // 2)
    return np.asarray(bits << half | bits >> half)


def _multiply(a: Floats, b: Floats, of_a: DType, of_b: DType) -> Words:
    """A * B modulo 2^64, by exact products in float64."""
    made = np.zeros((*a.shape[:-1], b.shape[-1]), np.uint64)
    for first in range(0, a.shape[-1], CHUNK):
        left = _digits(a[..., first : first + CHUNK], of_a)
        right = _digits(b[..., first : first + CHUNK, :], of_b)
        for (i, low), (j, high) in product(enumerate(left), enumerate(right)):
            if DIGIT * (i + j) < 64:
                made += multiply(low, high).astype(np.uint64) << np.uint64(DIGIT * (i + j))
    return made


def _digits(elements: Floats, dtype: DType) -> list[npt.NDArray[np.float64]]:
    """The digits, of DIGIT bits each, of the elements' integers, lowest first."""
    bits = _swapped(elements.view(dtype.bits), dtype)
    if dtype.storage_bits <= DIGIT:
        return [bits.astype(np.float64)]
    return [(bits >> shift & (2**DIGIT - 1)).astype(np.float64) for shift in range(0, dtype.storage_bits, DIGIT)]


class _Trial:
    """Runs of the kernel in ring mode. They share random operands, and differ in which parts of A and B are zero."""

    def __init__(self, kernel: LoadedKernel, case: Case, blocks: list[int] | None) -> None:
        self.case, self._kernel, self._blocks = case, kernel, blocks
        some = np.random.default_rng(SEED).integers(0, 256, REPEATED, np.uint8)
        made = {name: np.resize(some, one.bytes).view(one.dtype.numpy) for name, one in case.tensors.items()}
        self._operands = Operands(made.pop("A"), made.pop("B"), made.pop("C"), made)
        self._windows: list[Window] | None = None

    def errors(self, columns: Places | None = None, rows: Places | None = None) -> Words:
        """The difference of each computed element of C from its reference.

        All columns of A but `columns`, and all rows of B but `rows`, are zero; None keeps all of them.
        Raises Unjudged if the launch fails.
        """
        case, dtype = self.case, self.case.c.dtype
        a, b = _only(case.a, self._operands.a, -1, columns), _only(case.b, self._operands.b, -2, rows)
        operands = replace(self._operands, a=a, b=b)
        try:
            result = self._kernel.run(case, operands, seed=SEED, blocks=self._blocks, watch=False)
        except CandidateFailed as error:
            raise Unjudged(error.failure.reason) from error
        if self._windows is None:
            whole = _windows_of(self._kernel, case, self._blocks, operands, result)
            self._windows = [part for window in whole for part in _parts(window, case.k)]
        got, left, right = case.c.view(result), case.a.view(a), case.b.view(b)
        found = []
        for window in self._windows:
            acc = _multiply(left[window.a_index], right[window.b_index], case.a.dtype, case.b.dtype)
            wanted = _value(case.problem.epilogue.tree, _names(case, operands, window, acc, _integers))
            found.append((_integers(got[window.index], dtype) - wanted).ravel())
        return np.concatenate(found)

    @cached_property
    def bits(self) -> int:
        """The modulus of C is 2^bits: the width of the narrowest type from the sums to C."""
        types = self.case.problem.types
        sums = 16 if types.compute is Compute.F16 else types.accumulator.storage_bits
        return min(sums, types.scalar.storage_bits, types.c.storage_bits)


def _names(case: Case, operands: Operands, window: Window, acc: Values, numbers: Numbers) -> dict[str, Values]:
    """The values of the epilogue's names, for the elements of `window`."""
    scalar = case.problem.types.scalar
    held = {name: np.array([getattr(case, name)], scalar.numpy) for name in ("alpha", "beta")}
    made = {"acc": acc, **{name: numbers(value, scalar) for name, value in held.items()}}
    for name in ("C", *case.read):
        elements = case.tensors[name].view(operands.by_name[name])
        sizes = zip(window.index, elements.shape, strict=True)
        part = elements[tuple(of if size > 1 else slice(None) for of, size in sizes)]
        made[name] = numbers(part, case.tensors[name].dtype)
    return made


def _value(node: Node, names: Mapping[str, Values]) -> Values:
    """The epilogue's result for values by name: floats, or integers of the ring."""
    match node:
        case Name(name):
            return names[name]
        case Negation(part):
            return np.negative(_value(part, names))
        case Binary(operator, left, right):
            of = {"+": np.add, "-": np.subtract, "*": np.multiply}[operator]
            return np.asarray(of(_value(left, names), _value(right, names)))
    raise AssertionError(f"{node} is not a sum of products")


def _only(matrix: Matrix, storage: Floats, axis: int, kept: Places | None) -> Floats:
    """A copy of `storage` with zeros outside the `kept` columns (axis -1) or rows (-2); None keeps all."""
    if kept is None:
        return storage
    made = np.zeros(matrix.bytes, np.uint8).view(storage.dtype)
    to, source = (matrix.stored.view(one.view(matrix.dtype.bits)) for one in (made, storage))
    index = (..., kept) if axis == -1 else (..., kept, slice(None))
    to[index] = source[index]
    return made


def _windows_of(
    kernel: LoadedKernel, case: Case, blocks: list[int] | None, before: Operands, after: Floats
) -> list[Window]:
    """The parts of C that the blocks compute: the tiles that a run changed, or all of C if all blocks ran."""
    if blocks is None:
        return [Window.whole(case)]
    bits = case.c.dtype.bits
    changed = np.argwhere(case.c.view(after.view(bits) != before.c.view(bits)))
    if not len(changed):
        raise Unjudged(f"blocks {blocks} do not change C")
    return tiles_of(case, kernel.source.launch, changed)


def _parts(window: Window, k: int) -> Iterator[Window]:
    """`window` in squares whose factors have at most PART elements each, or whose sides are LEAST_SIDE."""
    step = max(LEAST_SIDE, PART // max(k, 1))
    for top in range(window.top, window.bottom, step):
        for left in range(window.left, window.right, step):
            bottom, right = min(top + step, window.bottom), min(left + step, window.right)
            yield replace(window, top=top, left=left, bottom=bottom, right=right)


def _wrong(errors: Words, bits: int) -> npt.NDArray[np.bool_]:
    return np.asarray(errors << np.uint64(64 - bits) != 0)


def _modulus(trial: _Trial, few: Places) -> int:
    """The bits of the largest ring in which the products of `few` alone are right. Raises Unjudged if none is."""
    errors = trial.errors(few, few)
    for bits in (trial.bits, 16, 8):
        if bits <= trial.bits and not _wrong(errors, bits).any():
            return bits
    raise Unjudged("it does more than multiply, add and convert: even a few products differ")


def _find(trial: _Trial, bits: int) -> tuple[int, int]:
    """A column of A and a row of B that alone make an element wrong. Raises Unjudged if bisection finds none."""
    every = np.arange(trial.case.k)
    at = int(np.argmax(_wrong(trial.errors(), bits)))
    column = _halved(every, lambda some: bool(_wrong(trial.errors(some, None)[at], bits)))
    row = _halved(every, lambda some: bool(_wrong(trial.errors(column, some)[at], bits)))
    return int(column[0]), int(row[0])


def _halved(places: Places, wrong: Callable[[Places], bool]) -> Places:
    while len(places) > 1:
        first, second = np.array_split(places, 2)
        if wrong(first):
            places = first
        elif wrong(second):
            places = second
        else:
            raise Unjudged("C is not a sum of products: it is right for each half of K, and wrong for both")
    return places


def _confirm(kernel: LoadedKernel, case: Case, blocks: list[int] | None, column: int, row: int) -> None:
    """Run the kernel on floats that are zero except in a column of A and a row of B. Raises Wrong."""
    case = replace(case, alpha=1.0, beta=0.0)
    rng, places = np.random.default_rng(SEED), {"A": (..., column), "B": (..., row, slice(None))}
    storages = {}
    for name, matrix in zip("ABC", case.matrices, strict=True):
        storages[name] = np.full(matrix.bytes, CANARY & 0xFF if name == "C" else 0, np.uint8).view(matrix.dtype.numpy)
        if name in places:
            part = matrix.stored.view(storages[name])[places[name]]
            part[...] = rng.choice(SIMPLE, part.shape)
    extra = {name: np.full(one.elements, name in FACTORS, one.dtype.numpy) for name, one in case.extra.items()}
    operands = Operands(storages["A"], storages["B"], storages["C"], extra)
    try:
        result = kernel.run(case, operands, seed=SEED, blocks=blocks, watch=False)
    except CandidateFailed as error:
        raise Wrong(Situation(case, "onehot", SEED), error.failure, None) from error
    situation = Situation(case, "onehot", SEED)
    for window in _windows_of(kernel, case, blocks, operands, result):
        left = case.a.dtype.decode(case.a.view(operands.a)[window.a_index])
        right = case.b.dtype.decode(case.b.view(operands.b)[window.b_index])
        names = _names(case, operands, window, left @ right, lambda elements, dtype: dtype.decode(elements))
        made = _value(case.problem.epilogue.tree, {**names, "C": np.zeros(1)})
        mismatch = compare_with(Wanted.of(made, no_bound(made)), situation, result, window).mismatch
        if mismatch is not None:
            alone = f"A's column {column} and B's row {row} alone are not zero"
            reason = f"{mismatch}; {alone}, found with integers modulo 2^32 in place of floats"
            raise Wrong(situation, Failure("wrong", reason, "verifier"), mismatch)
