"""A GPU's properties from the driver by ctypes: no context and no worker, in a few milliseconds."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from gemmgen.run.gpu import DRIVER, why_no_gpu
from gemmgen.support.errors import CandidateFailed, Failure

# Values of CUdevice_attribute.
CLOCK_KHZ, SMS, L2_BYTES, THREADS_PER_SM, MAJOR, MINOR = 13, 16, 38, 39, 75, 76
SHARED_PER_SM, REGISTERS_PER_SM, SHARED_PER_BLOCK = 81, 82, 97  # the last one as a kernel may ask for it
NAME_BYTES = 256
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
KERNEL_MODULE = Path("/sys/module/nvidia/version")


@dataclass(frozen=True)
class DeviceProperties:
    """What the driver says about the card.

    arch          "sm_90", from the compute capability
    driver        version of the installed driver ("580.159.04"), or of the CUDA that it supports ("CUDA 13.0")
    memory_bytes  device memory
    l2_bytes      L2 cache
    clock_mhz     highest SM clock
    uuid          "GPU-...", which no other card has; "" where nobody asked
    """

    name: str
    arch: str
    driver: str
    sms: int
    memory_bytes: int
    l2_bytes: int
    clock_mhz: float
    shared_bytes_per_block: int
    shared_bytes_per_sm: int
    registers_per_sm: int
    threads_per_sm: int
    uuid: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.arch}, {self.sms} SMs), driver {self.driver}"


def arch_here() -> str | None:
    """The architecture, such as "sm_90", or None if kernels cannot run on a GPU."""
    if why_no_gpu() is not None:
        return None
    try:
        return _Device(0).arch
    except CandidateFailed:
        return None


def properties_here(device: int = 0) -> DeviceProperties:
    """The properties of GPU `device`. Raises CandidateFailed (unavailable) with the driver's error."""
    card = _Device(device)
    return DeviceProperties(
        name=card.name,
        uuid=card.uuid,
        arch=card.arch,
        driver=card.driver_version,
        sms=card.attribute(SMS),
        memory_bytes=card.memory_bytes,
        l2_bytes=card.attribute(L2_BYTES),
        clock_mhz=card.attribute(CLOCK_KHZ) / 1e3,
        shared_bytes_per_block=card.attribute(SHARED_PER_BLOCK),
        shared_bytes_per_sm=card.attribute(SHARED_PER_SM),
        registers_per_sm=card.attribute(REGISTERS_PER_SM),
        threads_per_sm=card.attribute(THREADS_PER_SM),
    )


def cards_here() -> list[str]:
    """The UUIDs of the GPUs that this process sees, "GPU-...", by which CUDA_VISIBLE_DEVICES and NVML name them.

    Raises CandidateFailed (unavailable) with the driver's error.
    """
    if why_no_gpu() is not None or ctypes.CDLL(DRIVER).cuInit(0) == NO_DEVICE:  # CUDA_VISIBLE_DEVICES may hide them all
        return []
    return [_Device(index).uuid for index in range(_Device(0).count)]


class _Device:
    """A device's handle. Errors of the driver raise CandidateFailed: unavailable."""

    def __init__(self, index: int) -> None:
        self._driver, self._handle = ctypes.CDLL(DRIVER), ctypes.c_int()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(self._handle), index)

    @property
    def name(self) -> str:
        found = ctypes.create_string_buffer(NAME_BYTES)
        self._call("cuDeviceGetName", found, NAME_BYTES, self._handle)
        return found.value.decode()

    @property
    def count(self) -> int:
        """The number of devices that the driver shows."""
        found = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(found))
        return found.value

    @property
    def uuid(self) -> str:
        found = ctypes.create_string_buffer(16)
        self._call("cuDeviceGetUuid_v2", found, self._handle)
        return f"GPU-{UUID(bytes=found.raw)}"

    @property
    def arch(self) -> str:
        return f"sm_{self.attribute(MAJOR)}{self.attribute(MINOR)}"

    @property
    def memory_bytes(self) -> int:
        found = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(found), self._handle)
        return found.value

    @property
    def driver_version(self) -> str:
        """ "580.159.04" if the kernel module gives it, else the CUDA version that the driver supports."""
        try:
            words = KERNEL_MODULE.read_text().split()
        except OSError:
            words = []
        if words:
            return words[0]
        version = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(version))
        return f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"

    def attribute(self, number: int) -> int:
        found = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(found), number, self._handle)
        return found.value

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code != 0:
            raise CandidateFailed(Failure("unavailable", f"the NVIDIA driver refuses {name}: error {code}", "gpu"))
