"""What a launch needs from the library of its arrays: memory for a result, and the current stream."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np

from gemmgen.problem.dtype import DType
from gemmgen.support.errors import InvalidInput, require


class Library(Protocol):
    """A library of arrays. `like` is one of its arrays, on whose device a new one is made."""

    name: str
    asynchronous: bool  # whether its work is ordered by the stream that is current; else its arrays are waited for
    ordered: bool  # whether memory belongs to a stream: what is freed there serves others behind the stream's work

    def empty(self, shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        """Make a new dense array with undefined contents."""

    def zeros(self, count: int, like: Any, stream: int) -> Any:
        """Make `count` zero bytes, as `stream` sees them, in memory that belongs to that stream; if the library is not
        `ordered`, as the default stream sees them."""

    def wrote(self, array: Any) -> None:
        """Note that a launch writes `array`, which existed before."""

    def stream(self, ordinal: int) -> int:
        """The handle of the current stream on device `ordinal`."""

    def capturing(self, stream: int, ordinal: int) -> bool:
        """Whether `stream`, of device `ordinal`, is capturing a graph."""


class Torch:
    name, asynchronous, ordered = "torch", True, True

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._dtypes: dict[DType, Any] = {}
        # The function that torch.compile's own kernels call, in a tenth of the time of current_stream.
        self.stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", self._current)

    def empty(self, shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        kind = self._dtypes.get(dtype)
        if kind is None:
            kind = self._dtypes[dtype] = getattr(self._torch, str(dtype.numpy))
        return like.new_empty(shape) if like.dtype is kind else like.new_empty(shape, dtype=kind)

    def zeros(self, count: int, like: Any, stream: int) -> Any:
        with self._on(stream, like.device.index or 0):
            return self._torch.zeros(count, dtype=self._torch.uint8, device=like.device)

    def wrote(self, array: Any) -> None:
        """Count a write as torch's own writes do: autograd then refuses a gradient that needs the old contents."""
        if isinstance(array, self._torch.Tensor) and not array.is_inference():
            self._torch.autograd.graph.increment_version(array)

    def _current(self, ordinal: int) -> int:
        return int(self._torch.cuda.current_stream(ordinal).cuda_stream)

    def capturing(self, stream: int, ordinal: int) -> bool:
        with self._on(stream, ordinal):
            return bool(self._torch.cuda.is_current_stream_capturing())

    def _on(self, stream: int, ordinal: int) -> AbstractContextManager[Any]:
        """A context in which `stream` is current."""
        if self.stream(ordinal) == stream:
            return nullcontext()
        cuda = self._torch.cuda  # whose ExternalStream(0) is a new stream
        wanted = cuda.ExternalStream(stream, ordinal) if stream else cuda.default_stream(ordinal)
        current: AbstractContextManager[Any] = cuda.stream(wanted)
        return current


class CuPy:
    name, asynchronous, ordered = "cupy", True, True

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy

    def empty(self, shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        with like.device:
            return self._cupy.empty(shape, dtype.numpy)

    def zeros(self, count: int, like: Any, stream: int) -> Any:
        with like.device, self._cupy.cuda.ExternalStream(stream):
            return self._cupy.zeros(count, "uint8")

    def wrote(self, array: Any) -> None:
        pass

    def stream(self, ordinal: int) -> int:
        return int(self._cupy.cuda.get_current_stream().ptr)

    def capturing(self, stream: int, ordinal: int) -> bool:
        return bool(self._cupy.cuda.ExternalStream(stream).is_capturing())


class _DefaultStream:
    """Of libraries that have no stream which is current: launches go to the default one, and none of them hears."""

    def wrote(self, array: Any) -> None:
        pass

    def stream(self, ordinal: int) -> int:
        return 0

    def capturing(self, stream: int, ordinal: int) -> bool:
        return False


class PyCuda(_DefaultStream):
    """Its functions take the stream that they are given, else the default one."""

    name, asynchronous, ordered = "pycuda", True, False

    def empty(self, shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        return type(like)(shape, dtype.numpy)

    def zeros(self, count: int, like: Any, stream: int) -> Any:
        return type(like)((count,), "uint8").fill(0)


class Jax(_DefaultStream):
    """Its streams are its own: operands are waited for before a launch, and the launch before its result is given."""

    name, asynchronous, ordered = "jax", False, False

    def __init__(self) -> None:
        import jax

        self._jax = jax

    def empty(self, shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        return self._jax.block_until_ready(self._jax.numpy.zeros(shape, dtype.numpy, device=like.device))

    def zeros(self, count: int, like: Any, stream: int) -> Any:
        return self._jax.block_until_ready(self._jax.numpy.zeros(count, "uint8", device=like.device))


class Numpy(_DefaultStream):
    name, asynchronous, ordered = "numpy", True, False

    def empty(self, shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        return np.empty(shape, dtype.numpy)

    def zeros(self, count: int, like: Any, stream: int) -> Any:
        return np.zeros(count, np.uint8)


class Memory:
    """Bytes of device memory in the current context, freed when this object is no longer referenced."""

    def __init__(self, count: int) -> None:
        from cuda.bindings import driver

        from gemmgen.run.gpu.bindings import checked

        self._free, self._address = driver.cuMemFree, checked(driver.cuMemAlloc(count))
        checked(driver.cuMemsetD8(self._address, 0, count))
        self.dtype = "uint8"
        self.__cuda_array_interface__ = {"shape": (count,), "data": (int(self._address), False)}

    def __del__(self) -> None:
        if hasattr(self, "_address"):
            self._free(self._address)


class Other(_DefaultStream):
    """Any other library, and a view.ArrayView: who uses it gives `out` and, where it has streams, the stream."""

    name, asynchronous, ordered = "another library", True, False

    def empty(self, shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        kind = type(like).__name__
        raise InvalidInput(f"no array of {shape} {dtype.label} like a {kind} is made here: give it as out=")

    def zeros(self, count: int, like: Any, stream: int) -> Any:
        return Memory(count)


KINDS: dict[str, type[Library]] = {
    "torch": Torch,
    "cupy": CuPy,
    "pycuda": PyCuda,
    "jax": Jax,
    "jaxlib": Jax,
    "numpy": Numpy,
}
_known: dict[type, Library] = {}


def records_gradients() -> bool:
    """Whether torch's grad mode is on. Tensors that require a gradient exist only if torch is imported."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.is_grad_enabled())


def library_of(array: Any) -> Library:
    """The library of `array`, by the module of its class or of a base class."""
    kind = type(array)
    if kind not in _known:
        roots = (base.__module__.partition(".")[0] for base in kind.__mro__)
        _known[kind] = next((KINDS[root]() for root in roots if root in KINDS and root in sys.modules), Other())
    return _known[kind]


def handle_of(stream: Any) -> int:
    """The handle of a stream: a number, or torch's, CuPy's, PyCUDA's or cuda.core's object. Raises InvalidInput."""
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for attribute in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    require(False, f"stream = {stream!r} is no stream: give a handle, or an object of torch, CuPy, PyCUDA or cuda.core")
    return 0
