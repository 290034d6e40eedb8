"""Sentences of kernel headers that families share: what a block does, what tiling saves, what bounds the time.

They say only what follows from the parameters; measurements live in the JSON beside the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gemmgen.kernel.analysis import CYCLES_PER_WARP_FMA, Traffic, traffic
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.model import representative
from gemmgen.kernel.plan import Plan, Work
from gemmgen.problem.device import least_ridge
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.sizes import ld_of, matrix_of, stride_of
from gemmgen.support.words import plural

ORDER_WORDS = {"r": "row", "c": "column"}


@dataclass(frozen=True)
class MatrixText:
    """A, B or C as header text: each size or leading dimension is a name if it is an argument, else a number."""

    name: str
    rows: str
    cols: str
    order: str
    ld: str
    batch_stride: str | None = None
    like: str = ""  # the matrix whose leading dimension and stride it has, where these are not its own

    @property
    def stride(self) -> str:
        """The leading dimension as text: "lda = 512", or "lda at run time"."""
        name = ld_of(self.like or self.name)
        return f"{name} at run time" if self.ld == name else f"{name} = {self.ld}"

    @property
    def apart(self) -> str | None:
        """The distance between matrices of a batch: "stride_a = 256", "stride_a at run time"; None without a batch."""
        name = stride_of(ld_of(self.like or self.name))
        if self.batch_stride is None or self.batch_stride == "0":
            return self.batch_stride and "the same for all products"
        return f"{name} at run time" if self.batch_stride == name else f"{name} = {self.batch_stride}"


def _extents(problem: Problem, name: str, rows: str, columns: str) -> tuple[str, str]:
    """Rows and columns of an operand, or its pixels and channels if it holds images."""
    conv = problem.inputs.conv
    if conv is None or name != problem.inputs.images:
        return rows, columns
    return f"images x {conv.size[0]} x {conv.size[1]}", str(conv.size[2])


def matrix_texts(problem: Problem) -> tuple[MatrixText, ...]:
    """Return A, B, C and the epilogue's matrices as headers and documents describe them."""
    text = {name: name if size is None else str(size) for name, size in problem.sizes.items()}
    m, n, k = text["M"], text["N"], text["K"]
    of_a = _extents(problem, "A", m, k)
    of_b = _extents(problem, "B", k, problem.matrices[1].extent_text("N", text))
    return (
        MatrixText("A", *of_a, ORDER_WORDS[problem.layout.a], text["lda"], text.get("stride_a")),
        MatrixText("B", *of_b, ORDER_WORDS[problem.layout.b], text["ldb"], text.get("stride_b")),
        *(
            MatrixText(name, m, n, ORDER_WORDS["r"], text[ld], text.get(stride_of(ld)), matrix_of(ld))
            for name, ld in (("C", "ldc"), *((one.name, one.ld) for one in problem.epilogue.operands if one.is_matrix))
        ),
    )


def images_text(problem: Problem) -> str | None:
    """Which pixels C is computed from, in words; None of a product of matrices."""
    conv = problem.inputs.conv
    if conv is None:
        return None
    (p, q), (r, s) = conv.places, conv.taps
    one, other = ("K", "column n of C") if problem.inputs.wgrad else ("row m of C", "K")
    place, tap = f"output pixel (image, p, q) of P x Q = {p} x {q}", f"tap (r, s) of R x S = {r} x {s}"
    return f"{one} is {place}; {other} is (r, s, c): {tap}, channel c"


def images_held(problem: Problem) -> str:
    """How many images A or B holds, and their size: "A holds 2 images of H x W = 5 x 6, M = 2 * P * Q".

    Where M, or K, is no whole number of images, or is known at run time only, the equation is left out.
    """
    inputs, conv = problem.inputs, problem.inputs.conv
    assert conv is not None
    (height, width, _), places = conv.size, problem.sizes[inputs.places]
    count = f"ceil({inputs.places} / {conv.per_image})" if places is None else str(conv.images(places))
    whole = places is not None and places % conv.per_image == 0
    product = f", {inputs.places} = {count} * P * Q" if whole else ""
    return f"{inputs.images} holds {count} images of H x W = {height} x {width}{product}"


def walk_text(problem: Problem) -> str:
    """Padding, stride and dilation of a convolution, in words; "" if all are the default or there is none."""
    walk = problem.inputs.conv.walk if problem.inputs.conv else {}
    sides = {4: " (top, left, bottom, right)"}
    told = ((name, " x ".join(map(str, numbers)), sides.get(len(numbers), "")) for name, numbers in walk.items())
    return ", ".join(f"{name} {numbers}{which}" for name, numbers, which in told)


def block(plan: Plan) -> str:
    """The header line that gives a block's tile and threads."""
    rows, cols = plan.tile
    return f"Block   {rows} x {cols} of C by {plan.launch.threads} threads"


def main_loop(plan: Plan) -> Iterator[str]:
    """Header lines of kernels that multiply from shared memory: a thread's reads, its stages, and what bounds them."""
    counts = traffic(plan)
    yield from _reads(plan, counts)
    yield _stages(plan.work)
    yield _bound(plan, counts)


def promoted_sums(depth: int) -> str:
    """The header line of fp8 kernels that add up sums of `depth` products themselves."""
    return f"Sums    tensor cores add up {depth} products, to 13 bits behind a sum's first; such sums are added in f32"


def shared_tiles(launch: Launch) -> Iterator[str]:
    """Header lines on how blocks share tiles of C, if they do."""
    if launch.splits > 1:
        whose, last = "", "the last to arrive adds up their sums"
        if launch.cluster > 1:
            whose, last = "a cluster's ", "then each adds up all their sums of a part of the tile"
        yield f"Split-K {whose}{launch.splits} blocks compute a tile, each over a part of K; {last}"
    if launch.stream is not None:
        blocks = launch.stream.blocks
        yield f"Stream  stream-K: {blocks} blocks divide the k tiles of the last wave's tiles evenly"


def memory_bound(intensity: float, dtype: DType) -> bool:
    """Whether `intensity` FLOP per byte is too low to reach the peak rate on any known card."""
    return intensity < least_ridge(dtype)


def _reads(plan: Plan, counts: Traffic) -> Iterator[str]:
    work, size = plan.work, plan.problem.types.accumulator.size
    yield (
        f"Thread  {work.outputs} elements of C: for each k {plural(work.outputs, 'FMA')} on "
        f"{plural(work.k_slices * work.read_bytes / size, 'element')} of A and B, read from shared memory by "
        f"{plural(work.k_slices * work.shared_reads, 'load')}"
    )
    read = f"{counts.global_bytes:.4g} bytes of global and {counts.shared_bytes:.4g} of shared memory"
    yield f"Reads   {read} for each FMA; {counts.intensity:.3g} FLOP for a byte of global"


def _stages(work: Work) -> str:
    if work.prefetch == 0:
        return "Stages  none is prefetched: a block waits for each of its loads, and only other blocks hide that"
    return f"Stages  global memory is read {plural(work.prefetch, 'stage')} ahead of its use, while the FMAs run"


def _bound(plan: Plan, counts: Traffic) -> str:
    problem, work, dtype = plan.problem, plan.work, plan.problem.types.accumulator
    case = representative(problem)
    intensity = case.flops / case.bytes_moved
    if None not in (problem.m, problem.n, problem.k) and memory_bound(intensity, dtype):
        return f"Bound   device memory: {intensity:.3g} FLOP for a byte that has to move, too few for any known card"
    if counts.bound == "FMA":
        share = f"{counts.ffma_share:.0%} of the mainloop's FMAs, reads and copies"
        return f"Bound   {dtype.arithmetic.instruction} issue: FMAs are {share}"
    return (
        f"Bound   shared memory: {work.k_slices * work.wavefronts:g} cycles of it for each k and warp, "
        f"against {work.outputs * CYCLES_PER_WARP_FMA[dtype]:g} that the FMAs take"
    )
