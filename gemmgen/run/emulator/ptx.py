"""A kernel's text -> the PTX that NVRTC makes of it, in processes whose time and memory are bounded."""

from __future__ import annotations

import threading

from gemmgen.kernel.source import KernelSource
from gemmgen.run.compile import APART_BYTES, APART_TIMEOUT, arch_for
from gemmgen.run.nvrtc import compiler_version, flags_for_ptx
from gemmgen.support.child import Child, ChildDied, crew
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.files import Store, content_key

KIND = "ptx"  # of the store's entries
COMPILER = "gemmgen.run.nvrtc:ptx_process"


class PtxCompilers:
    """Processes that make PTX, one for each thread that asks at a time. They stay for the next text."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._working: set[Child] = set()

    def ptx(self, source: KernelSource, store: Store) -> str:
        """The PTX of `source` for what it was rendered for, from the store where it is known.

        Raises CandidateFailed: compile (with NVRTC's first error), unavailable (no NVRTC), or unjudged where the text
        needs more time or memory than a stranger's may.
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
        """End all of them; a thread that waits for one meets a failure."""
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
