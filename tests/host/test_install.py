"""`python -m gemmgen.run.gpu.install`: what it would run, and what it says where it cannot."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from gemmgen.run.gpu import install
from gemmgen.support.errors import GemmgenError


def test_packages_are_those_of_the_extra() -> None:
    packages = install.gpu_packages()
    assert [package for package in packages if package.startswith("pycuda")]
    assert {re.split(r"[<>=]", package)[0] for package in packages} == {
        *(
            "nvidia-cublas",
            "nvidia-cuda-profiler-api",
            "nvidia-ml-py",
            "nvmath-python",
            "pycuda",
        ),
    }


def test_settings_stand_in_a_copy_of_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = tmp_path / "libcuda.so.1"
    driver.write_text("library")
    own = tmp_path / "home"
    own.mkdir()
    (own / ".netrc").write_text("password")
    (own / install.SETTINGS).write_text("CUDA_ENABLE_CURAND = True")
    monkeypatch.setenv("HOME", str(own))
    with install.settings_folder(driver) as home:
        settings = runpy.run_path(str(home / install.SETTINGS))
        assert (home / ".netrc").read_text() == "password"
        assert Path(settings["CUDADRV_LIB_DIR"][0], "libcuda.so").read_text() == "library"
    assert settings["CUDA_ENABLE_CURAND"] is False
    assert not home.exists()
    assert sorted(path.name for path in own.iterdir()) == [install.SETTINGS, ".netrc"]
    assert (own / install.SETTINGS).read_text() == "CUDA_ENABLE_CURAND = True"


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GemmgenError, match=r"no C\+\+ compiler" if sys.platform == "linux" else "on Linux"):
        install.driver_library()


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "why_not_buildable", lambda: None)
    monkeypatch.setattr(install, "DRIVER", "libno-such-driver.so.1")
    with pytest.raises(GemmgenError, match="no NVIDIA driver: libno-such-driver"):
        install.driver_library()
    with pytest.raises(SystemExit, match="the gpu executor is not installed: no NVIDIA driver"):
        install.main()
