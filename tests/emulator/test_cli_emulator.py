"""The command line where kernels really run: tune, verify and the API, on the emulator."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import gemmgen
from gemmgen.cli import main
from gemmgen.exports.kernelfile import read_kernel
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.emulator.program import KIND, interpreter, program_key
from gemmgen.support.files import Store

REPOSITORY = Path(__file__).parents[2]
HERE = {"PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "error", "COLUMNS": "140"}
TUNE = ("tune", "96x64x40", "--device", "emulator", "--budget", "3")
SMALLEST = ("tune", "32x32x32", "--device", "emulator", "--family", "naive", "--budget", "1")


@pytest.fixture
def cache(shared_cache: Path) -> Path:
    """For the tests that do not harm it."""
    return shared_cache


@pytest.fixture
def environment(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Own folder, shared cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str, folder: Path, cache: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """The command line as a process of its own."""
    environ = {**os.environ, **HERE, "XDG_CACHE_HOME": str(cache), **extra}
    command = [sys.executable, "-m", "gemmgen", *words]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def document(text: str) -> dict[str, Any]:
    loaded = json.loads(text)
    assert isinstance(loaded, dict)
    return loaded


def test_tune_writes_the_winner_and_says_why(environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TUNE]) == 0
    shown = capsys.readouterr().out
    assert "3 candidates" in shown and "winner" in shown and "predicted for H200; nothing was measured" in shown
    assert "measured:" not in shown
    (kernel,) = environment.glob("gemmgen-out/*.cu")
    record = read_kernel(kernel).record
    assert record is not None and record["name"] == kernel.stem
    assert record["time"]["kind"] == "predicted" and record["executor"]["name"] == "emulator"
    assert record["verification"]["passed"] and record["verification"]["examples"] >= 1
    assert record["resources"]["registers"] > 0 and record["resources"]["spill_bytes"] == 0
    assert record["command"] == f"gemmgen {' '.join(TUNE)}"
    assert f"gemmgen explain {kernel.stem}" in shown


def test_tune_json_accounts_for_every_candidate(environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TUNE, "--json"]) == 0
    captured = capsys.readouterr()
    (result,) = document(captured.out)["results"]
    assert len(result["candidates"]) == 3
    assert {candidate["state"] for candidate in result["candidates"]} <= {"accepted", "rejected"}
    assert all(candidate["time"]["kind"] == "predicted" for candidate in result["candidates"])
    assert all((environment / file).is_file() for file in result["files"])
    assert "\nverify\n" in captured.err
    assert [candidate["verification"] is not None for candidate in result["candidates"]] == [True, False, False], (
        "no time was measured, so that one that is right is enough"
    )


def test_tune_says_at_which_size_and_breaks_no_name(
    environment: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    name = "a_name_that_is_longer_than_the_terminal_is_wide"
    assert main(["tune", "?x32x32", *SMALLEST[2:], "--as", name]) == 0
    shown = capsys.readouterr().out
    (kernel,) = environment.glob("gemmgen-out/*.cu")
    assert f"winner    {name}\n" in shown and "TFLOPS at M = 4096, predicted" in shown
    assert kernel.stem == read_kernel(kernel).source.name == name and not read_kernel(kernel).edited


def test_several_shapes_and_runtime_sizes(environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "32x32x32", "?x32x32", "--family", "naive", "--budget", "1", "--json"]) == 0
    results = document(capsys.readouterr().out)["results"]
    assert [result["problem"]["m"] for result in results] == [32, "?"]
    assert list(results[0]["seconds"]) == ["start", "explore", "compile", "measure", "compare", "verify"]
    assert len(list(environment.glob("gemmgen-out/*.cu"))) == 2


def test_verify_finds_an_edit_and_says_how_to_see_it_again(
    environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["generate", "?x?x?", "--family", "naive"])
    (kernel,) = environment.glob("gemmgen-out/*.cu")
    assert main(["verify", str(kernel), "--device", "emulator", "--examples", "20"]) == 0
    assert "PASS" in capsys.readouterr().out
    kernel.write_text(kernel.read_text().replace("k < s.K", "k < s.K - 1"))  # one missing product
    assert main(["verify", str(kernel), "--device", "emulator", "--examples", "20"]) == 1
    shown = capsys.readouterr().out
    assert "FAIL" in shown and "edited by hand" in shown
    assert "smallest case  1x1x1 " in shown and "C[0][0]" in shown and "its bound" in shown
    command = f"gemmgen verify {kernel} --device emulator --seed 0 --examples 20"
    assert command in shown
    assert main([*command.split()[1:], "--json"]) == 1
    found = document(capsys.readouterr().out)
    verification = found["verification"]
    assert verification["failure"]["kind"] == "wrong" and verification["mismatch"]["row"] == 0


def test_verify_of_what_does_not_compile(environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["generate", "16x16x16", "--family", "naive"])
    (kernel,) = environment.glob("gemmgen-out/*.cu")
    right = kernel.read_text()
    kernel.write_text(right + "}\n")
    assert main(["verify", str(kernel), "--device", "emulator"]) == 1
    shown = capsys.readouterr().out
    assert "FAIL  compile" in shown and f"kernel.cu({right.count(chr(10)) + 1})" in shown


@pytest.mark.parametrize(
    ("place", "added", "reason"),
    [
        ("    float acc", "    if (__fns(7u, 0u, 1) == 0u) return;", "`fns.b32`: it is not emulated"),
        (
            "    float acc",
            "    if (tex2D<float>(cudaTextureObject_t(alpha), 0.0f, 0.0f) > 1e30f) return;",
            "`tex.2d.v4.f32.f32`: it is not emulated",
        ),
        ("// Made by", "// \0", "has a NUL byte, at which compilers may end the text: take it out"),
    ],
    ids=["a function", "textures", "a NUL byte"],
)
def test_verify_of_what_is_not_judged_says_what_that_is(
    place: str, added: str, reason: str, environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["generate", "16x16x16", "--family", "naive"])
    (kernel,) = environment.glob("gemmgen-out/*.cu")
    lines = kernel.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(place))
    kernel.write_text("\n".join([*lines[:at], added, *lines[at:]]) + "\n")
    assert main(["verify", str(kernel), "--device", "emulator"]) == 3
    shown = " ".join(capsys.readouterr().out.split())
    assert "NOT JUDGED" in shown and "FAIL" not in shown and "PASS" not in shown
    assert reason in shown and (f"{kernel.name}:{at + 1}" in shown or f"line {at + 1} " in shown)
    assert main(["verify", str(kernel), "--device", "emulator", "--json"]) == 3
    assert document(capsys.readouterr().out)["verification"]["failure"]["kind"] == "unjudged"


def test_verify_says_which_lines_another_compiler_may_read_otherwise(
    environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["generate", "16x16x16", "--family", "naive"])
    (kernel,) = environment.glob("gemmgen-out/*.cu")
    lines = kernel.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if "float acc" in line)
    lines[at + 1 : at + 1] = ["#ifndef __CUDACC_RTC__", "    if (blockIdx.x == 0) return;", "#endif"]
    kernel.write_text("\n".join(lines) + "\n")
    assert main(["verify", str(kernel), "--device", "emulator", "--examples", "2"]) == 3
    shown = capsys.readouterr().out
    assert f"NOT JUDGED  lines {at + 2} to {at + 4}: compilers other than NVRTC may read them differently" in shown
    assert "PASS" in shown
    assert main(["export", str(kernel), "--to", "out", "--examples", "0"]) == 3 and not (environment / "out").exists()
    assert f"not judged: unjudged (text): lines {at + 2} to {at + 4} of " in capsys.readouterr().err


@pytest.mark.parametrize("line", ['asm(".pushsection .init_array");', "#define cudaLaunchKernelEx(...) cudaSuccess"])
def test_what_would_run_on_the_host_is_not_exported(
    line: str, environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """NVRTC takes both: of the one a host makes code that runs first, of the other a launcher that launches nothing."""
    main(["generate", "16x16x16", "--family", "naive"])
    (kernel,) = environment.glob("gemmgen-out/*.cu")
    text = kernel.read_text()
    at = text[: text.index("namespace")].count("\n") + 1
    kernel.write_text(text.replace("namespace", f"{line}\nnamespace", 1))
    assert main(["export", str(kernel), "--to", "out", "--examples", "0"]) == 3 and not (environment / "out").exists()
    assert f"line {at} of " in capsys.readouterr().err


def test_the_example_of_the_documentation_runs(tmp_path: Path, cache: Path) -> None:
    """With a smaller problem: its own takes half a minute without a GPU."""
    (text,) = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / "python.md").read_text(), re.DOTALL)
    example = text.replace("Problem(512, 512, 512)", "Problem(96, 64, 40)")
    assert example != text
    environ = {**os.environ, **HERE, "XDG_CACHE_HOME": str(cache)}
    words = [sys.executable, "-c", example]
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "us predicted" in done.stdout or "us measured" in done.stdout


def test_api_returns_records(environment: Path) -> None:
    problem = gemmgen.Problem(32, 48, 16)
    result = gemmgen.tune(problem, device="emulator", family="naive", budget=2, out="kernels")
    assert result.winner.failure is None and result.winner.time_kind == "predicted"
    assert (environment / "kernels" / f"{result.winner.source.name}.cu").read_text() == result.winner.source.text
    for kernel in (gemmgen.generate(problem, family="naive", BM=8), result, result.winner):
        assert gemmgen.verify(kernel, device="emulator", examples=5).passed


# Bad days


def test_a_corrupt_cache_costs_nothing_but_time(tmp_path: Path, shared_store: Store) -> None:
    """All of it but the interpreter, which takes a minute to make."""
    words, cache, compiler = (*SMALLEST, "--json"), tmp_path / "own", HostCompiler.find()
    interpreter(compiler, shared_store)
    made = shared_store.path(KIND, program_key(compiler))
    kept = cache / "gemmgen" / made.relative_to(shared_store.root)
    kept.parent.mkdir(parents=True)
    shutil.copy(made, kept)
    first = call(*words, folder=tmp_path, cache=cache)
    entries = [path for path in cache.rglob("*") if path.is_file() and path != kept]
    assert first.returncode == 0 and entries
    for number, entry in enumerate(entries):
        entry.write_bytes((b"", b"broken", entry.read_bytes()[:-1])[number % 3])
    second = call(*words, folder=tmp_path, cache=cache)
    assert second.returncode == 0, second.stderr
    assert (
        document(second.stdout)["results"][0]["winner"]["name"]
        == document(first.stdout)["results"][0]["winner"]["name"]
    )


def compiler(folder: Path, body: str) -> str:
    """A C++ compiler that says its version and then does `body`."""
    script = folder / "cxx"
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "cxx 1.0" && exit 0\n{body}\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize("body", ["kill -9 $$", "exit 1"])
def test_a_killed_compile_is_a_failure_with_its_reason(tmp_path: Path, body: str) -> None:
    done = call(*SMALLEST, folder=tmp_path, cache=tmp_path / "own", CXX=compiler(tmp_path, body))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "gemmgen: failed:" in done.stderr and done.stdout == ""
    assert not (tmp_path / "gemmgen-out").exists()


def test_no_compiler(tmp_path: Path) -> None:
    done = call(*SMALLEST, folder=tmp_path, cache=tmp_path / "own", CXX="/nowhere/g++")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "unavailable (emulator)" in done.stderr and "pip install ziglang" in done.stderr


def test_an_interrupt_leaves_nothing_half_written_and_resumes(tmp_path: Path, cache: Path) -> None:
    """In the middle of a compilation, which ends with the run and not after it."""
    real = shlex.join(HostCompiler.find().command)
    first = "common.hpp.gch"  # which all other compilations include
    telling = compiler(tmp_path, f'case "$*" in *{first}) touch {tmp_path}/begun; sleep 60;; esac\nexec {real} "$@"')
    words = SMALLEST
    own = tmp_path / "own"
    environ = {**os.environ, **HERE, "XDG_CACHE_HOME": str(own), "CXX": telling}
    command = [sys.executable, "-u", "-m", "gemmgen", *words]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
        # Ignored in what a shell starts in the background, and so in its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  (no threads here)
    ) as process:  # fmt: skip
        while process.poll() is None and not (tmp_path / "begun").exists():
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
        out, err = process.communicate()
    assert process.returncode == 130 and out == ""
    assert "the same command resumes" in err and "Traceback" not in err
    assert not (tmp_path / "gemmgen-out").exists()
    built = [path for path in own.rglob("emulator/**/*") if path.is_file() and path.stat().st_size]  # a lock is empty
    assert not built, "no compilation ran to its end"
    assert call(*words, folder=tmp_path, cache=cache).returncode == 0
