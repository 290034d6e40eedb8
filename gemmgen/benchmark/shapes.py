"""The performance suite: its problems by group, and what each of them is to reach.

Any problem belongs to a group, those of the suite and those of a user's own list alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from gemmgen.kernel.model import representative
from gemmgen.problem.device import DEVICES
from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types
from gemmgen.support.errors import require

THIN = 64  # rows or columns of C up to which a product streams its weights
SMALL, MIDDLE = 32, 128  # largest sizes of a batch's products, by what they are to reach
L2_BYTES = DEVICES["H200"].l2_mb * 1e6
LINEAR_LAYER = (1024, 4096, 1024)  # of 1024 rows
LARGE_WEIGHTS = 128e6  # bytes of them, from which on reading them is to be near the card's bandwidth


@dataclass(frozen=True)
class Goal:
    """What one kernel is to reach; None where nothing is asked.

    ratio  the baseline's time over ours
    share  of the card's measured limit
    """

    ratio: float | None = None
    share: float | None = None


@dataclass(frozen=True)
class Group:
    """Problems of one kind.

    title    for a person
    goal     what one of them is to reach
    geomean  what the geometric mean of the ratios is to reach; None where nothing is asked
    """

    name: str
    title: str
    problems: tuple[Problem, ...]
    goal: Callable[[Problem], Goal]
    geomean: float | None = None


def _narrow_group(problem: Problem) -> str:
    """That of a problem whose types are converted: by A's type."""
    if problem.types.accumulator.is_integer:
        return "s8"
    return "bf16 batched" if problem.batched else "f16" if problem.types.a == DType.F16 else "bf16"


def group_of(problem: Problem) -> Group:
    """The one group that `problem` belongs to."""
    case = representative(problem)
    if not problem.epilogue.is_linear:
        return GROUPS["fused"]
    if problem.types.accumulator is DType.F64:
        return GROUPS["f64"]
    if not problem.types.uniform:
        return GROUPS[_narrow_group(problem)]
    if problem.batched:
        return GROUPS["batched"]
    return GROUPS["skinny" if min(case.m, case.n) <= THIN else "large"]


def _narrow_skinny(dtype: DType) -> Iterator[Problem]:
    """M rows against N x K weights of the sizes that language models have."""
    for size, m, layout in product((4096, 8192, 16384), (1, 2, 4, 8), ("rr", "rc")):
        yield Problem(m, size, size, dtype=dtype, layout=Layout.parse(layout))


def _narrow_skinny_goal(problem: Problem) -> Goal:
    case = representative(problem)
    large = max(case.a.least_bytes, case.b.least_bytes) >= LARGE_WEIGHTS
    return Goal(1.2 if case.m == 1 else 1.0, 0.85 if large else None)


def _narrow_batched() -> Iterator[Problem]:
    for size, batch, pointers in product((8, 16, 32), (4096, 65536), (False, True)):
        yield Problem(size, size, size, dtype=DType.BF16, batch=batch, pointers=pointers)


def _integers() -> Iterator[Problem]:
    types = Types(DType.S8, DType.S8, DType.S32)
    for size, m in product((4096, 8192, 16384), (1, 2, 4)):
        yield Problem(m, size, size, types=types, layout=Layout.parse("rc"))


def _integer_goal(problem: Problem) -> Goal:
    return Goal(1.0, _narrow_skinny_goal(problem).share)


def _fused() -> Iterator[Problem]:
    """A linear layer, of which the groups of f32 and bf16 have the product alone; and integers that are scaled."""
    yield Problem(*LINEAR_LAYER, epilogue=parse_epilogue("bias+gelu"))
    for size in (4096, 8192):
        yield Problem(4, size, size, dtype=DType.BF16, layout=Layout.parse("rc"), epilogue=parse_epilogue("bias+gelu"))
    types = Types(DType.S8, DType.S8, DType.BF16)
    for size, m in product((4096, 8192, 16384), (1, 2, 4)):
        yield Problem(m, size, size, types=types, layout=Layout.parse("rc"), epilogue=parse_epilogue("scale_m+scale_n"))


def _fused_goal(problem: Problem) -> Goal:
    thin = min(problem.m or 0, problem.n or 0) <= THIN
    return Goal(1.0, _narrow_skinny_goal(problem).share if thin else None)


def suite() -> tuple[Problem, ...]:
    """Every problem, group after group."""
    return tuple(problem for group in GROUPS.values() for problem in group.problems)


def select(
    problems: Iterable[Problem], groups: Sequence[str] = (), only: Sequence[str] = (), part: tuple[int, int] = (1, 1)
) -> tuple[Problem, ...]:
    """Those of `groups` whose text has one of `only`, and of these part I of N: every N-th, from the I-th on.

    No `groups`, or no `only`, are all. Numbers count whole: 8x8 is no part of 128x8192.
    Raises InvalidInput for a part that is none, and where nothing is left of all parts.
    """
    index, parts = part
    require(1 <= index <= parts, f"part {index} of {parts}: write I/N with I from 1 to N")
    chosen = [one for one in dict.fromkeys(problems) if not only or any(_has(one, text) for text in only)]
    chosen = [one for one in chosen if not groups or group_of(one).name in groups]
    texts = " or ".join(map(repr, only)) or "any text"
    require(bool(chosen), f"no shape of {', '.join(groups) or 'any group'} has {texts} in it")
    return tuple(chosen[index - 1 :: parts])


def _has(problem: Problem, text: str) -> bool:
    return re.search(rf"(?<!\d){re.escape(text)}(?!\d)", str(problem)) is not None


def _large() -> Iterator[Problem]:
    sizes = [(size, size, size) for size in (512, 1024, 2048, 4096, 8192)]
    sizes += [(4096, 512, 4096), (512, 4096, 4096), (1000, 1000, 1000), (4095, 4097, 1023), (127, 4000, 3999)]
    yield from (Problem(*size) for size in (*sizes, LINEAR_LAYER))
    for size, layout in product((1024, 4096), ("rc", "cr", "cc")):
        yield Problem(size, size, size, layout=Layout.parse(layout))


def _large_goal(problem: Problem) -> Goal:
    return Goal(1.0, 0.82 if problem.shape in ("4096x4096x4096", "8192x8192x8192") else None)


def _skinny() -> Iterator[Problem]:
    """M rows against K x N weights, then the mirror: N columns against M x K weights."""
    usual = product((1, 2, 4, 8, 16, 32, 64), ((1024, 1024), (4096, 4096), (8192, 8192)))
    more = product((1, 8, 16), ((16384, 16384), (16384, 1024), (1024, 16384)))
    for (m, (n, k)), layout in product([*usual, *more], ("rr", "rc")):
        yield Problem(m, n, k, layout=Layout.parse(layout))
    for n, layout in product((1, 8, 16, 64), ("rr", "cr")):
        yield Problem(8192, n, 8192, layout=Layout.parse(layout))
    for (n, size), layout in product(((2, 1024), (4, 4096), (32, 16384)), ("rr", "cr")):
        yield Problem(size, n, size, layout=Layout.parse(layout))


def _skinny_goal(problem: Problem) -> Goal:
    case = representative(problem)
    weights = max(case.a.least_bytes, case.b.least_bytes)
    return Goal(1.5 if min(case.m, case.n) in (8, 16) else 1.0, 0.85 if weights > L2_BYTES else None)


def _batched() -> Iterator[Problem]:
    cubes = (
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
    yield from (Problem(size, size, size, batch=batch) for size, batch in cubes)
    yield Problem(32, 32, 32, batch=4096, layout=Layout.parse("rc"))
    yield from (Problem(*size, batch=4096) for size in ((16, 32, 8), (32, 8, 32), (24, 24, 24), (64, 32, 128)))
    by_pointers = ((16, 4096), (32, 4096), (64, 2048), (128, 512))  # each also stands above, with strides
    yield from (Problem(size, size, size, batch=batch, pointers=True) for size, batch in by_pointers)


def _batched_goal(problem: Problem) -> Goal:
    case = representative(problem)
    largest = max(case.m, case.n, case.k)
    return Goal(2.0, 0.85) if largest <= SMALL else Goal(1.2 if largest <= MIDDLE else 1.0)


def _f64() -> Iterator[Problem]:
    sizes = (512, 1000, 1024, 2048, 4096)
    yield from (Problem(size, size, size, dtype=DType.F64) for size in sizes)
    yield Problem(1024, 1024, 1024, dtype=DType.F64, layout=Layout.parse("cr"))
    yield from (Problem(size, size, size, dtype=DType.F64, batch=batch) for size, batch in ((16, 4096), (64, 2048)))


GROUPS = {
    group.name: group
    for group in (
        Group("large", "f32, large", tuple(_large()), _large_goal, geomean=1.05),
        Group("skinny", f"f32, up to {THIN} rows or columns of C", tuple(_skinny()), _skinny_goal),
        Group("batched", "f32, batched", tuple(_batched()), _batched_goal),
        Group("bf16", "bf16, up to 8 rows of C", tuple(_narrow_skinny(DType.BF16)), _narrow_skinny_goal),
        Group("f16", "f16, up to 8 rows of C", tuple(_narrow_skinny(DType.F16)), _narrow_skinny_goal),
        Group("bf16 batched", "bf16, batched", tuple(_narrow_batched()), lambda problem: Goal(2.0)),
        Group("s8", "s8 to s32, up to 4 rows of C", tuple(_integers()), _integer_goal),
        Group("fused", "with an epilogue", tuple(_fused()), _fused_goal),
        Group("f64", "f64 on CUDA cores (cuBLASLt may take tensor cores)", tuple(_f64()), lambda problem: Goal()),
    )
}
