"""A cache of values that hold arrays, bounded by their bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar, cast

import numpy.typing as npt

AnyArray = npt.NDArray[Any]
Made = TypeVar("Made")


class Recent:
    """What was made last, by its arguments: at most `entries` values, and no more bytes of arrays than `most_bytes`.

    The newest value is kept whatever its size.
    """

    def __init__(self, entries: int, most_bytes: int) -> None:
        self._entries, self._most_bytes = entries, most_bytes
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self.bytes = 0

    def share(self, processes: int) -> None:
        """This process is one of so many: from now on it keeps that part of the bytes."""
        self._most_bytes //= processes

    def get(self, key: Hashable, make: Callable[[], Made], arrays: Callable[[Made], Iterable[AnyArray]]) -> Made:
        """The value of `key`, made now where it is not kept; `arrays` are those of its own."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return cast(Made, self._kept[key][0])
        made = make()
        size = sum(array.nbytes for array in arrays(made))
        self._kept[key] = made, size
        self.bytes += size
        while len(self._kept) > self._entries or (self.bytes > self._most_bytes and len(self._kept) > 1):
            _, (_, size) = self._kept.popitem(last=False)
            self.bytes -= size
        return made
