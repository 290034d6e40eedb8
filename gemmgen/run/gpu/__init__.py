"""The gpu executor: candidates run in a worker process that owns pycuda and the card's primary context.

executor.py   the parent's side: GpuExecutor
worker.py     the child's side: answers the parent's requests
shared.py     memory of both sides, for large operands and results
runs.py       one launch between guard bands (child)
contest.py    measurements (child)
arena.py      operands between guard bands, and what a kernel wrote that it must not
images.py     operands that stay on the device between runs (child)
multiplier.py products in float64, for references (child)
comparing.py  compares C with those products (child)
launching.py  loaded kernels: functions of cubins, and their arguments (child)
bindings.py   the same by cuda.bindings alone, in any context
timing.py     protocol and results of a measurement, as records
replay.py     input sets, CUDA graphs and samples (child)
cublaslt.py   the baseline (child)
cublas.py     that of batches of pointers (child)
power.py      what NVML says of the card while kernels run (child)
capability.py what the driver says of it, by ctypes, as a record
limits.py     the card's own measured limits
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path

DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
DEVICE_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu")  # desktop and server; WSL; Tegra
INSTALL = "python -m gemmgen.run.gpu.install"


def why_no_gpu() -> str | None:
    """The reason why this machine cannot run kernels on a GPU, and the remedy; None if nothing is missing.

    It is cheap: pycuda is looked for but not imported, and no context is made.
    """
    missing = why_no_device()
    if missing is None and importlib.util.find_spec("pycuda") is None:
        missing = f"pycuda is not installed: {INSTALL}"
    return missing


def why_no_device() -> str | None:
    """The reason why kernels cannot be launched in a caller's context, which needs no pycuda; None if nothing is
    missing."""
    if not _loads(DRIVER):
        return f"no NVIDIA driver ({DRIVER} does not load): install the driver"
    if sys.platform != "win32" and not any(Path(file).exists() for file in DEVICE_FILES):
        return f"no NVIDIA device ({DEVICE_FILES[0]} is missing)"
    return None


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
