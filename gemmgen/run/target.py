"""Where kernels run: on the GPU at hand, or in the emulator, for a known architecture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

from gemmgen.problem.device import DEFAULT_ARCH, DeviceSpec, arch_meant, device_for, parse_arch, spec_for
from gemmgen.run.card import arch_name, spec_of
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.gpu import why_no_gpu
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.support.errors import CandidateFailed, Failure, require
from gemmgen.support.files import Store

DeviceChoice = Literal["auto", "gpu", "cuda", "emulator"]  # "cuda" is "gpu", as PyTorch calls it


@dataclass(frozen=True)
class Target:
    """An executor, the architecture to compile for ("sm_90"), and the card whose figures the model uses."""

    executor: GpuExecutor | EmulatorExecutor
    arch: str
    spec: DeviceSpec

    @property
    def gpu(self) -> GpuExecutor | None:
        """The executor if it is a GPU, which can measure."""
        return self.executor if isinstance(self.executor, GpuExecutor) else None


def open_target(device: DeviceChoice, arch: str, store: Store) -> Target:
    """The target for `--device` and `--arch`; the caller closes its executor.

    "auto" takes the GPU if there is one and it has `arch`, else the emulator. `arch` is "auto" (the GPU's, else
    DEFAULT_ARCH), "sm_NN[a]" or a known card's name. Raises InvalidInput (unknown device or arch; a GPU of another
    arch) and CandidateFailed (unavailable).
    """
    known = get_args(DeviceChoice)
    require(device in known, f"unknown device {device!r}: known are {', '.join(known)}")
    wanted = None if arch == "auto" else spec_for(arch)
    missing = why_no_gpu()
    if device in ("gpu", "cuda") and missing is not None:
        raise CandidateFailed(Failure("unavailable", missing, "gpu"))
    if device != "emulator" and missing is None:
        gpu = GpuExecutor(store)
        found = spec_of(gpu.properties)
        if wanted is None or wanted.arch == found.arch:
            gpu.compile_for(arch_name(arch, gpu.arch))
            return Target(gpu, gpu.arch, found)
        gpu.close()
        require(device == "auto", f"--arch {arch} is {wanted.arch.name}, but the GPU here is {found.arch.name}")
    spec = wanted if wanted is not None else device_for(parse_arch(DEFAULT_ARCH))
    return Target(EmulatorExecutor(store), arch_name(arch, spec.arch.name), spec)


def open_card(device: str, store: Store) -> Target:
    """Open the target for `device`: "auto", "gpu" or "emulator" as for `open_target`, a card's name or "sm_NN".

    A named card is measured if it is the one at hand; else its times are predicted. Raises InvalidInput (unknown card)
    and CandidateFailed (unavailable).
    """
    if device in get_args(DeviceChoice):
        return open_target(cast(DeviceChoice, device), "auto", store)
    spec, target = spec_for(device), open_target("auto", device, store)
    if target.gpu is None or arch_meant(device).startswith("sm_") or spec.is_card(target.spec.name):
        return target
    target.gpu.close()
    return open_target("emulator", device, store)
