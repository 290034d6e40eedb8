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
        return cls("p", POINTER.pack(address), POINTER_BYTES)

    @classmethod
    def scalar(cls, ctype: str, value: float) -> Argument:
        """`value` as C's type `ctype`."""
        code = SCALARS[ctype]
        data = struct.pack(f"<{code}", value if code in "fd" else int(value))
        return cls("f" if code in "fd" else "i", data, len(data))


POINTER = struct.Struct("<Q")
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


@dataclass(frozen=True)
class Slot:
    """What launches of one case pass for a parameter, the address apart.

    name     the operand, or part of the workspace, whose address it is; None of a number
    tensor   what its map says, of a tensor map
    number   the argument, of a number
    """

    name: str | None
    tensor: TiledTensor | None = None
    number: Argument | None = None

    def argument(self, pointers: Mapping[str, int], encode: Callable[[TiledTensor, int], bytes]) -> Argument:
        """For operands at `pointers`, by name. `encode` makes a tensor map's bytes of its numbers and the address."""
        if self.name is None:
            assert self.number is not None
            return self.number
        kind, alignment = ("p", POINTER_BYTES) if self.tensor is None else ("m", MAP_ALIGNMENT)
        if self.tensor is not None and self.tensor.anywhere:
            kind = "s"  # no address is in it
        return Argument(kind, self.located(int(pointers[self.name]), encode), alignment)

    def located(self, address: int, encode: Callable[[TiledTensor, int], bytes]) -> bytes:
        """The argument's bytes where its operand is at `address`."""
        if self.tensor is None:
            return POINTER.pack(address)
        return encode(self.tensor, 0 if self.tensor.anywhere else address)


def slots_of(source: KernelSource, case: Case) -> tuple[Slot, ...]:
    """What a launch of `case` passes, in order."""
    maps = {one.parameter: one for one in source.launch.maps}

    def slot(parameter: Parameter) -> Slot:
        if parameter.is_map:
            tensor = maps[parameter.name]
            prepare = source.launch.prepared(tensor.operand)
            if prepare is not None:
                return Slot(prepare.part, tensor.of(case, prepare.matrix(case)))
            return Slot(tensor.operand, tensor.of(case))
        if parameter.is_pointer:
            return Slot(parameter.name)
        return Slot(None, number=Argument.scalar(parameter.ctype, case.values[parameter.name]))

    return tuple(slot(parameter) for parameter in source.parameters)


def arguments_of(
    source: KernelSource, case: Case, pointers: Mapping[str, int], encode: Callable[[TiledTensor, int], bytes]
) -> tuple[Argument, ...]:
    """The arguments of a launch of `case`; `pointers` by the names of operands and parts of the workspace."""
    return tuple(slot.argument(pointers, encode) for slot in slots_of(source, case))
