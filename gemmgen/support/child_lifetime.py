"""Processes that end with this one, however it ends, together with all that they have started."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gemmgen.support.errors import GemmgenError

# A descriptor's least number: programs that put what they inherit at numbers that they know, as an emulator does, would
# close a line that happens to be there.
LOWEST = 16


class Lifeline:
    """Kills a process group once this process is gone, or has closed the line.

    The group's leader is started with `pass_fds=(line.end,)` and `start_new_session=True`, and then tied to the line.
    It inherits one end of a pipe; when the other end closes, Linux sends the group a signal.
    """

    def __init__(self) -> None:
        end, self._held = os.pipe()
        self.end = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, LOWEST)
        os.close(end)

    def tie(self, leader: int) -> None:
        """Tie the process `leader` and its group to the line: they end with it."""
        fcntl.fcntl(self.end, fcntl.F_SETOWN, -leader)
        fcntl.fcntl(self.end, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(self.end, fcntl.F_SETFL, os.O_ASYNC)
        os.close(self.end)
        self.end = -1

    def close(self) -> None:
        for end in (self.end, self._held):
            if end >= 0:
                os.close(end)
        self.end = self._held = -1

    def __enter__(self) -> Lifeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Lifelines:
    """The lifelines of processes that threads start and wait for: closing this ends all of them, and no other can
    start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: set[Lifeline] = set()
        self._closed = False

    @contextmanager
    def started(
        self, command: Sequence[str], inherited: Sequence[int] = (), **options: Any
    ) -> Iterator[subprocess.Popen[str]]:
        """Start `Popen(command, text=True, **options)`; the process and its group end with the block at the latest.

        It keeps the descriptors `inherited`.

        Raises GemmgenError once this is closed.
        """
        line, process = self._start(command, inherited, options)
        with process:
            try:
                yield process
            finally:
                with self._lock:
                    self._lines.remove(line)
                    line.close()
                process.wait()  # after an interrupt Popen itself does not

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for line in self._lines:
                line.close()

    def _start(
        self, command: Sequence[str], inherited: Sequence[int], options: dict[str, Any]
    ) -> tuple[Lifeline, subprocess.Popen[str]]:
        with self._lock:  # a process is tied before anything can close its line
            if self._closed:
                raise GemmgenError(f"{command[0]} is not started: whoever needs it is being closed")
            line = Lifeline()
            try:
                passed = (line.end, *inherited)
                process = subprocess.Popen(command, text=True, start_new_session=True, pass_fds=passed, **options)
                line.tie(process.pid)
            except BaseException:
                line.close()
                raise
            self._lines.add(line)
            return line, process
