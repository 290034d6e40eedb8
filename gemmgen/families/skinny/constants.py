"""The constants of a kernel of `skinny` that follow from its axes: tile, accesses to the operands, shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from gemmgen.families.base import elements_of, shared_by
from gemmgen.families.skinny.axes import SkinnyConfig
from gemmgen.families.skinny.operands import dots, roles, small_width, weight_width
from gemmgen.kernel.config import Derived
from gemmgen.kernel.prepare import PACKED_LINE, Codes, Pack
from gemmgen.problem.device import WARP
from gemmgen.problem.dtype import WORD
from gemmgen.problem.gemm import Problem

WEIGHTS, SHARED = "Weights", "Shared memory"  # the groups in which a kernel lists them


@shared_by(
    SkinnyConfig, "S", "T", "LANES", "WARPS", "BK", "DEPTH", "ASYNC", "MMA", "VEC", SPLIT=lambda blocks: min(blocks, 2)
)
def derived(problem: Problem, config: SkinnyConfig) -> tuple[Derived, ...]:
    """All derived constants; each may name those before it."""
    return (
        *_tile(problem, config),
        *_weights(problem, config),
        *_ring(problem, config),
        *_reads(problem, config),
        *_arrays(problem, config),
        Derived("SHARED_BYTES", "4 * SHARED_WORDS + 16 * (SPLIT > 1)", "shared memory a block, in bytes"),
    )


def _tile(problem: Problem, config: SkinnyConfig) -> Iterator[Derived]:
    x, w = roles(problem)
    along = "T" if config.MMA else "WARPS * T"
    tile = {f"B{x.MN}": "S", f"B{w.MN}": along if w.along_k else "LANES * T"}
    yield Derived("THREADS", "32 * WARPS", "threads a block")
    if config.BK == 0:
        # No barrier parts the loads from their use: unless told that one block an SM will do, the compiler delays some
        # to save registers (1 x 1024 x 1024 with nvcc 13.0: 32 in place of 51).
        yield Derived("MINB", "1", "blocks that must fit an SM at once: more would cost loads under way")
    yield Derived("BM", tile["BM"], "rows of C that a block computes")
    yield Derived("BN", tile["BN"], "columns of C that a block computes")
    yield Derived("OUTPUTS", "(BM * BN + THREADS - 1) / THREADS", "elements of C that a thread stores at most")


def _weights(problem: Problem, config: SkinnyConfig) -> Iterator[Derived]:
    _, w = roles(problem)
    uniform, elements = problem.types.uniform, elements_of(problem)
    depth = "" if uniform else "DEPTH * "  # uniform kernels take one k at a time
    lane_k = "VW" if w.along_k else "1" if uniform else "DEPTH"
    widths = weight_width(problem, config), small_width(problem, config)
    codes = Codes.of(problem)
    what = f"{elements} of an access to the weights" if codes is None else "k of an access to codes, of two columns"
    yield Derived("VW", str(widths[0]), what, group=WEIGHTS)
    along = "T / 16" if codes else "T / 8" if config.MMA else "T"
    yield Derived("LOADS", along if w.along_k else f"{depth}T / VW", "accesses of a thread a step", group=WEIGHTS)
    yield Derived("GROUPS", "32 / LANES", "groups of a warp's lanes, each at a k of its own", group=WEIGHTS)
    step = "4 * VW * WARPS" if w.along_k and config.MMA else "32 * VW" if w.along_k else f"{depth}WARPS * GROUPS"
    yield Derived("STEP", step, "k that a block takes in a step", group=WEIGHTS)
    yield Derived("LANE_K", lane_k, "k that a lane takes in a step", group=WEIGHTS)
    yield Derived("XW", str(widths[1]), f"{elements} of an access to the small operand", group=WEIGHTS)
    yield Derived("LANE_LINES", "S / 8" if config.MMA else "S", "lines of the small operand of a lane", group=WEIGHTS)
    if codes is not None:
        words = Pack("B").chunk_lines(problem) * PACKED_LINE // WORD
        yield Derived("CHUNK_K", str(codes.depth), "k of a chunk of packed codes", group=WEIGHTS)
        yield Derived("PACKED_WORDS", str(words), "words of a chunk: codes, scales and zero points", group=WEIGHTS)
    yield Derived("SUMS", _lane_sums(problem, config), "sums of a lane", group=WEIGHTS)
    yield Derived("HELD", _held(problem, config), "steps whose weights registers hold at once", group=WEIGHTS)


def _lane_sums(problem: Problem, config: SkinnyConfig) -> str:
    if not config.MMA:
        return "S * T"
    return "S * T / 32" if roles(problem)[1].along_k else "S * T / 4"  # a warp has T rows, or 8 T


def _held(problem: Problem, config: SkinnyConfig) -> str:
    """Steps that a thread holds in registers, as compiled. With a ring in shared memory these are the steps that the
    compiler loads early; with converted elements, those in flight and the one being unpacked."""
    if config.ASYNC:
        return "3 * (UNROLL >= 3) + 2 * (UNROLL == 2)"
    return "UNROLL" if problem.types.uniform or dots(problem, config) or config.MMA else "UNROLL + 1"


def _ring(problem: Problem, config: SkinnyConfig) -> Iterator[Derived]:
    """Constants of kernels that convert: vectors of numbers, and a ring of weights, in shared memory."""
    if not problem.types.uniform:
        width = "VW * (VW < 4) + 4 * (VW >= 4)"
        yield Derived("RX", width, "numbers of an access to shared memory", group=SHARED)
    if config.ASYNC:
        size, bytes_ = problem.dtype_of(roles(problem)[1].X).size, "UNROLL * LOADS * THREADS * VW * W_BYTES"
        yield Derived("W_BYTES", str(size), "bytes of an element of the weights", group=SHARED)
        yield Derived("RING_WORDS", f"{bytes_} / 4", f"{_sums(problem)} of the ring", group=SHARED)


def _reads(problem: Problem, config: SkinnyConfig) -> Iterator[Derived]:
    """Constants of how threads read the chunk of the small operand, and the sums at the end."""
    x, w = roles(problem)
    numbers = elements_of(problem) if dots(problem, config) else _sums(problem)
    # If the chunk's lines are single k, a staging warp whose operand's lines are not writes down a column, and a warp
    # of several groups reads down one: without padding these words would meet in few banks.
    column = not w.along_k and (x.along_k or config.LANES < WARP)
    pitch = "BK" if w.along_k else "S + 4 * (S % 8 == 0)" if column else "S"
    yield Derived("FX", str(gcd(4, config.S)), f"{_sums(problem)} of a read of the small operand", group=SHARED)
    yield Derived("PITCH", pitch, f"{numbers} from one line of a chunk to the next", group=SHARED)
    yield Derived("SUMS_PITCH", f"B{w.MN} + 4", f"{_sums(problem)} from one line of sums to the next", group=SHARED)
    partials = "1" if w.along_k and not config.MMA else "WARPS"
    yield Derived("PARTIALS", partials, "sums of each element of C that meet in shared memory", group=SHARED)


def _arrays(problem: Problem, config: SkinnyConfig) -> Iterator[Derived]:
    """Constants of shared memory: the chunk, the sums that replace it at the end, and both with the ring."""
    sums, direct = _sums(problem), config.BK == 0
    lines = "S" if roles(problem)[1].along_k else "BK"
    chunk = f"{lines} * PITCH{' / 4' if dots(problem, config) else ''}"
    larger = "CHUNK_WORDS * (CHUNK_WORDS >= SUMS_WORDS) + SUMS_WORDS * (SUMS_WORDS > CHUNK_WORDS)"
    replacing = "" if direct else " that replace it"
    one = "" if direct else ", for one and then the other"
    total = ("SUMS_WORDS" if direct else larger) + (" + RING_WORDS" if config.ASYNC else "")
    yield Derived("CHUNK_WORDS", chunk, f"{sums} of a chunk of the small operand", group=SHARED)
    yield Derived("SUMS_WORDS", "PARTIALS * S * SUMS_PITCH", f"{sums} of the sums{replacing} at the end", group=SHARED)
    yield Derived("SHARED_WORDS", total, f"{sums} of shared memory{one}", group=f"{SHARED}, in all")


def _sums(problem: Problem) -> str:
    """The word for elements of the shared array, which have the type of the sums."""
    return f"{problem.types.accumulator.ctype}s"
