"""The arguments that a launch passes to a kernel, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.tensor_map import MAP_ALIGNMENT, TiledTensor
from gemmgen.problem.gemm import Case
from gemmgen.problem.sizes import POINTER_BYTES
from gemmgen.support.errors import require


@dataclass(frozen=True)
class Argument:
    """An argument by value: p(ointer), i(nteger), f(loating-point number), s(truct) or (tensor) m(ap), whose first 8
    bytes are a pointer in the emulator.

    alignment   alignment in bytes: CUDA puts each argument at a multiple of it
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
        """Return `value` as an argument of the C type `ctype`."""
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
    """The arguments packed one behind the other, as a kernel takes them."""
    data = b""
    for argument in arguments:
        data = data.ljust(-(-len(data) // argument.alignment) * argument.alignment, b"\0") + argument.data
    return data


@dataclass(frozen=True)
class Slot:
    """The part of a parameter's argument that all launches of one case share; only the address is missing.

    name     the operand, or part of the workspace, whose address is passed; None for a number
    tensor   the contents of a tensor map, for a tensor map
    number   the argument, for a number
    """

    name: str | None
    tensor: TiledTensor | None = None
    number: Argument | None = None

    def argument(self, pointers: Mapping[str, int], encode: Callable[[TiledTensor, int], bytes]) -> Argument:
        """The argument for operands at `pointers`, by name. `encode` turns a tensor map and an address into bytes."""
        if self.name is None:
            assert self.number is not None
            return self.number
        kind, alignment = ("p", POINTER_BYTES) if self.tensor is None else ("m", MAP_ALIGNMENT)
        if self.tensor is not None and self.tensor.anywhere:
            kind = "s"  # no address is in it
        return Argument(kind, self.located(int(pointers[self.name]), encode), alignment)

    def located(self, address: int, encode: Callable[[TiledTensor, int], bytes]) -> bytes:
        """The argument's bytes for an operand at `address`."""
        if self.tensor is None:
            return POINTER.pack(address)
        return encode(self.tensor, 0 if self.tensor.anywhere else address)


def slots_of(contract: Contract, case: Case) -> tuple[Slot, ...]:
    """The slots of a launch of `case`, in the order of the parameters."""
    maps = {one.parameter: one for one in contract.launch.maps}

    def slot(parameter: Parameter) -> Slot:
        if parameter.is_map:
            tensor = maps[parameter.name]
            prepare = contract.launch.prepared(tensor.operand)
            if prepare is not None:
                return Slot(prepare.part, tensor.of(case, prepare.matrix(case)))
            return Slot(tensor.operand, tensor.of(case))
        if parameter.is_pointer:
            return Slot(parameter.name)
        return Slot(None, number=Argument.scalar(parameter.ctype, case.values[parameter.name]))

    return tuple(slot(parameter) for parameter in contract.parameters)


def arguments_of(
    contract: Contract, case: Case, pointers: Mapping[str, int], encode: Callable[[TiledTensor, int], bytes]
) -> tuple[Argument, ...]:
    """Return the arguments of a launch of `case`; `pointers` maps names of operands and workspace parts to
    addresses."""
    return tuple(slot.argument(pointers, encode) for slot in slots_of(contract, case))
