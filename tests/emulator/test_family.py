"""Every kernel family computes every problem it accepts: property tests of rendered kernels, executed for real."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from gemmgen.families import BATCHED, NAIVE, SIMT, SKINNY, THREAD_TILE, Config, Family
from gemmgen.families.naive.family import NaiveConfig
from gemmgen.families.thread_tile.family import ThreadTileConfig
from gemmgen.problem.device import ARCHS
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import full_name
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.verification.checks import check
from gemmgen.verification.determinism import RUNS
from gemmgen.verification.situation import FAR_SIZES, Situation
from gemmgen.verification.verifier import THOROUGH, verify

EXAMPLES = 16  # situations a kernel: more than 2,000 in `make soak`, of these a seventh in `make test`
SMALL = 96  # sizes whose launches are all watched: a kernel that meets no others is compiled once
EVERY_SIZE = 4  # of so many kernels one meets all sizes, and runs in several schedules,
EVERY = 12  # and one is THOROUGH, with sizes beyond 16 bits; in `make soak` each is
LIMITS = ARCHS["sm_90"].limits
LAYOUTS = ("rr", "rc", "cr", "cc")

Kernel = tuple[Problem, Family, Config]


def schedules() -> Iterator[Kernel]:
    """Every schedule, loop order and layout, all sizes at run time."""
    for layout in LAYOUTS:
        problem = Problem(None, None, None, layout=Layout.parse(layout))
        base = SIMT.default(problem).with_values(BM=32, BN=64, TM=4, TN=4, WM=16, WN=32)
        yield problem, NAIVE, NaiveConfig(BM=8, BN=8)
        yield problem, THREAD_TILE, ThreadTileConfig(BM=16, BN=32)
        yield problem, SIMT, base.with_values(STAGES=1)
        yield problem, SIMT, base.with_values(STAGES=2)
        yield problem, SIMT, base.with_values(STAGES=3, ASYNC=1)
        yield problem, SIMT, base.with_values(STAGES=1, OUTER=0, WM=0, WN=0)


def skinny() -> Iterator[Kernel]:
    """Both ways to stream, M or N small, with and without split, ragged and tiny sizes, a chunk or several."""
    for layout in LAYOUTS:
        order = Layout.parse(layout)
        small = {"S": 4, "WARPS": 2, "BK": 128, "UNROLL": 1}
        for problem, changes in (
            (Problem(None, None, None, layout=order), {**small, "SPLIT": 3}),
            (Problem(5, 132, None, layout=order, ld_align=4), {**small, "T": 8}),
            (Problem(None, 3, 515, layout=order), {**small, "S": 1, "SPLIT": 2}),
            (Problem(100, 6, 1000, layout=order), {**small, "S": 8, "VEC": 2, "SPLIT": 8}),
        ):
            yield problem, SKINNY, SKINNY.default(problem).with_values(**changes)
    for problem, changes in (  # lanes at different depths; the small operand straight from global memory
        (Problem(1, None, None), {"S": 1, "LANES": 2}),
        (Problem(5, 132, None, layout=Layout("c", "r"), ld_align=4), {"S": 8, "T": 8, "LANES": 4, "SPLIT": 2}),
        (Problem(None, 3, 515, layout=Layout("c", "c")), {"S": 2, "T": 2, "LANES": 16, "VEC": 2, "SPLIT": 3}),
        (Problem(1, None, None), {"S": 1, "LANES": 4, "BK": 0, "UNROLL": 2}),
        (Problem(3, None, None, layout=Layout("c", "r"), ld_align=2), {"S": 2, "LANES": 8, "BK": 0, "SPLIT": 2}),
        (Problem(None, 3, None, ld_align=4), {"S": 2, "BK": 0, "UNROLL": 2}),
        (Problem(3, None, None, layout=Layout("r", "c"), ld_align=2), {"S": 2, "BK": 0, "SPLIT": 3}),
        (Problem(5, 70, 515, layout=Layout("c", "c"), lda=6, ldb=516), {"S": 2, "BK": 0}),
        (Problem(3, None, None, layout=Layout("r", "c"), ld_align=2), {"S": 2, "SPLIT": 3, "PDL": 1}),
    ):
        yield problem, SKINNY, SKINNY.default(problem).with_values(**{**small, **changes})


def partial_vectors() -> Iterator[Kernel]:
    """Aligned lines that are no whole number of vectors: the edge is read and written float by float."""
    for layout in LAYOUTS:
        problem = Problem(67, 69, 35, layout=Layout.parse(layout), lda=72, ldb=72, ldc=72)
        base = SIMT.default(problem).with_values(BM=32, BN=64, TM=4, TN=4, WM=16, WN=32)
        for changes in ({"STAGES": 2}, {"STAGES": 4, "ASYNC": 1}):
            yield problem, SIMT, base.with_values(**changes)


def doubles() -> Iterator[Kernel]:
    """f64 in every layout, each with another schedule; whole and partial vectors of two."""
    changes = ({"STAGES": 1}, {"STAGES": 2}, {"STAGES": 3, "ASYNC": 1}, {"STAGES": 1, "OUTER": 0, "WM": 0, "WN": 0})
    for layout, change in zip(LAYOUTS, changes, strict=True):
        problem = Problem(None, None, None, dtype=DType.F64, layout=Layout.parse(layout), ld_align=2)
        yield (
            problem,
            SIMT,
            SIMT.default(problem).with_values(**{"BM": 32, "BN": 64, "TM": 4, "TN": 4, "WM": 16, "WN": 32, **change}),
        )
    yield Problem(67, 69, 35, dtype=DType.F64, layout=Layout("r", "c")), NAIVE, NaiveConfig(BM=8, BN=8)


def ahead() -> Iterator[Kernel]:
    """Fragments that are prefetched, in both element types, with and without batch and split K, sliced K and not."""
    ring = {"BM": 32, "BN": 64, "TM": 4, "TN": 4, "WM": 16, "WN": 32, "ASYNC": 1, "STAGES": 2, "K_UNROLL": 2}
    sliced = {**ring, "BK": 32, "STAGES": 3}
    for dtype in (DType.F32, DType.F64):
        for layout, batch, splits, slices in zip(LAYOUTS, (1, None, 1, None), (1, 1, 3, 2), (2, 4, 2, 4), strict=True):
            problem = Problem(None, None, None, dtype=dtype, layout=Layout.parse(layout), ld_align=2, batch=batch)
            yield problem, SIMT, SIMT.default(problem).with_values(**ring, SPLIT=splits)
            looped = {"FIXUP_UNROLL": int(splits == 1)}
            yield problem, SIMT, SIMT.default(problem).with_values(**sliced, **looped, SLICES=slices, SPLIT=splits)


def empty_parts() -> Iterator[Kernel]:
    """Split K of fixed, whole steps, of which a last block of a tile has none: no read of it is checked."""
    ring = {"STAGES": 3, "ASYNC": 1}
    for changes in ({"STAGES": 1}, {"STAGES": 2}, ring, {**ring, "K_UNROLL": 4}, {**ring, "K_UNROLL": 4, "SLICES": 2}):
        problem = Problem(64, 64, 64)
        base = SIMT.default(problem).with_values(BM=32, BN=64, BK=16, TM=4, TN=4, WM=16, WN=32, SPLIT=3)
        yield problem, SIMT, base.with_values(**changes)


def streams() -> Iterator[Kernel]:
    """Blocks that share the last tiles, in every layout and schedule: one, a few, and more than there are steps."""
    small = {"BM": 32, "BN": 64, "TM": 4, "TN": 4, "WM": 16, "WN": 32}
    ring = {**small, "ASYNC": 1, "STAGES": 3}
    schedules = (
        {**small, "STAGES": 1},
        {**small, "STAGES": 2},
        ring,
        {**ring, "STAGES": 2, "K_UNROLL": 2},
        {**small, "STAGES": 1, "OUTER": 0, "WM": 0, "WN": 0},
        {**ring, "BK": 16, "STAGES": 4, "K_UNROLL": 4},
    )
    for number, changes in enumerate(schedules):
        for dtype, blocks in zip((DType.F32, DType.F64), ((3, 64), (5, 1), (2, 7))[number % 3], strict=True):
            layout = Layout.parse(LAYOUTS[(number + blocks) % 4])
            problem = Problem(None, None, None, layout=layout, dtype=dtype, ld_align=1 + number % 2)
            yield problem, SIMT, SIMT.default(problem).with_values(**changes, STREAM=blocks)
    for shape in ((64, 192, 512), (70, 100, None)):  # nothing at an edge; tiles that move
        yield Problem(*shape), SIMT, SIMT.default(Problem(*shape)).with_values(**ring, K_UNROLL=2, STREAM=4, PDL=1)


def ordered() -> Iterator[Kernel]:
    """FMAs and reads in other orders, along rows and along columns; tiles of 16 rows or columns."""
    low = {"BM": 16, "BN": 64, "BK": 16, "TM": 4, "TN": 8, "WM": 16, "WN": 64, "ASYNC": 1, "STAGES": 2, "K_UNROLL": 4}
    narrow = {**low, "BM": 64, "BN": 16, "TM": 8, "TN": 4, "WM": 64, "WN": 16}
    for order, changes in ((4, low), (7, narrow)):
        problem = Problem(None, None, None, layout=Layout.parse(LAYOUTS[order % 4]))
        yield problem, SIMT, SIMT.default(problem).with_values(**changes, FMA_ORDER=order)


def by_turns() -> Iterator[Kernel]:
    """Values of a turn's depths read at once, from lines along k; rows or columns that come early."""
    ring = {"BM": 32, "BN": 64, "TM": 4, "TN": 4, "WM": 16, "WN": 32, "ASYNC": 1, "STAGES": 2}
    four, two = {**ring, "BK": 16, "K_UNROLL": 4, "VEC": 4, "PAD": 4}, {**ring, "K_UNROLL": 2, "VEC": 2, "PAD": 2}
    for layout, changes in (
        ("rr", {**four, "TA": 0}),
        ("rc", {**four, "TB": 0, "STAGES": 3, "HOIST": 1, "SPLIT": 2, "COPY_THREADS": 16}),
        ("cc", {**four, "TB": 0, "SLICES": 2, "HOIST": 2, "FMA_ORDER": 2}),
        ("rr", {**four, "HOIST": 3, "FMA_ORDER": 3, "STREAM": 5}),
    ):
        problem = Problem(None, None, None, layout=Layout.parse(layout))
        yield problem, SIMT, SIMT.default(problem).with_values(**changes)
    for (
        dtype,
        layout,
        k,
        changes,
    ) in (  # vectors along k, whose lines all steps but the first leave behind K's remainder
        (DType.F32, "rr", 68, {**four, "TA": 0, "HOIST": 2}),
        (DType.F32, "rc", 50, {**four, "TA": 0, "HOIST": 1, "FMA_ORDER": 7}),
        (DType.F64, "cc", 35, {**two, "TB": 0, "HOIST": 1}),
        (DType.F64, "rc", 64, {**two, "TA": 0}),
    ):
        problem = Problem(None, None, k, dtype=dtype, layout=Layout.parse(layout), ld_align=4)
        yield problem, SIMT, SIMT.default(problem).with_values(**changes)


def moved() -> Iterator[Kernel]:
    """Tiles that would cross an edge of C and move back, in both directions, in one and in none; batches of them."""
    small = {"BM": 32, "BN": 64, "TM": 4, "TN": 4, "WM": 16, "WN": 32}
    ring = {**small, "ASYNC": 1, "STAGES": 3}
    ahead = {**ring, "BK": 16, "STAGES": 2, "K_UNROLL": 2}
    schedules = ({**small, "STAGES": 1}, {**small, "STAGES": 2}, ring, {**ahead, "SLICES": 2})
    for number, (layout, changes) in enumerate(zip(LAYOUTS, schedules, strict=True)):
        for dtype, m, n, batch in (  # columns in whole vectors of four and two, and one by one
            (DType.F32, 68, 100, 1),
            (DType.F32, 33, 131, 1),
            (DType.F64, 71, 130 + number % 2, 3),
        ):
            problem = Problem(m, n, 35, layout=Layout.parse(layout), dtype=dtype, batch=batch)
            yield problem, SIMT, SIMT.default(problem).with_values(**(changes if m == 68 else ahead))
    for problem, splits in (
        (Problem(70, 70, 45, ldc=72), 1),  # C's vectors would not start where a tile that moved right does
        (Problem(70, 70, 45, ldc=72, layout=Layout("c", "c"), lda=72), 2),  # nor A's where one that moved down does
        (Problem(100, 200, None, layout=Layout("r", "c"), batch=None, pointers=True), 2),
        (Problem(None, 100, 21, dtype=DType.F64, layout=Layout("c", "c")), 1),
    ):
        yield problem, SIMT, SIMT.default(problem).with_values(**ahead, SPLIT=splits)


def batches() -> Iterator[Kernel]:
    """Strides that are dense, padded, left to run time and 0; groups of products that the batch does not fill."""
    for layout in LAYOUTS:
        free = Problem(None, None, None, layout=Layout.parse(layout), batch=None)
        yield free, SIMT, SIMT.default(free).with_values(BM=32, BN=64, TM=4, TN=4, WM=16, WN=32)
        small = Problem(16, 12, 8, layout=Layout.parse(layout), batch=None, stride_a=0, stride_b=None, stride_c=200)
        yield small, BATCHED, BATCHED.default(small).with_values(MB=2, BATCH_TILES=4, STAGES=2, ASYNC=1)
        odd = Problem(5, 7, 9, layout=Layout.parse(layout), batch=11, lda=12, ldb=12, dtype=DType.F64)
        yield odd, BATCHED, BATCHED.default(odd).with_values(MB=4, BATCH_TILES=2)
    yield Problem(33, 17, 20, batch=6, stride_b=0), NAIVE, NaiveConfig(BM=8, BN=8)
    large = Problem(128, 64, 64, layout=Layout("c", "r"), batch=300)  # more than is run whole
    yield large, BATCHED, BATCHED.default(large).with_values(TM=8, TN=8, MB=1, PDL=1)


def pointers() -> Iterator[Kernel]:
    """Batches whose matrices lie anywhere: in every layout, aligned to less than an access, shared or not, f64."""
    for layout, align in zip(LAYOUTS, (16, 8, 4, 16), strict=True):
        order = Layout.parse(layout)
        free = Problem(None, None, None, layout=order, batch=None, pointers=True, pointer_align=align)
        yield free, SIMT, SIMT.default(free).with_values(BM=32, BN=64, TM=4, TN=4, WM=16, WN=32, SPLIT=2)
        small = Problem(16, 12, 8, layout=order, batch=None, pointers=True, pointer_align=align)
        yield small, BATCHED, BATCHED.default(small).with_values(MB=2, BATCH_TILES=4, STAGES=2, ASYNC=1)
    odd = Problem(5, 7, 9, batch=11, lda=12, dtype=DType.F64, pointers=True)
    yield odd, BATCHED, BATCHED.default(odd).with_values(MB=4, BATCH_TILES=2)
    yield Problem(33, 17, None, batch=6, pointers=True), NAIVE, NaiveConfig(BM=8, BN=8)
    large = Problem(128, 64, 64, layout=Layout("c", "r"), batch=300, pointers=True)  # more than is run whole
    yield large, BATCHED, BATCHED.default(large).with_values(TM=8, TN=8, MB=1)


ALL = (
    *schedules(),
    *partial_vectors(),
    *skinny(),
    *doubles(),
    *ahead(),
    *empty_parts(),
    *streams(),
    *ordered(),
    *by_turns(),
    *moved(),
    *batches(),
    *pointers(),
)
# One of seven, which is no cycle of layouts or schedules above; `make soak` runs all.
KERNELS = ALL[::7]


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor() as executor:
        yield executor


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: full_name(*kernel))
def test_kernel_computes_every_situation(kernel, emulator):
    number = KERNELS.index(kernel)
    examples = THOROUGH if number % EVERY == EVERY_SIZE else EXAMPLES
    computes(
        emulator, render(*kernel), examples, **({"runs": 1, "largest": SMALL} if number % EVERY_SIZE else {"runs": 4})
    )


@pytest.mark.soak
@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: full_name(*kernel))
def test_kernel_computes_far_situations(kernel, emulator):
    computes(emulator, render(*kernel), THOROUGH)


def computes(emulator, source, examples, runs=RUNS, largest=FAR_SIZES[-1]):
    verdict = verify(emulator, source, examples=examples, seed=1, runs=runs, largest=largest)
    assert verdict.passed, f"{verdict.situation}: {verdict.failure}"
    rounds_as_expected = (
        source.problem.types.accumulator == DType.F64 and source.problem.k == 1
    )  # as the reference does
    assert rounds_as_expected or verdict.worst > 0
    assert verdict.worst <= 1
    assert verdict.deterministic or runs == 1


READ_AHEAD = {"STAGES": 2, "ASYNC": 1, "K_UNROLL": 2}


@pytest.mark.parametrize(
    ("changes", "blocks"),
    [
        ({"STAGES": 2}, 3),
        (READ_AHEAD, 64),
        pytest.param({"STAGES": 3, "ASYNC": 1}, 64, marks=pytest.mark.soak),
        pytest.param(READ_AHEAD, 3, marks=pytest.mark.soak),
    ],
)
def test_few_and_many_steps_are_shared(changes, blocks, emulator):
    """No whole wave and several, a block with parts of several tiles and blocks without any; C is beta * C at K = 0."""
    kernel = emulator.load(render(*streaming(blocks, **changes)))
    for number, (shape, k) in enumerate(product(((1, 1), (33, 65), (100, 200), (300, 500)), (0, 1, 8, 9, 200))):
        situation = Situation(kernel.source.problem.case(*shape, k, beta=-0.5), "exact", 3 * (number % 2))
        assert check(kernel, situation) == 0, situation
    kernel.close()


def streaming(blocks: int, **changes: int) -> Kernel:
    problem = Problem(None, None, None)
    tiles = {"BM": 32, "BN": 64, "TM": 4, "TN": 4, "WM": 16, "WN": 32}
    return problem, SIMT, SIMT.default(problem).with_values(**tiles, **changes, STREAM=blocks)


def test_kernels_here_move_tiles_in_every_way():
    sources = [render(*kernel) for kernel in moved()]
    ways = [(source.problem.types.accumulator, str(source.problem.layout), moves(source)) for source in sources]
    both = {way[:2] for way in ways if way[2] == "mn"}
    assert both == {(dtype, layout) for dtype in (DType.F32, DType.F64) for layout in LAYOUTS}
    assert {way[2] for way in ways} == {"mn", "m", "n", ""}


def moves(source):
    """In which directions tiles of the kernel move: "mn", "m", "n" or ""."""
    return "".join(mn for mn in "mn" if f"min(nominal.{mn}" in source.text)


def test_the_suite_runs_hundreds_of_examples_and_soak_thousands():
    assert len(KERNELS) * EXAMPLES >= 300 and len(ALL) * EXAMPLES >= 2000
