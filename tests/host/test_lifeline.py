"""Processes that end with the one that started them, whatever they do to the descriptors that they inherit."""

from __future__ import annotations

import subprocess
from contextlib import closing

import pytest

from gemmgen.support.child_lifetime import LOWEST, Lifeline

TAKES_LOW_NUMBERS = (
    "exec 3</dev/null 4</dev/null 5</dev/null 6</dev/null 7</dev/null 8</dev/null 9</dev/null; sleep 600"
)


@pytest.mark.parametrize("script", ["sleep 600", TAKES_LOW_NUMBERS])
def test_a_process_ends_with_its_line(script: str) -> None:
    with closing(Lifeline()) as line:
        assert line.end >= LOWEST
        command = ["sh", "-c", f"{script} & wait"]
        process = subprocess.Popen(command, pass_fds=(line.end,), start_new_session=True)
        line.tie(process.pid)
        assert process.poll() is None
        line.close()
        assert process.wait(timeout=30) < 0
