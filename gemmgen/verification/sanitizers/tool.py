"""Runs NVIDIA's compute-sanitizer on one kernel, once per tool, and parses its reports into findings.

memcheck    accesses outside of A, B, C, a workspace and the kernel's arrays, and misaligned ones
racecheck   hazards on shared memory
initcheck   reads of uninitialised global memory: C if beta = 0, the padding of lines, partials
synccheck   barriers that not all threads of a block reach

The tool watches watched.py, which launches the kernel in a few situations. Its text is parsed instead of its XML: the
text's form is documented and old, and the XML says no more.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case
from gemmgen.run.gpu import why_no_gpu
from gemmgen.run.nvrtc import PROGRAM
from gemmgen.support.child import child_environment
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.scratch import scratch_folder
from gemmgen.verification.situation import Situation

Tool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "racecheck", "initcheck", "synccheck")
NAME = "compute-sanitizer"
INSTALL = "install a CUDA toolkit, which has it, and put its folder bin into PATH"
TOOLKIT = "/usr/local/cuda/bin"  # a toolkit's folder, which is not always in PATH. No wheel has the whole program

TIMEOUT = 30.0  # seconds for one tool, start included; a kernel that hangs costs them
LAUNCH_SECONDS = 3.0  # after these no further situation starts: the four tools are to take less than 15 s
LAST_WORDS = 20  # lines of what a process wrote before it failed: Python's traceback
FOUND = 86  # the exit code that says that the tool found something
# FLOPs per launch; of a larger launch only the first blocks run. Kernels are 10 to 100 times slower than unwatched, and
# some 1000 times under racecheck, which follows each access to shared memory. 160 x 160 x 160 runs whole under all
# tools.
WATCHED_FLOPS: dict[Tool, float] = {"memcheck": 6.4e7, "racecheck": 1.6e7, "initcheck": 6.4e7, "synccheck": 6.4e7}

OPTIONS = (
    *("--error-exitcode", str(FOUND), "--print-limit", "100", "--show-backtrace", "device"),
    *("--demangle", "no", "--destroy-on-device-error", "kernel", "--launch-timeout", "60"),
)
TOOL_OPTIONS: dict[Tool, tuple[str, ...]] = {
    # Allocations may lie side by side: without padding, the end of one is the begin of the next. What the driver
    # refuses is in the outcome of watched.py; its own queries would be reported too.
    "memcheck": ("--padding", str(2**16), "--report-api-errors", "no"),
    "racecheck": (),
    "initcheck": (),
    "synccheck": (),
}


@dataclass(frozen=True)
class Finding:
    """One finding that a tool reports, wherever it happens.

    what       the finding in the tool's words, with lines of the `.cu` in place of addresses
    lines      lines of the `.cu`, if the tool knows them; for a race those of all accesses
    thread     (x, y, z) of the first thread seen, and its `block`
    where      the operand in or beside which it happened; None for shared memory
    situation  the situation in which it happened, if the address tells
    count      the number of reports of it that the tool printed
    """

    what: str
    lines: tuple[int, ...] = ()
    thread: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    where: str | None = None
    situation: Situation | None = None
    count: int = 1

    def __str__(self) -> str:
        lines = "" if not self.lines or " line " in self.what else f" at line {self.lines[0]}"
        thread = "" if self.thread is None else f" by thread {_triple(self.thread)}"
        block = "" if self.block is None else f" of block {_triple(self.block)}"
        return f"{self.what}{lines}{thread}{block}" + ("" if self.where is None else f": {self.where}")


@dataclass(frozen=True)
class SanitizerResult:
    """The result of one tool on a kernel.

    version     of compute-sanitizer, as "2025.3.1.0"
    situations  number of situations that ran to their end
    sampled     whether only the first blocks ran, as launches exceed WATCHED_FLOPS
    stopped     whether LAUNCH_SECONDS were over before every situation ran
    failure     None if the tool found nothing and every situation ran
    """

    tool: Tool
    version: str
    situations: int
    findings: tuple[Finding, ...]
    seconds: float
    sampled: bool = False
    stopped: bool = False
    failure: Failure | None = None


@dataclass(frozen=True)
class WatchJob:
    """The task of watched.py. `fill` is the cubin of fill.cu."""

    source: KernelSource
    cubin: bytes
    fill: bytes
    situations: tuple[Situation, ...]
    tool: Tool
    device: int


@dataclass(frozen=True)
class Allocation:
    """The place of an operand, or of a part of the workspace, of the situation with that index."""

    situation: int
    operand: str
    address: int
    size: int


@dataclass(frozen=True)
class WatchOutcome:
    """The result of watched.py.

    situations  number that ran to their end; fewer than asked for if LAUNCH_SECONDS were over, or if CUDA returned
                `error`
    """

    situations: int
    error: str | None
    allocations: tuple[Allocation, ...]


def why_no_sanitizer() -> str | None:
    """The reason why compute-sanitizer cannot run here, and the remedy; None if it can."""
    no_gpu = why_no_gpu()
    if no_gpu is not None:
        return f"{NAME} watches kernels on a GPU: {no_gpu}"
    return None if find_sanitizer() is not None else f"{NAME} is missing: {INSTALL}"


def find_sanitizer() -> str | None:
    """The program's path: in PATH, or in a toolkit."""
    return shutil.which(NAME) or shutil.which(NAME, path=TOOLKIT)


def sanitize(
    source: KernelSource,
    cubin: bytes,
    fill: bytes,
    situations: Sequence[Situation],
    tool: Tool,
    *,
    device: int = 0,
    timeout: float = TIMEOUT,
) -> SanitizerResult:
    """Run `source`, compiled with line numbers to `cubin`, in `situations` under `tool`. `fill` is fill.cu's cubin.

    A kernel that hangs is a failure of kind "timeout", after `timeout` seconds. Raises CandidateFailed (unavailable) if
    the tool is missing or does not work here.
    """
    program = find_sanitizer()
    if program is None:
        raise CandidateFailed(Failure("unavailable", f"{NAME} is missing: {INSTALL}", NAME))
    started = time.monotonic()
    with scratch_folder() as folder:
        job, outcome, log = (folder / name for name in ("job", "outcome", "log"))
        job.write_bytes(pickle.dumps(WatchJob(source, cubin, fill, tuple(situations), tool, device)))
        watched = [sys.executable, "-m", "gemmgen.verification.sanitizers.watched", str(job), str(outcome)]
        command = [program, "--tool", tool, *OPTIONS, *TOOL_OPTIONS[tool], "--log-file", str(log), *watched]
        code, said = _run(command, timeout)
        report = log.read_text(errors="replace") if log.exists() else ""
        done = pickle.loads(outcome.read_bytes()) if outcome.exists() else None
    findings = parse(report, () if done is None else done.allocations, situations)
    if code is not None and done is None and not findings:
        raise _unavailable(tool, report, code, said)
    if code == FOUND and not findings and API_ERROR not in report:
        raise _unavailable(tool, report, code, "it reports errors in words that gemmgen does not know")
    return SanitizerResult(
        tool=tool,
        version=version(program),
        situations=0 if done is None else done.situations,
        findings=findings,
        seconds=time.monotonic() - started,
        sampled=any(
            blocks_to_run(source.launch, one.case, tool) < source.launch.blocks(one.case) for one in situations
        ),
        stopped=done is not None and done.error is None and done.situations < len(situations),
        failure=_failure(tool, findings, None if code is None else done, timeout),
    )


def lead_bytes(situation: Situation) -> int:
    """The offset of an operand in its allocation: with odd seeds it has the promised alignment and no more.

    With even seeds the offset is 0, so that an access to the byte before it is seen.
    """
    largest = max(dtype.size for dtype in situation.case.problem.types.operands)
    return max(situation.case.problem.pointer_align, largest) if situation.seed % 2 else 0


def blocks_to_run(launch: Launch, case: Case, tool: Tool) -> int:
    """The number of blocks that run: all of a small launch, those of the first tiles of a large one.

    A persistent kernel runs all blocks: fewer would do the work of the others, one after another.
    """
    blocks, tiles = launch.blocks(case), launch.tiles(case)
    if launch.persistent:
        return blocks
    few = launch.blocks_per_tile * max(1, min(tiles, int(WATCHED_FLOPS[tool] * tiles / max(case.flops, 1))))
    return blocks if few >= tiles * launch.blocks_per_tile else few


@cache
def version(program: str) -> str:
    """The version, "2025.3.1.0"; "unknown" if the program does not print it."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    number = re.search(r"Version (\S+)", said)
    return "unknown" if number is None else number[1]


def _run(command: Sequence[str], timeout: float) -> tuple[int | None, str]:
    """Return (exit code, output of the processes); the code is None if the time was up.

    compute-sanitizer has child processes that outlive it, so its whole process group is ended.
    """
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            env=child_environment(),
        )
        try:
            code: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(0)
        return code, said.read().decode(errors="replace").strip()


def _unavailable(tool: Tool, report: str, code: int, said: str) -> CandidateFailed:
    """The failure of the tool itself: its complaint, how it ended, and the last words of the process that it
    watched."""
    troubles = [head for head, _ in _records(report) if TROUBLE.match(head)]
    words = "\n".join(said.splitlines()[-LAST_WORDS:]) or "it wrote nothing"
    ended = "; ".join([*troubles[:1], f"exit status {code}"])
    return CandidateFailed(Failure("unavailable", f"{NAME} --tool {tool} does not work here: {ended}:\n{words}", NAME))


def _failure(tool: Tool, findings: Sequence[Finding], done: WatchOutcome | None, timeout: float) -> Failure | None:
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        return Failure("race" if tool == "racecheck" else "crash", f"{findings[0]}{more}", tool)
    if done is None:
        return Failure("timeout", f"no end in {timeout:g} s: it hangs, or is too slow to be watched", tool)
    return None if done.error is None else Failure("crash", done.error, tool)


# The report


PREFIX = "========="
API_ERROR = "Program hit "  # a CUDA call that failed; what matters of them is in the WatchOutcome
SUMMARY = re.compile(rf"COMPUTE-SANITIZER|\w+ SUMMARY:|Target application returned an error|{API_ERROR}|No attachable")
# "Error: Race reported" is a finding; other lines that begin so are about the tool or the process that it watches.
TROUBLE = re.compile(r"(Error|Warning|Internal Sanitizer Error|Fatal)(?!.*(Race reported|hazard detected))[^:]*: ")
SEVERITY = re.compile(r"(Error|Warning|ERROR|WARNING): (\(.*?\) )?")
SOURCE_LINE = re.compile(rf"{re.escape(PROGRAM)}:(\d+)")
AT = re.compile(rf"\s+at \S+(?: in \S*{re.escape(PROGRAM)}:(\d+)\S*)?")
ACCESS = re.compile(r"and (Read|Write) access")
HAZARDS = re.compile(r" \[\d+ hazards?\]")
THREAD = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
ADDRESS = re.compile(r"Address 0x([0-9a-fA-F]+)( is misaligned)?")


def parse(
    report: str, allocations: Sequence[Allocation] = (), situations: Sequence[Situation] = ()
) -> tuple[Finding, ...]:
    """Parse the findings in a tool's report, each once, in the order of the first report of each."""
    found: dict[tuple[str, tuple[int, ...]], Finding] = {}
    for head, body in _records(report):
        if SUMMARY.match(head) or TROUBLE.match(head):
            continue
        finding = _finding(head, body, allocations, situations)
        key = finding.what, finding.lines
        known = found.get(key)
        found[key] = finding if known is None else replace(known, count=known.count + 1)
    return tuple(found.values())


def _records(report: str) -> Iterator[tuple[str, list[str]]]:
    """(first line, further lines) of each record, without the prefix; further lines are indented."""
    head: str | None = None
    body: list[str] = []
    for line in report.splitlines():
        if not line.startswith(PREFIX):
            continue
        text = line.removeprefix(PREFIX)
        if head is not None and text.startswith("  "):
            body.append(text.strip())
            continue
        if head is not None:
            yield head, body
        head, body = text.strip() or None, []
    if head is not None:
        yield head, body


def _finding(
    head: str, body: Sequence[str], allocations: Sequence[Allocation], situations: Sequence[Situation]
) -> Finding:
    accesses = [text for text in body if ACCESS.match(text)]
    spoken = [SEVERITY.sub("", head, count=1).rstrip(" .:"), *accesses]
    what = HAZARDS.sub("", AT.sub(lambda at: "" if at[1] is None else f" at line {at[1]}", " ".join(spoken)))
    thread = THREAD.search(" ".join(body))
    address = ADDRESS.search(" ".join(body))
    numbers = () if thread is None else tuple(int(number) for number in thread.groups())
    place, index = None, None
    if address is not None and "__shared__" not in head and "__local__" not in head:
        place, index = _locate(int(address[1], 16), allocations)
    if address is not None and address[2]:
        what = f"{what}, misaligned"
    return Finding(
        what=what,
        lines=_lines(head, body),
        thread=numbers[:3] or None,  # type: ignore[arg-type]  # three of six
        block=numbers[3:] or None,  # type: ignore[arg-type]
        where=place,
        situation=None if index is None else situations[index],
    )


def _lines(head: str, body: Sequence[str]) -> tuple[int, ...]:
    """The lines of the access; if that is in code without lines, those of its callers."""
    own = [text for text in (head, *body) if "Frame" not in text]
    for texts in (own, body):
        numbers = [int(number) for text in texts for number in SOURCE_LINE.findall(text)]
        if numbers:
            return tuple(dict.fromkeys(numbers))
    return ()


def _locate(address: int, allocations: Sequence[Allocation]) -> tuple[str | None, int | None]:
    """Return (place for a person: in an operand, or the distance from the nearest one; index of the situation)."""
    distances: list[tuple[int, str, int]] = []
    for one in allocations:
        offset = address - one.address
        if 0 <= offset < one.size:
            return f"byte {offset} of {one.operand}'s storage", one.situation
        if offset >= 0:
            distances.append(
                (offset - one.size, f"{offset - one.size} bytes after the end of {one.operand}", one.situation)
            )
        else:
            distances.append((-offset, f"{-offset} bytes before {one.operand}", one.situation))
    if not distances:
        return None, None
    _, words, situation = min(distances)
    return words, situation


def _triple(numbers: tuple[int, int, int]) -> str:
    """ "3", or "(3, 1, 0)" if it is not one-dimensional."""
    return str(numbers[0]) if numbers[1:] == (0, 0) else str(numbers)
