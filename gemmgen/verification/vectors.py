"""Vectors for tensor-core instructions: inputs by seed, and kernels whose C is the result."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np

from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import WARP, parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import Mma
from gemmgen.problem.types import Types
from gemmgen.problem.wgmma import ARCH as WGMMA_ARCH
from gemmgen.problem.wgmma import WARPGROUP, Wgmma
from gemmgen.render.kernel_text import environment
from gemmgen.run.executor import Executor, Operands
from gemmgen.verification.tensor_core import Codes, dot

STEPS = 4  # instructions on the same accumulators, one after the other
FEW = 4  # so many times fewer products of f64, whose arithmetic is known, and of a warpgroup, which are large


@dataclass(frozen=True)
class Vectors:
    """Products of `mma`, each of m x n elements.

    a, b, c  bit patterns of A (products, m, K), B (products, n, K) and C (products, m, n)
    kinds    the kind of each product's numbers
    """

    mma: Mma | Wgmma
    a: Codes
    b: Codes
    c: Codes
    kinds: tuple[str, ...]

    @property
    def digest(self) -> str:
        """A digest of the inputs."""
        return hashlib.sha256(b"".join(codes.tobytes() for codes in (self.a, self.b, self.c))).hexdigest()[:16]

    @property
    def problem(self) -> Problem:
        """The problem of the kernel: the products are a batch."""
        products, _, k = self.a.shape
        types = Types(self.mma.a, self.mma.b, self.mma.accumulator)
        return Problem(self.mma.m, self.mma.n, k, types=types, layout="rc", batch=products)

    def source(self, arch: str) -> KernelSource:
        """The kernel that adds A * B to C, with one product per block."""
        mma, problem = self.mma, self.problem
        name, grid = f"{mma.function}_vectors", (("batch", 1),)
        if isinstance(mma, Wgmma):
            file, read, arch = "wgmma_vectors.cu", "uint4", WGMMA_ARCH
            launch = Launch(WARPGROUP, grid, shared_bytes=(mma.m + mma.n) * self.a.shape[-1] * mma.a.size)
        else:
            file, read, launch = "mma_vectors.cu", mma.a_type, Launch(WARP, grid)
        template = environment(problem.types, arch).get_template(f"device/{file}")
        text = template.render(one=mma, K=self.a.shape[-1], name=name, arch=arch)
        parameters = (
            Parameter("A", f"const {read}*"),
            Parameter("B", f"const {read}*"),
            Parameter("C", f"{mma.c_type}*"),
        )
        return KernelSource(name, text, "vectors", {}, Contract(problem, launch, parameters))

    def expected(self, arch: str) -> Codes:
        """D by the model of `arch`."""
        return dot(self.mma, parse_arch(arch), self.a[:, :, None, :], self.b[:, None, :, :], self.c)

    def run(self, executor: Executor, arch: str) -> Codes:
        """Compute D on `executor`. Raises CandidateFailed if it cannot."""
        with closing(executor.load(self.source(arch))) as kernel:
            case = self.problem.case(beta=1.0)
            codes = zip((self.a, self.b, self.c), case.matrices, strict=True)
            a, b, c = (some.ravel().view(matrix.dtype.numpy) for some, matrix in codes)
            return kernel.run(case, Operands(a, b, c)).view(self.c.dtype).reshape(self.c.shape)


@dataclass(frozen=True)
class Span:
    """Exponents from `low` to `high`, counted from the type's largest with `of_top`, from its smallest with
    `of_bottom`.

    The exponent below the smallest stands for denormal numbers.
    """

    low: int
    high: int
    of_top: bool = False
    of_bottom: bool = False

    def limits(self, dtype: DType) -> tuple[int, int]:
        origin = dtype.max_exponent if self.of_top else dtype.min_exponent if self.of_bottom else 0
        low, high = (
            min(max(origin + end, dtype.min_exponent - 1), dtype.max_exponent) for end in (self.low, self.high)
        )
        return low, high


UNIT = Span(-4, 0)  # numbers up to 2
TOP, BOTTOM = Span(-2, 0, of_top=True), Span(-1, 2, of_bottom=True)
DENORMAL = Span(-1, -1, of_bottom=True)
Operand = tuple[Codes, Codes, Codes]


class Draw:
    """Bit patterns by seed, the same on every machine."""

    def __init__(self, seed: int) -> None:
        self._words = np.random.PCG64(seed).random_raw

    def below(self, end: int, *shape: int) -> Codes:
        """Whole numbers below `end`, which is at most 2^32."""
        words = np.asarray(self._words(math.prod(shape)), np.uint64) >> np.uint64(32)
        return np.asarray((words * np.uint64(end) >> np.uint64(32)).reshape(shape))

    def bits(self, dtype: DType, *shape: int) -> Codes:
        """Random bit patterns, including Inf and NaN: every exponent is equally likely."""
        words = np.asarray(self._words(math.prod(shape)), np.uint64) >> np.uint64(64 - dtype.storage_bits)
        return np.asarray(words.astype(dtype.bits).reshape(shape))

    def floats(self, dtype: DType, span: Span, *shape: int) -> Codes:
        """Numbers of random fraction and sign, with exponents in `span`."""
        low, high = span.limits(dtype)
        field = (self.below(high - low + 1, *shape).astype(np.int64) + low - dtype.min_exponent + 1).astype(np.uint64)
        kept = np.uint64(2 ** (dtype.precision - 1) - 1 | 1 << (dtype.storage_bits - 1))
        codes = self.bits(dtype, *shape).astype(np.uint64) & kept | field << np.uint64(dtype.precision - 1)
        return np.asarray(codes.astype(dtype.bits))

    def among(self, codes: Codes, values: list[int], share: float) -> Codes:
        """`codes` with about a `share` of them replaced by some of `values`."""
        chosen = np.array(values, codes.dtype)[self.below(len(values), *codes.shape).astype(np.int64)]
        return np.where(self.below(2**16, *codes.shape) < np.uint64(share * 2**16), chosen, codes)


Drawn = Callable[[Draw, Mma | Wgmma, tuple[int, int]], Operand]  # for (products, K)


def _shapes(mma: Mma | Wgmma, size: tuple[int, int]) -> tuple[tuple[int, ...], ...]:
    products, k = size
    return (products, mma.m, k), (products, mma.n, k), (products, mma.m, mma.n)


def _any(draw: Draw, mma: Mma | Wgmma, size: tuple[int, int]) -> Operand:
    a, b, c = _shapes(mma, size)
    return draw.bits(mma.a, *a), draw.bits(mma.b, *b), draw.bits(mma.accumulator, *c)


def _spans(a: Span, b: Span, c: Span, draw: Draw, mma: Mma | Wgmma, size: tuple[int, int]) -> Operand:
    of_a, of_b, of_c = _shapes(mma, size)
    return draw.floats(mma.a, a, *of_a), draw.floats(mma.b, b, *of_b), draw.floats(mma.accumulator, c, *of_c)


def _cancelling(draw: Draw, mma: Mma | Wgmma, size: tuple[int, int]) -> Operand:
    """Numbers whose second half of K cancels the first, except for the last bits of some."""
    a, b, c = _spans(UNIT, UNIT, Span(-30, -10), draw, mma, size)
    half = size[1] // 2
    sign = 1 << (mma.a.storage_bits - 1)
    a[..., half:], b[..., half:] = a[..., :half] ^ a.dtype.type(sign), b[..., :half]
    a[..., half:] ^= (draw.below(16, *a[..., half:].shape) == 0).astype(a.dtype)
    return a, b, c


def _mixed(
    some: Callable[[DType], list[int]], share: float, draw: Draw, mma: Mma | Wgmma, size: tuple[int, int]
) -> Operand:
    """Numbers up to 2, with about a `share` of them replaced by `some` of their type."""
    values = zip(_spans(UNIT, UNIT, UNIT, draw, mma, size), (mma.a, mma.b, mma.accumulator), strict=True)
    a, b, c = (draw.among(codes, some(dtype), share) for codes, dtype in values)
    return a, b, c


def _zeros(dtype: DType) -> list[int]:
    return [0, 1 << (dtype.storage_bits - 1)]


def _specials(dtype: DType) -> list[int]:
    """Infinities, NaNs of several payloads, zeros and largest numbers."""
    sign = 1 << (dtype.storage_bits - 1)
    finite = [0, int(dtype.encode(dtype.largest).view(dtype.bits))]
    infinite = [int(dtype.encode(np.inf).view(dtype.bits))] if dtype.has_infinity else []
    nan = int(dtype.encode(np.nan).view(dtype.bits)) & (sign - 1)
    payloads = [nan, nan | 1, (infinite or [nan])[0] | 1]
    return [code | some for code in (*finite, *infinite, *payloads) for some in (0, sign)]


def _extreme(draw: Draw, mma: Mma | Wgmma, size: tuple[int, int]) -> Operand:
    """Integers at the ends of their ranges, and sums that wrap around."""
    a, b, c = _any(draw, mma, size)
    ends = [0, 1, 2 ** (mma.a.storage_bits - 1) - 1, 2 ** (mma.a.storage_bits - 1), 2**mma.a.storage_bits - 1]
    return draw.among(a, ends, 0.9), draw.among(b, ends, 0.9), draw.among(c, [2**31 - 1, 2**31, 0, 2**32 - 1], 0.5)


# How many products of each kind by one instruction, and by STEPS.
Kinds = dict[str, tuple[int, int, Drawn]]
INTEGERS: Kinds = {"any bits": (8, 4, _any), "ends of ranges": (8, 4, _extreme)}
FLOATS: Kinds = {
    "numbers up to 2": (16, 6, partial(_spans, UNIT, UNIT, Span(-2, 3))),
    "many exponents": (12, 4, partial(_spans, Span(-12, 12), Span(-12, 12), Span(-20, 20))),
    "any bits": (4, 0, _any),
    "C far larger": (4, 2, partial(_spans, UNIT, UNIT, Span(10, 30))),
    "C far smaller": (4, 0, partial(_spans, UNIT, UNIT, Span(-34, -18))),
    "cancelling": (6, 2, _cancelling),
    "denormal A": (4, 0, partial(_spans, DENORMAL, Span(-24, 2), Span(-3, 24, of_bottom=True))),
    "denormal sums": (4, 0, partial(_spans, BOTTOM, Span(-24, 2), Span(-1, 3, of_bottom=True))),
    "overflow": (4, 0, partial(_spans, TOP, TOP, TOP)),
    "overflow at C": (4, 2, partial(_spans, Span(-70, -63, of_top=True), Span(-64, -62, of_top=True), TOP)),
    "zeros": (4, 0, partial(_mixed, _zeros, 0.8)),
    "Inf and NaN": (6, 2, partial(_mixed, _specials, 1 / 24)),
}


def drawn(mma: Mma | Wgmma, seed: int) -> Iterator[Vectors]:
    """Yield the vectors with which an instruction is tried: one instruction per product, then STEPS."""
    kinds = INTEGERS if mma.accumulator.is_integer else FLOATS
    few = FEW if mma.accumulator is DType.F64 or isinstance(mma, Wgmma) else 1
    draw = Draw(seed)
    for steps in (1, STEPS):
        parts = ((kind, -(-count[steps > 1] // few), make) for kind, (*count, make) in kinds.items())
        yield _joined(mma, [(kind, make(draw, mma, (count, steps * mma.k))) for kind, count, make in parts if count])


def _joined(mma: Mma | Wgmma, parts: list[tuple[str, Operand]]) -> Vectors:
    a, b, c = (np.concatenate(codes) for codes in zip(*(operand for _, operand in parts), strict=True))
    return Vectors(mma, a, b, c, tuple(kind for kind, (a_of, _, _) in parts for _ in a_of))


def random_vectors(mma: Mma | Wgmma, k: int, products: int, seed: int) -> Vectors:
    """Vectors of random bit patterns."""
    return _joined(mma, [("any bits", _any(Draw(seed), mma, (products, k)))])
