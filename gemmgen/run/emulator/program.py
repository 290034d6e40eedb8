"""Builds the interpreter: C++ that is compiled once per machine and depends on no kernel."""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path

from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.emulator.failures import failed
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store, content_key
from gemmgen.support.scratch import scratch_folder
from gemmgen.support.threads import in_threads

NATIVE = Path(__file__).parent / "native"
KIND = "emulator"  # of the store's entries
COMMON = "common.hpp"  # precompiled headers that most sources include, which saves a sixth of the time
# A product and a sum are rounded separately where PTX does so. Floating-point exceptions are not observed.
FLAGS = (
    *("-std=c++20", "-O3", "-march=native", "-fno-pie", "-pthread", "-g0"),
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing"),
)
LINK = ("-no-pie", "-pthread", "-Wl,--as-needed")
# Optional, because some systems lack these libraries. They halve the link time, and a process starts faster.
STATIC = ("-static-libstdc++", "-static-libgcc")
MIB = 2**20
BUILD_ROOM, STORE_ROOM = 256 * MIB, 16 * MIB  # free space to build the interpreter, mostly for headers, and to store it


def interpreter(compiler: HostCompiler, store: Store, folder: Path = NATIVE) -> bytes:
    """The program built from the sources in `folder`, or taken from `store`.

    Only one of several processes builds it. Raises CandidateFailed: unavailable, if the compiler fails.
    """
    return store.made(KIND, program_key(compiler, folder), lambda: _build(compiler, folder))


def require_room(compiler: HostCompiler, store: Store) -> None:
    """Raise CandidateFailed, unavailable, if `store` lacks the interpreter and a disk is too full to build it."""
    if store.get(KIND, program_key(compiler)) is not None:
        return
    disks = (Path(tempfile.gettempdir()), BUILD_ROOM, "TMPDIR"), (store.root, STORE_ROOM, "XDG_CACHE_HOME")
    for folder, room, variable in disks:
        existing = next(one for one in (folder, *folder.parents) if one.exists())
        free = shutil.disk_usage(existing).free
        if free < room:
            said = f"{folder} has {free / MIB:.1f} MiB free, and building the emulator needs {room // MIB} MiB there"
            raise failed("unavailable", f"{said}: free some space, or set {variable} to another folder")


def program_key(compiler: HostCompiler, folder: Path = NATIVE) -> str:
    """A key of everything that the program depends on: sources, compiler, flags and machine."""
    files = (*_sources(folder, "*.hpp"), *_sources(folder, "*.cpp"))
    texts = (part for path in files for part in (path.name, path.read_text()))
    return content_key(*texts, *FLAGS, *LINK, *STATIC, "--", *compiler.identity)


def _sources(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


def _build(compiler: HostCompiler, folder: Path) -> bytes:
    with scratch_folder() as made:
        headers = _precompiled(compiler, folder / COMMON, made)
        sources = _sources(folder, "*.cpp")
        in_threads(lambda path: _compile(compiler, made, path, f"{path.stem}.o", "-c", *headers), sources)
        objects = [str(made / f"{path.stem}.o") for path in sources]
        link = functools.partial(compiler.make, *LINK, *objects, "-o", str(made / "program"), folder=made)
        try:
            link(*STATIC)
        except CandidateFailed:
            link()
        return (made / "program").read_bytes()


def _precompiled(compiler: HostCompiler, common: Path, made: Path) -> tuple[str, ...]:
    """Precompile the header `common` and return the flags that include it; none if it does not exist."""
    if not common.exists():
        return ()
    _compile(compiler, made, common, f"{COMMON}.gch", "-x", "c++-header")
    return "-include", str(made / COMMON)  # compilers look for NAME.gch, g++ and clang++ alike


def _compile(compiler: HostCompiler, made: Path, source: Path, output: str, *flags: str) -> None:
    compiler.make(*FLAGS, "-w", *flags, str(source), "-o", str(made / output), folder=made)
