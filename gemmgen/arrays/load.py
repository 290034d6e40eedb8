"""Where a kernel's arrays are to be: a GPU, or this machine's memory and the emulator."""

from __future__ import annotations

from typing import get_args

from gemmgen.arrays.kernel import ArrayKernel, Backend
from gemmgen.kernel.source import KernelSource
from gemmgen.run.gpu import why_no_device
from gemmgen.run.target import DeviceChoice
from gemmgen.support.errors import CandidateFailed, Failure, require
from gemmgen.support.files import Store


def load_source(source: KernelSource, device: DeviceChoice, store: Store) -> ArrayKernel:
    """`source` for arrays on `device`; see `gemmgen.api.load`."""
    known = get_args(DeviceChoice)
    require(device in known, f"unknown device {device!r}: known are {', '.join(known)}")
    return ArrayKernel(source, _backend(source, device, store))


def _backend(source: KernelSource, device: DeviceChoice, store: Store) -> Backend:
    missing = why_no_device()
    if device in ("gpu", "cuda") and missing is not None:
        raise CandidateFailed(Failure("unavailable", missing, "gpu"))
    if device == "emulator" or missing is not None:
        from gemmgen.arrays.emulated import EmulatedBackend

        return EmulatedBackend(source, store)
    from gemmgen.arrays.card import CardBackend  # the driver's bindings take a while

    return CardBackend(source, store)
