"""A cache of values that hold arrays, bounded by their bytes."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar, cast

import numpy.typing as npt

AnyArray = npt.NDArray[Any]
Made = TypeVar("Made")


class Recent:
    """A cache of the latest results by their arguments: at most `entries` values, and `most_bytes` bytes of arrays.

    The newest value is kept, whatever its size. An array counts once, even if several values hold it.
    """

    def __init__(self, entries: int, most_bytes: int) -> None:
        self._entries, self._most_bytes = entries, most_bytes
        self._kept: OrderedDict[Hashable, tuple[Any, tuple[AnyArray, ...]]] = OrderedDict()
        self._holders: Counter[int] = Counter()  # of each array, by its id
        self.bytes = 0

    def share(self, processes: int) -> None:
        """Reduce the limit in bytes, as this process is one of `processes` that share the memory."""
        self._most_bytes //= processes

    def get(self, key: Hashable, make: Callable[[], Made], arrays: Callable[[Made], Iterable[AnyArray]]) -> Made:
        """The value of `key`, made now if it is not kept; `arrays` gives the arrays that the value holds."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return cast(Made, self._kept[key][0])
        made = make()
        held = tuple(arrays(made))
        self._kept[key] = made, held
        self._count(held, 1)
        while len(self._kept) > self._entries or (self.bytes > self._most_bytes and len(self._kept) > 1):
            _, (_, freed) = self._kept.popitem(last=False)
            self._count(freed, -1)
        return made

    def _count(self, arrays: Iterable[AnyArray], holders: int) -> None:
        """Add `holders` (1 or -1) to those of each of `arrays`."""
        for array in arrays:
            before = self._holders[id(array)]
            self._holders[id(array)] += holders
            self.bytes += array.nbytes * ((before + holders > 0) - (before > 0))
            if before + holders == 0:
                del self._holders[id(array)]
