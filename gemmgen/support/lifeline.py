"""Processes that end with this one, however it ends, with all that they have started."""

from __future__ import annotations

import fcntl
import os
import signal
from types import TracebackType


class Lifeline:
    """Kills a process group once this process is gone, or has closed the line.

    The group's leader is started with `pass_fds=(line.end,)` and `start_new_session=True`, and then tied to the line.
    It inherits one end of a pipe; when the other end closes, Linux sends the group a signal.
    """

    def __init__(self) -> None:
        self.end, self._held = os.pipe()

    def tie(self, leader: int) -> None:
        """The process `leader` and its group live no longer than the line."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
