"""A kernel's text may be a stranger's: what compiles it, and what runs it, can do little else.

Both start through one small program, templates/device/host/confine.cpp, which limits itself and then becomes them.
It is C++ because a compiler is here anyway, and because limits that Python sets between fork and exec cost a fork of
all of this process, and may deadlock where it has threads.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which

# Compilers, their headers and the libraries that programs start with; nobody's secrets.
SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives", "/nix/store", "/gnu/store")
COMPILER_FOLDERS = ("lib", "lib64", "libexec", "include", "share", "*-linux-*")  # beside its bin
SEARCHED = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")  # folders that the user names
MEANS = {"landlock": "no Landlock (any file can be read)", "seccomp": "no seccomp (any system call can be made)"}


@dataclass(frozen=True)
class Confinement:
    """What holds processes that a kernel's text may steer.

    program   confine.cpp, compiled
    compiler  whether the compiler works when it is confined
    """

    program: bytes
    compiler: bool

    @property
    def missing(self) -> tuple[str, ...]:
        """What does not hold here, in words."""
        without = () if self.compiler else ("the compiler (it fails with its own files alone)",)
        return (*_missing(self.program), *without)

    @contextmanager
    def kernel(self, passed: Sequence[int], threads: bool = False) -> Iterator[tuple[list[str], int]]:
        """The command that starts an emulator, and a descriptor for it to inherit, to be used inside the block.

        `passed` are the descriptors of descriptors.hpp, in their order. With `threads` it starts these and no process.
        """
        with _in_memory(self.program) as file:
            yield [f"/proc/self/fd/{file}", "interpreter" if threads else "kernel", *map(str, passed), *SYSTEM], file

    @contextmanager
    def compiling(self, command: Sequence[str], folder: Path, *readable: Path) -> Iterator[tuple[list[str], int]]:
        """Likewise for a compiler that writes to `folder`."""
        with _in_memory(self.program) as file:
            paths = [*SYSTEM, *map(str, (*readable, *_folders_of(command)))]
            yield [f"/proc/self/fd/{file}", "compiler", str(folder), *paths, "--", *command], file


def in_memory_file(name: str, data: bytes) -> int:
    """A read-only file without a name: a program that is open for writing does not start."""
    writable = os.memfd_create(name[:200])
    with os.fdopen(writable, "wb") as file:
        file.write(data)
        file.flush()
        return os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def _in_memory(program: bytes) -> Iterator[int]:
    file = in_memory_file("confine", program)
    try:
        yield file
    finally:
        os.close(file)


@functools.cache
def _missing(program: bytes) -> tuple[str, ...]:
    with _in_memory(program) as file:
        command = [f"/proc/self/fd/{file}", "probe"]
        done = subprocess.run(command, pass_fds=(file,), capture_output=True, text=True, check=False)
    return tuple(words for name, words in MEANS.items() if name not in done.stdout.split())


def _folders_of(command: Sequence[str]) -> Iterator[Path]:
    """Where a compiler's own files are, and those that its user has it read."""
    found = Path(which(command[0]) or command[0])
    for folder in {found.absolute().parent, found.resolve().parent}:
        yield folder
        if folder.name == "bin":
            for pattern in COMPILER_FOLDERS:
                yield from folder.parent.glob(pattern)
    if command[0] == sys.executable:  # ziglang's
        yield from (Path(place) for place in {sys.prefix, sys.base_prefix, *sys.path} if place)
    for variable in SEARCHED:
        yield from (Path(place) for place in os.environ.get(variable, "").split(os.pathsep) if place)
