"""Processes that work through requests: who gets which, and in what order answers come."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, cast

import pytest

from gemmgen.support.child import AHEAD, Child, as_done, in_order
from gemmgen.support.errors import GemmgenError


def played(number: int) -> list[Child]:
    return [cast(Child, f"child {one}") for one in range(number)]


def test_answers_come_in_the_order_of_their_items() -> None:
    """The first item waits until the second is done, by the other child."""
    second = threading.Event()

    def ask(child: Child, item: int) -> int:
        if item == 0:
            assert second.wait(10)
        if item == 1:
            second.set()
        return item * item

    assert list(in_order(played(2), range(5), ask)) == [(item, item * item) for item in range(5)]


def test_items_without_end_are_taken_as_children_get_idle() -> None:
    taken: list[int] = []

    def items() -> Any:
        for item in count():
            taken.append(item)
            yield item

    children = played(3)
    found = list(islice(in_order(children, items(), lambda child, item: str(child)), 4))
    assert [item for item, _ in found] == [0, 1, 2, 3] and {answer for _, answer in found} <= {*map(str, children)}
    assert len(taken) <= 4 + AHEAD * len(children)


def test_what_an_item_raises_comes_in_its_turn() -> None:
    def ask(child: Child, item: int) -> int:
        if item == 2:
            raise ValueError("the third")
        return item

    answers = in_order(played(2), range(9), ask)
    assert [next(answers), next(answers)] == [(0, 0), (1, 1)]
    with pytest.raises(ValueError, match="the third"):
        next(answers)


def test_items_come_as_they_get_done() -> None:
    """The first item waits until the third one has come."""
    third = threading.Event()

    def ask(child: Child, item: int) -> int:
        if item == 0:
            assert third.wait(10)
        return item * item

    found = []
    for one in as_done(played(2), range(5), ask):
        found.append(one)
        if one == (2, 4):
            third.set()
    assert sorted(found) == [(item, item * item) for item in range(5)] and found.index((2, 4)) < found.index((0, 0))


class Echo:
    """A child's side: answers what it is asked, after so many seconds."""

    def __call__(self, message: tuple[object, float]) -> object:
        answer, seconds = message
        time.sleep(seconds)
        return answer


class Unreadable:
    """What cannot be unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return int, ("no number",)


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    child = Child("test_child:Echo")
    yield child
    child.close()


def test_no_answer_of_an_interrupted_request_is_taken_for_the_next_one(echo: Child) -> None:
    assert echo.request(("first", 0)) == "first"
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        echo.request(("old", 1))
    assert echo.request(("new", 0)) == "new"


def test_a_request_that_cannot_be_read_is_an_error_and_the_child_goes_on(echo: Child) -> None:
    with pytest.raises(GemmgenError, match="invalid literal for int"):
        echo.request(Unreadable(), timeout=20)
    assert echo.request(("next", 0)) == "next"
