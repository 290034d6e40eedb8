"""The interpreter's own program: C++ that is compiled once for a machine, and for no kernel."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from gemmgen.run.emulator.compiler import RUNTIME, HostCompiler, _machine
from gemmgen.run.emulator.failures import failed
from gemmgen.support.files import Store, content_key
from gemmgen.support.scratch import scratch_folder
from gemmgen.support.threads import in_threads

NATIVE = Path(__file__).parent / "native"
SHARED = ("call_filter.hpp", "descriptors.hpp")  # that confine.cpp has, too
KIND = "interpreter"  # of the store's entries
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
    files = [*_sources(folder, "*.hpp"), *_sources(folder, "*.cpp"), *(RUNTIME / name for name in SHARED)]
    texts = (part for path in files for part in (path.name, path.read_text()))
    return content_key(*texts, *compiler.command, compiler.version, *_machine(), *FLAGS, "--", *compiler.link_flags)


def _sources(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


def _build(compiler: HostCompiler, folder: Path) -> bytes:
    with scratch_folder() as made:
        sources = _sources(folder, "*.cpp")
        in_threads(functools.partial(_compile, compiler, made), sources)
        objects = [str(made / f"{path.stem}.o") for path in sources]
        _call(compiler, [*compiler.link_flags, "-pthread", *objects, "-o", str(made / "interpreter")], made)
        return (made / "interpreter").read_bytes()


def _compile(compiler: HostCompiler, made: Path, source: Path) -> None:
    words = [*FLAGS, "-w", "-iquote", str(RUNTIME), "-c", str(source), "-o", str(made / f"{source.stem}.o")]
    _call(compiler, words, made)


def _call(compiler: HostCompiler, words: Sequence[str], folder: Path) -> None:
    result = compiler._run(*words, folder=folder)
    if result.returncode != 0:
        raise failed("unavailable", f"{compiler.version} cannot compile the interpreter: {result.stderr.strip()}")
