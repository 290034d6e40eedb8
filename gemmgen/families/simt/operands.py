"""The path of A and B through a kernel of `simt`: global memory -> shared memory -> registers, and that of C back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import gcd, isqrt

from gemmgen.families.base import Side, elements_of, shared_by, sides
from gemmgen.families.simt.axes import TILE_THREADS, SimtConfig
from gemmgen.kernel.config import Derived
from gemmgen.kernel.expression import evaluate
from gemmgen.problem.gemm import Problem


@dataclass(frozen=True)
class Operand(Side):
    """The path of A or B to shared memory; names are those of the rendered kernel.

    transposed  written to shared memory across its lines
    k_rows      shared lines run along m or n, one for each k: a thread reads its fragment as vectors
    moves       a tile that would cross the edge of C moves back to it, so that copies need no checks there
    copy        template that brings a tile to shared memory; fragment, to registers
    k_vector    k is contiguous in shared memory, and a load takes the K_UNROLL k of an unrolled iteration
    in_parts    some of these loads are hoisted, with the rows or columns of a product that are
    last_first  those of its last lines
    width       elements of a global access; this and what follows is known when a kernel is rendered
    mn_edge     a tile may cross an edge of C, so that copies are checked there
    k_edge      a step may cross the end of K, likewise
    """

    transposed: bool
    copy: str
    moves: bool = False
    k_vector: bool = False
    in_parts: bool = False
    last_first: bool = False
    width: int = 0
    mn_edge: bool = False
    k_edge: bool = False

    conv = None  # of images, which other families copy

    @property
    def at_edge(self) -> bool:
        return self.mn_edge or self.k_edge

    @property
    def k_rows(self) -> bool:
        return self.transposed or not self.along_k

    @property
    def fragment(self) -> str:
        if self.k_vector:
            return "simt/k_vector.cu"
        return "simt/vector.cu" if self.k_rows else "simt/strided.cu"


@shared_by(SimtConfig, "BM", "BN", "TM", "TN", "VEC", "TA", "TB", "ASYNC", "K_UNROLL", "HOIST", "FMA_ORDER")
def operands(problem: Problem, config: SimtConfig) -> tuple[Operand, Operand]:
    side_a, side_b = sides(problem)
    a, b = _operand(side_a, config.TA == 1, config), _operand(side_b, config.TB == 1, config)
    widths = [1 if x.along_k else global_width(problem, config, x) for x in (a, b)]  # of accesses along m or n
    if _moves(problem.m, config.BM, widths[0]):
        a = replace(a, moves=True)
    if _moves(problem.n, config.BN, max(widths[1], store_width(problem, config, b))):
        b = replace(b, moves=True)
    return a, b


def _operand(side: Side, transposed: bool, config: SimtConfig) -> Operand:
    copy = "copy/cp_async.cu" if config.ASYNC else "copy/registers.cu"
    if config.K_UNROLL == 0 or not side.along_k or transposed:
        return Operand(side.x, side.mn, side.along_k, transposed, copy)
    parts, last = config.HOIST > 0, last_first(config)
    return Operand(side.x, side.mn, side.along_k, transposed, copy, k_vector=True, in_parts=parts, last_first=last)


def last_first(config: SimtConfig) -> bool:
    """Whether a product takes its last line first."""
    return config.FMA_ORDER & 2 > 0


def _moves(size: int | None, tile: int, width: int) -> bool:
    """Whether C has room for a tile that starts `tile` before the edge at `size`, and accesses start there as well."""
    return size is not None and size > tile and size % tile != 0 and size % width == 0


def global_width(problem: Problem, config: SimtConfig, operand: Operand) -> int:
    """Elements per global access: VEC, capped by the alignment of the operand's lines."""
    if operand.transposed and config.ASYNC:
        return 1  # cp.async lands where it starts: only single elements can change direction
    limit = problem.vector_limit(operand.ld)
    if operand.k_vector:  # all k tiles but the first start behind the remainder of K
        limit = gcd(limit, problem.k or 1)
    return gcd(config.VEC, limit)


@cache
def threads_contiguous(accesses: int, lines: int, threads: int, wanted: int) -> int:
    """Threads that fetch a line of `accesses` together: the count with the fewest passes, then the nearest to
    `wanted`.

    The other accesses of a thread to its line are so near to the first that the instruction holds the distance.
    """

    def cost(count: int) -> tuple[int, float]:
        return accesses // count * -(-lines // (threads // count)), max(count / wanted, wanted / count)

    both = gcd(accesses, threads)
    below_root = [size for size in range(1, isqrt(both) + 1) if both % size == 0]  # of a large axis, too, soon found
    return min(sorted({*below_root, *(both // size for size in below_root)}), key=cost)


def fragment_width(config: SimtConfig, operand: Operand) -> int:
    """Neighbours along m or n per shared read: more than one only if shared lines run that way."""
    return gcd(config.VEC, config.TM if operand.x == "a" else config.TN) if operand.k_rows else 1


def read_width(config: SimtConfig, operand: Operand) -> int:
    """Elements per shared load: the k of an unrolled iteration, or as many neighbours as `fragment_width` says."""
    return config.K_UNROLL if operand.k_vector else fragment_width(config, operand)


def runs_along_n(config: SimtConfig, a: Operand, b: Operand) -> bool:
    """Whether a thread's FMAs go row by row, so that successive FMAs share a value of A. They go along the longer side,
    or along the side whose vectors along k are replaced."""
    return a.k_vector or (config.TN > config.TM and not b.k_vector)


def store_width(problem: Problem, config: SimtConfig, b: Operand) -> int:
    """Elements per access to C: a thread's neighbouring columns, as far as the alignment of C's lines allows."""
    return gcd(fragment_width(config, b), problem.vector_limit("ldc"))


def operand_constants(problem: Problem, config: SimtConfig, operand: Operand) -> tuple[Derived, ...]:
    width, size = global_width(problem, config, operand), problem.types.accumulator.size
    block = config.BM if operand.x == "a" else config.BN
    line, count = (config.BK, block) if operand.along_k else (block, config.BK)
    threads = evaluate(TILE_THREADS, vars(config)) * config.SLICES
    # Neighbours fetch 128 bytes, the most that L1 looks up at once; transposed, 32 bytes, whose words fall into banks
    # of their own (PAD = 4), or longer contiguous pieces: COPY_THREADS elements.
    asked = config.COPY_THREADS if operand.transposed else 0
    wanted = asked or (32 if operand.transposed else 128) // (width * size)
    together = threads_contiguous(max(1, line // width), count, threads, wanted)
    return _copy_constants(operand, width, together, config.ASYNC == 1, elements_of(problem))


@cache  # the configs of a space have few that differ
def _copy_constants(operand: Operand, width: int, together: int, by_async: bool, elements: str) -> tuple[Derived, ...]:
    X, block = operand.X, f"B{operand.MN}"
    padded = "" if not operand.along_k else " + PAD"
    shared_line = block if operand.k_rows else "BK"
    shared_lines = "BK" if operand.k_rows else block
    line, count = ("BK", block) if operand.along_k else (block, "BK")
    stored = f"{X} that one cp.async writes to shared memory" if by_async else f"a shared store of {X}"
    lines = (
        (f"V{X}", str(width), f"{elements} of an access to {X}"),
        (f"STORE_{X}", "1" if operand.transposed else f"V{X}", f"{elements} of {stored}"),
        (f"{X}_CONTIGUOUS", line, f"{elements} of {X}'s tile along its contiguous dimension"),
        (f"{X}_STRIDED", count, f"extent of {X}'s tile along the other, strided dimension"),
        (f"{X}_LANES", str(together), "threads along the contiguous dimension"),
        (f"{X}_PASS", f"THREADS / {X}_LANES", "threads along the strided dimension"),
        (
            f"{X}_ITERATIONS",
            f"{X}_CONTIGUOUS / V{X} / {X}_LANES * (({X}_STRIDED + {X}_PASS - 1) / {X}_PASS)",
            "accesses of a thread, at most",
        ),
        (f"PITCH_{X}", shared_line + padded, f"{elements} from one row of {X}'s shared tile to the next"),
        (f"SHARED_{X}", f"{shared_lines} * PITCH_{X}", f"{elements} of a shared tile of {X}"),
    )
    return tuple(Derived(*line, group=f"How {X} gets to shared memory") for line in lines)


def copy_wavefronts(value: Mapping[str, int], operand: Operand) -> float:
    """Shared-memory cycles that write one tile of words: 32 words each, fewer if transposed words conflict in a
    bank.

    A warp writes as many lines at once, PITCH apart, as there are threads that fetch a line together. Vector reads need
    a PITCH that is a multiple of four words. So at best eight lines have banks of their own (PAD = 4), and without
    padding none has.
    """
    words = value[f"B{operand.MN}"] * value["BK"]
    if not operand.transposed:
        return words / 32
    apart = 32 // gcd(32, value[f"PITCH_{operand.X}"])  # lines before banks repeat
    return words / 32 * max(1, value[f"{operand.X}_LANES"] / apart)
