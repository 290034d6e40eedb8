"""Readings of a card's energy, power, clocks and temperature while kernels run: NVML, by the card's UUID.

The energy counter advances in steps, of 0.1 s on an H200: the power between two steps is known, that before the first
step is not. On some cards the power sensor samples only a quarter of the time (arXiv 2312.02741). So a kernel runs for
two seconds.
"""

from __future__ import annotations

import itertools
import platform
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from statistics import median
from typing import Any

from gemmgen.run.gpu.capability import DeviceProperties, properties_here
from gemmgen.run.gpu.timing import Conditions
from gemmgen.support.errors import CandidateFailed, Failure

ENERGY_SECONDS = 2.0  # that a kernel runs alone for
POLL_SECONDS = 0.005  # between two looks at the counter of energy: of its steps the times are wanted
POLLS_A_READING = 4  # of the others
NVML = "nvidia-ml-py is not installed: pip install nvidia-ml-py"
# nvmlClocksEventReason... names, and in words what keeps a clock below its highest. Other reasons mean that nothing
# runs.
REASONS = {
    "SwPowerCap": "power",
    "HwPowerBrakeSlowdown": "power brake",
    "SwThermalSlowdown": "heat",
    "HwThermalSlowdown": "heat",
    "HwSlowdown": "hardware",
    "ApplicationsClocksSetting": "clocks that were set",
    "UserDefinedClocks": "clocks that were set",
}


@dataclass(frozen=True)
class Observed:
    """Readings of the card while one kernel ran repeatedly. None: the card does not tell, or access is not allowed.

    energy_j       energy per launch, in joules
    power_w        median of the readings, in watts; the clocks are medians, too
    temperature_c  the highest reading
    limited_by     reasons that kept the clock below its highest at some time
    """

    launches: int
    seconds: float
    energy_j: float | None
    power_w: float | None
    sm_mhz: float | None
    memory_mhz: float | None
    temperature_c: float | None
    limited_by: tuple[str, ...] = ()

    def tflops_per_w(self, flops: float) -> float | None:
        """TFLOPS per watt, which is TFLOP per joule, of a launch with `flops` floating-point operations."""
        return None if not self.energy_j else flops * 1e-12 / self.energy_j


class Circumstances:
    """The conditions of measurements on GPU `index`."""

    def __init__(self, index: int) -> None:
        self._index = index

    def now(self) -> Conditions:
        card, seen = self._card, {} if self._meter is None else self._meter.conditions()
        return Conditions(card.name, card.driver, f"{platform.node()}/{card.uuid}", **seen)

    @cached_property
    def _card(self) -> DeviceProperties:
        return properties_here(self._index)

    @cached_property
    def _meter(self) -> Meter | None:
        """The meter; None if nvidia-ml-py or NVML is missing, so that times carry fewer conditions."""
        try:
            return Meter(self._card.uuid)
        except CandidateFailed:
            return None


@dataclass
class Readings:
    """Readings so far, by name, and (seconds, joules) of the counter; values that the card does not give are absent."""

    found: dict[str, list[float]] = field(default_factory=dict)
    reasons: set[str] = field(default_factory=set)
    counted: list[tuple[float, float]] = field(default_factory=list)

    def add(self, name: str, value: float | None) -> None:
        if value is not None:
            self.found.setdefault(name, []).append(value)

    def usual(self, name: str) -> float | None:
        return median(self.found[name]) if name in self.found else None

    def observed(self, launches: int, seconds: float) -> Observed:
        mean_w = power_between_steps(self.counted)
        energy = None if mean_w is None else mean_w * seconds / launches
        heat = max(self.found.get("temperature_c", []), default=None)
        power, sm, memory = (self.usual(name) for name in ("power_w", "sm_mhz", "memory_mhz"))
        return Observed(launches, seconds, energy, power, sm, memory, heat, tuple(sorted(self.reasons)))


def power_between_steps(counted: Sequence[tuple[float, float]]) -> float | None:
    """The mean power in watts between the first and the last step of an energy counter; None with fewer than two
    steps.

    counted  (seconds, joules) of each reading, in order
    """
    steps = [later for before, later in pairwise(counted) if later[1] > before[1]]
    if len(steps) < 2:
        return None
    (began, least), (ended, most) = steps[0], steps[-1]
    return (most - least) / (ended - began)


class Meter:
    """NVML's view of the card with this UUID. Raises CandidateFailed (unavailable) if there is none."""

    def __init__(self, uuid: str) -> None:
        try:
            self._nvml: Any = import_module("pynvml")
        except ImportError:
            raise CandidateFailed(Failure("unavailable", NVML, "nvml")) from None
        try:
            self._nvml.nvmlInit()
            self._card = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
        except self._nvml.NVMLError as error:
            raise CandidateFailed(Failure("unavailable", f"NVML does not know {uuid}: {error}", "nvml")) from None

    @contextmanager
    def watching(self) -> Iterator[Readings]:
        """Read every POLL_SECONDS while the `with` block runs."""
        readings, over, polls = Readings(), threading.Event(), itertools.count()

        def poll() -> None:
            while not over.wait(POLL_SECONDS):
                joules = self._energy_j()
                if joules is not None:
                    readings.counted.append((time.perf_counter(), joules))
                if next(polls) % POLLS_A_READING == 0:
                    self._read_into(readings)

        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        try:
            yield readings
        finally:
            over.set()
            thread.join()

    def conditions(self) -> Mapping[str, Any]:
        """The fields of `Conditions` that the card gives at this moment."""
        nvml, limit = self._nvml, self._ask("nvmlDeviceGetEnforcedPowerLimit")  # in mW
        return {
            "power_limit_w": None if limit is None else limit * 1e-3,
            "sm_mhz": self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            "memory_mhz": self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            "temperature_c": self._ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            "limited_by": tuple(sorted(self._reasons())),
        }

    def _reasons(self) -> set[str]:
        """The reasons why the clock is below its highest."""
        bits = int(self._ask("nvmlDeviceGetCurrentClocksEventReasons") or 0)
        return {words for name, words in REASONS.items() if bits & self._bit(name)}

    def _read_into(self, readings: Readings) -> None:
        nvml = self._nvml
        readings.add("power_w", self._power_w())
        readings.add("sm_mhz", self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM))
        readings.add("memory_mhz", self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM))
        readings.add("temperature_c", self._ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU))
        readings.reasons |= self._reasons()

    def _bit(self, reason: str) -> int:
        return int(getattr(self._nvml, f"nvmlClocksEventReason{reason}", 0))

    def _energy_j(self) -> float | None:
        found = self._ask("nvmlDeviceGetTotalEnergyConsumption")  # in mJ since the driver was loaded
        return None if found is None else found * 1e-3

    def _power_w(self) -> float | None:
        """The power at this moment if the driver has a field for it, else the mean over a second."""
        wanted = getattr(self._nvml, "NVML_FI_DEV_POWER_INSTANT", None)
        values: Sequence[Any] = self._ask("nvmlDeviceGetFieldValues", [wanted]) or [] if wanted is not None else []
        if values and values[0].nvmlReturn == self._nvml.NVML_SUCCESS:
            return float(values[0].value.uiVal) * 1e-3
        found = self._ask("nvmlDeviceGetPowerUsage")
        return None if found is None else found * 1e-3

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Return NVML's answer; None if the card, the driver or the access rights do not allow it."""
        try:
            return getattr(self._nvml, name)(self._card, *arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None
