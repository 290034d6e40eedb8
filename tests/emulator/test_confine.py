"""The interpreter's process: it has what it computes with, and nothing else of this machine."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from gemmgen.families import NAIVE
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run import compile as run_compile
from gemmgen.run import nvrtc
from gemmgen.run.compile import APART_BYTES, compile_apart
from gemmgen.run.emulator import EmulatorExecutor, ptx
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.emulator.program import NATIVE, interpreter
from gemmgen.run.emulator.ptx import PtxCompilers
from gemmgen.run.emulator.server import GUARDS, missing_guards
from gemmgen.run.executor import Operands
from gemmgen.run.nvrtc import header_folders, ptx_process
from gemmgen.support.child import Child, crew
from gemmgen.support.confine import CREATE_RULESET
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store

PROBLEM = Problem(4, 4, 4)
GIB = 2**30

# guard.cpp with its filter of calls and without: what Landlock lets pass the filter would refuse.
ATTEMPTS = r"""
#include <arpa/inet.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <string>

bool filtered = true;
template <typename... Words>
int prctl_unless_of_filters(int option, Words... words) {
  return option == PR_SET_SECCOMP && !filtered ? 0 : prctl(option, words...);
}
#define prctl prctl_unless_of_filters
#include "guard_text.hpp"

namespace {

volatile sig_atomic_t told = 0;
void on_told(int) { told = 1; }

void say(const std::string& text) {
  if (write(1, (text + "\n").data(), text.size() + 1) < 0) _exit(1);
}

void attempt(const char* name, long result) {
  if (result >= 0 || errno != EACCES) say(name);
}

void attempt_files(const char* folder, int port) {
  const std::string file = std::string(folder) + "/file", other = std::string(folder) + "/other";
  attempt("read", open(file.c_str(), O_RDONLY));
  attempt("read /etc", open("/etc/passwd", O_RDONLY));
  attempt("list", open("/", O_RDONLY | O_DIRECTORY));
  attempt("write", open(file.c_str(), O_WRONLY));
  attempt("create", open(other.c_str(), O_WRONLY | O_CREAT, 0600));
  attempt("delete", unlink(file.c_str()));
  attempt("execute", execl("/bin/sh", "sh", "-c", "echo executed", nullptr));
  sockaddr_in server = {};
  server.sin_family = AF_INET;
  server.sin_port = htons(uint16_t(port));
  server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  attempt("connect", connect(socket(AF_INET, SOCK_STREAM, 0), reinterpret_cast<sockaddr*>(&server), sizeof server));
}

}  // namespace

int main(int count, char** words) {
  if (std::string(words[1]) == "probe") gemmgen::probe();
  if (std::string(words[1]) == "probe") return 0;
  signal(SIGSYS, on_told);
  alarm(60);
  filtered = std::string(words[1]) != "files";
  char output[] = "1", *passed[] = {output, output, output, output};
  if (!gemmgen::guard(passed)) return 1;
  if (!filtered) attempt_files(words[2], std::atoi(words[3]));
  if (!filtered) return 0;
  for (int i = 2; i + 1 < count; i += 2) {
    told = 0;
    const long result = syscall(std::atol(words[i]), std::atol(words[i + 1]), -1L, -1L, -1L, -1L, -1L);
    if (!told && (result >= 0 || errno != ENOSYS)) say(words[i]);
  }
  say("done");
}
"""


@pytest.fixture
def process(shared_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Of a kernel that has run; this process has a secret in its environment and in a file that children inherit."""
    secret = tmp_path / "secret"
    secret.write_text("the secret\n")
    monkeypatch.setenv("SECRET", "the secret")
    with secret.open() as file, EmulatorExecutor(shared_store) as executor:
        os.set_inheritable(file.fileno(), True)
        kernel = executor.load(render(PROBLEM, NAIVE, NAIVE.default(PROBLEM)))
        case = PROBLEM.case()
        kernel.run(case, Operands(*(np.ones(matrix.elements, np.float32) for matrix in case.matrices)))
        yield kernel._server._process._process.pid


def test_it_has_no_environment_and_no_file_but_those_passed(process: int) -> None:
    proc = Path(f"/proc/{process}")
    assert (proc / "environ").read_bytes() == b""
    files = {int(file.name): os.readlink(file).partition(":")[::2] for file in (proc / "fd").iterdir()}
    assert sorted(files) == [0, 1, 2, 3, 4, 5, 6], files
    assert [files[number][0] for number in (0, 4, 6)] == ["pipe"] * 3  # requests, replies and the lifeline
    assert [files[number][1].split()[0] for number in (3, 5)] == ["gemmgen-operands", "gemmgen-coverage"]


def test_it_gains_no_rights_and_its_system_calls_are_filtered(process: int, shared_store: Store) -> None:
    with EmulatorExecutor(shared_store) as executor:
        filtered = GUARDS["seccomp"] not in executor.unconfined
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == ("2" if filtered else "0")


def test_its_memory_and_files_are_limited(process: int) -> None:
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for kind, most in (
        (resource.RLIMIT_DATA, max(physical, 16 * GIB)),
        (resource.RLIMIT_FSIZE, GIB),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        soft, hard = resource.prlimit(process, kind)
        assert 0 <= soft == hard <= most  # -1: no limit


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """Runs the program of ATTEMPTS, and returns its lines."""
    folder = tmp_path_factory.mktemp("attempts")
    for name in ("guard.hpp", "descriptors.hpp"):
        shutil.copy(NATIVE / name, folder)
    shutil.copy(NATIVE / "guard.cpp", folder / "guard_text.hpp")
    (folder / "attempts.cpp").write_text(ATTEMPTS)
    program = folder / "program"
    program.write_bytes(interpreter(HostCompiler.find(), Store(), folder))
    program.chmod(0o700)

    def run(*words: object) -> list[str]:
        done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@pytest.fixture
def needs_landlock() -> None:
    if ctypes.CDLL(None).syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1) < 6:
        pytest.skip("this system has no Landlock, or one that knows no connections and signals")


@pytest.fixture
def needs_seccomp() -> None:
    if not Path("/proc/sys/kernel/seccomp").exists():
        pytest.skip("this system has no seccomp")


def test_without_a_filter_no_file_can_be_opened_nor_a_connection_made(
    attempts: Callable[..., list[str]], tmp_path: Path, needs_landlock: None
) -> None:
    (tmp_path / "file").touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert attempts("files", tmp_path, server.getsockname()[1]) == []


def test_calls_that_it_does_not_need_are_refused(
    attempts: Callable[..., list[str]], forbidden_calls: dict[str, tuple[int, int]], needs_seccomp: None
) -> None:
    said = attempts("calls", *(word for call in forbidden_calls.values() for word in call))
    assert said.pop() == "done"
    assert [name for name, (number, _) in forbidden_calls.items() if str(number) in said] == []


def test_what_this_system_has_is_seen(
    attempts: Callable[..., list[str]], needs_landlock: None, needs_seccomp: None
) -> None:
    assert attempts("probe") == ["landlock", "seccomp"]


@pytest.mark.parametrize(
    ("said", "missing"), [("landlock seccomp", []), ("seccomp", ["landlock"]), ("", ["landlock", "seccomp"])]
)
def test_what_does_not_hold_is_said(said: str, missing: list[str]) -> None:
    assert missing_guards(f"#!/bin/sh\necho {said}\n".encode()) == tuple(GUARDS[name] for name in missing)


def compiler_of_files(most_bytes: str) -> Callable[[str], str]:
    """The factory of a child that is confined as NVRTC is, and reads files."""
    ptx_process(most_bytes)

    def answer(path: str) -> str:
        try:
            return Path(path).read_bytes()[:0].decode()
        except PermissionError as error:
            return str(error.strerror)

    return answer


def test_nvrtc_reads_headers_alone(tmp_path: Path, needs_landlock: None) -> None:
    (tmp_path / "secret").touch()
    header = next(folder / "cuda_bf16.h" for folder in header_folders() if (folder / "cuda_bf16.h").exists())
    closed = [
        tmp_path / "secret",
        "/etc/passwd",
        "/proc/self/environ",
        __file__,
        nvrtc.__file__,
        os.__file__,
        np.__file__,
    ]
    with crew([Child(f"{__name__}:compiler_of_files", str(APART_BYTES), answers=())]) as (child,):
        assert child.request(str(header), 60) == ""
        assert {str(path): child.request(str(path), 60) for path in closed} == {
            str(path): "Permission denied" for path in closed
        }


def compiled_apart(machine_code: bool, store: Store) -> None:
    source = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
    if machine_code:
        compile_apart(source, "sm_90", store)
    else:
        with closing(PtxCompilers()) as compilers:
            compilers.ptx(source, store)


@pytest.mark.parametrize("machine_code", [False, True])
def test_a_text_is_compiled_by_a_process_that_is_confined(
    machine_code: bool, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[dict[str, tuple[int, int]], dict[str, str]]] = []

    class Watched(Child):
        def kill(self) -> None:
            if self.running:
                process = self._process.pid
                limits = {name: resource.prlimit(process, getattr(resource, f"RLIMIT_{name}")) for name in most}
                status = Path(f"/proc/{process}/status").read_text()
                seen.append((limits, dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)))
            super().kill()

    most = {"AS": APART_BYTES, "FSIZE": nvrtc.MOST_STDERR_BYTES, "CORE": 0}
    monkeypatch.setattr(run_compile if machine_code else ptx, "Child", Watched)
    compiled_apart(machine_code, store)
    limits, status = seen[0]
    assert limits == {name: (number, number) for name, number in most.items()}
    assert APART_BYTES <= 8 * GIB
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


class Unpickled:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, ("unpickled",)


def taken_over(most_bytes: str) -> Callable[[object], object]:
    """The factory of a compiler's process that answers what a stranger's text makes of it."""
    return lambda _: Unpickled()


@pytest.mark.parametrize("machine_code", [False, True])
def test_what_it_answers_makes_no_object_here(
    machine_code: bool, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_compile if machine_code else ptx, "COMPILER", f"{__name__}:taken_over")
    with pytest.raises(CandidateFailed, match=r"its answer cannot be read: it names posix\.mkdir"):
        compiled_apart(machine_code, store)
    assert not (tmp_path / "unpickled").exists()
