"""A process that has given up what it does not need, and answers that nobody trusts."""

from __future__ import annotations

import ctypes
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
    """Of a class that a child may not answer with."""

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


def test_an_answer_of_another_class_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with crew([Child(f"{__name__}:confined", str(tmp_path), answers=())]) as (child,):
        with pytest.raises(ChildDied, match=r"its answer cannot be read: it names posix\.mkdir"):
            child.request("odd", 60)
        assert not [*tmp_path.iterdir()]
        with pytest.raises(CandidateFailed, match=r"compile \(nvrtc\): said"):
            child.request("fail", 60)
