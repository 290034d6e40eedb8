"""A kernel's text that tries what no kernel needs: nothing of it happens, and the verdict says what was tried."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemmgen.kernel.families import NAIVE
from gemmgen.kernel.render import render
from gemmgen.kernel.source import KernelSource, Launch, Parameter
from gemmgen.problem.gemm import Problem
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.emulator.confine import Confinement
from gemmgen.run.executor import LoadedKernel, Operands
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store

PROBLEM = Problem(None, 1, 1)
PARAMETERS = (Parameter("C", "float*"), Parameter("M", "int"))

# What is tried, by the number of rows of C; {folder} is the test's.
ATTEMPTS = """
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
static int attempt(int number) {{
  char byte = 'x';
  if (number == 2) return system("id > {folder}/system");
  if (number == 3) return fopen("{folder}/written", "w") != nullptr;
  if (number == 4) return open("{folder}/secret.h", O_RDONLY);
  if (number == 5) return socket(AF_INET, SOCK_STREAM, 0);
  if (number == 6) return kill(getppid(), SIGTERM);
  if (number == 7) return ioctl(1, TIOCSTI, &byte);
  if (number == 8) return fork();
  if (number == 9) return popen("id", "r") != nullptr;
  if (number == 10) return getenv("HOME") != nullptr;
  return 0;
}}
"""
KERNEL = 'extern "C" __global__ void k(float* C, int M) {{ C[0] = {result}; }}'
TOLD = {
    2: r"the kernel's text starts a program, or makes another call that no kernel may",
    3: r"block 0, thread 0 opens a file \(open",
    4: r"block 0, thread 0 opens a file \(open",
    5: r"block 0, thread 0 opens a socket \(socket\)",
    6: r"block 0, thread 0 sends a signal \(kill\)",
    8: r"block 0, thread 0 starts a process or a thread \(clone\)",
    9: r"block 0, thread 0 makes a pipe to another process \(pipe2?\)",
    10: r"block 0, thread 0 reads the environment \(getenv of HOME\)",
}

Load = Callable[[str], LoadedKernel]


@pytest.fixture
def load(shared_store: Store, tmp_path: Path) -> Iterator[Load]:
    (tmp_path / "secret.h").write_text("the secret\n")
    with EmulatorExecutor(shared_store) as executor:
        if executor.unconfined:
            pytest.skip(f"not confined here: {'; '.join(executor.unconfined)}")

        def of(text: str) -> LoadedKernel:
            return executor.load(KernelSource("k", text, PROBLEM, "test", {}, Launch(1, ()), PARAMETERS))

        yield of


def run(kernel: LoadedKernel, rows: int = 1) -> float:
    """C[0] after a launch of one thread."""
    case = PROBLEM.case(m=rows)
    operands = Operands(*(np.zeros(matrix.elements, np.float32) for matrix in case.matrices))
    return float(kernel.run(case, operands)[0])


def test_from_the_kernel(load: Load, tmp_path: Path) -> None:
    """And before all else that a text can run: there its files alone are refused, and in silence."""
    early = "static int early; __attribute__((constructor(99))) static void first() { early = attempt(4); }\n"
    kernel = load(ATTEMPTS.format(folder=tmp_path) + early + KERNEL.format(result="M == 1 ? early : attempt(M)"))
    assert run(kernel) == -1.0
    assert run(kernel, 7) == -1.0, "nothing is typed into the terminal"
    for number, told in TOLD.items():
        with pytest.raises(CandidateFailed, match=told):
            run(kernel, number)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.h"]


INITIALISERS = {
    2: r"starts a program, or makes another call that no kernel may",
    3: r"before the launch, its text opens a file \(openat\), which no kernel may",
    5: r"before the launch, its text opens a socket \(socket\)",
    8: r"before the launch, its text starts a process or a thread \(clone\)",
    9: r"before the launch, its text makes a pipe",
}


@pytest.mark.parametrize("number", INITIALISERS)
def test_from_a_static_initialiser(number: int, load: Load, tmp_path: Path) -> None:
    text = f"{ATTEMPTS.format(folder=tmp_path)}static int tried = attempt({number});\n{KERNEL.format(result='tried')}"
    with pytest.raises(CandidateFailed, match=INITIALISERS[number]):
        run(load(text))
    assert [path.name for path in tmp_path.iterdir()] == ["secret.h"]


def test_no_process_starts_before_all_initialisers(load: Load, tmp_path: Path) -> None:
    """Where no handler names the call yet."""
    early = "static int early; __attribute__((constructor(99))) static void first() { early = fork(); }\n"
    with pytest.raises(CandidateFailed, match="starts a program, or makes another call that no kernel may"):
        run(load(ATTEMPTS.format(folder=tmp_path) + early + KERNEL.format(result="early")))


def test_the_compiler_reads_no_file_of_others(load: Load, tmp_path: Path) -> None:
    with pytest.raises(CandidateFailed, match=r"secret\.h") as caught:
        load(f'#include "{tmp_path}/secret.h"\n' + KERNEL.format(result="0"))
    assert "the secret" not in str(caught.value)


def test_what_does_not_hold_is_said() -> None:
    bare = Confinement(b"#!/bin/sh\necho seccomp\n", compiler=True)
    assert bare.missing == ("no Landlock (any file can be read)",)
    assert replace(bare, compiler=False).missing[1:] == ("the compiler (it fails with its own files alone)",)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: the emulator starts no helpers")
def test_the_emulator_itself_starts_helpers(shared_store: Store) -> None:
    problem = Problem(400, 400, 400)
    source = render(problem, NAIVE, NAIVE.default(problem))
    text = source.text.replace("    *to = ", "    acc = float(getpid());\n    *to = ")
    case = problem.case()
    operands = Operands(*(np.ones(matrix.elements, np.float32) for matrix in case.matrices))
    with EmulatorExecutor(shared_store) as executor:
        kernel = executor.load(replace(source, text=f"#include <unistd.h>\n{text}"))
        assert len(np.unique(kernel.run(case, operands, watch=False))) >= 2, "processes that ran blocks"
