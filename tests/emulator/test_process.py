"""The interpreter's process: messages, failures, time and memory. A machine of a few lines stands for the real one."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from gemmgen.families import NAIVE
from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case, Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.emulator.launches import EmulatedKernel, long_work
from gemmgen.run.emulator.program import KIND, NATIVE, interpreter
from gemmgen.run.emulator.ptx import PtxCompilers
from gemmgen.run.emulator.server import Program, missing_guards
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.verification.reference import make_operands
from gemmgen.verification.situation import Situation

PROBLEM = Problem(None, None, None, lda=None, ldb=None, ldc=None)
PADDED = PROBLEM.case(5, 7, 3, lda=9, ldb=12, ldc=8)
BATCH = Problem(None, None, None, batch=None, layout="rc", epilogue="bias+residual")
POINTERS = Problem(4, 8, 6, batch=None, pointers=True)

OWN = ("failure.hpp", "allocations.hpp", "launch.hpp", "descriptors.hpp", "guard.hpp", "guard.cpp", "main.cpp")
MACHINE_HEADER = """
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include "launch.hpp"
namespace gemmgen {
struct Program { std::string ptx, name, table; };
std::unique_ptr<Program> load_program(std::string_view ptx, std::string_view name, std::string_view table);
void run_launch(Program& program, Launch& launch);
}
"""
# The PTX names what the machine does.
MACHINE = r"""
#include "machine.hpp"
#include <fcntl.h>
#include <signal.h>
#include <cstdlib>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <thread>
namespace gemmgen {
namespace {

int dig(volatile int* before) {
  volatile int here[1000] = {*before};
  return dig(here) + here[1];
}

void echo(const Program& program, const Launch& launch) {
  std::ostringstream text;
  text << program.name << " " << program.table << " " << launch.entry << " seed " << launch.seed << " grid "
       << launch.grid << " threads " << launch.threads << " cluster " << launch.cluster << " shared "
       << launch.shared_bytes << " workers " << launch.workers << " timeout " << launch.timeout_ms << " element "
       << launch.element_bytes << " watch " << launch.watch << " dependent " << launch.dependent << " takes";
  for (const Argument& one : launch.arguments) text << " " << one.kind << one.bytes;
  text << " blocks";
  for (uint32_t block : launch.blocks) text << " " << block;
  fail("unjudged", "%s", text.str().c_str());
}

float* address(const Launch& launch, unsigned argument) {
  float* found;
  std::memcpy(&found, &launch.parameters[launch.arguments[argument].offset], sizeof found);
  return found;
}

void describe(const Program& program, const Launch& launch) {
  std::istringstream asked(program.ptx);
  std::string word;
  unsigned number;
  int64_t offset;
  asked >> word >> number >> offset;
  fail("crash", "%s", launch.allocations.describe(launch.allocations[number].pointer() + uint64_t(offset)).c_str());
}

}  // namespace

std::unique_ptr<Program> load_program(std::string_view ptx, std::string_view name, std::string_view table) {
  if (ptx == "no PTX") fail("unjudged", "no instruction `%s` is known", "no");
  return std::make_unique<Program>(Program{std::string(ptx), std::string(name), std::string(table)});
}

void run_launch(Program& program, Launch& launch) {
  const std::string action = program.ptx.substr(0, program.ptx.find(' '));
  const bool odd = launch.seed % 2 == 1;  // goes well, so that one kernel shows both
  if (action == "by-seed" && odd) return;
  if (action == "by-seed") fail("race", "block 0: threads 1 and 2 (k.cu:3)");
  if (action == "echo") echo(program, launch);
  if (action == "describe") describe(program, launch);
  if (action == "late" && !odd) while (!launch.expired) {}
  if (launch.expired) launch.fail_late("block 0, thread 3", "k.cu:7");
  if (action == "hang") for (volatile int i = 0;;) i = 1;
  if (action == "segv" && !odd) *reinterpret_cast<volatile int*>(8) = 1;
  if (action == "dig") { volatile int none = 0; dig(&none); }
  if (action == "throw") throw std::logic_error("a bug");
  if (action == "exhaust") std::vector<char>(std::size_t(1) << 60);
  if (action == "kill" && !odd) raise(SIGKILL);
  if (action == "terminate") std::terminate();
  if (action == "open") open("/etc/hostname", O_RDONLY);
  if (action == "process") fail("crash", "%s", system("true") == 0 ? "one has started" : "none has started");
  if (action == "thread") std::thread([] {}).join();
  if (action == "print") launch.printed.add(std::string(100000, 'x') + "end");
  if (action == "copy") *address(launch, 2) = *address(launch, 0);
  if (action == "write") *address(launch, 0) = 1;
}

}  // namespace gemmgen
"""


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The interpreter's process with that machine; from the user's cache, where it is by its text."""
    folder = tmp_path_factory.mktemp("native")
    for name in OWN:
        shutil.copy(NATIVE / name, folder)
    (folder / "machine.hpp").write_text(MACHINE_HEADER)
    (folder / "machine_stub.cpp").write_text(MACHINE)
    return interpreter(HostCompiler.find(), Store(), folder)


Load = Callable[..., EmulatedKernel]


@pytest.fixture
def load(executable: bytes) -> Iterator[Load]:
    """`load(action, problem)`: a kernel whose PTX is `action`."""
    loaded = []

    def made(action: str, problem: Problem = PROBLEM, timeout: float = 20.0) -> EmulatedKernel:
        source = render(problem, NAIVE, NAIVE.default(problem))
        kernel = EmulatedKernel(source, Program("k", action, "table"), executable, timeout)
        loaded.append(kernel)
        kernel.start()
        return kernel

    yield made
    for kernel in loaded:
        kernel.close()


def run(kernel: EmulatedKernel, case: Case = PADDED, seed: int = 0) -> None:
    kernel.run(case, make_operands(Situation(case, "exact", 0)), seed=seed)


def failure(kernel: EmulatedKernel, case: Case = PADDED, seed: int = 0) -> str:
    """ "crash: block 0, ..."."""
    with pytest.raises(CandidateFailed) as caught:
        run(kernel, case, seed)
    assert caught.value.failure.source in ("emulator", "memory")
    return f"{caught.value.failure.kind}: {caught.value.failure.reason}"


def process_of(kernel: EmulatedKernel) -> object:
    return kernel._server._process


def test_the_program_is_made_once(tmp_path: Path, store: Store) -> None:
    (tmp_path / "main.cpp").write_text("int value();\nint main() { return value(); }\n")
    (tmp_path / "value.cpp").write_text("static const char* made = __TIME__;\nint value() { return made[7]; }\n")
    compiler = HostCompiler.find()
    with ThreadPoolExecutor(3) as pool:
        programs = set(pool.map(lambda _: interpreter(compiler, store, tmp_path), range(3)))
    assert len(programs) == 1 and len(list((store.root / KIND).glob("*/*[0-9a-f]"))) == 1
    (tmp_path / "value.cpp").write_text("int value() { return nothing; }\n")
    with pytest.raises(CandidateFailed, match=r"unavailable .* cannot compile the emulator: [^\n]*value.cpp"):
        interpreter(compiler, store, tmp_path)


@pytest.mark.parametrize("full", ["TMPDIR", "XDG_CACHE_HOME"])
def test_a_full_disk_is_told_before_anything_is_built(
    full: str, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, usage = store.root if full == "XDG_CACHE_HOME" else Path(tempfile.gettempdir()), shutil.disk_usage(tmp_path)
    store.root.mkdir(exist_ok=True)
    monkeypatch.setattr(shutil, "disk_usage", lambda one: usage._replace(free=2**20 if one == folder else 2**40))
    need = r"needs (256|16) MiB there: free some space"
    said = f"{folder} has 1.0 MiB free, and .* {need}, or set {full} to another folder$"
    with pytest.raises(CandidateFailed, match=said):
        EmulatorExecutor(store)


def test_a_launch_arrives_as_it_was_sent(load: Load) -> None:
    kernel = load("echo")
    launch, case = kernel.source.launch, PROBLEM.case(70, 40, 3)
    blocks = launch.blocks(case)
    milliseconds = int(1000 * (20.0 + long_work(launch, case, blocks, True)))
    assert blocks > 1 and failure(kernel, case) == (
        f"unjudged: k table {kernel.source.name} seed 0 grid {blocks} threads {launch.threads} cluster 1 shared 0 "
        f"workers 1 timeout {milliseconds} element 4 watch 1 dependent 0 takes p8 p8 p8 i4 i4 i4 i4 i4 i4 f4 f4 "
        f"blocks {' '.join(map(str, range(blocks)))}"
    )
    with pytest.raises(CandidateFailed, match=r" watch 0 .* blocks 1$"):
        kernel.run(case, make_operands(Situation(case, "exact", 0)), blocks=[1], watch=False)


def test_a_message_that_ends_early_is_refused(load: Load) -> None:
    process = load("copy")._server._process
    assert process is not None
    for message in (b"", b"x" * 87, bytes(40) + b"\xff" * 48):
        assert process.ask(message, 20.0).startswith(b"unjudged\ta message to the interpreter ends after")
    assert process.alive


def test_it_reads_and_writes_the_operands_of_the_driver(load: Load) -> None:
    kernel, operands = load("copy"), make_operands(Situation(PADDED, "exact", 0))
    for seed in range(4):
        c = kernel.run(PADDED, operands, seed=seed)
        assert c[0] == operands.a[0] and not np.isnan(c[0])
        np.testing.assert_array_equal(c[1:], operands.c[1:])


def test_what_may_not_be_written_cannot_be(load: Load) -> None:
    assert re.match(r"unjudged: the interpreter itself crashed: signal 11 at address 0x\w+", failure(load("write")))


def test_a_failure_ends_the_launch_and_not_the_process(load: Load) -> None:
    kernel = load("by-seed")
    process = process_of(kernel)
    for _ in range(3):
        assert failure(kernel) == "race: block 0: threads 1 and 2 (k.cu:3)"
        run(kernel, seed=1)
    assert process_of(kernel) is process


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("throw", "unjudged: the interpreter itself failed: a bug"),
        ("exhaust", "unjudged: the interpreter has not enough memory"),
    ],
)
def test_exceptions_are_failures_of_the_interpreter(action: str, said: str, load: Load) -> None:
    kernel = load(action)
    process = process_of(kernel)
    assert failure(kernel) == said and failure(kernel) == said
    assert process_of(kernel) is process


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("segv", "unjudged: the interpreter itself crashed: signal 11 at address 0x8"),
        ("kill", "unjudged: the interpreter's process ended: SIGKILL"),
    ],
)
def test_a_process_that_ends_is_started_again(action: str, said: str, load: Load) -> None:
    kernel = load(action)
    for _ in range(2):
        assert failure(kernel) == said
        run(kernel, seed=1)


@pytest.mark.parametrize(("action", "number"), [("dig", 11), ("terminate", 6)])
def test_a_crash_of_the_interpreter_is_told(action: str, number: int, load: Load) -> None:
    assert failure(load(action)).startswith(f"unjudged: the interpreter itself crashed: signal {number} at")


def test_it_opens_no_file_and_starts_no_process(load: Load, executable: bytes) -> None:
    if any("seccomp" in one for one in missing_guards(executable)):
        pytest.skip("this system has no seccomp")
    said = "unjudged: the interpreter itself crashed: it makes system call "
    assert failure(load("open")).startswith(said)
    assert failure(load("process")) == "unjudged: the interpreter's process ended: SIGSYS"
    run(load("thread"))


def test_a_launch_that_is_told_to_stop_says_where_it_is(load: Load) -> None:
    kernel = load("late", timeout=0.1)
    process = process_of(kernel)
    told = r"timeout: block 0, thread 3 still runs after 0\.\d+ s of processor time \(k\.cu:7\)"
    assert re.fullmatch(told, failure(kernel))
    run(kernel, seed=1)
    assert process_of(kernel) is process


def test_a_launch_that_does_not_stop_ends_the_process(load: Load) -> None:
    kernel = load("hang", timeout=0.1)
    by_itself = r"the launch still runs after .* 2 s after it was to stop"
    by_the_driver = r"no result after 0\.6 s"  # where other work leaves it little of the processor
    assert re.fullmatch(f"timeout: ({by_itself}|{by_the_driver})", failure(kernel))


def test_what_it_does_not_load_is_told_before_a_launch(load: Load) -> None:
    with pytest.raises(CandidateFailed) as caught:
        load("no PTX")
    assert (caught.value.failure.kind, caught.value.failure.reason) == ("unjudged", "no instruction `no` is known")


def test_what_a_kernel_prints_is_bounded(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    run(load("print"))
    assert capsys.readouterr().err == "x" * 65536


@pytest.mark.parametrize(
    ("case", "number", "offset", "words"),
    [
        (PADDED, 0, -8, "8 bytes before the start of A"),
        (PADDED, 0, 4 * 11, "byte 44 of A"),
        (PADDED, 0, 4 * 3, "the padding of A at row 0, column 3 (A is 5 x 3, lda = 9)"),
        (PADDED, 1, 4 * 31 + 8, "8 bytes after the end of B (row 2, column 9)"),
        (POINTERS.case(batch=3), 0, -8, "8 bytes before the start of the pointers to A"),
    ],
)
def test_the_words_for_a_place(case: Case, number: int, offset: int, words: str, load: Load) -> None:
    assert failure(load(f"describe {number} {offset}", case.problem), case) == f"crash: {words}"


def test_ptx_is_kept(store: Store) -> None:
    text = 'extern "C" __global__ void k(float* C) {\n  C[threadIdx.x] = 1.0f;\n}\n'
    source = KernelSource(
        "k", text, "test", {}, Contract(PROBLEM, Launch(32, (("M", 1),)), (Parameter("C", "float*"),))
    )
    compilers = PtxCompilers()
    ptx = compilers.ptx(source, store)
    assert ".visible .entry k(" in ptx and re.search(r"\.loc\t1 2 ", ptx) and "\0" not in ptx
    compilers.close()
    assert compilers.ptx(source, store) == ptx and not compilers._idle
