"""A kernel's executable as a process that answers launches, and may die doing so."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gemmgen.kernel.source import KernelSource
from gemmgen.run.arguments import Argument, packed
from gemmgen.run.emulator.arena import ArenaLayout, Placement
from gemmgen.run.emulator.confine import Confinement, in_memory_file
from gemmgen.run.emulator.failures import failed
from gemmgen.support.errors import CandidateFailed, FailureKind
from gemmgen.support.lifeline import Lifeline

PATIENCE = 6  # times the limit of processor time that a launch may take, on a busy machine
GRACE = 2.0  # seconds that a process has to report its own time-out
SUCCESS = b"ok\n"
# Device functions that move a few elements for whoever gives the address.
VECTOR_HELPERS = {f"{move}{what}" for move in ("load", "store") for what in ("", "_edge", "_packed")}
KINDS: dict[str, FailureKind] = {  # all others are a crash
    "launch": "launch",
    "timeout": "timeout",
    "race": "race",
    "unjudged": "unjudged",
}


@dataclass(frozen=True)
class Request:
    """One launch of `grid` blocks, of which it runs `block_count`: the first ones of the layout's list.

    cluster     blocks of a cluster, which are beside each other in the list
    workers     processes that may share the blocks
    timeout     seconds of processor time, for each process
    quiet       what the kernel prints goes nowhere
    dependent   it may start before the kernel ahead of it has ended
    placements  what it may have a pointer to, by number
    entry       which kernel of the text it starts: 0 is the one, others prepare operands
    """

    layout: ArenaLayout
    seed: int
    grid: int
    threads: int
    shared_bytes: int
    cluster: int
    workers: int
    timeout: float
    arguments: tuple[Argument, ...]
    quiet: bool
    dependent: bool
    placements: tuple[Placement, ...]
    block_count: int
    entry: int = 0

    def pack(self) -> bytes:
        """As launch.hpp lays it out."""
        layout, values = self.layout, packed(self.arguments)
        head = struct.pack(
            "<QQ6I2BH5IQQ",
            *(self.seed % 2**64, layout.blocks.offset, self.block_count, self.grid, self.threads),
            *(self.shared_bytes, self.workers, int(self.timeout * 1000), self.quiet, self.dependent, self.cluster),
            *(
                layout.element_bytes,
                len(self.placements),
                len(self.arguments),
                len(values),
                self.entry,
                layout.products,
            ),
            layout.matrices.offset,
        )
        operands = b"".join(placement.pack() for placement in self.placements)
        parameters = b"".join(
            struct.pack("<cBH", one.kind.encode(), one.alignment, len(one.data)) for one in self.arguments
        )
        return head + operands + parameters + values


class Server:
    """The process that runs what `program` gives; it starts with the first launch and again after each death."""

    def __init__(
        self,
        source: KernelSource,
        program: Callable[[], bytes],
        arena_file: int,
        sites_file: int,
        confinement: Confinement,
    ) -> None:
        self._name, self._text = source.name, source.text.splitlines()
        self._confinement = confinement
        self._program = program
        self._executable = -1
        self._arena_file, self._sites_file = arena_file, sites_file
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Lifeline | None = None
        self._replies = -1
        self._lines: dict[str, list[int]] = {}  # by instruction: a failure that shrinks meets it again

    def launch(self, request: Request) -> None:
        """Run one launch to its end. Raises CandidateFailed: launch, crash, race or timeout."""
        process = self._running()
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):  # it has died: the reply, or its lack, says why
                process.stdin.write(request.pack())
            reply = self._receive(PATIENCE * request.timeout + GRACE)
            if reply == SUCCESS:
                return
            failure = self._failure(reply, request.timeout)
        except BaseException:
            self._kill()  # no later launch may read this one's reply
            raise
        self._kill()
        raise failure

    def close(self) -> None:
        self._kill()
        if self._executable >= 0:
            os.close(self._executable)
            self._executable = -1

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self._kill()  # it died between two launches: nobody's fault
        if self._process is None:
            self._process = self._start()
        return self._process

    def _start(self) -> subprocess.Popen[bytes]:
        if self._executable < 0:
            self._executable = in_memory_file(self._name, self._program())
        self._replies, replies_end = os.pipe()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        self._line = line = Lifeline()
        # As descriptors.hpp numbers them.
        passed = (self._arena_file, replies_end, nowhere, self._executable, self._sites_file)
        try:
            with self._confinement.kernel(passed) as (command, file):
                process = subprocess.Popen(
                    command,
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    pass_fds=(*passed, file, line.end),
                    start_new_session=True,  # Ctrl-C is the driver's to handle; helpers end with their group
                )
            line.tie(process.pid)
            return process
        finally:
            os.close(replies_end)
            os.close(nowhere)

    def _kill(self) -> None:
        if self._process is None or self._line is None:
            return
        self._line.close()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        os.close(self._replies)
        self._process = None

    def _receive(self, seconds: float) -> bytes | None:
        """One reply line; shorter where the process died, None where it stays silent."""
        deadline = time.monotonic() + seconds
        reply = b""
        while not reply.endswith(b"\n"):
            ready, _, _ = select.select([self._replies], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            piece = os.read(self._replies, 4096)
            if not piece:
                return reply
            reply += piece
        return reply

    def _failure(self, reply: bytes | None, timeout: float) -> CandidateFailed:
        assert self._process is not None
        if reply is None:
            return failed("timeout", f"no result after {PATIENCE * timeout:g} s")
        if not reply.endswith(b"\n"):
            status = self._process.wait()
            if status == -signal.SIGSYS:  # with signals blocked, as system() does: no handler has named the call
                return failed("crash", "the kernel's text starts a program, or makes another call that no kernel may")
            return failed("crash", f"the emulator's process ended with status {status}")
        # Processes that fail together each send a line; the first one counts.
        kind, line, instruction, reason = reply.split(b"\n")[0].decode(errors="replace").split("\t", 3)
        lines = [int(line)] if int(line) else self._lines_of(instruction)
        reason = re.sub(r"@\{(\w+)\}", self._resolve, reason)
        return failed(KINDS.get(kind, "crash"), f"{reason} ({self._place(lines)})" if lines else reason)

    def _resolve(self, marker: re.Match[str]) -> str:
        """What the executable leaves to the driver: @{line or instruction}."""
        value = marker[1]
        lines = self._lines_of(value) if value.startswith("0x") else [int(value)]
        if not lines:
            return "an unknown line"
        first, *caller = self._place(lines).split(", ")
        return f"{first} ({caller[0]})" if caller else first

    def _place(self, lines: list[int]) -> str:
        caller = f", called from line {lines[-1]}" if len(lines) > 1 else ""
        return f"{self._name}.cu:{lines[0]}{caller}"

    def _lines_of(self, instruction: str) -> list[int]:
        """The line of the .cu that an instruction belongs to, its inlined callers' up to the kernel; may be empty.

        What a helper does that moves a vector for whoever asks is its caller's doing: that line comes first.
        """
        if instruction not in self._lines:
            self._lines[instruction] = self._find_lines(instruction)
        return self._lines[instruction]

    def _find_lines(self, instruction: str) -> list[int]:
        if not instruction.startswith("0x"):
            return []
        program, tool = f"/proc/self/fd/{self._executable}", "addr2line"
        if shutil.which(tool) is None:
            return []
        asked = [tool, "-i", instruction, "-e", program]
        with self._confinement.compiling(asked, Path(os.devnull)) as (command, file):
            passed = (self._executable, file)
            done = subprocess.run(command, pass_fds=passed, capture_output=True, text=True, check=False)
        lines = [int(place) for place in re.findall(rf"{self._name}\.cu:(\d+)", done.stdout)]
        while len(lines) > 1 and function_around(self._text, lines[0]) in VECTOR_HELPERS:
            lines.pop(0)
        return lines


def function_around(text: list[str], line: int) -> str | None:
    """The name of the function that has this line of a `.cu`, counted from 1; None where there is none."""
    heads = (
        re.match(r"[\w_].*?\b(\w+)\(", one) for one in reversed(text[:line]) if not one.startswith("static_assert")
    )
    return next((head[1] for head in heads if head), None)
