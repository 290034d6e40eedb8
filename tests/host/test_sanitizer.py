"""compute-sanitizer's reports, read; and the program itself, played by a script."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from rich.console import Console

from gemmgen.cli import main
from gemmgen.cli.reports.verify import show_verdict
from gemmgen.exports.json_records import verdict_document
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.families import NAIVE
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.streamk import Stream
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.gpu import why_no_gpu
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.verification import with_sanitizers
from gemmgen.verification.sanitizers import tool as sanitizer
from gemmgen.verification.sanitizers.tool import (
    TOOLS,
    Allocation,
    Finding,
    SanitizerResult,
    blocks_to_run,
    find_sanitizer,
    lead_bytes,
    parse,
)
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import Verdict
from gemmgen.verification.with_sanitizers import LARGE_SITUATIONS, LARGEST, draw, sanitize

PROBLEM = Problem(None, None, None)
SOURCE = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
LAUNCH = SOURCE.launch
SITUATIONS = tuple(Situation(PROBLEM.case(8, 8, 8), "exact", seed) for seed in range(2))
ALLOCATIONS = (
    *(Allocation(0, name, 0x7F0000000000 + 0x1000 * place, 256) for place, name in enumerate("ABC")),
    *(Allocation(1, name, 0x7F0000010010 + 0x1000 * place, 256) for place, name in enumerate("ABC")),
)

MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at naive+0x2f0 in kernel.cu:41
=========     by thread (3,0,0) in block (2,0,0)
=========     Address 0x7f0000000104 is out of bounds
=========     and is 5 bytes after the nearest allocation at 0x7f0000000000 of size 256 bytes
=========
========= Invalid __global__ read of size 4 bytes
=========     at naive+0x2f0 in kernel.cu:41
=========     by thread (4,0,0) in block (2,0,0)
=========     Address 0x7f0000000108 is out of bounds
=========     and is 9 bytes after the nearest allocation at 0x7f0000000000 of size 256 bytes
=========
========= Invalid __global__ write of size 16 bytes
=========     at _Z5storev+0x1a0 in kernel.cu:57
=========     by thread (1,0,0) in block (0,0,0)
=========     Address 0x7f0000012014 is misaligned
=========     and is inside the nearest allocation at 0x7f0000012000 of size 272 bytes
=========         Device Frame: naive+0xb0 in kernel.cu:80
=========
========= Invalid __shared__ read of size 4 bytes
=========     at naive+0x520 in kernel.cu:63
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x2404 is out of bounds
=========
========= ERROR SUMMARY: 4 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at naive+0x430 in kernel.cu:120
=========     and Read access at _Z10fragment_aPf+0x770 in kernel.cu:77 [248 hazards]
=========     and Read access at naive+0x7a0 in kernel.cu:131 [4 hazards]
=========
========= Warning: Race reported between Write access at naive+0x90
=========     and Read access at naive+0xa0 [32 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
INITCHECK = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at naive+0x70 in kernel.cu:44
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f0000002010
=========
========= ERROR SUMMARY: 1 error
"""
SYNCCHECK = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at naive+0xf0 in kernel.cu:79
=========     by thread (37,0,0) in block (0,0,0)
=========
========= Barrier error detected. Invalid arguments
=========     at __cuda_sm70_warpsync+0x30
=========     by thread (0,0,0) in block (0,0,0)
=========         Device Frame: __syncwarp(unsigned int)+0xf0 in sm_30_intrinsics.hpp:110
=========         Device Frame: naive+0x3c0 in kernel.cu:48
=========
========= ERROR SUMMARY: 2 errors
"""
CLEAN = """\
========= COMPUTE-SANITIZER
========= ERROR SUMMARY: 0 errors
"""


def test_memcheck_says_what_where_and_beside_which_operand():
    past, misaligned, shared = parse(MEMCHECK, ALLOCATIONS, SITUATIONS)
    assert past == Finding(
        "Invalid __global__ read of size 4 bytes",
        (41,),
        (3, 0, 0),
        (2, 0, 0),
        "4 bytes after the end of A",
        SITUATIONS[0],
        count=2,
    )
    assert str(past) == (
        "Invalid __global__ read of size 4 bytes at line 41 by thread 3 of block 2: 4 bytes after the end of A"
    )
    assert (misaligned.what, misaligned.lines) == ("Invalid __global__ write of size 16 bytes, misaligned", (57,))
    assert (misaligned.where, misaligned.situation) == ("byte 4 of C's storage", SITUATIONS[1])
    assert (shared.where, shared.situation, shared.lines) == (None, None, (63,))


def test_racecheck_names_the_lines_of_all_accesses():
    race, warning = parse(RACECHECK)
    assert race.what == (
        "Race reported between Write access at line 120 and Read access at line 77 and Read access at line 131"
    )
    assert race.lines == (120, 77, 131) and race.thread is None
    assert str(race) == race.what
    assert warning.what == "Race reported between Write access and Read access" and warning.lines == ()


def test_initcheck_and_synccheck():
    (unwritten,) = parse(INITCHECK, ALLOCATIONS, SITUATIONS)
    assert unwritten.where == "byte 16 of C's storage" and unwritten.situation is SITUATIONS[0]
    divergent, arguments = parse(SYNCCHECK)
    assert str(divergent) == ("Barrier error detected. Divergent thread(s) in block at line 79 by thread 37 of block 0")
    assert arguments.lines == (48,), "a library's barrier is at the line that calls it"


def test_what_is_no_finding_is_passed_over():
    assert parse(CLEAN) == ()
    assert parse("========= Error: Target application terminated before first instrumented API call\n") == ()
    assert parse("what the program itself prints\n========= Program hit CUDA_ERROR_NOT_FOUND (error 500) ...\n") == ()
    assert len(parse("========= Warp Illegal Instruction\n=========     at naive+0x10 in kernel.cu:3\n")) == 1


def test_large_launches_run_their_first_blocks_and_small_ones_all():
    small, large = PROBLEM.case(100, 100, 100), PROBLEM.case(4096, 4096, 4096)
    cube = PROBLEM.case(LARGEST, LARGEST, LARGEST)
    for tool in sanitizer.TOOLS:
        assert blocks_to_run(LAUNCH, small, tool) == LAUNCH.blocks(small)
        assert blocks_to_run(LAUNCH, cube, tool) == LAUNCH.blocks(cube)
        assert 1 <= blocks_to_run(LAUNCH, large, tool) < LAUNCH.blocks(large) / 2000
    assert blocks_to_run(LAUNCH, large, "racecheck") < blocks_to_run(LAUNCH, large, "memcheck")


def test_lines_of_a_fixed_length_may_end_at_run_time():
    sizes = {"m": None, "n": 4096, "k": 4096, "lda": None, "ldc": None}
    drawn = draw(Problem(**sizes, types="bf16", layout="rc", inputs="groups=8+masked", stride_c=None), 0)
    assert len(drawn) == LARGE_SITUATIONS
    assert all(one.case.m <= LARGEST and one.case.lda >= 4096 for one in drawn)


def test_blocks_that_share_a_tile_run_together():
    shared = replace(LAUNCH, splits=3)
    large = PROBLEM.case(4096, 4096, 4096)
    for tool in sanitizer.TOOLS:
        assert blocks_to_run(shared, large, tool) == 3 * blocks_to_run(LAUNCH, large, tool)


def test_a_persistent_kernel_runs_whole():
    persistent = replace(LAUNCH, persistent=True)
    large = PROBLEM.case(4096, 4096, 4096)
    for tool in sanitizer.TOOLS:
        assert blocks_to_run(persistent, large, tool) == LAUNCH.blocks(large), "fewer do the work of all"


def test_a_stream_runs_its_helpers_too_where_all_tiles_run():
    whole = Launch(64, (("M", 1), ("N", 1)))
    stream = replace(whole, stream=Stream(1100, 8))
    large = PROBLEM.case(4096, 4096, 4096)
    for tool in sanitizer.TOOLS:
        assert blocks_to_run(stream, PROBLEM.case(4, 5, 6), tool) == 1100, "blocks without a step, too"
        assert blocks_to_run(stream, PROBLEM.case(40, 50, 6), tool) == 2200
        assert blocks_to_run(stream, large, tool) == blocks_to_run(whole, large, tool) < whole.blocks(large)


def test_operands_begin_where_their_allocation_does_or_as_misaligned_as_promised():
    narrow = Problem(None, None, None, pointer_align=8).case(8, 8, 8)
    assert [lead_bytes(Situation(narrow, "exact", seed)) for seed in (0, 1, 2, 7)] == [0, 8, 0, 8]


def test_findings_are_shown_and_written_down():
    findings = parse(MEMCHECK, ALLOCATIONS, SITUATIONS)
    failure = Failure("crash", str(findings[0]), "memcheck")
    result = SanitizerResult("memcheck", "2025.3.1.0", 2, findings, 1.0, failure=failure)
    verdict = Verdict("gpu", 5, 0, 0.5, failure, SITUATIONS[0], sanitizers=(result,))
    document = json.loads(json.dumps(verdict_document(verdict), allow_nan=False))
    (tool,) = document["sanitizers"]
    assert tool["tool"] == "memcheck" and not tool["passed"]
    assert tool["findings"][0]["lines"] == [41] and tool["findings"][0]["situation"]["case"]["M"] == 8
    console = Console(file=io.StringIO(), width=200)
    show_verdict(console, KernelFile(SOURCE), verdict, "again")
    shown = console.file.getvalue()
    assert "FAIL  memcheck: 2 situations, compute-sanitizer 2025.3.1.0" in shown
    assert "by thread 3 of block 2: 4 bytes after the end of A; 2 reports" in shown


def test_the_first_tool_that_fails_is_why_a_verdict_fails(monkeypatch):
    findings = parse(MEMCHECK, ALLOCATIONS, SITUATIONS)
    failures = {tool: Failure("race", f"found by {tool}", tool) for tool in TOOLS[1:3]}

    def run_tool(gpu, source, situations, tool, timeout):
        return SanitizerResult(tool, "2025.3.1.0", 2, findings, 1.0, failure=failures.get(tool))

    monkeypatch.setattr(with_sanitizers, "run_tool", run_tool)
    watched = sanitize(None, SOURCE, Verdict("gpu", 5, 0, 0.5), TOOLS)
    assert tuple(result.tool for result in watched.sanitizers) == TOOLS
    assert (watched.failure, watched.situation) == (failures[TOOLS[1]], findings[0].situation)
    wrong = Verdict("gpu", 5, 0, 2.0, Failure("wrong", "C is off", "verifier"), SITUATIONS[0])
    assert sanitize(None, SOURCE, wrong, TOOLS).failure == wrong.failure
    failures.clear()
    assert sanitize(None, SOURCE, Verdict("gpu", 5, 0, 0.5), TOOLS).passed


# The program

PROGRAM = """\
#!{python}
import pickle, sys, time
from pathlib import Path

if "--version" in sys.argv:
    print("NVIDIA (R) Compute Sanitizer\\nVersion 2025.3.1.0 (build 1) (public-release)")
    sys.exit()
from gemmgen.verification.sanitizers.tool import Allocation, WatchOutcome
Path({folder!r}, "arguments").write_text("\\n".join(sys.argv[1:]))
job = pickle.loads(Path(sys.argv[-2]).read_bytes())
Path(sys.argv[sys.argv.index("--log-file") + 1]).write_text(Path({folder!r}, "report").read_text())
{then}
"""
DONE = """
allocations = (Allocation(0, "A", 0x7F0000000000, 256),)
Path(sys.argv[-1]).write_bytes(pickle.dumps(WatchOutcome({ran}, {error!r}, allocations)))
sys.exit({code})
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """`program(report, ...)` makes a compute-sanitizer that prints it."""

    def make(report: str, *, ran: int = 2, error: str | None = None, code: int = 0, then: str | None = None) -> Path:
        (tmp_path / "report").write_text(report)
        script = tmp_path / "compute-sanitizer"
        last = DONE.format(ran=ran, error=error, code=code) if then is None else then
        script.write_text(dedent(PROGRAM).format(python=sys.executable, folder=str(tmp_path), then=last))
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        monkeypatch.setenv("PYTHONPATH", str(Path(sanitizer.__file__).parents[2]))
        assert find_sanitizer() == str(script)
        return tmp_path / "arguments"

    sanitizer.version.cache_clear()
    return make


@pytest.mark.parametrize("tool", sanitizer.TOOLS)
def test_a_clean_run(program, tool):
    arguments = program(CLEAN)
    result = sanitizer.sanitize(SOURCE, b"cubin", b"fill", SITUATIONS, tool)
    assert result.failure is None and result.findings == () and not result.sampled and not result.stopped
    assert (result.tool, result.version, result.situations) == (tool, "2025.3.1.0", 2)
    words = arguments.read_text().split("\n")
    assert words[:2] == ["--tool", tool] and "gemmgen.verification.sanitizers.watched" in words
    assert ("--padding" in words) == (tool == "memcheck")


def test_findings_are_the_failure(program):
    program(MEMCHECK, code=sanitizer.FOUND)
    result = sanitizer.sanitize(SOURCE, b"cubin", b"fill", SITUATIONS, "memcheck")
    assert len(result.findings) == 3 and result.failure is not None
    assert (result.failure.kind, result.failure.source) == ("crash", "memcheck")
    assert "4 bytes after the end of A (and 2 more)" in result.failure.reason


def test_what_had_no_turn_in_time_is_said(program):
    program(CLEAN, ran=1)
    result = sanitizer.sanitize(SOURCE, b"cubin", b"fill", SITUATIONS, "racecheck")
    assert result.failure is None and result.stopped and result.situations == 1
    console = Console(file=io.StringIO(), width=200)
    show_verdict(console, KernelFile(SOURCE), Verdict("gpu", 5, 0, 0.5, sanitizers=(result,)), "again")
    assert "PASS  racecheck: 1 situation, then the time was up, compute-sanitizer" in console.file.getvalue()


def test_what_cuda_reports_is_a_failure_without_findings(program):
    program(CLEAN, ran=1, error="cuLaunchKernel failed: out of resources")
    result = sanitizer.sanitize(SOURCE, b"cubin", b"fill", SITUATIONS, "synccheck")
    assert result.failure is not None and "out of resources" in result.failure.reason and result.situations == 1


def test_a_kernel_that_hangs_is_a_timeout_and_leaves_no_process(program, tmp_path):
    child = f"import os, subprocess; p = subprocess.Popen(['sleep', '60']); Path({str(tmp_path)!r}, 'pid')"
    program(CLEAN, then=f"{child}.write_text(str(p.pid)); time.sleep(60)")
    result = sanitizer.sanitize(SOURCE, b"cubin", b"fill", SITUATIONS, "racecheck", timeout=3)
    assert result.failure is not None and result.failure.kind == "timeout"
    assert result.failure.reason == "no end in 3 s: it hangs, or is too slow to be watched" and not result.stopped
    pid = int((tmp_path / "pid").read_text())
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


@pytest.mark.parametrize(
    ("report", "then", "words"),
    [
        ("========= Error: Device not supported\n", "sys.exit(255)", "Error: Device not supported"),
        ("", "sys.exit('ModuleNotFoundError: pycuda')", "ModuleNotFoundError: pycuda"),
        (CLEAN, DONE.format(ran=2, error=None, code=sanitizer.FOUND), "words that gemmgen does not know"),
    ],
)
def test_a_tool_that_does_not_work_is_unavailable(program, report, then, words):
    program(report, then=then)
    with pytest.raises(CandidateFailed, match=words) as caught:
        sanitizer.sanitize(SOURCE, b"cubin", b"fill", SITUATIONS, "initcheck")
    assert caught.value.failure.kind == "unavailable"


def test_what_a_watched_process_wrote_before_it_ended_is_in_the_message(program):
    trouble = "Error: process didn't terminate successfully"
    failing = "print('placing A', flush=True)\nNone.handle"
    program(f"========= {trouble}\n", then=failing)
    with pytest.raises(CandidateFailed) as caught:
        sanitizer.sanitize(SOURCE, b"cubin", b"fill", SITUATIONS, "memcheck")
    first, *written = caught.value.failure.reason.splitlines()
    assert trouble in first and "exit status 1" in first
    assert written[0] == "placing A" and "'NoneType' object has no attribute 'handle'" in written[-1]


def test_a_missing_program_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sanitizer, "find_sanitizer", lambda: None)
    monkeypatch.setattr(sanitizer, "why_no_gpu", lambda: None)
    assert "install a CUDA toolkit" in str(sanitizer.why_no_sanitizer())
    with pytest.raises(CandidateFailed, match="compute-sanitizer is missing"):
        sanitizer.sanitize(SOURCE, b"cubin", b"fill", SITUATIONS, "initcheck")


@pytest.mark.skipif(why_no_gpu() is None, reason="this machine has a GPU")
def test_the_option_needs_a_gpu(capsys):
    assert main(["verify", SOURCE.name, "--sanitize"]) == 3
    assert "watches kernels on a GPU: " in capsys.readouterr().err
    assert main(["verify", SOURCE.name, "--tool", "racecheck", "--device", "emulator"]) == 2
    assert "not in the emulator" in capsys.readouterr().err
