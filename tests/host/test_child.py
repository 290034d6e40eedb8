"""Processes that work through requests: who gets which, and in what order answers come."""

from __future__ import annotations

import threading
from itertools import count, islice
from typing import Any, cast

import pytest

from gemmgen.support.child import AHEAD, Child, in_order


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
