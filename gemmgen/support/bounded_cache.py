"""A cache of values that hold arrays, bounded by their bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar, cast

import numpy.typing as npt

AnyArray = npt.NDArray[Any]
Made = TypeVar("Made")


class Recent:
    """A cache of the latest results by their arguments: at most `entries` values, and `most_bytes` bytes of arrays.

    The newest value is kept, whatever its size.
    """

    def __init__(self, entries: int, most_bytes: int) -> None:
        self._entries, self._most_bytes = entries, most_bytes
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self.bytes = 0

    def share(self, processes: int) -> None:
        """Reduce the limit in bytes, as this process is one of `processes` that share the memory."""
        self._most_bytes //= processes

    def get(self, key: Hashable, make: Callable[[], Made], arrays: Callable[[Made], Iterable[AnyArray]]) -> Made:
        """The value of `key`, made now if it is not kept; `arrays` gives the value's own arrays."""
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
