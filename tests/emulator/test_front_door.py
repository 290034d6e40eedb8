"""Commands of README.md and of the session in docs/ run: as they stand there, but for smaller problems."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gemmgen.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()

QUICK = {  # as it stands in README.md: as it is run here
    "gemmgen tune 512x512x512 --as sgemm": "gemmgen tune 16x16x16 --as sgemm --family naive --budget 1",
    "gemmgen export sgemm --to vendored": "gemmgen export sgemm --to vendored --examples 3",
    "gemmgen verify --certificate vendored/sgemm.certificate.json": "",
    "gemmgen explain gemm_bf16_rc_4096x4096x4096": "",
    "gemmgen report": "gemmgen report gemmgen-out",
}
LONG = {
    "gemmgen library linear.toml --to mylinear": (
        "gemmgen library linear.toml --to mylinear --budget 1 --examples 0 --points 8"
    ),
    "gemmgen study tensor-ladder 2048x2048x2048 --layout rc --out gemmgen-out": (
        "gemmgen study tensor-ladder 128x128x128 --layout rc --out gemmgen-out --budget 1"
    ),
    "gemmgen diff swizzle multistage": "",
}
SESSIONS = {  # likewise those of docs/session.md and docs/exports.md, in this order
    "gemmgen tune 512x512x512 --as sgemm": QUICK["gemmgen tune 512x512x512 --as sgemm"],
    "gemmgen verify gemmgen-out/sgemm.cu --examples 50": "gemmgen verify gemmgen-out/sgemm.cu --examples 3",
    "gemmgen export sgemm --to vendored --examples 50": "gemmgen export sgemm --to vendored --examples 3",
    "gemmgen verify --certificate vendored/sgemm.certificate.json": "",
}
REFUSED = "gemmgen generate 512x512x512 --set BM=100"
INSTALLS = ("pip install ", "uv tool install ", "pip wheel ")  # tests/host/test_readme.py reads them


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{re.escape(language)}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    return str(text)


@pytest.fixture
def folder(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own one, with the repository's kernels on file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "generated").symlink_to(ROOT / "generated")
    return tmp_path


def run(commands: dict[str, str]) -> None:
    for command, smaller in commands.items():
        assert main((smaller or command).split()[1:]) == 0, command


def test_no_command_of_the_readme_is_left_out() -> None:
    shell = "".join(re.findall(r"^```sh\n(.*?)^```", README, re.DOTALL | re.MULTILINE)).splitlines()
    commands = [line.partition("#")[0].strip() for line in shell]
    assert {line for line in commands if not line.startswith(INSTALLS)} == {*QUICK, *LONG}


def test_a_kernel_is_tuned_exported_checked_explained_and_shown(folder: Path) -> None:
    run(QUICK)
    call = re.search(r"return (sgemm_launch\(.*\));", block("c++"))
    assert call is not None
    shown = call[1].replace("1.0f, 0.0f", "alpha, beta").replace("sgemm_workspace_bytes()", "workspace_bytes")
    assert shown in (folder / "vendored" / "README.md").read_text()
    assert "sgemm" in (folder / "gemmgen-out" / "report.html").read_text()


def test_a_session_of_the_docs_runs_and_says_what_they_show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = [(ROOT / "docs" / name).read_text() for name in ("session.md", "exports.md")]
    commands = [line for page in pages for line in re.findall(r"^\$ (.*)$", page, re.MULTILINE)]
    assert [line for line in commands if line != REFUSED] == [*SESSIONS]
    run(SESSIONS)
    printed = capsys.readouterr().out.splitlines()
    exported = re.findall(r"^vendored/\S+$", pages[1], re.MULTILINE)
    assert "winner    sgemm" in printed and [line for line in printed if line.startswith("vendored/")] == exported
    assert main(REFUSED.split()[1:]) == 2
    assert f"$ {REFUSED}\n{capsys.readouterr().err}" in pages[0]


@pytest.mark.soak
def test_a_library_and_a_ladder_are_made(folder: Path) -> None:
    (folder / "linear.toml").write_text(block("toml").replace("4096", "64").replace("8192", "64"))
    run(LONG)
    assert (folder / "mylinear" / "mylinear.h").is_file()


@pytest.mark.soak
@pytest.mark.skipif(not (shutil.which("cmake") and shutil.which("nvcc")), reason="cmake or nvcc is not on the PATH")
def test_the_project_of_the_readme_builds(folder: Path) -> None:
    run(dict(list(QUICK.items())[:2]))
    (folder / "CMakeLists.txt").write_text(block("cmake"))
    (folder / "multiply.cpp").write_text(block("c++"))
    for words in (["-S", ".", "-B", "build"], ["--build", "build"]):
        done = subprocess.run(["cmake", *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("torch")
def test_the_example_for_torch_runs(folder: Path) -> None:
    """On tensors of the host, with a smaller weight."""
    example = block("python").replace("4096", "32").replace('layout="rc"', 'layout="rc", pointer_align=4')
    example = example.replace("gemmgen.tune(", "gemmgen.generate(")
    done = subprocess.run([sys.executable, "-c", example], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
