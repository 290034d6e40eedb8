"""What tests need, `--extras` and `--update-golden`.

Folders:   host      nothing
           compile   NVRTC           \\ missing, they skip with the reason; in CI they fail with it
           emulator  a C++ compiler  /
           tools     no tests: `from builds import built` runs a compiler once for the same files
Fixtures:  gpu                             an NVIDIA GPU: missing, tests that take it skip with the reason
           torch, transformers, jax, browser  extras: likewise; `pytest --extras` runs the tests that take one,
                                              and no others, and fails them where it is missing

What takes long is marked `soak`: `make soak` runs it, `make test` does not.
"""

from __future__ import annotations

import difflib
import gc
import importlib
import os
import platform
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from gemmgen.arrays import fastcall
from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.prepare import Pack, Prepare
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import TensorMap
from gemmgen.problem.gemm import Problem
from gemmgen.problem.wgmma import wgmmas
from gemmgen.render.kernel_text import environment
from gemmgen.render.prepare_text import copy_texts
from gemmgen.run import compile as nvrtc_compile
from gemmgen.run.emulator import program as interpreter
from gemmgen.run.emulator import ptx
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.gpu import why_no_gpu
from gemmgen.run.nvrtc import compiler_version
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store

TESTS = Path(__file__).parent
COMPILED = (interpreter.KIND, ptx.KIND, nvrtc_compile.KIND, fastcall.KIND)  # what compilers make, by its content
# System calls that a confined process never makes, by their numbers on x86_64 and aarch64.
FORBIDDEN_CALLS = """
fork 57 -, vfork 58 -, clone3 435 435, execve 59 221, execveat 322 281, kill 62 129, tkill 200 130, ptrace 101 117,
process_vm_readv 310 270, process_vm_writev 311 271, pidfd_open 434 434, pidfd_getfd 438 438, pidfd_send_signal 424 424,
socket 41 198, socketpair 53 199, connect 42 203, bind 49 200, sendmsg 46 211, sendto 44 206, memfd_create 319 279,
io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, openat2 437 437, open_by_handle_at 304 265,
creat 85 -, unlink 87 -, unlinkat 263 35, rename 82 -, renameat2 316 276, mkdirat 258 34, mknodat 259 33, linkat 265 37,
symlinkat 266 36, chmod 90 -, fchmod 91 52, fchmodat 268 53, fchownat 260 54, truncate 76 45, ftruncate 77 46,
ioctl 16 29, prctl 157 167, seccomp 317 277, setrlimit 160 164, bpf 321 280, perf_event_open 298 241, keyctl 250 219,
userfaultfd 323 282, mount 165 40, chroot 161 51, unshare 272 97, setns 308 268, shmget 29 194, setuid 105 146,
capset 126 91, personality 135 92, init_module 175 105, finit_module 313 273, setsid 112 157, timer_create 222 107
"""
GOLDEN = TESTS / "golden"
UPDATE = "to accept the change: pytest --update-golden"

hypothesis.settings.register_profile("gemmgen", hypothesis.settings(), deadline=None)  # machines differ
hypothesis.settings.load_profile("gemmgen")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from what is rendered now")
    parser.addoption("--extras", action="store_true", help="run the tests of extras alone; a missing one fails them")


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--extras"):
        others = [item for item in items if not extras_of(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if extras_of(item)]


def pytest_collection_finish() -> None:
    """Collect garbage less often, and never among modules and tests: that took a tenth of the time of tests/host."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5000, 10, 10)


def pytest_runtest_setup(item: pytest.Item) -> None:
    folder = item.path.relative_to(TESTS).parts[0]
    if folder in NEEDS:
        skip_if(why_not(NEEDS[folder]), f"CI must run tests/{folder}" if os.environ.get("CI") else None)
    if "gpu" in getattr(item, "fixturenames", ()):
        skip_if(why_no_gpu())
    for extra in extras_of(item):
        skip_if(EXTRAS[extra](), "--extras must run this" if item.config.getoption("--extras") else None)


def skip_if(reason: str | None, required: str | None = None) -> None:
    """Skip the test if there is a reason; fail it if it is required."""
    if reason is not None and required is not None:
        pytest.fail(f"{required}: {reason}", pytrace=False)
    if reason is not None:
        pytest.skip(reason)


NEEDS: dict[str, Callable[[], object]] = {"compile": compiler_version, "emulator": HostCompiler.find}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")


def why_no_package(name: str) -> str | None:
    return f"{name} is not installed: make test-extras" if find_spec(name) is None else None


def why_no_browser() -> str | None:
    names = " or ".join(BROWSERS[:3])
    return None if any(map(shutil.which, BROWSERS)) else f"there is no {names} on the PATH: make test-extras"


EXTRAS: dict[str, Callable[[], str | None]] = {  # why there is none, by the fixture that gives it
    "torch": lambda: why_no_package("torch"),
    "expecttest": lambda: why_no_package("expecttest"),
    "transformers": lambda: why_no_package("transformers"),
    "jax": lambda: why_no_package("jax"),
    "browser": why_no_browser,
}


def extras_of(item: pytest.Item) -> list[str]:
    """The extras whose fixtures a test takes, directly or through other fixtures."""
    return [name for name in getattr(item, "fixturenames", ()) if name in EXTRAS]


@cache
def why_not(look: Callable[[], object]) -> str | None:
    """What `look` found missing, or None."""
    try:
        look()
    except CandidateFailed as error:
        return error.failure.reason
    return None


@pytest.fixture(scope="session")
def torch() -> Any:
    return importlib.import_module("torch")


@pytest.fixture(scope="session")
def expecttest() -> Any:
    """What torch's own sample inputs import."""
    return importlib.import_module("expecttest")


@pytest.fixture(scope="session")
def transformers() -> Any:
    return importlib.import_module("transformers")


@pytest.fixture(scope="session")
def jax() -> Any:
    return importlib.import_module("jax")


@pytest.fixture(scope="session")
def browser() -> str:
    """A command that starts Chromium or its like."""
    return next(filter(None, map(shutil.which, BROWSERS)))


@pytest.fixture(scope="session")
def forbidden_calls() -> dict[str, tuple[int, int]]:
    """The number of each of FORBIDDEN_CALLS here, and its first argument. All others are -1: none of them does harm."""
    column = {"x86_64": 1, "aarch64": 2}.get(platform.machine())
    if column is None:
        pytest.skip(f"system calls are not filtered on {platform.machine()}")
    entries = [entry.split() for entry in FORBIDDEN_CALLS.split(",")]
    calls = {entry[0]: (int(entry[column]), -1) for entry in entries if entry[column] != "-"}
    clone, tgkill, prlimit = {1: (56, 234, 302), 2: (220, 131, 261)}[column]
    parent = os.getpid()
    return calls | {"clone": (clone, signal.SIGCHLD), "tgkill": (tgkill, parent), "prlimit64": (prlimit, parent)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of this run, for all tests that do not harm it and all of xdist's workers.

    COMPILED is the user's cache's, where every other test and the next run find it, too.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-cache"
    (folder / "gemmgen").mkdir(parents=True, exist_ok=True)
    for kind in COMPILED:
        compiled = Store().root / kind
        compiled.mkdir(exist_ok=True)
        with suppress(FileExistsError):  # another worker was first
            (folder / "gemmgen" / kind).symlink_to(compiled)
    return folder


@pytest.fixture(scope="session")
def shared_store(shared_cache: Path) -> Store:
    """That cache, as commands with XDG_CACHE_HOME = `shared_cache` find it."""
    return Store(shared_cache / "gemmgen")


@pytest.fixture(scope="session")
def fastcalls(shared_store: Store) -> Any:
    """The module of gemmgen/arrays/fastcall.c."""
    skip_if(why_not(HostCompiler.find), "CI must compile fastcall.c" if os.environ.get("CI") else None)
    skip_if(None if fastcall.suits() else "fastcall.c takes CPython on Linux, its headers and its interpreter lock")
    made = fastcall.native(shared_store)
    assert made is not None, "it does not compile, or load"
    return made


@pytest.fixture(scope="session")
def program() -> Callable[..., KernelSource]:
    """`program(layout, types, **problem)`: a kernel by hand that reads copies of A and B alone."""
    text = (TESTS / "kernels" / "prepared.cu").read_text()

    def made(layout: str, types: str, **fields: Any) -> KernelSource:
        problem = Problem(None, None, None, layout=layout, types=types, epilogue="acc", **fields)
        grid = (("M", 8), ("N", 8), *((("batch", 1),) if problem.batched else ()))
        launch = Launch(64, grid, prepares=(Prepare("A", "r"), Prepare("B", "c")))  # lines of both along K
        contract = Contract.of(problem, launch)
        view = {"copies": copy_texts(contract, "k"), "parameters": contract.parameters}
        rendered = environment(problem.types).from_string(text).render(batched=problem.batched, **view)
        return KernelSource("k", rendered, "by hand", {}, contract)

    return made


@pytest.fixture(scope="session")
def kernel_of_codes() -> Callable[..., KernelSource]:
    """`kernel_of_codes(problem)`: a kernel by hand that reads B's codes as a launch before has packed them. Any thread
    can run alone."""
    text = (TESTS / "kernels" / "packed.cu").read_text()

    def made(problem: Problem, name: str = "k") -> KernelSource:
        contract = Contract.of(problem, Launch(64, (("M", 8), ("N", 8)), prepares=(Pack("B"),)))
        sizes = {one: one if size is None else size for one, size in problem.sizes.items()}
        view = {"copies": copy_texts(contract, name), "parameters": contract.parameters, "name": name}
        view["row_of_c"] = "index_c[m]" if problem.inputs.scattered else "m"
        rendered = environment(problem.types).from_string(text).render(**sizes, **view)
        return KernelSource(name, rendered, "by hand", {}, contract)

    return made


def cooperative(n: int | None) -> KernelSource:
    problem = Problem(None, n, None, ldc=None, layout="rc", types="bf16", epilogue="acc", ld_align=8)
    text = environment(problem.types).from_string((TESTS / "kernels" / "wgmma_cooperative.cu").read_text())
    maps = (TensorMap("A", (64, 128), 128), TensorMap("B", (64, 64), 128, 256), TensorMap("C", (64, 64), 128))
    shared = 4 * (128 + 64) * 64 * 2 + 128 * 64 * 2 + 2 * 4 * 8
    launch = Launch(384, (("M", 128), ("N", 64)), shared, maps=maps, persistent=True)
    rendered = text.render(instruction=wgmmas()["wgmma_m64n64k16_bf16"], n=n)
    return KernelSource("k", rendered, "by hand", {}, Contract.of(problem, launch))


@pytest.fixture(scope="session")
def kernel_of_maps() -> KernelSource:
    """A kernel by hand of sm_90a: TMA, wgmma, and no more blocks than the device has SMs. It leaves N to run time."""
    return cooperative(None)


@pytest.fixture(scope="session")
def right_kernel_of_maps() -> KernelSource:
    """The same for C with rows of whole chunks of 16 bytes, which TMA stores and nothing behind them."""
    return cooperative(136)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` holds `text` against tests/golden/NAME, or rewrites that file with --update-golden."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.exists():
            pytest.fail(f"tests/golden/{name} does not exist; {UPDATE}", pytrace=False)
        elif (known := path.read_text()) != text:
            lines = (known.splitlines(keepends=True), text.splitlines(keepends=True))
            changes = "".join(difflib.unified_diff(*lines, f"tests/golden/{name}", "rendered now"))
            pytest.fail(f"{changes}\n{UPDATE}", pytrace=False)

    return check
