"""What kernels are compiled for: the card's architecture, or that with instructions that it alone has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from gemmgen import families
from gemmgen.families import NAIVE
from gemmgen.kernel.launch import Launch
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run import target
from gemmgen.run.compile import arch_for
from gemmgen.run.gpu import capability
from gemmgen.run.gpu.capability import DeviceProperties
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.run.nvrtc import flags_for
from gemmgen.support.errors import CandidateFailed, InvalidInput
from gemmgen.support.files import Store

PROBLEM = Problem(64, 64, 64)
SOURCE = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
H200 = DeviceProperties(
    "NVIDIA H200", "sm_90", "580.1", 132, 141 * 10**9, 50 * 10**6, 1980.0, 232448, 233472, 65536, 2048
)


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an H200, none of whose kernels run."""
    monkeypatch.setattr(target, "why_no_gpu", lambda: None)
    monkeypatch.setattr("gemmgen.run.gpu.executor.why_no_gpu", lambda: None)
    monkeypatch.setattr(GpuExecutor, "_properties", lambda self: H200)
    monkeypatch.setattr("gemmgen.support.child.Child.start", lambda child: None)


@pytest.mark.parametrize(
    ("asked", "arch"), [("auto", "sm_90"), ("sm_90", "sm_90"), ("sm_90a", "sm_90a"), ("H200", "sm_90")]
)
def test_a_gpu_compiles_for_the_arch_that_is_asked_for(asked: str, arch: str, h200: None, store: Store) -> None:
    opened = target.open_target("gpu", asked, store)
    with opened.executor as executor:
        assert isinstance(executor, GpuExecutor)
        assert opened.arch == executor.arch == arch and executor.flags == flags_for(arch)


def test_another_cards_arch_does_not_run_here(h200: None, store: Store) -> None:
    with pytest.raises(InvalidInput, match="--arch sm_80 is sm_80, but the GPU here is sm_90"):
        target.open_target("gpu", "sm_80", store)


def test_a_family_may_need_the_instructions_of_one_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    assert arch_for(SOURCE, "sm_90") == "sm_90" and arch_for(SOURCE, "sm_90a") == "sm_90a"
    other = replace(SOURCE, family="vectors", text="// Made by gemmgen study arithmetic --arch sm_90a\n")
    assert arch_for(other, "sm_90") == "sm_90a" and arch_for(other, "sm_89") == "sm_89"
    specific = SimpleNamespace(arch_specific=True)
    monkeypatch.setitem(families.FAMILIES, NAIVE.name, specific)
    assert arch_for(SOURCE, "sm_90") == "sm_90a" and arch_for(SOURCE, "sm_90a") == "sm_90a"


@pytest.mark.parametrize(
    ("cluster", "blocks", "sms", "resident"),
    [
        (1, 512, 132, 128),  # four turns, with four SMs idle
        (1, 133, 132, 67),
        (1, 100, 132, 100),
        (2, 512, 132, 128),
        (2, 134, 133, 68),  # 67 clusters, 66 at once
        (2, 0, 132, 0),
    ],
)
def test_a_persistent_grid_has_no_more_blocks_than_its_turns_need(
    cluster: int, blocks: int, sms: int, resident: int
) -> None:
    launch = Launch(64, (("M", 1),), cluster=cluster, persistent=True)
    assert launch.resident(blocks, sms) == resident


def test_clusters_and_attributes_are_checked() -> None:
    with pytest.raises(InvalidInput, match="17 blocks a cluster"):
        Launch(64, (("M", 1),), cluster=17)
    with pytest.raises(InvalidInput, match="3 blocks share K in clusters of 2"):
        Launch(64, (("M", 1),), cluster=2, splits=3)
    with pytest.raises(InvalidInput, match="unknown launch attribute 'fast': known are cooperative, programmatic"):
        replace(SOURCE.launch, attributes=("fast",))


class PlayedDriver:
    """libcuda: a card of known attributes, by the driver's numbers."""

    attributes: ClassVar[dict[int, int]] = {
        75: 9,
        76: 0,
        16: 132,
        38: 50 * 10**6,
        13: 1_980_000,
        97: 232448,
        81: 233472,
        82: 65536,
        39: 2048,
    }

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *arguments: 100 if name == self.refuses else self._answer(name, *arguments)

    def _answer(self, name: str, *arguments: Any) -> int:
        if name == "cuDeviceGetName":
            arguments[0].value = b"NVIDIA H200"
        elif name == "cuDeviceGetUuid_v2":
            arguments[0].raw = bytes(range(16))
        elif name == "cuDeviceGetCount":
            arguments[0]._obj.value = 1
        elif name == "cuDeviceTotalMem_v2":
            arguments[0]._obj.value = 141 * 10**9
        elif name == "cuDeviceGetAttribute":
            arguments[0]._obj.value = self.attributes[arguments[1]]
        elif name == "cuDriverGetVersion":
            arguments[0]._obj.value = 13010
        return 0


def test_the_driver_says_what_the_card_is_without_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capability.ctypes, "CDLL", lambda name: PlayedDriver())
    monkeypatch.setattr(capability, "KERNEL_MODULE", Path("no such file"))
    monkeypatch.setattr(capability, "why_no_gpu", lambda: None)
    uuid = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"  # as nvidia-smi writes it
    assert capability.properties_here() == replace(H200, driver="CUDA 13.1", uuid=uuid)
    assert capability.cards_here() == [uuid]
    monkeypatch.setattr(capability.ctypes, "CDLL", lambda name: PlayedDriver(refuses="cuInit"))
    with pytest.raises(CandidateFailed, match="the NVIDIA driver refuses cuInit: error 100") as caught:
        capability.properties_here()
    assert caught.value.failure.kind == "unavailable"
    assert capability.cards_here() == [], "CUDA_VISIBLE_DEVICES hides them, as from a cluster's other workers"
    monkeypatch.setattr(capability, "why_no_gpu", lambda: "no NVIDIA driver")
    monkeypatch.setattr(capability.ctypes, "CDLL", lambda name: 1 / 0)
    assert capability.cards_here() == []
