"""An array's description by its library: torch's attributes, `__cuda_array_interface__`, numpy's, or DLPack."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from gemmgen.problem.dtype import DType
from gemmgen.support.errors import InvalidInput, require

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class ArrayView:
    """The place and layout of an array.

    strides   strides in elements
    ordinal   CUDA's number of the device, if the array gives it
    readonly  whether its library forbids writing it
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    device: Device
    ordinal: int | None = None
    readonly: bool = False

    @property
    def lies(self) -> tuple[object, ...]:
        """All fields except shape and address."""
        return self.strides, self.dtype, self.device, self.ordinal, self.readonly

    @property
    def extent(self) -> str:
        """The shape for a person: "64 x 512"."""
        return " x ".join(map(str, self.shape)) or "one element"

    @property
    def place(self) -> str:
        """The device for a person: "cuda:1"."""
        return self.device if self.ordinal is None else f"{self.device}:{self.ordinal}"


def seen(name: str, array: Any, locate: Callable[[ArrayView], ArrayView]) -> tuple[Hashable, Any, int]:
    """Return (all of `array` that is checked except its shape, the shape, the address).

    Every call comes here, so for a torch tensor it only reads six attributes and makes no view. The first part has the
    strides, which give the number of dimensions, and whether a tensor requires a gradient. `locate` adds its device's
    number to a view.
    """
    try:
        return (array.dtype, array.device, array.stride(), array.requires_grad), array.shape, array.data_ptr()
    except AttributeError:  # not torch's
        if hasattr(array, "seen_by"):
            return array.seen_by(locate)  # type: ignore[no-any-return]
        view = locate(view_of(name, array))
        return view.lies, view.shape, view.address


def address_of(name: str, array: Any, locate: Callable[[ArrayView], ArrayView]) -> int:
    """The address of the array."""
    try:
        return int(array.data_ptr())
    except AttributeError:
        return seen(name, array, locate)[2]


def tracked(array: Any) -> bool:
    """Whether it is a tensor that requires a gradient."""
    return getattr(array, "requires_grad", False) is True


def view_of(name: str, array: Any) -> ArrayView:
    """The view of `array`, called `name` in messages. Raises InvalidInput if it is not an array of a known type."""
    if isinstance(array, ArrayView):
        return array
    if hasattr(array, "data_ptr") and hasattr(array, "stride"):
        return _of_torch(name, array)
    if hasattr(array, "block_until_ready"):  # JAX computes it on a stream of its own
        array.block_until_ready()
    for attribute, device in (("__cuda_array_interface__", "cuda"), ("__array_interface__", "cpu")):
        interface = getattr(array, attribute, None)  # an array of JAX has the first one on a GPU alone
        if interface is not None:
            return _of_interface(_dtype(name, str(array.dtype)), interface, "cuda" if device == "cuda" else "cpu")
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(name, array)
    kind = type(array).__name__
    raise InvalidInput(
        f"{name} is no array, of type {kind}: one has __cuda_array_interface__, __array_interface__ or __dlpack__"
    )


def _of_torch(name: str, tensor: Any) -> ArrayView:
    device = tensor.device
    require(device.type in ("cpu", "cuda"), f"{name} is on {device}: kernels run on cuda, and the emulator on cpu")
    dtype = _dtype(name, str(tensor.dtype).removeprefix("torch."))
    strides = tuple(tensor.stride())
    return ArrayView(tensor.data_ptr(), tuple(tensor.shape), strides, dtype, device.type, device.index)


def _of_interface(dtype: DType, interface: Mapping[str, Any], device: Device) -> ArrayView:
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    address, readonly = interface["data"]
    dense = dense_strides(shape)
    steps = dense if strides is None else tuple(stride // dtype.size for stride in strides)
    return ArrayView(int(address or 0), shape, steps, dtype, device, readonly=bool(readonly))


def _of_dlpack(name: str, array: Any) -> ArrayView:
    """The view that `array` exports. It keeps its memory, so it must stay alive while a launch reads it."""
    capsule = array.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = DLTensor.from_address(pointer(capsule, b"dltensor"))
    kind = tensor.device_type
    require(kind in DEVICES, f"{name} is on device type {kind}: kernels run on cuda, the emulator on cpu")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else dense_strides(shape)
    text = NAMED.get(tensor.code, f"{KINDS.get(tensor.code, f'kind {tensor.code} of ')}{tensor.bits}")
    ordinal = tensor.device_id if DEVICES[kind] == "cuda" else None
    address = (tensor.data or 0) + tensor.byte_offset
    return ArrayView(address, shape, strides, _dtype(name, text), DEVICES[kind], ordinal)


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of contiguous rows, in elements."""
    return tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))


def _dtype(name: str, text: str) -> DType:
    known = element_types()
    require(text in known, f"{name} is of {text}: known are {', '.join(known)}")
    return known[text]


@cache
def element_types() -> dict[str, DType]:
    """Element types by the names that numpy, torch and others share."""
    return {str(dtype.numpy): dtype for dtype in DType if dtype.storage_bits >= 8}


# DLPack's device types (dlpack.h, version 1): 3 is pinned host memory, 13 managed memory
DEVICES: dict[int, Device] = {1: "cpu", 2: "cuda", 3: "cpu", 13: "cuda"}
KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}  # whose bits follow
NAMED = {10: "float8_e4m3fn", 12: "float8_e5m2"}


class DLTensor(ctypes.Structure):
    """The head of DLPack's capsule."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )
