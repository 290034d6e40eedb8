"""The card's own limits, measured: a kernel's speed is compared with them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, Protocol

from gemmgen.problem.device import DEVICES
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.types import Types
from gemmgen.problem.wgmma import on_tensor_cores
from gemmgen.run.gpu.capability import DeviceProperties
from gemmgen.run.gpu.plain import plain_cubin, plain_path
from gemmgen.support.files import Store, content_key
from gemmgen.support.stamp import today

KIND = "limits"  # in the Store
BUFFER_BYTES = 4 * 2**30  # at most; many times any L2
FMA_COUNT = {
    "ffma": 2_048_000,
    "dfma": 204_800,
}  # of a thread: 40 and 3 ms on an H200, up to 1 s on small parts
BANDWIDTHS = ("read", "copy")
COPY_SHARE = 0.25  # of the traffic: from there on, writing C makes it a copy's. Batches of squares write a third

LimitName = Literal["FFMA rate", "DFMA rate", "dp4a rate", "tensor rate", "read bandwidth", "copy bandwidth"]
# Integers are not measured: on every architecture since sm_80 half as many lanes multiply them as FP32 numbers.
FMA_RATE: dict[DType, LimitName] = {DType.F32: "FFMA rate", DType.F64: "DFMA rate", DType.S32: "dp4a rate"}


@dataclass(frozen=True)
class Roof:
    """The highest rate that a card allows for a case, and the limit that sets it."""

    tflops: float
    limit: LimitName

    @property
    def memory_bound(self) -> bool:
        return self.limit in ("read bandwidth", "copy bandwidth")


@dataclass(frozen=True)
class MeasuredLimits:
    """FP32 and FP64 FMA rates in TFLOPS, without tensor cores; read and copy bandwidth in GB/s.

    A copy counts bytes read and written.
    """

    card: str
    ffma_tflops: float
    dfma_tflops: float
    read_gbs: float
    copy_gbs: float
    date: str

    def fma_tflops(self, types: Types) -> float:
        """The rate of multiply-adds of `types`, in TFLOPS."""
        rates = {DType.F32: self.ffma_tflops, DType.F64: self.dfma_tflops, DType.S32: self.ffma_tflops / 2}
        return rates[types.accumulator] * types.products_at_once

    def roof(self, case: Case) -> Roof:
        """The roofline of `case`: the rate of multiply-adds, or of its least traffic at full bandwidth if that is
        lower.

        Tensor cores are not measured: their rate is that of the data sheet.
        """
        written = sum(matrix.least_bytes for matrix in case.written.values()) / case.bytes_moved
        flops_per_byte, types = case.flops / case.bytes_moved, case.problem.types
        fma = Roof(self.fma_tflops(types), FMA_RATE[types.accumulator])
        card = next((spec for spec in DEVICES.values() if spec.is_card(self.card)), None)
        if card is not None and on_tensor_cores(types, card.arch):
            pieces = types.compute.pieces
            rate = card.tensor_tflops(types.factors[0], types.accumulator)
            fma = Roof(rate / (len(pieces.pairs) if pieces else 1), "tensor rate")
        read = Roof(flops_per_byte * self.read_gbs / 1000, "read bandwidth")
        copy = Roof(flops_per_byte * self.copy_gbs / 1000, "copy bandwidth")
        return min(fma, copy if written >= COPY_SHARE else read, key=lambda roof: roof.tflops)


class Timer(Protocol):
    """An object that can time a kernel of `plain` on its card."""

    @property
    def arch(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def properties(self) -> DeviceProperties: ...

    def time_plain(self, cubin: bytes, name: str, buffer_bytes: int, count: int) -> tuple[float, int]: ...


def measure_limits(timer: Timer, store: Store) -> MeasuredLimits:
    """The limits of the timer's card, measured at most once a day (UTC)."""
    date = today()
    texts = [plain_path(name).read_text() for name in (*FMA_COUNT, *BANDWIDTHS)]
    key = content_key(timer.description, timer.properties.uuid, date, *texts)
    known = store.get(KIND, key)
    if known is not None:
        return MeasuredLimits(**json.loads(known))
    limits = _measure(timer, store, date)
    store.put(KIND, key, json.dumps(asdict(limits)).encode())
    return limits


def _measure(timer: Timer, store: Store, date: str) -> MeasuredLimits:
    size = min(BUFFER_BYTES, timer.properties.memory_bytes // 4)

    def best_us(name: str, buffer_bytes: int, count: int) -> tuple[float, int]:
        return timer.time_plain(plain_cubin(name, timer.arch, store), name, buffer_bytes, count)

    def fma_tflops(name: str) -> float:
        us, threads = best_us(name, 8, FMA_COUNT[name])
        return 2 * threads * FMA_COUNT[name] / us * 1e-6

    read_us, _ = best_us("read", size, size // 16)
    copy_us, _ = best_us("copy", size, size // 32)
    return MeasuredLimits(
        card=timer.properties.name,
        ffma_tflops=fma_tflops("ffma"),
        dfma_tflops=fma_tflops("dfma"),
        read_gbs=size / read_us * 1e-3,
        copy_gbs=size / copy_us * 1e-3,
        date=date,
    )
