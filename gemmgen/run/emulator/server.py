"""The interpreter as a process: it loads one program and runs launches, which may kill it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass

from gemmgen.problem.device import Arch
from gemmgen.run.arguments import Argument, packed
from gemmgen.run.emulator.arena import BLOCKS, STARTS, ArenaLayout, Placement
from gemmgen.run.emulator.failures import EMULATOR, failed
from gemmgen.run.emulator.instructions import why_lacking
from gemmgen.support.child_lifetime import Lifeline
from gemmgen.support.errors import MEMORY, CandidateFailed, FailureKind

PATIENCE = 6  # wall time of a launch on a busy machine, as a multiple of its limit of processor time
GRACE = 2.0  # seconds that a process has to report its own time-out
ROOM = "room"  # kind of failure: the machine lacks memory or addresses for the launch
KINDS: dict[str, FailureKind] = {  # all others are a crash
    "launch": "launch",
    "timeout": "timeout",
    "race": "race",
    "unjudged": "unjudged",
    ROOM: "unjudged",
}
GUARDS = {"landlock": "no Landlock (any file can be read)", "seccomp": "no seccomp (any system call can be made)"}
LENGTH = struct.Struct("<I")
MOST_REPLY_BYTES = 2**20  # more than main.cpp ever sends
LOAD_SECONDS = 60.0  # that a program may take to be parsed, on a busy machine: the largest takes a fraction of one
SUCCESS = "ok"
LAST = "!"  # behind a failure's kind: the process ends


@dataclass(frozen=True)
class Program:
    """The program that a process loads before its first launch.

    name   the name of the .cu, for messages
    ptx    the PTX of its text
    table  the architecture's tensor-core instructions: see instructions.py
    arch   used to explain why an instruction is missing; None: no explanation
    """

    name: str
    ptx: str
    table: str
    arch: Arch | None = None

    def pack(self) -> bytes:
        """The message bytes that main.cpp reads."""
        parts = [part.encode() for part in (self.name, self.ptx, self.table)]
        return b"".join(LENGTH.pack(len(part)) + part for part in parts)


@dataclass(frozen=True)
class Request:
    """One launch of `grid` blocks, of which it runs `block_count`: the first ones of the layout's list.

    entry       the name of the kernel that it starts
    cluster     blocks per cluster; the list has them side by side
    workers     threads that may share the blocks
    timeout     seconds of processor time, of all threads together
    quiet       whether the kernel's own output is discarded
    dependent   whether it may start before the kernel ahead of it has ended
    watch       whether races are judged
    placements  the segments to which it may have pointers, by number
    """

    layout: ArenaLayout
    entry: str
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
    watch: bool
    placements: tuple[Placement, ...]
    block_count: int

    def pack(self) -> bytes:
        """The message bytes, laid out as in launch.hpp."""
        layout, values, entry = self.layout, packed(self.arguments), self.entry.encode()
        blocks, starts = (layout.segments[name].offset for name in (BLOCKS, STARTS))
        head = struct.pack(
            "<QQ6I4B6I4xQQ",
            *(self.seed % 2**64, blocks, self.block_count, self.grid, self.threads),
            *(self.shared_bytes, self.workers, int(self.timeout * 1000)),
            *(self.quiet, self.dependent, self.watch, 0, self.cluster),
            *(layout.element_bytes, len(self.placements), len(self.arguments), len(values), len(entry)),
            *(layout.products, starts),
        )
        operands = b"".join(placement.pack() for placement in self.placements)
        parameters = b"".join(
            struct.pack("<cBH", one.kind.encode(), one.alignment, len(one.data)) for one in self.arguments
        )
        return head + operands + parameters + values + entry


def missing_guards(executable: bytes) -> tuple[str, ...]:
    """The guards of guard.hpp that this system lacks, in words."""
    file = _in_memory_file(executable)
    try:
        command = [f"/proc/self/fd/{file}", "probe"]
        done = subprocess.run(command, pass_fds=(file,), capture_output=True, text=True, check=False)
    finally:
        os.close(file)
    return tuple(words for name, words in GUARDS.items() if name not in done.stdout.split())


def _in_memory_file(data: bytes) -> int:
    """A read-only file without a name: a program that is open for writing does not start."""
    writable = os.memfd_create("interpreter")
    with os.fdopen(writable, "wb") as file:
        file.write(data)
        file.flush()
        return os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)


class Died(Exception):
    """The process ended without a reply."""


class Silent(Exception):
    """The process has not answered in time."""


class Server:
    """The process that interprets `program`; it starts with `start`, or the first launch, and again after each death.

    executable   the interpreter: see program.py
    arena_file   the file that it shares with this process: operands, blocks to run, addresses of matrices
    counts       a file in which it counts what runs: see coverage.py; None: nowhere
    """

    def __init__(self, program: Program, executable: bytes, arena_file: int, counts: int | None = None) -> None:
        self._program = program
        self._executable = _in_memory_file(executable)
        self._files = arena_file, counts
        self._process: _Process | None = None

    def start(self) -> None:
        """Load the program, so that anything that the interpreter lacks shows now. Raises CandidateFailed: unjudged."""
        if self._process is not None and not self._process.alive:
            self._kill()  # it died between two launches: nobody's fault
        if self._process is None:
            self._process = _Process(self._executable, *self._files)
            late = f"the interpreter has not loaded the kernel's PTX in {LOAD_SECONDS:g} s"
            self._ask(self._program.pack(), LOAD_SECONDS, failed("unjudged", late))

    def launch(self, request: Request) -> None:
        """Run one launch to its end; its output goes to standard error.

        Raises CandidateFailed: launch, crash, race, timeout or unjudged. The process lives on if it can.
        """
        self.start()
        seconds = PATIENCE * request.timeout + GRACE
        late = failed("timeout", f"no result after {PATIENCE * request.timeout:g} s")
        printed = self._ask(request.pack(), seconds, late)
        if printed:
            sys.stderr.write(printed)
            sys.stderr.flush()

    def end(self) -> None:
        """End the process: the next launch starts a new one, whose global variables have their initial values."""
        self._kill()

    def close(self) -> None:
        self._kill()
        if self._executable >= 0:
            os.close(self._executable)
            self._executable = -1

    def _ask(self, message: bytes, seconds: float, late: CandidateFailed) -> str:
        """The text behind "ok" in the reply. Raises CandidateFailed; raises `late` if no reply comes in time."""
        assert self._process is not None
        try:
            kind, _, text = self._process.ask(message, seconds).decode(errors="replace").partition("\t")
        except Silent:
            self._kill()
            raise late from None
        except Died as error:
            self._kill()
            raise failed("unjudged", f"the interpreter's process ended: {error}") from None
        except BaseException:
            self._kill()  # no later launch may read this one's reply
            raise
        if kind == SUCCESS:
            return text
        if kind.endswith(LAST):
            self._kill()
        kind = kind.removesuffix(LAST)
        arch = self._program.arch if kind == "unjudged" else None
        lacks = None if arch is None else why_lacking(self._program.ptx, arch)
        text = text if lacks is None else f"{text}: {lacks}"
        raise failed(KINDS.get(kind, "crash"), text, MEMORY if kind == ROOM else EMULATOR)

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None


class _Process:
    """One process, from its start to its end."""

    def __init__(self, executable: int, arena_file: int, counts: int | None) -> None:
        self._replies, replies_end = os.pipe()
        nowhere = os.open(os.devnull, os.O_RDWR)
        self._line = line = Lifeline()
        # The descriptors in the order of descriptors.hpp.
        passed = (arena_file, replies_end, nowhere if counts is None else counts, line.end)
        try:
            self._process = subprocess.Popen(
                [f"/proc/self/fd/{executable}", *map(str, passed)],
                bufsize=0,
                stdin=subprocess.PIPE,
                pass_fds=(*passed, executable),
                env={},  # it may hold what is nobody's business
                start_new_session=True,  # Ctrl-C is the driver's to handle
            )
            line.tie(self._process.pid)
        except BaseException:
            line.close()
            os.close(self._replies)
            raise
        finally:
            os.close(replies_end)
            os.close(nowhere)
        self._ended = -1  # readable after the process has ended; -1 if the system has no pidfds
        with contextlib.suppress(OSError):
            self._ended = os.pidfd_open(self._process.pid)
        assert self._process.stdin is not None
        self._requests = self._process.stdin.fileno()
        os.set_blocking(self._requests, False)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, message: bytes, seconds: float) -> bytes:
        """The reply to `message`. Raises Silent or Died."""
        deadline = time.monotonic() + seconds
        with contextlib.suppress(BrokenPipeError):  # it has died: the reply, or its lack, says why
            self._send(LENGTH.pack(len(message)) + message, deadline)
        (length,) = LENGTH.unpack(self._receive(LENGTH.size, deadline))
        if length > MOST_REPLY_BYTES:
            raise Died(f"it announces a reply of {length} bytes")
        return self._receive(length, deadline)

    def kill(self) -> None:
        """End the process and all that it may have started."""
        self._process.kill()
        if self._ended >= 0:
            os.close(self._ended)
        self._line.close()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        os.close(self._replies)

    def _send(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            _, ready, _ = select.select([], [self._requests], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise Silent
            rest = rest[os.write(self._requests, rest) :]

    def _receive(self, count: int, deadline: float) -> bytes:
        """Read `count` bytes of a reply, even if another process holds the pipe's other end."""
        data, watched = b"", [self._replies, *([self._ended] if self._ended >= 0 else [])]
        while len(data) < count:
            ready, _, _ = select.select(watched, [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise Silent
            piece = os.read(self._replies, count - len(data)) if self._replies in ready else b""
            if not piece:
                raise Died(_words(self._process.wait()))
            data += piece
        return data


def _words(status: int) -> str:
    """An exit status in words: "SIGKILL", "status 3"."""
    if status >= 0:
        return f"status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
