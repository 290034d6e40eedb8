"""The host's C++ compiler: finds one and turns a kernel's text into an executable."""

from __future__ import annotations

import functools
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gemmgen.kernel.source import KernelSource
from gemmgen.run.emulator.conditions import probed
from gemmgen.run.emulator.confine import Confinement
from gemmgen.run.emulator.failures import failed
from gemmgen.run.emulator.hosted import exports, for_host
from gemmgen.run.emulator.instructions import twins
from gemmgen.run.emulator.parameters import require_grid_constants
from gemmgen.run.emulator.probes import Probed, Site
from gemmgen.run.emulator.ptx import translated
from gemmgen.support.errors import CandidateFailed, require_no_nul
from gemmgen.support.files import Store, content_key
from gemmgen.support.lifeline import Lifelines
from gemmgen.support.paths import TEMPLATES
from gemmgen.support.scratch import scratch_folder
from gemmgen.support.threads import thread_pool

RUNTIME = TEMPLATES / "device" / "host"
KIND = "emulator"  # of the store's entries
INSTRUCTIONS = "instructions.hpp"  # twins of the tensor-core instructions that a kernel uses
HEADERS = RUNTIME / "cuda"  # that a kernel may include
COMPILE_TIMEOUT = 300.0
SHOWN_ERRORS = 3
# As errors name what they do not know.
TEXTURES = re.compile(r"'((?:tex|surf)[123]D\w*|(?:cuda)?(?:texture|surface)\w*)'", re.IGNORECASE)
WORKS = b"works"

# Unrolled as `#pragma unroll` asks for, so that indices are constants and their checks cost nothing.
LANGUAGE = ("-std=c++17", "-O2", "-fpeel-loops", "-march=native", "-fno-pie")
# A kernel reinterprets floats as vectors, and nvcc contracts a * b + c; broken rules of the language end
# in a diagnosis (sanitizer.hpp) rather than in whatever the optimiser makes of them. The
# sanitizers' libraries are not linked: the runtime answers.
KERNEL = (
    "-w",
    *("-gdwarf-4", "-g1"),  # for lines of the .cu; the runtime has none to tell, and links sooner without
    "-UNDEBUG",  # ziglang defines it when it optimises
    "-fstack-clash-protection",  # a frame of any size meets the guard page below the stack
    "-fno-strict-aliasing",
    "-ffp-contract=fast",
    "-fno-exceptions",
    "-fno-rtti",
    "-fsanitize=alignment,bounds,signed-integer-overflow,integer-divide-by-zero,shift-exponent,float-cast-overflow",
    "-fno-sanitize-recover=all",
)
# Every access to memory calls the runtime: races.hpp. ziglang does so in position-independent code alone.
ANNOUNCED = ("-fsanitize=thread", "-fpie", "-DGEMMGEN_WATCHED")
OPTIONAL = (
    "-ftrivial-auto-var-init=pattern",  # a register that is read before it is written shows
    "-fno-partial-inlining",  # or a piece of the kernel would seem to be called from the kernel's first line
    "-mprefer-vector-width=128",  # clang announces no access wider than 16 bytes
)
LINK = ("-no-pie", "-Wl,--as-needed")
OPTIONAL_LINK = ("-static-libstdc++", "-static-libgcc")  # half the time to link, and a process starts sooner

HOW_TO_GET_ONE = "install g++ or clang++, name one in $CXX, or `pip install ziglang`"


@dataclass(frozen=True)
class Executables:
    """A kernel's two servers: one runs fast, the other tells races of shared memory and takes several times as long.

    Calling one gives the executable, which is made then if nobody has it: many a wrong kernel ends before it runs fast.
    They run in `confinement`, and note what ran at `sites`.
    """

    fast: Callable[[], bytes]
    watched: Callable[[], bytes]
    confinement: Confinement
    sites: tuple[Site, ...]


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler that works: how to call it, what it says it is and the flags that it knows.

    running  its processes; an executor has its own, and closes them with itself
    """

    command: tuple[str, ...]
    version: str
    kernel_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    running: Lifelines = field(default_factory=Lifelines, compare=False, repr=False)

    @classmethod
    def find(cls) -> HostCompiler:
        """$CXX where it is set, else the first of g++, clang++, c++ and ziglang's.

        Raises CandidateFailed: unavailable, with what to install.
        """
        return _find(os.environ.get("CXX", ""))

    @property
    def flags(self) -> tuple[str, ...]:
        """What a kernel is compiled with; where it is watched, ANNOUNCED besides."""
        return (*LANGUAGE, *self.kernel_flags)

    @property
    def environment(self) -> str:
        """A key for what results depend on beside the kernel: compiler, flags, machine, runtime."""
        return content_key(*self._identity(), *self.kernel_flags, *ANNOUNCED, *self.link_flags)

    def executables(self, source: KernelSource, store: Store, *, at_once: bool = False) -> Executables:
        """The servers that run `source`, from `store` where it has them; `at_once` makes both now, side by side.

        Without probes where these break the text.

        Raises CandidateFailed: launch, for parameters that fail on every GPU; unjudged, with the line, where the host
        compiler or the linker refuses the text. It may be a right kernel all the same: the host compiler lacks what
        CUDA has and the emulator does not stand in for.
        """
        require_no_nul(source.text)
        require_grid_constants(source)
        plain = for_host(source.text)
        text = _compiled(probed(plain))
        try:
            return self._executables(source, text, store, at_once)
        except CandidateFailed as error:
            if error.failure.kind != "unjudged" or text.text == plain:
                raise
            return self._executables(source, _compiled(Probed(plain, ())), store, at_once)

    def _executables(self, source: KernelSource, text: Probed, store: Store, at_once: bool) -> Executables:
        flags = (self.kernel_flags, (*self.kernel_flags, *ANNOUNCED))
        confinement = self.confinement(store)
        make = partial(self._program, source, text, store, confinement)
        fast, watched = (functools.cache(partial(make, some)) for some in flags)
        needed = (fast, watched) if at_once else (watched,)
        with thread_pool(len(needed)) as pool:
            list(pool.map(lambda program: program(), needed))
        return Executables(fast, watched, confinement, text.sites)

    def _program(
        self, source: KernelSource, text: Probed, store: Store, confinement: Confinement, flags: tuple[str, ...]
    ) -> bytes:
        """The server that is compiled with `flags`."""
        instructions, exported = twins(text.text, source.arch), exports(source, len(text.sites))
        key = content_key(source.name, text.text, exported, instructions, *self._identity(), *flags, *self.link_flags)
        program = store.get(KIND, key)
        if program is None:
            program = self._build(source, text, exported, instructions, self.runtime(store), confinement, flags)
            store.put(KIND, key, program)
        return program

    def extension(self, file: Path, headers: str) -> bytes:
        """A shared library for Python of a file in C, with Python's `headers`. Raises CandidateFailed: unavailable."""
        with scratch_folder() as folder:
            flags = ("-x", "c", "-std=gnu11", "-O2", "-w", "-fPIC", "-shared", "-I", headers)
            result = self._run(*flags, str(file), "-o", "made", folder=folder)
            if result.returncode != 0:
                raise failed("unavailable", f"{self.version} makes no extension of Python: {result.stderr.strip()}")
            return (folder / "made").read_bytes()

    def confinement(self, store: Store) -> Confinement:
        """What holds a kernel's compiler and its servers; `store` keeps its program."""
        program = self._stored("confine", self._compile_confine, store)
        works = self._stored("confined compiler", lambda: self._works_confined(program), store)
        return Confinement(program, compiler=works == WORKS)

    def _identity(self) -> tuple[str, ...]:
        """What every build depends on: compiler, machine and the runtime's text."""
        return (*self.command, self.version, *_machine(), *LANGUAGE, *_runtime())

    def runtime(self, store: Store) -> bytes:
        """The object file that every kernel is linked with."""
        return self._stored("runtime", lambda: self._compile_own("emulator_main.cpp", "-c"), store)

    def _compile_confine(self) -> bytes:
        return self._compile_own("confine.cpp", "-fno-exceptions", *self.link_flags)

    def _stored(self, what: str, make: Callable[[], bytes], store: Store) -> bytes:
        """What serves every kernel: made once, also by processes that start together."""
        key = content_key(what, *self._identity(), *self.link_flags)
        return store.made(KIND, key, make)

    def _compile_own(self, file: str, *flags: str) -> bytes:
        with scratch_folder() as folder:
            result = self._run(*LANGUAGE, *flags, str(RUNTIME / file), "-o", "made", folder=folder)
            if result.returncode != 0:
                raise failed("unavailable", f"{self.version} cannot compile the emulator: {result.stderr.strip()}")
            return (folder / "made").read_bytes()

    def _works_confined(self, program: bytes) -> bytes:
        with scratch_folder() as folder:
            words = (*LANGUAGE, *self.link_flags, "-x", "c++", "-", "-o", "made")
            self._run(
                *words, text="#include <vector>\nint main() {}\n", folder=folder, confinement=Confinement(program, True)
            )
            return WORKS if (folder / "made").exists() else b"no"

    def _build(
        self,
        source: KernelSource,
        text: Probed,
        exported: str,
        instructions: str,
        runtime_object: bytes,
        confinement: Confinement,
        flags: tuple[str, ...],
    ) -> bytes:
        kernel, header = f"{source.name}.cu", RUNTIME / "gemmgen_emulator.hpp"
        with scratch_folder() as folder:
            (folder / kernel).write_text(text.text)
            (folder / INSTRUCTIONS).write_text(instructions)
            (folder / "runtime.o").write_bytes(runtime_object)
            # The kernel's file keeps its lines; what is compiled are those that export it and its variables.
            result = self._run(
                *(*LANGUAGE, *flags),
                *(
                    "-I",
                    str(HEADERS),
                    "-iquote",
                    str(RUNTIME),
                    "-include",
                    str(header),
                    "-include",
                    INSTRUCTIONS,
                    "-include",
                    kernel,
                ),
                *("-c", "-x", "c++", "-", "-o", "kernel.o"),
                text=exported,
                folder=folder,
                confinement=confinement,
            )
            if result.returncode != 0:
                silent = f"{self.command[0]} ended with status {result.returncode}"
                raise failed("unjudged", _first_errors(source, result.stderr) or silent)
            words = (*self.link_flags, "kernel.o", "runtime.o", "-o", "emulator")
            result = self._run(*words, folder=folder, confinement=confinement)
            if result.returncode != 0:
                raise failed("unjudged", f"the kernel does not link: {result.stderr.strip()[-1000:]}")
            return (folder / "emulator").read_bytes()

    def _run(
        self, *arguments: str, folder: Path, text: str = "", confinement: Confinement | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the compiler; in `confinement`, where it works so, on what a stranger may have written."""
        command = [*self.command, *arguments]
        try:
            if confinement is None or not confinement.compiler:
                return _call(command, text, folder, self.running)
            with confinement.compiling(command, folder, RUNTIME) as (confined, file):
                return _call(confined, text, folder, self.running, (file,))
        except subprocess.TimeoutExpired:
            raise failed("unjudged", f"the host compiler needs more than {COMPILE_TIMEOUT:g} s") from None


def _compiled(text: Probed) -> Probed:
    """With its inline PTX as C++."""
    return replace(text, text=translated(text.text))


def _first_errors(source: KernelSource, messages: str) -> str:
    """The first errors of a compiler's output, each with the line of the .cu that it is about."""
    lines = source.text.splitlines()
    errors = []
    for path, number, error in re.findall(r"^(.+?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", messages, re.MULTILINE):
        file = Path(path).name
        shown = f" in `{lines[int(number) - 1].strip()}`" if file == f"{source.name}.cu" else ""
        if lacking := TEXTURES.search(error):
            return f"{file}:{number}: {lacking[1]}: the emulator has neither textures nor surfaces{shown}"
        errors.append(f"{file}:{number}: {error.removeprefix('static assertion failed: ')}{shown}")
    return "; ".join(errors[:SHOWN_ERRORS]) or messages.strip()[-1000:]


@functools.cache
def _find(named: str) -> HostCompiler:
    if not sys.platform.startswith("linux"):
        raise failed("unavailable", f"the emulator needs Linux (memfd and /proc), not {sys.platform}")
    known = [["g++"], ["clang++"], ["c++"], [sys.executable, "-m", "ziglang", "c++"]]
    for command in [_words(named)] if named else known:
        version = _version(command)
        if version is not None:
            optional, static = _accepted(command)
            return HostCompiler(tuple(command), version, (*KERNEL, *optional), (*LINK, *static))
    trouble = f"$CXX = {named} does not run" if named else "no C++ compiler is on this machine"
    raise failed("unavailable", f"{trouble}: {HOW_TO_GET_ONE}")


def _words(command: str) -> list[str]:
    """`command` as a shell splits it; as it stands where a quote is left open."""
    try:
        return shlex.split(command) or [command]
    except ValueError:
        return [command]


def _version(command: list[str]) -> str | None:
    """The first line that the compiler says of itself; None where there is no such compiler."""
    if shutil.which(command[0]) is None:
        return None
    result = _call([*command, "--version"])
    return result.stdout.splitlines()[0] if result.returncode == 0 and result.stdout else None


def _accepted(command: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of OPTIONAL and OPTIONAL_LINK, what the compiler knows: mostly all of it, which takes one call to learn."""
    if _accepts(command, *OPTIONAL, *OPTIONAL_LINK):
        return OPTIONAL, OPTIONAL_LINK
    optional = tuple(flag for flag in OPTIONAL if _accepts(command, flag, "-c"))
    return optional, OPTIONAL_LINK if _accepts(command, *OPTIONAL_LINK) else ()


def _accepts(command: list[str], *flags: str) -> bool:
    """Whether a program of nothing is made with `flags`: some systems lack the static libraries."""
    with scratch_folder() as folder:
        arguments = (*flags, "-x", "c++", "-", "-o", "accepted.o")
        return _call([*command, *arguments], "int main() {}\n", folder).returncode == 0


def _call(
    command: list[str],
    text: str = "",
    folder: Path | None = None,
    running: Lifelines | None = None,
    inherited: tuple[int, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run `command`, which ends with this process; its own temporary files are in `folder`, too."""
    environment = {**os.environ, "LC_ALL": "C"}  # messages in plain English
    if folder is not None:
        environment["TMPDIR"] = str(folder)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    lines = running or Lifelines()
    with lines.started(command, inherited, cwd=folder, env=environment, **pipes) as process:
        said, complained = process.communicate(text, timeout=COMPILE_TIMEOUT)
    return subprocess.CompletedProcess(command, process.returncode, said, complained)


@functools.cache
def _runtime() -> tuple[str, ...]:
    """The text of the runtime's files."""
    return tuple(path.read_text() for path in sorted(RUNTIME.rglob("*")) if path.is_file())


@functools.cache
def _machine() -> tuple[str, ...]:
    """What -march=native depends on, so that hosts may share a store."""
    features = re.search(r"^(?:flags|Features)\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return platform.machine(), features.group(1) if features else platform.node()
