"""The host's C++ compiler, which builds the emulator's own programs once per machine. It never sees a kernel's text."""

from __future__ import annotations

import functools
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from gemmgen.run.emulator.failures import failed
from gemmgen.support.child_lifetime import Lifelines
from gemmgen.support.scratch import scratch_folder

COMPILE_TIMEOUT = 300.0
HOW_TO_GET_ONE = "install g++ or clang++, name one in $CXX, or `pip install ziglang`"


@dataclass(frozen=True)
class HostCompiler:
    """A working C++ compiler: its command and its version.

    running  its processes; each executor has its own, and ends them when it closes
    """

    command: tuple[str, ...]
    version: str
    running: Lifelines = field(default_factory=Lifelines, compare=False, repr=False)

    @classmethod
    def find(cls) -> HostCompiler:
        """Find a compiler: $CXX if it is set, else the first of g++, clang++, c++ and ziglang's.

        Raises CandidateFailed: unavailable, with what to install.
        """
        return _find(os.environ.get("CXX", ""))

    @property
    def identity(self) -> tuple[str, ...]:
        """The compiler and the machine, on which the programs that it builds depend."""
        return (*self.command, self.version, *_machine())

    def make(self, *words: str, folder: Path) -> None:
        """Compile, or link, in `folder`. Raises CandidateFailed: unavailable, with the compiler's error."""
        result = self._run(*words, folder=folder)
        if result.returncode != 0:
            lines = result.stderr.strip().splitlines()
            said = next((line for line in lines if "error" in line), f"status {result.returncode}")
            raise failed("unavailable", f"{self.version} cannot compile the emulator: {said}")

    def extension(self, file: Path, headers: str) -> bytes:
        """Build a shared library for Python from a C file, with Python's `headers`. Raises CandidateFailed:
        unavailable."""
        with scratch_folder() as folder:
            flags = ("-x", "c", "-std=gnu11", "-O2", "-w", "-fPIC", "-shared", "-I", headers)
            result = self._run(*flags, str(file), "-o", "made", folder=folder)
            if result.returncode != 0:
                raise failed("unavailable", f"{self.version} makes no extension of Python: {result.stderr.strip()}")
            return (folder / "made").read_bytes()

    def _run(self, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        try:
            return _call([*self.command, *arguments], "", folder, self.running)
        except subprocess.TimeoutExpired:
            raise failed("unavailable", f"{self.version} needs more than {COMPILE_TIMEOUT:g} s") from None


@functools.cache
def _find(named: str) -> HostCompiler:
    if not sys.platform.startswith("linux"):
        raise failed("unavailable", f"the emulator needs Linux (memfd and /proc), not {sys.platform}")
    known = [["g++"], ["clang++"], ["c++"], [sys.executable, "-m", "ziglang", "c++"]]
    for command in [_words(named)] if named else known:
        version = _version(command)
        if version is not None:
            return HostCompiler(tuple(command), version)
    trouble = f"$CXX = {named} does not run" if named else "no C++ compiler is on this machine"
    raise failed("unavailable", f"{trouble}: {HOW_TO_GET_ONE}")


def _words(command: str) -> list[str]:
    """Split `command` as a shell does; return it whole if a quote is left open."""
    try:
        return shlex.split(command) or [command]
    except ValueError:
        return [command]


def _version(command: list[str]) -> str | None:
    """The first line of the compiler's version; None if there is no such compiler."""
    if shutil.which(command[0]) is None:
        return None
    result = _call([*command, "--version"])
    return result.stdout.splitlines()[0] if result.returncode == 0 and result.stdout else None


def _call(
    command: list[str], text: str = "", folder: Path | None = None, running: Lifelines | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `command`, which ends with this process; its temporary files are in `folder`, too."""
    environment = {**os.environ, "LC_ALL": "C"}  # messages in plain English
    if folder is not None:
        environment["TMPDIR"] = str(folder)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    lines = running or Lifelines()
    with lines.started(command, (), cwd=folder, env=environment, **pipes) as process:
        said, complained = process.communicate(text, timeout=COMPILE_TIMEOUT)
    return subprocess.CompletedProcess(command, process.returncode, said, complained)


@functools.cache
def _machine() -> tuple[str, ...]:
    """The machine properties on which -march=native depends, so that hosts may share a store."""
    features = re.search(r"^(?:flags|Features)\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return platform.machine(), features.group(1) if features else platform.node()
