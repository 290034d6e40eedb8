"""The choice of the device for a kernel's arrays: a GPU, or this machine's memory and the emulator."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from gemmgen.arrays.backend import Backend
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import ArrayLibrary, read_library
from gemmgen.arrays.view import Device
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DEFAULT_ARCH
from gemmgen.run.gpu import why_no_device
from gemmgen.run.target import DeviceChoice
from gemmgen.support.errors import CandidateFailed, Failure, require
from gemmgen.support.files import Store


def load_source(source: KernelSource, device: DeviceChoice, store: Store) -> ArrayKernel:
    """`source` for arrays on `device`; see `gemmgen.load`."""
    _require_device(device)
    return ArrayKernel(source, _backend(source, device, store))


def load_library(folder: Path, device: DeviceChoice, store: Store) -> ArrayLibrary:
    """The library in `folder` for arrays on `device`; see `gemmgen.load_library`."""
    _require_device(device)
    place: Device = "cpu" if _emulates(device) else "cuda"
    return read_library(folder, _arch(device), lambda source: load_source(source, device, store), place)


def _require_device(device: DeviceChoice) -> None:
    """Raise InvalidInput for an unknown device, and CandidateFailed: unavailable, for a GPU that is not there."""
    known = get_args(DeviceChoice)
    require(device in known, f"unknown device {device!r}: known are {', '.join(known)}")
    missing = why_no_device()
    if device in ("gpu", "cuda") and missing is not None:
        raise CandidateFailed(Failure("unavailable", missing, "gpu"))


def _arch(device: DeviceChoice) -> str:
    """The architecture of the first GPU, or the one that the emulator stands for."""
    if _emulates(device):
        return DEFAULT_ARCH
    from gemmgen.arrays.context import arch_here  # as below

    return arch_here()


def _emulates(device: DeviceChoice) -> bool:
    return device == "emulator" or why_no_device() is not None


def _backend(source: KernelSource, device: DeviceChoice, store: Store) -> Backend:
    if _emulates(device):
        from gemmgen.arrays.emulated import EmulatedBackend

        return EmulatedBackend(source, store)
    from gemmgen.arrays.card import CardBackend  # the driver's bindings take a while

    return CardBackend(source, store)
