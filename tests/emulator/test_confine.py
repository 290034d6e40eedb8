"""The interpreter's process: it has what it computes with, and nothing else of this machine."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gemmgen.kernel.families import NAIVE
from gemmgen.kernel.render import render
from gemmgen.problem.gemm import Problem
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.emulator.server import GUARDS, missing_guards
from gemmgen.run.executor import Operands
from gemmgen.support.files import Store

PROBLEM = Problem(4, 4, 4)
GIB = 2**30


@pytest.fixture
def process(shared_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Of a kernel that has run; this process has a secret in its environment and in a file that children inherit."""
    secret = tmp_path / "secret"
    secret.write_text("the secret\n")
    monkeypatch.setenv("SECRET", "the secret")
    with secret.open() as file, EmulatorExecutor(shared_store) as executor:
        os.set_inheritable(file.fileno(), True)
        kernel = executor.load(render(PROBLEM, NAIVE, NAIVE.default(PROBLEM)))
        case = PROBLEM.case()
        kernel.run(case, Operands(*(np.ones(matrix.elements, np.float32) for matrix in case.matrices)))
        yield kernel._server._process._process.pid


def test_it_has_no_environment_and_no_file_but_those_passed(process: int) -> None:
    proc = Path(f"/proc/{process}")
    assert (proc / "environ").read_bytes() == b""
    files = {int(file.name): os.readlink(file).partition(":")[::2] for file in (proc / "fd").iterdir()}
    assert sorted(files) == [0, 1, 2, 3, 4, 5, 6], files
    assert [files[number][0] for number in (0, 4, 6)] == ["pipe"] * 3  # requests, replies and the lifeline
    assert [files[number][1].split()[0] for number in (3, 5)] == ["gemmgen-operands", "gemmgen-coverage"]


def test_it_gains_no_rights_and_its_system_calls_are_filtered(process: int, shared_store: Store) -> None:
    with EmulatorExecutor(shared_store) as executor:
        filtered = GUARDS["seccomp"] not in executor.unconfined
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == ("2" if filtered else "0")


def test_its_memory_and_files_are_limited(process: int) -> None:
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for kind, most in (
        (resource.RLIMIT_DATA, max(physical, 16 * GIB)),
        (resource.RLIMIT_FSIZE, GIB),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        soft, hard = resource.prlimit(process, kind)
        assert 0 <= soft == hard <= most  # -1: no limit


@pytest.mark.parametrize(
    ("said", "missing"), [("landlock seccomp", []), ("seccomp", ["landlock"]), ("", ["landlock", "seccomp"])]
)
def test_what_does_not_hold_is_said(said: str, missing: list[str]) -> None:
    assert missing_guards(f"#!/bin/sh\necho {said}\n".encode()) == tuple(GUARDS[name] for name in missing)
