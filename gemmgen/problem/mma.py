"""Tensor-core instructions of a warp: shapes, types, which lane holds what, how they round and where they are native.

Shapes, types and fragments are those of NVIDIA's PTX ISA ("Warp-level matrix instructions", mma.sync). How sums round
is in no manual: it was found out by experiment (Fasi, Higham, Mikaitis and Pranesh 2021; Khattak and Mikaitis, arXiv
2512.07004; MMA-Sim, arXiv 2511.10909). Where an instruction is native was read off machine code of ptxas 13.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gemmgen.problem.device import ARCHS, WARP, Arch
from gemmgen.problem.dtype import WORD, DType
from gemmgen.problem.types import Compute, Types
from gemmgen.support.errors import require

QUAD = 4  # lanes that share a row of A, and of C
NEVER = 1000  # NN of no sm_NN
WHOLE = 23  # bits of fraction of an f32
CUT = (Compute.PROMOTED, Compute.FAST)  # what may cut sums shorter than f32's


@dataclass(frozen=True)
class Sums:
    """How a tensor core sums floating-point products and the accumulator, at each step of `products` along k.

    Products are exact, and every term is cut, towards zero, to a multiple of 2^(e - fraction): e is the largest
    exponent of a term, that of a product being the sum of its factors' (a denormal number has its format's least
    exponent). The sum of the cut terms is exact, and is rounded once: to f16 to nearest even, to f32 towards zero, to
    `kept` bits of fraction. The next step adds to what came of it.
    """

    products: int
    fraction: int
    kept: int = WHOLE


@dataclass(frozen=True)
class Mma:
    """D = A * B + C of one warp, where C and D are the same registers. A is m x k, B k x n.

    a, b         element types; f32 stands for tf32, the upper 19 bits of an f32's: the unit cuts off the others
    accumulator  type of C and D
    sums         by NN of sm_NN where it is native; None where products and sums are exact or, in f64, fused one by one,
                 the first k first
    elsewhere    what becomes of it on architectures that assemble it and have no such instruction

    Lane 4 * g + t, with g of 0 to 7 and t of 0 to 3, holds rows g and g + 8 of A and C, and column g of B. Elements
    that share a register lie from its lowest bits on.
    """

    m: int
    n: int
    k: int
    a: DType
    b: DType
    accumulator: DType
    sums: dict[int, Sums | None]
    elsewhere: str = ""

    def __post_init__(self) -> None:
        require(self.a.storage_bits == self.b.storage_bits, f"A of {self.a.label} beside B of {self.b.label}")
        require(self.m in (8, 16) and self.n == 8, f"no warp multiplies {self.m} x {self.n}")
        held = self.k * self.n * self.b.storage_bits
        require(held % (8 * self.register_bytes * WARP) == 0, f"{held} bits of B fill no registers of {WARP} lanes")

    @property
    def shape(self) -> str:
        return f"m{self.m}n{self.n}k{self.k}"

    @property
    def products(self) -> int:
        return self.m * self.n * self.k

    @property
    def function(self) -> str:
        """The device function's name, of templates/device/mma.cu: "mma_m16n8k16_bf16", "mma_m16n8k16_f16_f16"."""
        usual = self.accumulator in (DType.F32, DType.S32, DType.F64)
        return f"mma_{self.shape}_{factors(self.a, self.b)}{'' if usual else '_' + self.accumulator.label}"

    @property
    def ptx(self) -> str:
        """The instruction; its operands follow."""
        sums = self.accumulator.label
        return f"mma.sync.aligned.{self.shape}.row.col.{sums}.{multiplied(self.a)}.{multiplied(self.b)}.{sums}"

    @property
    def register_bytes(self) -> int:
        """Of A and B: those of f64 take two of the GPU's."""
        return max(WORD, self.a.storage_bits // 8)

    @property
    def a_shared(self) -> int:
        """Elements of A, and of B, that share a register, side by side along k."""
        return 8 * self.register_bytes // self.a.storage_bits

    @property
    def c_shared(self) -> int:
        return sums_shared(self.accumulator)

    @property
    def a_registers(self) -> int:
        return self.m * self.k // (WARP * self.a_shared)

    @property
    def b_registers(self) -> int:
        return self.k * self.n // (WARP * self.a_shared)

    @property
    def c_registers(self) -> int:
        return self.m * self.n // (WARP * self.c_shared)

    @property
    def a_type(self) -> str:
        """The C++ type of a register of A or B,"""
        return "double" if self.a is DType.F64 else "unsigned"

    @property
    def c_type(self) -> str:
        """and of C."""
        return sums_type(self.accumulator)

    def a_place(self, lane: int, register: int, part: int = 0) -> tuple[int, int]:
        """(row, k) of an element of A."""
        rows = self.m // 8
        return lane // QUAD + 8 * (register % rows), self._k(lane, register // rows, part)

    def b_place(self, lane: int, register: int, part: int = 0) -> tuple[int, int]:
        """(k, column) of an element of B."""
        return self._k(lane, register, part), lane // QUAD

    def c_place(self, lane: int, register: int, part: int = 0) -> tuple[int, int]:
        """(row, column) of an element of C or D."""
        return sum_place(lane, register * self.c_shared + part)

    @property
    def k_text(self) -> str:
        """Which k of A and B lane 4 g + t holds: "2 t to 2 t + 1, and every 8 further on"."""
        shared = self.a_shared
        own = "t" if shared == 1 else f"{shared} t to {shared} t + {shared - 1}"
        return own if self.b_registers == 1 else f"{own}, and every {QUAD * shared} further on"

    def _k(self, lane: int, block: int, part: int) -> int:
        return QUAD * self.a_shared * block + self.a_shared * (lane % QUAD) + part

    def sums_on(self, arch: Arch) -> Sums | None:
        """How it sums on `arch`, where it is native."""
        return self.sums[arch.number]

    def is_native(self, arch: Arch) -> bool:
        return arch.number in self.sums

    def why_not(self, arch: Arch) -> str | None:
        """Why kernels for `arch` do not use it; None where they may."""
        if self.is_native(arch):
            return None
        if self.elsewhere and arch.number > min(self.sums):
            return f"{arch.name} has no {self.function}: it {self.elsewhere}"
        known = ", ".join(f"sm_{number}" for number in self.sums)
        return f"{arch.name} has no {self.function}, which is native on {known}"


def multiplied(dtype: DType) -> str:
    """What elements of `dtype` are multiplied as: "tf32" for f32."""
    return "tf32" if dtype is DType.F32 else dtype.label


def factors(a: DType, b: DType) -> str:
    """What A and B are multiplied as, in names: "bf16", "s8u8"."""
    return multiplied(a) if a == b else multiplied(a) + multiplied(b)


def sums_shared(accumulator: DType) -> int:
    """Sums that share a register, side by side in a row: two of f16."""
    return max(1, WORD // accumulator.size)


def sums_type(accumulator: DType) -> str:
    """The C++ type of a register of sums."""
    return accumulator.ctype if sums_shared(accumulator) == 1 else "unsigned"


def sum_place(lane: int, number: int) -> tuple[int, int]:
    """(row, column) of sum `number` of a lane, of the 16 x 8 of a warp."""
    return lane // QUAD + 8 * (number // 2), 2 * (lane % QUAD) + number % 2


AMPERE, HOPPER, SINCE_BLACKWELL = (80, 86, 89), (90,), (100, 120)
SINCE_AMPERE = (*AMPERE, *HOPPER, *SINCE_BLACKWELL)


def _sums(before: int, k: int) -> dict[int, Sums | None]:
    """By architecture: `before` products a step up to sm_89, all of an instruction's from sm_90 on."""
    later = dict.fromkeys((*HOPPER, *SINCE_BLACKWELL), Sums(k, 25))
    return {**dict.fromkeys(AMPERE, Sums(before, 24)), **later}


def _exact(archs: tuple[int, ...]) -> dict[int, Sums | None]:
    return dict.fromkeys(archs)


def _listed() -> tuple[Mma, ...]:
    f16, bf16, f32, f64 = DType.F16, DType.BF16, DType.F32, DType.F64
    halves = [Mma(16, 8, 8, f16, f16, to, {75: Sums(8, 24), **_sums(8, 8)}) for to in (f32, f16)]
    halves += [Mma(16, 8, 16, f16, f16, to, _sums(8, 16)) for to in (f32, f16)]
    others = [Mma(16, 8, 16, bf16, bf16, f32, _sums(8, 16)), Mma(16, 8, 8, f32, f32, f32, _sums(4, 8))]
    fp8_sums: dict[int, Sums | None] = {89: Sums(16, 13, kept=13), 120: Sums(32, 25)}
    fp8 = [
        Mma(16, 8, 32, a, b, f32, fp8_sums, elsewhere="converts to f16, and multiplies that")
        for a in (DType.E4M3, DType.E5M2)
        for b in (DType.E4M3, DType.E5M2)
    ]
    bytes_ = [
        Mma(m, 8, k, a, b, DType.S32, _exact(archs))
        for m, k, archs in ((16, 32, SINCE_AMPERE), (8, 16, (75,)))
        for a in (DType.S8, DType.U8)
        for b in (DType.S8, DType.U8)
    ]
    unpacks = "unpacks to 8 bits, and calls a function"
    nibbles = [Mma(16, 8, 64, s4, s4, DType.S32, _exact(AMPERE), elsewhere=unpacks) for s4 in (DType.S4, DType.U4)]
    doubles = [Mma(8, 8, 4, f64, f64, f64, _exact(SINCE_AMPERE))]
    splits = "splits into m8n8k4"
    doubles += [Mma(16, 8, k, f64, f64, f64, _exact(HOPPER), elsewhere=splits) for k in (4, 8, 16)]
    return (*halves, *others, *fp8, *bytes_, *nibbles, *doubles)


MMAS: dict[str, Mma] = {mma.function: mma for mma in _listed()}


@dataclass(frozen=True)
class Instruction:
    """What multiplies, and the architectures that have it: NN of sm_NN from `since` up to `until`, and from `again` on.

    mma  None: there is none
    """

    mma: Mma | None = None
    since: int = NEVER
    until: int = NEVER
    again: int = NEVER


@cache
def instruction(types: Types, k: int, m: int | None = None) -> Instruction:
    """That for `k` of a product of `types`, and `m` rows where they are given, as exact as their compute promises."""
    sums = DType.F16 if types.compute is Compute.F16 else types.accumulator
    wanted = (*types.factors, sums, k)
    found = (one for one in MMAS.values() if (one.a, one.b, one.accumulator, one.k) == wanted)
    mma = next((one for one in found if m in (None, one.m)), None)
    if mma is None or (types.a is DType.F32 and types.compute is not Compute.TF32):
        return Instruction()
    numbers = sorted(arch.number for arch in ARCHS.values())
    native = {number for number, one in mma.sums.items() if one is None or types.compute in CUT or one.kept == WHOLE}
    since = min(native, default=NEVER)
    until = next((number for number in numbers if number > since and number not in native), NEVER)
    again = next((number for number in numbers if number > until and number in native), NEVER)
    return Instruction(mma, since, until, again)
