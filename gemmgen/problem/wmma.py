"""WMMA, the portable form of a warp's product: 16 x 16 x 16, by fragments whose elements no manual assigns to lanes.

See NVIDIA's PTX ISA, "Warp-level matrix instructions": wmma.load, wmma.mma and wmma.store, which nvcuda::wmma wraps.
Each half of the columns is summed as one mma.sync of m16n8k16 sums it, as recordings of cards show (Khattak and
Mikaitis, arXiv 2512.07004).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gemmgen.problem.device import WARP
from gemmgen.problem.dtype import WORD, DType
from gemmgen.problem.matrix import Layout
from gemmgen.problem.mma import MMAS, Mma, Sums
from gemmgen.problem.types import Compute, Types

SIDE = 16  # rows, columns and k of a product
ORDERS = {"r": "row", "c": "col"}  # storage orders as PTX calls them


@dataclass(frozen=True)
class Wmma:
    """D = A * B + C of one warp, where C and D are the same fragment.

    half    the mma.sync that sums half of the columns alike; its architectures are those of this
    a, b    storage orders of A and B, "row" or "col", as their fragments were loaded
    copies  registers of a warp that hold an element of A, or of B
    """

    half: Mma
    a: str
    b: str
    copies: int = 1

    @property
    def function(self) -> str:
        """The device function's name, of templates/device/wmma.cu: "wmma_row_col_bf16"."""
        return f"wmma_{self.a}_{self.b}_{self.half.a.label}"

    @property
    def ptx(self) -> str:
        """The instruction; its operands follow. That of f16 names the types of sums alone."""
        label = self.half.a.label
        types = "f32.f32" if self.half.a is DType.F16 else f"f32.{label}.{label}.f32"
        return f"wmma.mma.sync.aligned.{self.a}.{self.b}.m16n16k16.{types}"

    @property
    def registers(self) -> int:
        """Of a fragment of A, or of B."""
        return self.copies * SIDE * SIDE * self.half.a.size // (WORD * WARP)

    @property
    def sums(self) -> int:
        """Registers of an accumulator."""
        return SIDE * SIDE // WARP


def _listed() -> Iterator[Wmma]:
    f16, bf16 = MMAS["mma_m16n8k16_f16"], MMAS["mma_m16n8k16_bf16"]
    turing = Mma(f16.m, f16.n, f16.k, f16.a, f16.b, f16.accumulator, {75: Sums(8, 24), **f16.sums})  # in two steps
    for a in ORDERS.values():
        for b in ORDERS.values():
            yield Wmma(turing, a, b, copies=2)
            yield Wmma(bf16, a, b)


WMMAS = {one.function: one for one in _listed()}


def wmma_for(types: Types, layout: Layout) -> Wmma | None:
    """That for operands of `types`, which lie as `layout` says; None where there is none."""
    if types.compute is not Compute.FMA:
        return None
    wanted = types.a, types.b, ORDERS[layout.a], ORDERS[layout.b]
    return next((one for one in WMMAS.values() if (one.half.a, one.half.b, one.a, one.b) == wanted), None)
