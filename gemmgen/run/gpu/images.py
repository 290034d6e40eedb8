"""Images of operands that stay on the device from run to run, as the candidates of a search share operands.

Runs in the worker.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pycuda.driver as cuda

from gemmgen.problem.dtype import CANARY, WORD
from gemmgen.run.executor import Operands
from gemmgen.run.gpu.arena import DeviceArena, ImageKey
from gemmgen.run.gpu.sampling import allocate
from gemmgen.support.errors import CandidateFailed


class Images:
    """Images by key, the last used ones, in at most `most_bytes` of device memory."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[ImageKey, tuple[Any, int]] = OrderedDict()
        self.bytes = 0

    def get(self, key: ImageKey | None, layout: DeviceArena, operands: Operands | None) -> Any | None:
        """Return the image of `operands`, uploaded if it is not kept; None if it has neither. Raises
        CandidateFailed."""
        if key is not None and key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][0]
        if operands is None:
            return None
        memory = self.with_room(lambda: _upload(layout, operands))
        if key is not None and layout.size <= self._most_bytes:
            self._kept[key] = memory, layout.size
            self.bytes += layout.size
            while self.bytes > self._most_bytes:
                self._free(next(iter(self._kept)))
        return memory

    def with_room(self, make: Callable[[], Any], spare: ImageKey | None = None) -> Any:
        """Return `make()`; if memory is short, drop all images but `spare` and try again."""
        try:
            return make()
        except CandidateFailed:
            if not self.clear(spare):
                raise
            return make()

    def clear(self, spare: ImageKey | None = None) -> bool:
        """Free all images but `spare`; False if there was nothing to free."""
        freed = [key for key in self._kept if key != spare]
        for key in freed:
            self._free(key)
        return bool(freed)

    def _free(self, key: ImageKey) -> None:
        memory, size = self._kept.pop(key)
        memory.free()
        self.bytes -= size


def _upload(layout: DeviceArena, operands: Operands) -> Any:
    """Device memory with the operands in their places and guard words around them. Raises CandidateFailed."""
    memory = allocate(layout.size)
    if layout.scattered:
        cuda.memcpy_htod(memory, layout.image(operands))
        return memory
    cuda.memset_d32(memory, CANARY, layout.size // WORD)
    for name, values in operands.by_name.items():
        if values.size:
            cuda.memcpy_htod(int(memory) + layout.offsets[name], layout.case.tensors[name].dtype.packed(values))
    return memory
