"""python -m gemmgen.run.gpu.install: installs the extra `gpu` on a machine with an NVIDIA driver but no CUDA
toolkit.

pycuda comes as source only. It builds in about a minute against wheels: headers from nvidia-cuda-runtime and
nvidia-cuda-profiler-api, the driver's own library to link with, and no CURAND, which gemmgen does not use.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.metadata import requires
from pathlib import Path

from gemmgen.run.gpu import DRIVER
from gemmgen.run.nvrtc import wheel_folders
from gemmgen.support.errors import GemmgenError
from gemmgen.support.scratch import scratch_folder

COMPILERS = ("c++", "g++", "clang++")
SETTINGS = ".aksetup-defaults.py"  # pycuda's setup.py reads it from the home folder


def main() -> None:
    """Install, and check that pycuda imports; exit with 1 and the reason if that fails."""
    try:
        packages = gpu_packages()
        driver = driver_library()
        _run([*installer(), *(package for package in packages if not package.startswith("pycuda"))])
        with settings_folder(driver) as home:
            print("building pycuda for this machine's driver: about a minute", flush=True)
            _run([*installer(), *(package for package in packages if package.startswith("pycuda"))], home=home)
        _run([sys.executable, "-c", "import pycuda.driver"])
    except GemmgenError as error:
        sys.exit(f"the gpu executor is not installed: {error}")


def gpu_packages() -> list[str]:
    """The requirements of the extra `gpu`, as gemmgen's own metadata names them."""
    named = (requirement.partition(";") for requirement in requires("gemmgen") or ())
    return [package.strip() for package, _, marker in named if "extra" in marker and "gpu" in marker]


def why_not_buildable() -> str | None:
    """The reason why pycuda cannot be built, and the remedy; None if it can."""
    if not sys.platform.startswith("linux"):
        return f"pycuda is built here on Linux only, not on {sys.platform}"
    if not any(map(shutil.which, COMPILERS)):
        return f"no C++ compiler ({', '.join(COMPILERS)}): install g++"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python's headers are missing: install python3-dev"
    return None


def driver_library() -> Path:
    """The driver's library, to link with. Raises GemmgenError if pycuda cannot be built."""
    reason = why_not_buildable()
    if reason is not None:
        raise GemmgenError(reason)
    try:
        ctypes.CDLL(DRIVER)
    except OSError as error:
        raise GemmgenError(f"no NVIDIA driver: {error}") from error
    mapped = (line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines())
    return next(Path(path) for path in mapped if Path(path).name.startswith("libcuda.so"))


@contextlib.contextmanager
def settings_folder(driver: Path) -> Iterator[Path]:
    """A home folder like the user's own, with the settings of pycuda's build added."""
    with scratch_folder() as folder:
        home, libraries = folder / "home", folder / "lib"
        home.mkdir()
        libraries.mkdir()
        (libraries / "libcuda.so").symlink_to(driver)  # what -lcuda looks for; a driver alone brings libcuda.so.1
        for entry in Path.home().iterdir():
            if entry.name != SETTINGS:
                (home / entry.name).symlink_to(entry)
        settings = {
            "CUDA_ENABLE_CURAND": False,
            "CUDA_INC_DIR": [str(headers) for headers in wheel_folders("include")],
            "CUDADRV_LIB_DIR": [str(libraries)],
            "CXXFLAGS": ["-O1", "-g0"],  # a thin wrapper: more would only lengthen the build
        }
        (home / SETTINGS).write_text("".join(f"{name} = {value!r}\n" for name, value in settings.items()))
        yield home


def installer() -> list[str]:
    """The command `pip install` for this interpreter; uv's if the environment came from uv and has no pip."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet"]
    uv = shutil.which("uv")
    if uv is None:
        raise GemmgenError("neither pip nor uv is here to install with")
    return [uv, "pip", "install", "--quiet", "--python", sys.executable]


def _run(command: Sequence[str], home: Path | None = None) -> None:
    environment = os.environ if home is None else {**os.environ, "HOME": str(home)}
    if subprocess.run(command, env=environment, check=False).returncode != 0:
        raise GemmgenError(f"this failed: {' '.join(command)}")


if __name__ == "__main__":
    main()
