"""wgmma: the tensor-core instructions of a warpgroup, of sm_90a alone.

Shapes, types and fragments are those of NVIDIA's PTX ISA ("Asynchronous warpgroup level matrix instructions"); for how
sums round see `gemmgen.problem.mma`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gemmgen.problem.device import WARP, Arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.mma import MMAS, Sums, factors, multiplied, sum_place, sums_shared, sums_type
from gemmgen.problem.types import Compute, Types
from gemmgen.support.errors import require

M = 64  # rows of every wgmma
WARPGROUP = 128  # threads
K_BYTES = 32  # of every line of A and B
MOST_N = 256
ARCH, ARCH_NUMBER = "sm_90a", 90


@dataclass(frozen=True)
class Wgmma:
    """D = A * B + D of a warpgroup, or A * B. A is 64 x k, B k x n, in shared memory, found by descriptors.

    a, b         element types; f32 stands for tf32, the upper 19 bits of an f32's: the unit cuts off the others
    accumulator  type of D
    trans_a      whether A is MN-major: rows of an equal k side by side. Only 16-bit types can be
    trans_b      likewise of B
    registers    whether A is in registers: four of each thread, those of mma.sync for the 16 rows of its warp
    """

    n: int
    a: DType
    b: DType
    accumulator: DType
    trans_a: bool = False
    trans_b: bool = False
    registers: bool = False

    def __post_init__(self) -> None:
        require((self.a, self.b) in FACTORS, f"no wgmma multiplies {self.a.label} by {self.b.label}")
        known = FACTORS[self.a, self.b]
        sums = ", ".join(one.label for one in known)
        require(self.accumulator in known, f"wgmma sums {multiplied(self.a)} in {sums}, not {self.accumulator.label}")
        require(
            8 <= self.n <= MOST_N and self.n % 8 == 0 and (not self.is_integer or self.n <= 32 or self.n % 16 == 0),
            f"no wgmma has {self.n} columns of {multiplied(self.a)}",
        )
        transposes = self.trans_a or self.trans_b
        require(not (self.trans_a and self.registers), "registers of A are neither K-major nor MN-major")
        require(not transposes or self.a.storage_bits == 16, f"wgmma takes {multiplied(self.a)} K-major alone")

    @property
    def is_integer(self) -> bool:
        return self.accumulator is DType.S32

    @property
    def m(self) -> int:
        return M

    @property
    def k(self) -> int:
        return 8 * K_BYTES // self.a.storage_bits

    @property
    def shape(self) -> str:
        return f"m{M}n{self.n}k{self.k}"

    @property
    def function(self) -> str:
        """The device function's name, of templates/device/wgmma.cu: "wgmma_m64n128k16_bf16"."""
        sums = "_f16" if self.accumulator is DType.F16 else ""
        transposes = ("_trans_a" if self.trans_a else "") + ("_trans_b" if self.trans_b else "")
        return f"wgmma_{self.shape}_{factors(self.a, self.b)}{sums}{'_rs' if self.registers else ''}{transposes}"

    @property
    def ptx(self) -> str:
        """The instruction; its operands follow."""
        types = f"{self.accumulator.label}.{multiplied(self.a)}.{multiplied(self.b)}"
        return f"wgmma.mma_async.sync.aligned.{self.shape}.{types}"

    @property
    def immediates(self) -> tuple[int, ...]:
        """What follows the predicate scale-d: signs of A and B, and for 16-bit types whether they are MN-major."""
        signs = () if self.is_integer else (1, 1)
        majors = (self.trans_b,) if self.registers else (self.trans_a, self.trans_b)
        return (*signs, *map(int, majors)) if self.a.storage_bits == 16 else signs

    @property
    def c_shared(self) -> int:
        return sums_shared(self.accumulator)

    @property
    def c_registers(self) -> int:
        """Of a thread."""
        return M * self.n // (WARPGROUP * self.c_shared)

    @property
    def c_type(self) -> str:
        """The C++ type of a register of D."""
        return sums_type(self.accumulator)

    def c_place(self, thread: int, register: int, part: int = 0) -> tuple[int, int]:
        """(row, column) of an element of D."""
        warp, lane = divmod(thread, WARP)
        block, number = divmod(register * self.c_shared + part, 4)
        row, column = sum_place(lane, number)
        return 16 * warp + row, 8 * block + column

    def why_not(self, arch: Arch) -> str | None:
        """Why kernels for `arch` do not use it; None where they may."""
        return None if arch.number == ARCH_NUMBER else f"{arch.name} has no {self.function}, which is native on {ARCH}"

    def sums_on(self, arch: Arch) -> Sums | None:
        """How it sums, on the one architecture that has it."""
        return self.sums

    @property
    def sums(self) -> Sums | None:
        """None where sums are exact."""
        if self.is_integer:
            return None
        return Sums(self.k, 13, kept=13) if self.a.storage_bits == 8 else Sums(self.k, 25)


_FLOATS = (DType.F32, DType.F16)
FACTORS: dict[tuple[DType, DType], tuple[DType, ...]] = {  # what A and B may be, and D
    (DType.F16, DType.F16): _FLOATS,
    (DType.BF16, DType.BF16): (DType.F32,),
    (DType.F32, DType.F32): (DType.F32,),
    **{(a, b): _FLOATS for a in (DType.E4M3, DType.E5M2) for b in (DType.E4M3, DType.E5M2)},
    **{(a, b): (DType.S32,) for a in (DType.S8, DType.U8) for b in (DType.S8, DType.U8)},
}


@cache
def wgmmas() -> dict[str, Wgmma]:
    """All of them by their functions' names."""
    found = {}
    for (a, b), sums in FACTORS.items():
        majors = (False, True) if a.storage_bits == 16 else (False,)
        integers = DType.S32 in sums
        columns = [n for n in range(8, MOST_N + 1, 8) if not integers or n <= 32 or n % 16 == 0]
        places = [(ta, tb, False) for ta in majors for tb in majors] + [(False, tb, True) for tb in majors]
        for one in (Wgmma(n, a, b, c, *place) for n in columns for c in sums for place in places):
            found[one.function] = one
    return found


def on_tensor_cores(types: Types, arch: Arch) -> bool:
    """Whether an instruction of tensor cores that `arch` has multiplies a product of `types`; f64 apart."""
    if types.a is DType.F64 or (types.a is DType.F32 and types.compute is Compute.FMA):
        return False
    factors, of_a_warp = types.factors, (one for one in MMAS.values() if one.is_native(arch))
    return (arch.number == ARCH_NUMBER and factors in FACTORS) or any((one.a, one.b) == factors for one in of_a_warp)
