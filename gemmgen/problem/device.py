"""GPU architectures and cards: the limits that constraints check and the rates that the model uses.

Figures are NVIDIA's, from the CUDA C++ Programming Guide (technical specifications per compute
capability) and the cards' data sheets. Those of L2 and CLUSTER_REACH were read from cards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gemmgen.problem.dtype import DType
from gemmgen.support.errors import require
from gemmgen.support.words import listed

REGISTERS_PER_SM = 65536
REGISTER_UNIT = 8  # registers are allocated to a thread in eights
MAX_REGISTERS = 255  # a thread
L2_LINE = 128  # bytes of a line of L2, of which an access asks for those that it touches
BANK_BYTES = 128  # that an SM's shared memory reads or writes a cycle: of its 32 banks
MAX_THREADS = 1024  # a block
MAX_BLOCKS = 2**31 - 1  # of a grid, in its first dimension
STATIC_SHARED_BYTES = 48 * 1024  # of a block, as `__shared__` arrays; more is dynamic, and has to be asked for
WARP = 32
# What tensor cores multiply for each multiply-add of 16-bit floats, by bits of an element; f64 has its own figure.
TENSOR_SPEED = {8: 2.0, 16: 1.0, 32: 0.5}
INTEGER_LANES = 64  # 32-bit integer multiply-adds an SM starts per cycle (Programming Guide, as fp32_lanes)


@dataclass(frozen=True)
class Limits:
    """What one GPU architecture allows a block; the names that constraints read.

    threads       the most of a block
    sm_threads    the most resident on one SM
    shared_bytes  the most a block may use, in bytes (dynamic above STATIC_SHARED_BYTES)
    arch          NN of sm_NN
    """

    threads: int
    sm_threads: int
    shared_bytes: int
    has_cp_async: bool
    arch: int = 90

    @property
    def names(self) -> dict[str, int]:
        return {
            "MAX_BLOCKS": MAX_BLOCKS,
            "MAX_THREADS": self.threads,
            "MAX_SM_THREADS": self.sm_threads,
            "MAX_SHARED_BYTES": self.shared_bytes,
            "HAS_CP_ASYNC": int(self.has_cp_async),
            "ARCH": self.arch,
        }


@dataclass(frozen=True)
class Arch:
    """One compute capability.

    sm_threads, sm_blocks   the most resident on an SM
    sm_shared, block_shared shared memory of an SM, and the most a block may use, in bytes
    fp32_lanes, fp64_lanes  FP32 and FP64 FMAs an SM starts per cycle, tensor cores apart (Programming Guide,
                            "Arithmetic Instructions")
    tensor_macs             multiply-adds of 16-bit floats an SM's tensor cores start per cycle (the data sheets' dense
                            rates over SMs and clock); of doubles: tensor_f64_macs
    mma_share               of these as many as mma.sync reaches: newer cards keep the rest for other instructions
    l2_share                of the bytes a cycle that L2 delivers to an SM of sm_90: an assumption for the others, where
                            nobody has measured it; sm_86 and sm_120 are taken for sm_89
    """

    name: str
    sm_threads: int
    sm_blocks: int
    sm_shared: int
    block_shared: int
    fp32_lanes: int
    fp64_lanes: int
    tensor_macs: int = 0
    tensor_f64_macs: int = 0
    mma_share: float = 1.0
    l2_share: float = 1.0

    @property
    def number(self) -> int:
        return arch_number(self.name)

    def lanes(self, dtype: DType) -> int:
        """Multiply-adds in `dtype`, that of the sums, an SM starts per cycle."""
        return {DType.F32: self.fp32_lanes, DType.F64: self.fp64_lanes, DType.S32: INTEGER_LANES}[dtype]

    def mma_macs(self, dtype: DType) -> float:
        """Multiply-adds of elements of `dtype` (tf32 for f32) that an SM starts per cycle by mma.sync."""
        if dtype is DType.F64:
            return self.tensor_f64_macs
        return self.mma_share * self.wgmma_macs(dtype)

    def wgmma_macs(self, dtype: DType) -> float:
        """Likewise by wgmma."""
        return self.tensor_macs * TENSOR_SPEED[dtype.storage_bits]

    @property
    def has_cp_async(self) -> bool:
        return self.number >= 80

    @property
    def reserved_shared(self) -> int:
        """Bytes of an SM's shared memory that CUDA keeps for itself beside each block."""
        return 1024 if self.number >= 80 else 0

    @property
    def limits(self) -> Limits:
        return Limits(MAX_THREADS, self.sm_threads, self.block_shared, self.has_cp_async, self.number)


def _arch(
    number: int,
    threads: int,
    blocks: int,
    sm_kb: int,
    block_kb: int,
    fp32: int,
    fp64: int,
    tensor: int,
    tensor_f64: int,
    l2_share: float,
    mma_share: float = 1.0,
) -> Arch:
    rates = fp32, fp64, tensor, tensor_f64, mma_share, l2_share
    return Arch(f"sm_{number}", threads, blocks, sm_kb * 1024, block_kb * 1024, *rates)


ARCHS: dict[str, Arch] = {
    arch.name: arch
    for arch in (
        _arch(75, 1024, 16, 64, 64, 64, 2, 512, 2, 0.6),
        _arch(80, 2048, 32, 164, 163, 64, 32, 1024, 64, 0.5),
        _arch(86, 1536, 16, 100, 99, 128, 2, 512, 2, 0.4),
        _arch(89, 1536, 24, 100, 99, 128, 2, 512, 2, 0.4),
        _arch(90, 2048, 32, 228, 227, 128, 64, 2048, 128, 1.0, 0.62),
        _arch(100, 2048, 32, 228, 227, 128, 64, 4096, 64, 1.0, 0.25),
        _arch(120, 1536, 24, 100, 99, 128, 2, 512, 2, 0.4),
    )
}
# Share of an H200's 132 SMs that blocks of such clusters reach at a time: a cluster lies in one GPC, and few GPCs have
# a multiple of 4 or 8 SMs. cuOccupancyMaxActiveClusters grants 66 clusters of 2 blocks, 30 of 4 and 15 of 8, where one
# block fills an SM (2026-11-23, driver 580.159.04). Other cards may have other GPCs; this stands for them, too.
CLUSTER_REACH = {1: 1.0, 2: 1.0, 4: 120 / 132, 8: 120 / 132}
GENERATIONS = {
    "turing": ("sm_75",),
    "ampere": ("sm_80", "sm_86"),
    "ada": ("sm_89",),
    "hopper": ("sm_90",),
    "blackwell": ("sm_100", "sm_120"),
}
LIKE = {"sm_87": "sm_86", "sm_88": "sm_86", "sm_103": "sm_100", "sm_121": "sm_120"}  # whose limits stand for theirs


@dataclass(frozen=True)
class DeviceSpec:
    """One card.

    name           as in tables and on the command line
    sms            streaming multiprocessors
    clock_ghz      boost clock
    tensor_ghz     the clock of the data sheet's tensor-core rates, those of f64 apart; 0: clock_ghz
    bandwidth      device memory, GB/s
    l2_mb, memory_gb
    f32_sums       share of tensor cores' rate that floats reach whose sums are f32: GeForce cards halve it
    """

    name: str
    arch: Arch
    sms: int
    clock_ghz: float
    bandwidth: float
    l2_mb: float
    memory_gb: float
    tensor_ghz: float = 0.0
    f32_sums: float = 1.0

    def is_card(self, name: str) -> bool:
        """Whether the driver's `name` of a card means this one: an L40 is no L4."""
        return re.search(rf"\b{self.name}\b", name) is not None

    def tensor_tflops(self, dtype: DType, sums: DType) -> float:
        """The data sheet's dense rate of tensor cores for elements of `dtype` (tf32 for f32): TFLOPS, or TOPS."""
        if dtype is DType.F64:
            return 2 * self.sms * self.arch.tensor_f64_macs * self.clock_ghz / 1000
        macs = self.arch.wgmma_macs(dtype) * self.tensor_share(sums)
        return 2 * self.sms * macs * (self.tensor_ghz or self.clock_ghz) / 1000

    def tensor_share(self, sums: DType) -> float:
        """Of tensor cores' rate, that this card reaches where they sum in `sums`."""
        return self.f32_sums if sums is DType.F32 else 1.0

    def clustered_sms(self, cluster: int) -> int:
        """SMs on which blocks in clusters of `cluster` run at a time, where none fills less than an SM."""
        reach = CLUSTER_REACH.get(cluster, min(CLUSTER_REACH.values()))
        return int(self.sms * reach) // cluster * cluster

    def tflops(self, dtype: DType) -> float:
        """Peak of multiply-adds in `dtype`, that of the sums, at boost clock: TFLOPS, or TOPS of integers."""
        return 2 * self.sms * self.arch.lanes(dtype) * self.clock_ghz / 1000


def _spec(
    name: str, arch: int, sms: int, clock: float, bandwidth: float, l2: float, memory: float, tensor: float = 0.0
) -> DeviceSpec:
    f32_sums = 0.5 if name.startswith("RTX") else 1.0
    return DeviceSpec(name, ARCHS[f"sm_{arch}"], sms, clock, bandwidth, l2, memory, tensor, f32_sums)


# The first card of an architecture stands for it where only the architecture is named.
DEVICES: dict[str, DeviceSpec] = {
    spec.name: spec
    for spec in (
        _spec("T4", 75, 40, 1.590, 320, 4, 16),
        _spec("A100", 80, 108, 1.410, 1555, 40, 40),
        _spec("RTX 3090", 86, 82, 1.695, 936, 6, 24),
        _spec("A10", 86, 72, 1.695, 600, 6, 24),
        _spec("RTX 4090", 89, 128, 2.520, 1008, 72, 24),
        _spec("L4", 89, 58, 2.040, 300, 48, 24),
        _spec("RTX 4050 Laptop", 89, 20, 2.370, 192, 12, 6),
        _spec("H200", 90, 132, 1.980, 4800, 60, 141, 1.830),
        _spec("H100", 90, 132, 1.980, 3350, 50, 80, 1.830),
        _spec("B200", 100, 148, 1.965, 8000, 126, 180),
        _spec("RTX 5090", 120, 170, 2.407, 1792, 96, 32),
    )
}

DEFAULT_ARCH = "sm_90"
MEMORY_SLACK = 0.1  # of a data sheet's GB: drivers count GiB without what they keep, which comes to up to 7% more


def least_ridge(dtype: DType) -> float:
    """FLOP for a byte of device memory below which memory bounds the time on every known card."""
    return min(spec.tflops(dtype) * 1000 / spec.bandwidth for spec in DEVICES.values())


def parse_arch(text: str) -> Arch:
    """`sm_NN` or `sm_NNa`; LIKE says whose limits some have. Raises InvalidInput for others, with the known names."""
    return _arch_of(text, (*ARCHS, *LIKE))


def arch_number(text: str) -> int:
    """90 for "sm_90", "sm_90a" and "sm_90f"."""
    return int(text.removeprefix("sm_").rstrip("af"))


def _arch_of(text: str, known: Iterable[str]) -> Arch:
    match = re.fullmatch(r"(sm_[0-9]+)[af]?", text)
    name = LIKE.get(match[1], match[1]) if match is not None else ""
    require(name in ARCHS, f"unknown arch {text!r}: known are {', '.join(known)}")
    return ARCHS[name]


def spec_for(text: str) -> DeviceSpec:
    """The card that `text` names, or that stands for the arch that it names, as people write them: see `arch_meant`.

    Raises InvalidInput with the names of both.
    """
    return _card(text) or device_for(_arch_of(arch_meant(text), (*ARCHS, *LIKE, *DEVICES)))


def arch_meant(text: str) -> str:
    """The arch that `text` means: sm_90a of "SM90a", sm_90 of "compute_90", "9.0" or "Hopper"; else `text`.

    Raises InvalidInput for a generation with several architectures, and names these.
    """
    number = re.fullmatch(r"(?:(?:sm|compute)_?)?([0-9]+)\.?([0-9])([af]?)", text.lower())
    if number is not None:
        return f"sm_{''.join(number.groups())}"
    archs = GENERATIONS.get(text.lower(), (text,))
    require(len(archs) == 1, f"{text} may mean {listed(map(_with_cards, archs), 'or')}")
    return archs[0]


def _with_cards(arch: str) -> str:
    """The arch and the known cards that have it."""
    return f"{arch} ({', '.join(spec.name for spec in DEVICES.values() if spec.arch.name == arch)})"


def device_for(arch: Arch) -> DeviceSpec:
    """The card that stands for `arch` where none is at hand."""
    return next(spec for spec in DEVICES.values() if spec.arch == arch)


def known_card(card: DeviceSpec) -> DeviceSpec | None:
    """Which of the known cards `card` is, at hand or of a data sheet; None: none of them.

    Cards of one name differ: an H100 is one of SXM or of PCIe, with other SMs or another memory, and other times.
    """
    for known in DEVICES.values():
        alike = known.sms == card.sms and abs(card.memory_gb / known.memory_gb - 1) <= MEMORY_SLACK
        if alike and known.arch == card.arch and known.is_card(card.name):
            return known
    return None


def short_name(reported: str) -> str:
    """A card's name as tables have it, of the driver's."""
    return reported.removeprefix("NVIDIA ").removeprefix("GeForce ")


def device_named(name: str) -> DeviceSpec:
    """The known card `name`, upper or lower case; raises InvalidInput with the known names."""
    card = _card(name)
    require(card is not None, f"unknown device {name!r}: known are {', '.join(DEVICES)}")
    assert card is not None
    return card


def _card(name: str) -> DeviceSpec | None:
    wanted = name.lower().replace(" ", "")  # RTX4090, too
    return next((spec for spec in DEVICES.values() if spec.name.lower().replace(" ", "") == wanted), None)
