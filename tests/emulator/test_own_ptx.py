"""`gemmgen verify --ptx`: what a user's own compiler has made of a kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmgen.cli import main
from gemmgen.cli.output import FAILED, NOT_JUDGED, WRONG_USAGE
from gemmgen.exports.kernelfile import read_kernel
from gemmgen.run.nvrtc import compile_ptx

HEADER = "// Cuda compilation tools, release 12.9, V12.9.86\n"


@pytest.fixture
def kernel(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel with lines that NVRTC does not compile, which another compiler may."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    assert main(["generate", "48x32x?", "--family", "simt", "--arch", "sm_90", "--out", str(tmp_path)]) == 0
    (file,) = tmp_path.glob("*.cu")
    file.write_text(f"{file.read_text()}\n#ifdef ELSEWHERE\n#error here\n#endif\n")
    return file


def ptx_of(kernel: Path) -> str:
    return HEADER + compile_ptx(read_kernel(kernel).source.text, "sm_90")


def verify(kernel: Path, *more: str) -> int:
    return main(["verify", str(kernel), "--device", "emulator", "--examples", "4", "--json", *more])


def own(kernel: Path, text: str) -> tuple[str, ...]:
    file = kernel.with_name("own.ptx")
    file.write_text(text)
    return "--ptx", str(file)


def test_the_verdict_is_of_what_the_users_compiler_made(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert verify(kernel) == NOT_JUDGED
    assert json.loads(capsys.readouterr().out)["not_judged"]
    verify(kernel, *own(kernel, ptx_of(kernel)))
    document = json.loads(capsys.readouterr().out)
    assert document["verification"]["passed"] and not document["not_judged"]
    assert document["ptx"] == {
        "file": f"{kernel.with_name('own.ptx')}",
        "compiler": "nvcc 12.9, V12.9.86",
        "arch": "sm_90",
    }
    assert verify(kernel, *own(kernel, ptx_of(kernel).replace("fma.rn.f32", "fma.rz.f32"))) == FAILED


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (".target", ".aim", "is not PTX"),
        (".target sm_90", ".target sm_80", "is for sm_80, but the kernel is for sm_90"),
        (".entry gemm", ".entry other", "has no kernel gemm_f32_rr_48x32xK"),
    ],
)
def test_other_ptx_is_refused(old: str, new: str, said: str, kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert verify(kernel, *own(kernel, ptx_of(kernel).replace(old, new))) == WRONG_USAGE
    assert said in json.loads(capsys.readouterr().out)["error"]["message"]
