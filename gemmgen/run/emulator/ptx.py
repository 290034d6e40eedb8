"""The PTX that the emulator executes: NVRTC's, made in confined processes, or a file by the user's own compiler."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import Path

from gemmgen.kernel.source import KernelSource
from gemmgen.run.compile import APART_BYTES, APART_TIMEOUT, arch_for
from gemmgen.run.nvrtc import compiler_version, flags_for_ptx
from gemmgen.support.child import Child, ChildDied, crew
from gemmgen.support.errors import CandidateFailed, Failure, InvalidInput, require
from gemmgen.support.files import Store, content_key

KIND = "ptx"  # of the store's entries
COMPILER = "gemmgen.run.nvrtc:ptx_process"
RELEASE = re.compile(r"^// Cuda compilation tools, release ([\w.]+), (V[\w.]+)", re.MULTILINE)
TARGET = re.compile(r"^\s*\.target\s+(sm_[0-9]+[af]?)", re.MULTILINE)
KERNEL = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)?\.entry\s+([\w$]+)", re.MULTILINE)


@dataclass(frozen=True)
class GivenPtx:
    """The PTX that the user's own compiler made of a kernel's text.

    text      the PTX in `file`
    digest    digest of the kernel's text
    compiler  "nvcc 13.0, V13.0.88"; "an unknown compiler" if the PTX does not name it
    arch      the PTX's target: "sm_90a"
    """

    file: Path
    text: str
    digest: str
    compiler: str
    arch: str


def read_ptx(file: Path, source: KernelSource) -> GivenPtx:
    """The PTX in `file`. Raises InvalidInput unless it has the kernels of `source`, for its architecture."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read as PTX: {error}") from error
    target, there, release = TARGET.search(text), KERNEL.findall(text), RELEASE.search(text)
    require(target is not None, f"{file} is not PTX: it has no .target")
    assert target is not None
    wanted, made = arch_for(source, source.arch), target[1]
    same = wanted.rstrip("af") == made.rstrip("af") and (not wanted.endswith("a") or made.endswith("a"))
    require(same, f"{file} is for {made}, but the kernel is for {wanted}")
    for step in source.program:
        require(step.name in there, f"{file} has no kernel {step.name}; it has {', '.join(there) or 'none'}")
    compiler = "an unknown compiler" if release is None else f"nvcc {release[1]}, {release[2]}"
    return GivenPtx(file, text, source.digest, compiler, made)


class PtxCompilers:
    """A pool of NVRTC processes, one for each thread that compiles. Idle processes wait for the next text."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._working: set[Child] = set()

    def ptx(self, source: KernelSource, store: Store) -> str:
        """The PTX of `source` for its own architecture, from the store if it is there.

        Raises CandidateFailed: compile (with NVRTC's first error), unavailable (no NVRTC), or unjudged (the compilation
        exceeds its time or memory).
        """
        arch = arch_for(source, source.arch)
        key = content_key(source.text, compiler_version(), *flags_for_ptx(arch))
        known = store.get(KIND, key)
        if known is not None:
            return known.decode()
        made = self._compile(source.text, arch)
        store.put(KIND, key, made.encode())
        return made

    def close(self) -> None:
        """End all processes. A thread that waits for one gets a failure."""
        with self._lock:
            for child in self._working:
                child.kill()
            idle, self._idle = self._idle, []
        with crew(idle):
            pass

    def _compile(self, text: str, arch: str) -> str:
        with self._lock:
            child = self._idle.pop() if self._idle else Child(COMPILER, str(APART_BYTES), answers=())
            self._working.add(child)
        try:
            made: str = child.request((text, arch), APART_TIMEOUT)
            return made
        except ChildDied as error:
            raise CandidateFailed(Failure("unjudged", f"NVRTC: {error}", "nvrtc")) from error
        finally:
            with self._lock:
                self._working.remove(child)
                self._idle.append(child)
