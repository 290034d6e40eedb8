"""Installs what the gpu executor needs, on a machine with an NVIDIA driver and no CUDA toolkit.

    python -m gemmgen.gpu.install

pycuda comes as source only. It builds in one to two minutes against NVIDIA's wheels: headers from
nvidia-cuda-runtime and nvidia-cuda-profiler-api, the driver's own library to link with, and without CURAND,
which gemmgen does not use. Standard library only: it runs before anything else is installed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gemmgen.gpu import DRIVER, why_no_driver

HEADERS = ("nvidia-cuda-profiler-api>=13,<14", "nvidia-cuda-runtime>=13,<14")
PACKAGES = ("nvidia-cublas>=13,<14", "nvmath-python>=0.6", "pycuda==2026.1")  # the extra `gpu`


def main() -> int:
    """Install; the exit status is 0 where pycuda can be imported afterwards."""
    missing = why_not()
    if missing is not None:
        print(f"gemmgen: cannot build pycuda: {missing}", file=sys.stderr)
        return 1
    print("gemmgen: building pycuda for the GPU, which takes one to two minutes")
    try:
        install(*HEADERS)
        with build_settings(find_driver()) as home:
            install(*PACKAGES, home=home)
    except subprocess.CalledProcessError as error:
        print(f"gemmgen: pycuda was not installed: {error}", file=sys.stderr)
        return 1
    return subprocess.run([sys.executable, "-c", "import pycuda.driver"], check=False).returncode
