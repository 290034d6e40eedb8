"""A comparison of the cards from which a page's times come: even cards of one model differ, and so do days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Any

from gemmgen.exports.kernelfile import KernelFile


@dataclass(frozen=True)
class MeasuringCard:
    """One card, by its UUID, and what was recorded while it timed kernels beside cuBLASLt. None: not recorded.

    uuid           the card's UUID, without the machine's name
    ratio          geometric mean of cuBLASLt's time over the kernels'
    ffma_tflops    the rate of multiply-adds of the reference kernels (gemmgen.run.gpu.limits), a median
    read_gbs       the bandwidth of the reference kernels, a median
    sm_mhz         (least, most) SM clock
    temperature_c  the highest temperature
    drift          the largest drift between the halves of a measurement's rounds, in magnitude
    repeated       number of measurements that were repeated because of drift
    """

    card: str
    uuid: str
    driver: str
    kernels: int
    ratio: float
    ffma_tflops: float
    read_gbs: float
    power_limit_w: float | None
    sm_mhz: tuple[float, float] | None
    temperature_c: float | None
    limited_by: tuple[str, ...]
    drift: float
    repeated: int


def measuring_cards(kernels: Iterable[KernelFile]) -> list[MeasuringCard]:
    """The cards on which `bench` and `suite` timed `kernels`, sorted by model and UUID."""
    by_card: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for kernel in kernels:
        bench = (kernel.record or {}).get("bench") or {}
        seen = (bench.get("ours") or {}).get("conditions")
        if seen is not None and bench.get("speedup"):
            by_card[seen["card"], seen["worker"].rpartition("/")[2], seen["driver"]].append(
                (bench["speedup"], bench["limits"], seen)
            )
    return [_joined(key, found) for key, found in sorted(by_card.items())]


def _joined(key: tuple[str, str, str], found: list[Any]) -> MeasuringCard:
    ratios, limits, seen = zip(*found, strict=True)

    def known(name: str) -> list[float]:
        return [one[name] for one in seen if one[name] is not None]

    clocks, watts = known("sm_mhz"), known("power_limit_w")
    return MeasuringCard(
        *key,
        kernels=len(found),
        ratio=geometric_mean(ratios),
        ffma_tflops=median(one["ffma_tflops"] for one in limits),
        read_gbs=median(one["read_gbs"] for one in limits),
        power_limit_w=median(watts) if watts else None,
        sm_mhz=(min(clocks), max(clocks)) if clocks else None,
        temperature_c=max(known("temperature_c"), default=None),
        limited_by=tuple(sorted({reason for one in seen for reason in one["limited_by"]})),
        drift=max(abs(one["drift"]) for one in seen),
        repeated=sum(one["repeated"] > 0 for one in seen),
    )
