"""Loaded kernels by their identities, as torch.compile finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from gemmgen.arrays.binding import further_operands
from gemmgen.kernel.source import KernelSource

# Kernels and products of libraries by their identities: the last that was loaded, until it is closed.
LOADED: WeakValueDictionary[str, Any] = WeakValueDictionary()


def forget(identity: str, closed: Any) -> None:
    """Remove a closed kernel or product from LOADED."""
    if LOADED.get(identity) is closed:
        del LOADED[identity]


@dataclass(frozen=True)
class Traced:
    """The plain values that torch.compile reads of a loaded kernel while it traces a call.

    identity  a key that is equal for kernels that compute the same in the same way, on the same kind of device
    operands  names of the operands beside A, B and C, in order
    reads     whether all operands are read: none is written
    scaled    whether the epilogue has alpha
    products  number of products of A with a matrix of B, for one C
    """

    identity: str
    operands: tuple[str, ...]
    reads: bool
    scaled: bool
    products: int

    @classmethod
    def of(cls, source: KernelSource, identity: str) -> Traced:
        epilogue = source.problem.epilogue
        names = further_operands(source.problem)
        return cls(identity, names, not epilogue.outputs, "alpha" in epilogue.scalars, epilogue.products)
