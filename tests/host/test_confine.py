"""A process that has given up what it does not need, and answers that nobody trusts."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gemmgen.support.child import Child, ChildDied, crew
from gemmgen.support.confine import CREATE_RULESET, confine
from gemmgen.support.errors import CandidateFailed, Failure

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's")
MOST_BYTES = 4096


class Unpickled:
    """A class that an answer of a confined child must not contain."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, ("unpickled",)


def attempts(allowed: str) -> dict[str, Callable[[], object]]:
    return {
        "read": lambda: Path(allowed, "file").read_text(),
        "read another": lambda: Path("/proc/self/status").read_text(),
        "list another": lambda: os.listdir("/"),
        "write": lambda: Path(allowed, "new").write_text("new"),
        "change": lambda: os.chmod(allowed, 0o700),
        "connect": lambda: socket.socket(socket.AF_INET),
        "fork": os.fork,
        "execute": lambda: os.execv(sys.executable, [sys.executable, "-c", ""]),
        "kill": lambda: os.kill(os.getppid(), 0),
        "flood": lambda: os.write(2, bytes(2 * MOST_BYTES)),
        "odd": Unpickled,
        "fail": fail,
    }


def fail() -> None:
    raise CandidateFailed(Failure("compile", "said", "nvrtc"))


def confined(allowed: str) -> Callable[[str], object]:
    """The factory of the child."""
    confine([Path(allowed)], MOST_BYTES)

    def answer(name: str) -> object:
        try:
            return attempts(allowed)[name]()
        except OSError as error:
            return f"refused: {error.strerror}"

    return answer


def test_what_is_left_to_it(tmp_path: Path) -> None:
    if ctypes.CDLL(None).syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1) < 1:
        pytest.skip("this system has no Landlock")
    (tmp_path / "file").write_text("allowed")
    with crew([Child(f"{__name__}:confined", str(tmp_path), answers=())]) as (child,):
        said = {name: child.request(name, 60) for name in [*attempts("")][:10]}
        assert said.pop("read") == "allowed"
        assert said.pop("flood") == MOST_BYTES, "of a file that it has open, so much and no more"
        assert all(str(one).startswith("refused: ") for one in said.values()), said
    assert [*tmp_path.iterdir()] == [tmp_path / "file"]


def calling(allowed: str) -> Callable[[tuple[int, int]], str]:
    """The factory of a child that makes system calls."""
    confine([Path(allowed)], MOST_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)

    def answer(call: tuple[int, int]) -> str:
        number, first = call
        made = libc.syscall(number, *(ctypes.c_long(value) for value in (first, -1, -1, -1, -1, -1)))
        return "made" if made >= 0 else errno.errorcode[ctypes.get_errno()]

    return answer


def test_calls_that_it_does_not_need_are_refused(tmp_path: Path, forbidden_calls: dict[str, tuple[int, int]]) -> None:
    with crew([Child(f"{__name__}:calling", str(tmp_path), answers=())]) as (child,):
        said = {name: child.request(call, 60) for name, call in forbidden_calls.items()}
    assert {name: one for name, one in said.items() if one != "ENOSYS"} == {}


def unfiltered(allowed: str) -> Callable[[tuple[str, int]], object]:
    """The factory of a child that Landlock alone confines: what it lets pass the filter would refuse."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(f"{confine.__module__}._filter_calls", lambda _: None)
        confine([Path(allowed)], MOST_BYTES)
    tries = {
        "connect": lambda port: socket.socket().connect((b"127.0.0.1", port)),
        "kill": lambda process: os.kill(process, 0),
        "create": lambda _: Path(allowed, "new").touch(),
        "change": lambda _: os.open(Path(allowed, "file"), os.O_RDWR),
        "execute": lambda _: os.execv(sys.executable, [sys.executable, "-c", ""]),
    }

    def answer(request: tuple[str, int]) -> object:
        try:
            return str(tries[request[0]](request[1]))
        except PermissionError:
            return "refused"

    return answer


def test_without_a_filter_it_makes_no_connection_and_changes_no_file(tmp_path: Path) -> None:
    if ctypes.CDLL(None).syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1) < 6:
        pytest.skip("this system has no Landlock, or one that knows no connections and signals")
    (tmp_path / "file").touch()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        crew([Child(f"{__name__}:unfiltered", str(tmp_path), answers=())]) as (child,),
    ):
        numbers = {"connect": server.getsockname()[1], "kill": os.getpid(), "create": 0, "change": 0, "execute": 0}
        said = {name: child.request((name, number), 60) for name, number in numbers.items()}
    assert said == dict.fromkeys(numbers, "refused")


def test_an_answer_of_another_class_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with crew([Child(f"{__name__}:confined", str(tmp_path), answers=())]) as (child,):
        with pytest.raises(ChildDied, match=r"its answer cannot be read: it names posix\.mkdir"):
            child.request("odd", 60)
        assert not [*tmp_path.iterdir()]
        with pytest.raises(CandidateFailed, match=r"compile \(nvrtc\): said"):
            child.request("fail", 60)
