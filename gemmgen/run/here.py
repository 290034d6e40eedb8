"""The tools of this machine: a GPU, compilers, a disassembler, and how to install each that is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from gemmgen.problem.device import DEVICES
from gemmgen.problem.dtype import DType
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.gpu.capability import DeviceProperties
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.run.gpu.limits import MeasuredLimits
from gemmgen.run.nvrtc import compiler_version
from gemmgen.run.sass import find_nvdisasm
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store


@dataclass(frozen=True)
class Part:
    """One thing that gemmgen can use: what was found, or why it is missing."""

    name: str
    purpose: str
    found: str | None
    missing: str | None


@dataclass(frozen=True)
class Here:
    """This machine. `gpu` and `limits` are None if there is no GPU, or nothing was measured."""

    parts: tuple[Part, ...]
    gpu: DeviceProperties | None
    limits: MeasuredLimits | None

    def document(self) -> dict[str, Any]:
        """The record as JSON-ready data."""
        return asdict(self)


def here(*, measure: bool = False) -> Here:
    """Look around; `measure` also measures the GPU's limits. Raises CandidateFailed (unavailable) if that fails."""
    gpu, limits, part = _gpu(measure)
    parts = (
        part,
        _part("NVRTC", "compiles kernels", compiler_version),
        _part("nvdisasm", "disassembles them", find_nvdisasm),
        _part("C++ compiler", "builds the emulator", lambda: HostCompiler.find().version),
    )
    return Here(parts, gpu, limits)


def known_document() -> list[dict[str, Any]]:
    """The cards that gemmgen knows, with data-sheet figures."""
    return [
        {**asdict(spec), "fp32_tflops": spec.tflops(DType.F32), "fp64_tflops": spec.tflops(DType.F64)}
        for spec in DEVICES.values()
    ]


def _gpu(measure: bool) -> tuple[DeviceProperties | None, MeasuredLimits | None, Part]:
    try:
        with GpuExecutor(Store()) as gpu:
            limits = gpu.limits() if measure else None
            return gpu.properties, limits, Part("GPU", "runs and times kernels", gpu.description, None)
    except CandidateFailed as error:
        if measure:
            raise
        return None, None, Part("GPU", "runs and times kernels", None, error.failure.reason)


def _part(name: str, purpose: str, find: Callable[[], str]) -> Part:
    try:
        return Part(name, purpose, find(), None)
    except CandidateFailed as error:
        return Part(name, purpose, None, error.failure.reason)
