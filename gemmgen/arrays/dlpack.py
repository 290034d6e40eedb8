"""DLPack's capsule as far as a launch needs it (dlpack.h, version 1; its older form has the same tensor)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 10: "rocm", 13: "cuda"}  # 3 is pinned host memory, 13 managed memory
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


@dataclass(frozen=True)
class Exchanged:
    """An array as DLPack describes it.

    strides  strides in elements; None if rows are contiguous
    dtype    numpy's name of the type
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str
    device: str
    ordinal: int


def read_dlpack(array: Any) -> Exchanged:
    """Read what `array` exports. It keeps its memory, so it must stay alive while a launch reads it."""
    capsule = array.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = DLTensor.from_address(pointer(capsule, b"dltensor"))
    count = range(tensor.ndim)
    return Exchanged(
        (tensor.data or 0) + tensor.byte_offset,
        tuple(tensor.shape[place] for place in count),
        tuple(tensor.strides[place] for place in count) if tensor.strides else None,
        NAMED.get(tensor.code, f"{KINDS.get(tensor.code, f'kind {tensor.code} of ')}{tensor.bits}"),
        DEVICES.get(tensor.device_type, f"device type {tensor.device_type}"),
        tensor.device_id,
    )
