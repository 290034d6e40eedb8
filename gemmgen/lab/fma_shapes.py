"""The suite's f32 problems for CUDA cores, and their goals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from gemmgen.kernel.model import representative
from gemmgen.lab.group import THIN, Goal, Group, cubes, thin_side, weight_bytes
from gemmgen.problem.device import DEVICES
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout

SMALL, MIDDLE = 32, 128  # largest sizes of a batch's products, by what they are to reach
L2_BYTES = DEVICES["H200"].l2_mb * 1e6
LINEAR_LAYER = (1024, 4096, 1024)  # of 1024 rows


def _large() -> Iterator[Problem]:
    sizes = [*cubes(512, 1024, 2048, 4096, 8192), (4096, 512, 4096), (512, 4096, 4096), *cubes(1000)]
    sizes += [(4095, 4097, 1023), (127, 4000, 3999), LINEAR_LAYER]
    yield from (Problem(*size) for size in sizes)
    for size, layout in product((1024, 4096), ("rc", "cr", "cc")):
        yield Problem(size, size, size, layout=Layout.parse(layout))


def _large_goal(problem: Problem) -> Goal:
    return Goal(1.0, 0.82 if problem.shape in ("4096x4096x4096", "8192x8192x8192") else None)


def _skinny() -> Iterator[Problem]:
    """M rows times K x N weights, then the mirror image: M x K weights times N columns."""
    usual = product((1, 2, 4, 8, 16, 32, 64), ((1024, 1024), (4096, 4096), (8192, 8192)))
    more = product((1, 8, 16), ((16384, 16384), (16384, 1024), (1024, 16384)))
    for (m, (n, k)), layout in product([*usual, *more], ("rr", "rc")):
        yield Problem(m, n, k, layout=Layout.parse(layout))
    for n, layout in product((1, 8, 16, 64), ("rr", "cr")):
        yield Problem(8192, n, 8192, layout=Layout.parse(layout))
    for (n, size), layout in product(((2, 1024), (4, 4096), (32, 16384)), ("rr", "cr")):
        yield Problem(size, n, size, layout=Layout.parse(layout))


def _skinny_goal(problem: Problem) -> Goal:
    ratio = 1.5 if thin_side(problem) in (8, 16) else 1.0
    return Goal(ratio, 0.85 if weight_bytes(problem) > L2_BYTES else None)


def _batched() -> Iterator[Problem]:
    sizes = (
        (8, 4096),
        (8, 65536),
        (16, 4096),
        (16, 65536),
        (32, 64),
        (32, 4096),
        (64, 64),
        (64, 2048),
        (128, 64),
        (128, 512),
    )
    yield from (Problem(size, size, size, batch=batch) for size, batch in sizes)
    yield Problem(32, 32, 32, batch=4096, layout=Layout.parse("rc"))
    yield from (Problem(*size, batch=4096) for size in ((16, 32, 8), (32, 8, 32), (24, 24, 24), (64, 32, 128)))
    by_pointers = ((16, 4096), (32, 4096), (64, 2048), (128, 512))  # each also stands above, with strides
    yield from (Problem(size, size, size, batch=batch, pointers=True) for size, batch in by_pointers)


def _batched_goal(problem: Problem) -> Goal:
    case = representative(problem)
    largest = max(case.m, case.n, case.k)
    return Goal(2.0, 0.85) if largest <= SMALL else Goal(1.2 if largest <= MIDDLE else 1.0)


FMA_GROUPS = (
    Group("large", "f32, large", tuple(_large()), _large_goal, geomean=1.05),
    Group("skinny", f"f32, up to {THIN} rows or columns of C", tuple(_skinny()), _skinny_goal),
    Group("batched", "f32, batched", tuple(_batched()), _batched_goal),
)
