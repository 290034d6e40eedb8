"""What a launch passes to a kernel, in bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gemmgen.kernel.source import KernelSource, Parameter
from gemmgen.kernel.tensor_map import MAP_ALIGNMENT, TiledTensor
from gemmgen.problem.case import Case
from gemmgen.problem.sizes import POINTER_BYTES
from gemmgen.support.errors import require


@dataclass(frozen=True)
class Argument:
    """What a launch passes for a parameter, by value: a p(ointer), i(nteger), f(loating-point number), s(truct) or
    (tensor) m(ap), whose first 8 bytes are a pointer for the emulator.

    alignment   in bytes: CUDA puts each argument at a multiple of it
    """

    kind: str
    data: bytes
    alignment: int

    def __post_init__(self) -> None:
        require(self.kind in tuple("pifsm"), f"an argument of unknown kind {self.kind!r}")
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


def arguments_of(
    source: KernelSource, case: Case, pointers: Mapping[str, int], encode: Callable[[TiledTensor, int], bytes]
) -> tuple[Argument, ...]:
    """What a launch of `case` passes, in order; `pointers` by the names of operands and parts of the workspace.

    `encode` makes a tensor map's bytes of its numbers and the operand's pointer.
    """
    maps = {one.parameter: one for one in source.launch.maps}

    def argument(parameter: Parameter) -> Argument:
        if parameter.is_map:
            tensor = maps[parameter.name]
            prepare = source.launch.prepared(tensor.operand)
            if prepare is not None:
                told = tensor.of(case, prepare.matrix(case)), int(pointers[prepare.part])
            else:
                told = tensor.of(case), int(pointers[tensor.operand])
            return Argument("m", encode(*told), MAP_ALIGNMENT)
        if parameter.is_pointer:
            return Argument.pointer(int(pointers[parameter.name]))
        return Argument.scalar(parameter.ctype, case.values[parameter.name])

    return tuple(argument(parameter) for parameter in source.parameters)
