"""What a launch passes to a kernel, in bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case
from gemmgen.problem.sizes import POINTER_BYTES
from gemmgen.support.errors import require


@dataclass(frozen=True)
class Argument:
    """What a launch passes for a parameter, by value: a p(ointer), i(nteger), f(loating-point number) or s(truct).

    alignment   in bytes: CUDA puts each argument at a multiple of it
    """

    kind: str
    data: bytes
    alignment: int

    def __post_init__(self) -> None:
        require(self.kind in tuple("pifs"), f"an argument of unknown kind {self.kind!r}")
        require(len(self.data) % self.alignment == 0, f"{len(self.data)} bytes are no multiple of {self.alignment}")

    @classmethod
    def pointer(cls, address: int) -> Argument:
        return cls("p", struct.pack("<Q", address), POINTER_BYTES)

    @classmethod
    def scalar(cls, ctype: str, value: float) -> Argument:
        """`value` as C's type `ctype`."""
        code = SCALARS[ctype]
        data = struct.pack(f"<{code}", value if code in "fd" else int(value))
        return cls("f" if code in "fd" else "i", data, len(data))


SCALARS = {  # C's types by their letter in `struct`, which is numpy's as well
    "signed char": "b",
    "unsigned char": "B",
    "short": "h",
    "unsigned short": "H",
    "int": "i",
    "unsigned": "I",
    "long long": "q",
    "unsigned long long": "Q",
    "float": "f",
    "double": "d",
}


def packed(arguments: Sequence[Argument]) -> bytes:
    """All of them, as a kernel takes them: one behind the other."""
    data = b""
    for argument in arguments:
        data = data.ljust(-(-len(data) // argument.alignment) * argument.alignment, b"\0") + argument.data
    return data


def arguments_of(source: KernelSource, case: Case, pointers: Mapping[str, int]) -> tuple[Argument, ...]:
    """What a launch of `case` passes, in order; `pointers` by the operands' names."""
    values = source.arguments(case, dict(pointers))
    return tuple(
        Argument.pointer(int(value)) if parameter.is_pointer else Argument.scalar(parameter.ctype, value)
        for parameter, value in zip(source.parameters, values, strict=True)
    )
