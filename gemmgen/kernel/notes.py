"""The header's prose: what a block does, what each level of the tiling saves, what bounds the kernel.

Only what follows from the parameters: measurements live in the JSON beside the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gemmgen.kernel.analysis import CYCLES_PER_WARP_FMA, Traffic, traffic
from gemmgen.kernel.families.base import Config, Family, Work, constants
from gemmgen.kernel.model import representative
from gemmgen.problem.device import least_ridge
from gemmgen.problem.dtype import WORD, DType
from gemmgen.problem.gemm import Problem

ORDER_WORDS = {"r": "row", "c": "column"}


@dataclass(frozen=True)
class MatrixText:
    """A, B or C in words: a size or leading dimension by its name where it is an argument, else as a number."""

    name: str
    rows: str
    cols: str
    order: str
    ld: str
    batch_stride: str | None = None

    @property
    def stride(self) -> str:
        """ "lda = 512", or "lda at run time"."""
        name = f"ld{self.name.lower()}"
        return f"{name} at run time" if self.ld == name else f"{name} = {self.ld}"

    @property
    def apart(self) -> str | None:
        """The distance between matrices of a batch: "stride_a = 256", "stride_a at run time"; None outside of one."""
        name = f"stride_{self.name.lower()}"
        if self.batch_stride is None or self.batch_stride == "0":
            return self.batch_stride and "the same for all products"
        return f"{name} at run time" if self.batch_stride == name else f"{name} = {self.batch_stride}"


def matrix_texts(problem: Problem) -> tuple[MatrixText, MatrixText, MatrixText]:
    """A, B and C as headers and documents describe them."""
    text = {name: name if size is None else str(size) for name, size in problem.sizes.items()}
    m, n, k = text["M"], text["N"], text["K"]
    return (
        MatrixText("A", m, k, ORDER_WORDS[problem.layout.a], text["lda"], text.get("stride_a")),
        MatrixText("B", k, n, ORDER_WORDS[problem.layout.b], text["ldb"], text.get("stride_b")),
        MatrixText("C", m, n, ORDER_WORDS["r"], text["ldc"], text.get("stride_c")),
    )


def notes(problem: Problem, family: Family, config: Config) -> tuple[str, ...]:
    """Lines for the comment at a kernel's top, each a label and a sentence."""
    value = constants(family, problem, config)
    work, counts = family.work(problem, config), traffic(problem, family, config)
    block = f"Block   {value['BM']} x {value['BN']} of C by {work.threads} threads"
    slices = value.get("SLICES", 1)
    if work.shares > slices:
        streaming = _streaming(family.view(problem, config), work, counts)
        return (f"{block}, {value['SHARED_BYTES']} bytes of shared memory", *streaming, *_split(work))
    if "MB" in value:
        return _batched_notes(problem, value, work, counts)
    if not work.shared_words:
        return block, f"Bound   {counts.bound}: every FMA takes two reads of it, most of which caches serve"
    return (
        f"{block}, in steps of {work.depth} along K, {value['SHARED_BYTES']} bytes of shared memory",
        *_reads(work, counts),
        _ahead(work),
        _bound_line(problem, work, counts),
        *_slices(slices),
        *_split(work),
    )


def _batched_notes(problem: Problem, value: Mapping[str, int], work: Work, counts: Traffic) -> tuple[str, ...]:
    block = (
        f"Block   {_plural(value['MB'], 'product')} at once by {work.threads} threads, {_plural(value['WALK'], 'time')}"
    )
    return (
        f"{block}, {value['SHARED_BYTES']} bytes of shared memory",
        *_reads(work, counts),
        _ahead(work),
        _bound_line(problem, work, counts),
    )


def _streaming(view: Mapping[str, Any], work: Work, counts: Traffic) -> Iterator[str]:
    """Of kernels that keep one operand's values in registers only."""
    weights, small = view["w"].X, view["x"].X
    yield (
        f"Thread  {work.outputs} sums, each of one k in {work.shares}: {work.shares} threads share an element of C and "
        "add up at the end"
    )
    yield (
        f"Weights are the elements of {weights}: each meets (is multiplied by) those of {small}, the small operand, "
        "at its k"
    )
    yield (
        f"Reads   each weight once, to a register, {WORD * work.global_words:g} bytes of a block under way at once; "
        f"{counts.intensity:.3g} FLOP for a byte of global memory"
    )
    if work.repeated:
        yield "Cached  what the weights meet, which every warp reads again: L1 serves most of it"
    if counts.intensity < least_ridge(DType.F32):
        yield "Bound   global memory: too few FLOP for a byte, on any known card"
    else:
        yield "Bound   global memory on a card that can compute more than that for each byte, else FFMA issue"


def _slices(slices: int) -> Iterator[str]:
    if slices > 1:
        yield f"Slices  {slices} groups of warps share the block's tile: each sums a part of every step; they add up"


def _split(work: Work) -> Iterator[str]:
    if work.splits > 1:
        yield f"Split   {work.splits} blocks share a tile: each sums a part of K, the last to come adds the parts up"
    if work.stream:
        yield f"Stream  {work.stream} blocks share the last tiles, by equal runs of steps: none waits for a last wave"


def _reads(work: Work, counts: Traffic) -> Iterator[str]:
    yield (
        f"Thread  {work.outputs} elements of C: for each k {_plural(work.outputs, 'FMA')} "
        f"on {work.shares * work.shared_words:g} words of shared memory, taken in "
        f"{_plural(work.shares * work.shared_reads, 'read')}"
    )
    yield (
        f"Reads   K / {1 / counts.global_words:.4g} words of global and K / {1 / counts.shared_words:.4g} of shared "
        f"memory for each element of C; {counts.intensity:.3g} FLOP for a byte of global"
    )


def _ahead(work: Work) -> str:
    if work.prefetch == 0:
        return "Ahead   nothing: a block waits for each tile, and only other blocks hide that"
    return f"Ahead   global memory is read {_plural(work.prefetch, 'step')} before its use, while the FMAs run"


def _bound_line(problem: Problem, work: Work, counts: Traffic) -> str:
    case, dtype = representative(problem), problem.dtype
    intensity = case.flops / case.bytes_moved
    if None not in (problem.m, problem.n, problem.k) and intensity < least_ridge(dtype):
        return f"Bound   device memory: {intensity:.3g} FLOP for a byte that has to move, too few for any known card"
    if counts.bound == "FMA":
        share = f"{counts.ffma_share:.0%} of the main loop's FMAs, reads and copies"
        return f"Bound   {dtype.arithmetic.instruction} issue: FMAs are {share}"
    return (
        f"Bound   shared memory: {work.shares * work.wavefronts:g} cycles of it for each k and warp, "
        f"against {work.outputs * CYCLES_PER_WARP_FMA[dtype]:g} that the FMAs take"
    )


def _plural(count: float, noun: str) -> str:
    return f"{count:g} {noun}" if count == 1 else f"{count:g} {noun}s"
