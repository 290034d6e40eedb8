"""The shapes that an exported self-test runs: the kernel's own and, for run-time sizes, those that often break
kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gemmgen.kernel.contract import Contract
from gemmgen.problem.gemm import Case, Problem

BATCH = 5  # products, where their number is free
PADDING = 3  # in units of ld_align: odd, so that padded lines lose every alignment beyond the promised one


def selftest_shapes(contract: Contract) -> tuple[Case, ...]:
    """The shapes without repetition. Only sizes and leading dimensions differ; the self-test chooses data and
    scalars."""
    return tuple(dict.fromkeys(_shapes(contract)))


def _shapes(contract: Contract) -> Iterator[Case]:
    tile = dict(contract.launch.grid)
    tile_m, tile_n = tile.get("M", 1), tile.get("N", 1)
    for m, n, k in (
        (1, 1, 1),
        (2 * tile_m, 2 * tile_n, 64),  # whole tiles
        (tile_m + 1, 2 * tile_n - 1, 37),  # just past a tile, just short of one
        (3, tile_n + 5, 257),
        (9 * tile_m + 2, 3, 5),  # rows enough for a second raster group
        (tile_m, tile_n, 0),  # beta * C
    ):
        dense = _case(contract.problem, m, n, k)
        yield dense
        yield _padded(dense)


def _case(problem: Problem, m: int, n: int, k: int) -> Case:
    """The case with m, n and k where the problem leaves them to run time."""
    case = problem.case(
        m=m if problem.m is None else None,
        n=n if problem.n is None else None,
        k=k if problem.k is None else None,
        batch=BATCH if problem.batch is None else None,
    )
    return _behind_pointers(case) if problem.pointers else case


def _padded(dense: Case) -> Case:
    """`dense` with longer lines, if their distance is a run-time parameter. Products share B."""
    problem = dense.problem
    extra = PADDING * problem.ld_align

    def longer(name: str, ld: int) -> int | None:
        return ld + extra if name in problem.runtime_names else None

    padded = problem.case(
        m=dense.m,
        n=dense.n,
        k=dense.k,
        lda=longer("lda", dense.lda),
        ldb=longer("ldb", dense.ldb),
        ldc=longer("ldc", dense.ldc),
        ld_residual=longer("ld_residual", dense.ld_residual),
        batch=dense.batch,
    )
    if problem.pointers:
        return replace(_behind_pointers(padded), stride_b=0)
    return problem.case(**_all_but_scalars(padded), **_strides(padded))


def _strides(case: Case) -> dict[str, int]:
    """Larger strides for matrices, if they are run-time parameters; all products share B."""
    extra = PADDING * case.problem.ld_align
    strides = {name: getattr(case, name) + extra for name in case.problem.stride_sizes}
    strides["stride_b"] = 0
    return {name: stride for name, stride in strides.items() if name in case.problem.runtime_names}


def _behind_pointers(case: Case) -> Case:
    """`case` with strides for matrices that pointers name: gaps between them, and each aligned as promised."""
    problem = case.problem
    units = (problem.align_of(name) // problem.dtype_of(name).size for name in "ABC")
    a, b, c = (-(-(matrix.span + PADDING) // unit) * unit for matrix, unit in zip(case.matrices, units, strict=True))
    return replace(case, stride_a=a, stride_b=b, stride_c=c)


def _all_but_scalars(case: Case) -> dict[str, int]:
    names = ("m", "n", "k", *case.problem.line_sizes, "batch")
    return {name: getattr(case, name) for name in names}
