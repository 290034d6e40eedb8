"""What the card says of energy and power: read by its UUID, and left out where it does not say."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gemmgen.run.gpu import power
from gemmgen.run.gpu.power import Circumstances, Meter, Observed, power_between_steps
from gemmgen.support.errors import CandidateFailed

FLOPS = 2.0e12


class PlayedNvml:
    """As pynvml, of a card that takes 500 J and sits at its limit of power. What is `refused` raises."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_SUCCESS = 1, 2, 0, 0
    NVML_FI_DEV_POWER_INSTANT = 186
    nvmlClocksEventReasonSwPowerCap, nvmlClocksEventReasonGpuIdle, nvmlClocksEventReasonHwThermalSlowdown = 4, 1, 64

    class NVMLError(Exception):
        """As NVML's."""

    def __init__(self, *refused: str) -> None:
        self.refused, self.energy_mj, self.polled = refused, 1_000_000, 0

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvmlDevice") and name in self.refused:
            return self._refuse
        return super().__getattribute__(name)

    def _refuse(self, *_: object) -> None:
        raise self.NVMLError("Insufficient Permissions")

    def nvmlInit(self) -> None:
        """It is there."""

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid != "GPU-1":
            raise self.NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetTotalEnergyConsumption(self, card: str) -> int:
        self.energy_mj += 500_000
        return self.energy_mj

    def nvmlDeviceGetFieldValues(self, card: str, fields: list[int]) -> list[Any]:
        self.polled += 1
        value = SimpleNamespace(uiVal=(690 + 10 * (self.polled % 3)) * 1000)
        return [SimpleNamespace(nvmlReturn=0 if fields == [186] else 3, value=value)]

    def nvmlDeviceGetPowerUsage(self, card: str) -> int:
        return 650_000

    def nvmlDeviceGetClockInfo(self, card: str, kind: int) -> int:
        return {1: 1410, 2: 3201}[kind]

    def nvmlDeviceGetTemperature(self, card: str, kind: int) -> int:
        return 60 + min(self.polled, 5)

    def nvmlDeviceGetEnforcedPowerLimit(self, card: str) -> int:
        return 700_000

    def nvmlDeviceGetCurrentClocksEventReasons(self, card: str) -> int:
        return 1 | 4 | 64


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> Callable[[PlayedNvml], Observed]:
    """What a card says of 1,000 launches, until it was asked a few times."""
    monkeypatch.setattr(power, "POLL_SECONDS", 0.001)

    def look(nvml: PlayedNvml) -> Observed:
        monkeypatch.setitem(sys.modules, "pynvml", nvml)  # type: ignore[arg-type]
        asked = 0

        def count(*_: object) -> int:
            nonlocal asked
            asked += 1
            return 1 | 4 | 64

        if "nvmlDeviceGetCurrentClocksEventReasons" not in nvml.refused:
            nvml.nvmlDeviceGetCurrentClocksEventReasons = count  # type: ignore[method-assign]
        with Meter("GPU-1").watching() as readings:
            while asked < 5 and "nvmlDeviceGetCurrentClocksEventReasons" not in nvml.refused:
                pass
        return readings.observed(1000, 2.0)

    return look


def test_energy_is_that_of_a_launch_and_reasons_are_words(observed: Callable[[PlayedNvml], Observed]) -> None:
    found = observed(PlayedNvml())
    assert found.energy_j is not None and found.tflops_per_w(FLOPS) == pytest.approx(2.0 / found.energy_j)
    assert 690 <= (found.power_w or 0) <= 710 and (found.sm_mhz, found.memory_mhz) == (1410, 3201)
    assert found.temperature_c == 65 and found.limited_by == ("heat", "power"), "that it is idle limits nothing"


@pytest.mark.parametrize(
    ("joules", "watts"),
    [
        ([10, 10, 80, 80, 80, 80, 150, 150], 700),  # a step of 70 J each 0.1 s, and looks each 0.025 s
        ([10, 80, 80, 80, 80, 150, 150, 150, 150, 222], 710),
        ([10, 10, 80, 80], None),
        ([10, 10], None),
        ([], None),
    ],
)
def test_power_is_that_between_steps_of_the_counter(joules: list[float], watts: float | None) -> None:
    """What passed before the first step, and after the last, is not known."""
    assert power_between_steps([(0.025 * place, one) for place, one in enumerate(joules)]) == pytest.approx(watts)


@pytest.mark.parametrize(
    ("refused", "missing"),
    [
        ("nvmlDeviceGetTotalEnergyConsumption", "energy_j"),
        ("nvmlDeviceGetClockInfo", "sm_mhz"),
        ("nvmlDeviceGetTemperature", "temperature_c"),
    ],
)
def test_what_the_card_does_not_say_is_left_out(
    observed: Callable[[PlayedNvml], Observed], refused: str, missing: str
) -> None:
    found = observed(PlayedNvml(refused))
    assert getattr(found, missing) is None and found.power_w is not None
    assert (found.tflops_per_w(FLOPS) is None) == (missing == "energy_j")


def test_power_is_the_mean_of_a_second_where_the_driver_has_no_other(
    observed: Callable[[PlayedNvml], Observed],
) -> None:
    assert observed(PlayedNvml("nvmlDeviceGetFieldValues")).power_w == 650
    nothing = PlayedNvml("nvmlDeviceGetFieldValues", "nvmlDeviceGetPowerUsage")
    assert observed(nothing).power_w is None


def test_no_nvml_and_no_such_card_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", PlayedNvml())  # type: ignore[arg-type]
    with pytest.raises(CandidateFailed, match="NVML does not know GPU-2: Not Found"):
        Meter("GPU-2")
    monkeypatch.delitem(sys.modules, "pynvml")

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(power, "import_module", missing)
    with pytest.raises(CandidateFailed, match="nvidia-ml-py is not installed"):
        Meter("GPU-1")


@pytest.mark.parametrize("installed", [True, False])
def test_a_measurement_says_what_it_ran_on(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    card = SimpleNamespace(name="NVIDIA H200", driver="580.1", uuid="GPU-1" if installed else "GPU-2")
    monkeypatch.setattr(power, "properties_here", lambda index: card)
    monkeypatch.setitem(sys.modules, "pynvml", PlayedNvml("nvmlDeviceGetTemperature"))  # type: ignore[arg-type]
    found = Circumstances(0).now()
    assert (found.card, found.driver, found.worker) == ("NVIDIA H200", "580.1", f"{platform.node()}/{card.uuid}")
    known = (700.0, 1410, 3201, None, ("heat", "power")) if installed else (None, None, None, None, ())
    assert (found.power_limit_w, found.sm_mhz, found.memory_mhz, found.temperature_c, found.limited_by) == known
