"""What callers hand over to a Problem, as the records that it holds; all else raises InvalidInput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from gemmgen.problem.dtype import DType
from gemmgen.problem.inputs import Inputs
from gemmgen.problem.matrix import Layout
from gemmgen.problem.sizes import RUNTIME, Distance, Size
from gemmgen.problem.types import Compute, Types
from gemmgen.support.errors import require, whole

Record = TypeVar("Record", Layout, Compute, Inputs)


def size_given(name: str, value: object) -> Size:
    """A size; None or "?" leaves it to run time."""
    if not isinstance(value, str):
        return None if value is None else whole(name, value)
    require(value == RUNTIME, f'{name} = {value!r} is no whole number, nor None or "{RUNTIME}" for run time')
    return None


def distance_given(name: str, value: object) -> Distance:
    """A leading dimension or stride."""
    if not isinstance(value, str) or value == RUNTIME:
        return size_given(name, value)
    require(value == "dense", f'{name} = {value!r}: known are "dense", None or "{RUNTIME}", and a number of elements')
    return "dense"


def typical_given(sizes: object) -> tuple[tuple[str, int], ...]:
    """Typical sizes by name."""
    named = isinstance(sizes, Mapping | tuple)
    require(named, f"typical = {sizes!r}: write sizes by name, as {{'M': 16}}")
    given: Mapping[str, int] = dict(sizes)  # type: ignore[call-overload]
    return tuple((name, whole(f"typical {name}", size)) for name, size in given.items())


def types_given(types: object, compute: Compute | str | None) -> Types:
    """The element types, multiplied as `compute` says."""
    if isinstance(types, str):
        written = Types.parse(types)
    elif isinstance(types, Types):
        written = types
    else:
        parts = list(types) if isinstance(types, Sequence) else []
        require(len(parts) == 3, f'types = {types!r}: those of A, B and C, for example ("s8", "s8", "s32")')
        a, b, c = map(DType.of, parts)
        written = Types(a, b, c)
    if compute is None:
        return written
    wanted = record_given(Compute, compute)
    own = written.compute if isinstance(types, str) and "_" in types else wanted
    require(own is wanted, f"types = {types!r} compute by {own.label}, and compute = {wanted.label}: give one")
    return replace(written, compute=wanted)


def record_given(kind: type[Record], value: object) -> Record:
    """`value` if it is a `kind`, else the one of that name."""
    return value if isinstance(value, kind) else kind.parse(str(value))
