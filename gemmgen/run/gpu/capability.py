"""The GPU's architecture from the driver alone: no context and no worker, in a few milliseconds."""

from __future__ import annotations

import ctypes

from gemmgen.run.gpu import DRIVER, why_no_gpu

MAJOR, MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of CUdevice_attribute


def arch_here(device: int = 0) -> str | None:
    """ "sm_90", or None where kernels cannot run on a GPU."""
    if why_no_gpu() is not None:
        return None
    driver, handle = ctypes.CDLL(DRIVER), ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGet(ctypes.byref(handle), device) != 0:
        return None
    numbers = [ctypes.c_int(), ctypes.c_int()]
    for number, attribute in zip(numbers, (MAJOR, MINOR), strict=True):
        if driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, handle) != 0:
            return None
    return f"sm_{numbers[0].value}{numbers[1].value}"
