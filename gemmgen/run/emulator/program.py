"""The interpreter's own program: C++ that is compiled once for a machine, and for no kernel."""

from __future__ import annotations

import functools
from pathlib import Path

from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.support.files import Store, content_key
from gemmgen.support.scratch import scratch_folder
from gemmgen.support.threads import in_threads

NATIVE = Path(__file__).parent / "native"
KIND = "emulator"  # of the store's entries
# A product and a sum stay two roundings where PTX has two. Signals tell no exception of floating point.
FLAGS = (
    *("-std=c++20", "-O3", "-march=native", "-fno-pie", "-pthread", "-g0"),
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing"),
)


def interpreter(compiler: HostCompiler, store: Store, folder: Path = NATIVE) -> bytes:
    """The program made of the sources in `folder`, from `store` where it has it.

    Processes that ask together make it once. Raises CandidateFailed: unavailable, where the compiler refuses it.
    """
    return store.made(KIND, program_key(compiler, folder), lambda: _build(compiler, folder))


def program_key(compiler: HostCompiler, folder: Path = NATIVE) -> str:
    """A key for all that the program depends on: sources, compiler, flags and machine."""
    files = (*_sources(folder, "*.hpp"), *_sources(folder, "*.cpp"))
    texts = (part for path in files for part in (path.name, path.read_text()))
    return content_key(*texts, *FLAGS, "--", *compiler.identity)


def _sources(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


def _build(compiler: HostCompiler, folder: Path) -> bytes:
    with scratch_folder() as made:
        sources = _sources(folder, "*.cpp")
        in_threads(functools.partial(_compile, compiler, made), sources)
        objects = [str(made / f"{path.stem}.o") for path in sources]
        compiler.make(*compiler.link_flags, *objects, "-o", str(made / "program"), folder=made)
        return (made / "program").read_bytes()


def _compile(compiler: HostCompiler, made: Path, source: Path) -> None:
    words = (*FLAGS, "-w", "-c", str(source), "-o", str(made / f"{source.stem}.o"))
    compiler.make(*words, folder=made)
