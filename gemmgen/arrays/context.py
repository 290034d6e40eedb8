"""CUDA contexts: the one that is current on a device, or else its primary one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from cuda.bindings import driver

from gemmgen.run.gpu.bindings import DriverError, checked
from gemmgen.support.errors import CandidateFailed, Failure


@dataclass(frozen=True)
class Context:
    """A CUDA context: the driver's handle, and its device."""

    handle: int
    ordinal: int
    sms: int
    arch: str


def elsewhere(context: Context) -> str:
    """The end of an error message if the current context is not that of a launch; "" if it is."""
    status, now = driver.cuCtxGetCurrent()
    same = status == driver.CUresult.CUDA_SUCCESS and int(now) == context.handle
    return "" if same else f": the launch belongs to device {context.ordinal}, whose context is not the current one"


@contextmanager
def failures() -> Iterator[None]:
    """Turn errors of the driver, and tensor maps that it refuses, into launch failures."""
    try:
        yield
    except DriverError as error:
        raise CandidateFailed(Failure("launch", str(error), "gpu")) from error


@contextmanager
def current(ordinal: int) -> Iterator[Context]:
    """Yield the current context if it belongs to this device; else its primary one, which is current in the block."""
    now = int(checked(driver.cuCtxGetCurrent()))
    if now != 0 and int(checked(driver.cuCtxGetDevice())) == ordinal:
        yield context_of(now, ordinal)
        return
    handle = primary(ordinal)
    checked(driver.cuCtxPushCurrent(driver.CUcontext(handle)))
    try:
        yield context_of(handle, ordinal)
    finally:
        checked(driver.cuCtxPopCurrent())


@cache
def primary(ordinal: int) -> int:
    """The handle of the device's primary context, which torch, CuPy and JAX use."""
    return int(checked(driver.cuDevicePrimaryCtxRetain(driver.CUdevice(ordinal))))


def arch_here() -> str:
    """The architecture of the first device: "sm_90". Raises CandidateFailed."""
    with failures():
        checked(driver.cuInit(0))
        return context_of(0, 0).arch


@cache
def context_of(handle: int, ordinal: int) -> Context:
    attribute, device = driver.CUdevice_attribute, driver.CUdevice(ordinal)

    def value(name: str) -> int:
        return int(checked(driver.cuDeviceGetAttribute(getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device)))

    major, minor = value("COMPUTE_CAPABILITY_MAJOR"), value("COMPUTE_CAPABILITY_MINOR")
    return Context(handle, ordinal, value("MULTIPROCESSOR_COUNT"), f"sm_{major}{minor}")
