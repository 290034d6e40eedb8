"""A run that is killed leaves no compiler, no emulator and, once the next one has started, no temporary file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gemmgen.support.child import child_environment
from gemmgen.support.scratch import scratch_folder, sweep

# A compiler that takes long and has children of its own, as g++ has: it tells where its temporary files belong.
SLOW_COMPILER = """#!/bin/sh
case "$*" in
    *--version*) echo slow 1.0; exit;;
esac
touch "$TMPDIR/intermediate.s"
sleep 1000 &
echo "$! $TMPDIR" > {report}.new
mv {report}.new {report}
wait
"""

COMPILE = """
from gemmgen.api.rendering import generate
from gemmgen.problem.gemm import Problem
from gemmgen.run.emulator import EmulatorExecutor
EmulatorExecutor().load(generate(Problem(8, 8, 8), family="simt"))
"""

HANG = """
import sys
from pathlib import Path
from gemmgen.problem.gemm import Problem
from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.verification.situation import Situation
from gemmgen.verification.reference import make_operands
text = 'extern "C" __global__ void k(float* C) {{ for (volatile int i = 0;;) i = 1; }}'
problem = Problem(8, 8, 8)
source = KernelSource("k", text, "test", {{}}, Contract(problem, Launch(32, (("M", 1),)), (Parameter("C", "float*"),)))
kernel = EmulatorExecutor(timeout=1000.0).load(source)
case = problem.case(8, 8, 8)
kernel.run(case, make_operands(Situation(case, "exact", 0)))
"""


def wait_for(what: Callable[[], object]) -> None:
    for _ in range(3000):  # a minute and more
        if what():
            return
        time.sleep(0.02)
    pytest.fail("what is waited for does not come")


def is_alive(process: int) -> bool:
    """Whether it runs: one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def program(process: int) -> str:
    """The file that it runs; nothing of one that has ended."""
    try:
        return os.readlink(f"/proc/{process}/exe")
    except FileNotFoundError:
        return ""


def children(process: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir()
    return {**child_environment(), "TMPDIR": str(tmp_path / "tmp"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_a_killed_run_leaves_no_compiler_and_no_files(tmp_path: Path, environment: dict[str, str]) -> None:
    compiler, report, temporary = tmp_path / "slow", tmp_path / "report", tmp_path / "tmp"
    compiler.write_text(SLOW_COMPILER.format(report=report))
    compiler.chmod(0o755)
    run = subprocess.Popen([sys.executable, "-c", COMPILE], env={**environment, "CXX": str(compiler)})
    wait_for(report.exists)
    process, folder = report.read_text().split()
    assert is_alive(int(process)) and (Path(folder) / "intermediate.s").exists()
    assert Path(folder).parent == temporary
    run.kill()
    run.wait()
    wait_for(lambda: not is_alive(int(process)))
    sweep(str(temporary))
    assert not list(temporary.iterdir())


def test_a_killed_run_leaves_no_emulator(environment: dict[str, str], shared_cache: Path) -> None:
    environment["XDG_CACHE_HOME"] = str(shared_cache)
    run = subprocess.Popen([sys.executable, "-c", HANG.format()], env=environment)

    def emulators() -> list[int]:
        return [one for one in children(run.pid) if "memfd" in program(one)]

    wait_for(emulators)
    (emulator,) = emulators()
    run.kill()
    run.wait()
    wait_for(lambda: not is_alive(emulator))


def test_a_folder_in_use_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = tmp_path / "gemmgen-out"
    mine.mkdir()
    with scratch_folder() as folder:
        (folder / "file").touch()
        sweep(str(tmp_path))
        assert (folder / "file").exists()
    assert list(tmp_path.iterdir()) == [mine]


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path, environment: dict[str, str]) -> None:
    make = "from gemmgen.support.scratch import scratch_folder\nwith scratch_folder() as folder: {}"
    killed = make.format("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    done = subprocess.run([sys.executable, "-c", killed], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL and len(list((tmp_path / "tmp").iterdir())) == 1
    subprocess.run([sys.executable, "-c", make.format("pass")], env=environment, check=True)
    assert not list((tmp_path / "tmp").iterdir())
