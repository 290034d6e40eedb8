"""XLA's foreign function interface as far as a launch needs it: a Python function as a handler, by ctypes.

The structs are those of xla/ffi/api/c_api.h (version 0.x), whose fields only grow at their ends.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

EXECUTE = 3  # the stage of a launch
METADATA = 1  # the extension of a question for the handler's version
INTERNAL = 13  # an error's code
NAMES = {  # of XLA's element types, as numpy has them
    2: "int8",
    4: "int32",
    6: "uint8",
    10: "float16",
    11: "float32",
    12: "float64",
    16: "bfloat16",
    19: "float8_e5m2",
    20: "float8_e4m3fn",
}
HEAD = (("struct_size", ctypes.c_size_t), ("extensions", ctypes.c_void_p))


class Version(ctypes.Structure):
    _fields_ = (*HEAD, ("major", ctypes.c_int), ("minor", ctypes.c_int))


class Api(ctypes.Structure):
    _fields_ = (
        *HEAD,
        ("version", Version),
        ("internal", ctypes.c_void_p),
        ("create_error", ctypes.c_void_p),
        ("get_message", ctypes.c_void_p),
        ("destroy_error", ctypes.c_void_p),
        ("register_handler", ctypes.c_void_p),
        ("get_stream", ctypes.c_void_p),
    )


class Buffer(ctypes.Structure):
    _fields_ = (
        *HEAD,
        ("dtype", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    )


class Buffers(ctypes.Structure):
    """The arguments or results of a call."""

    _fields_ = (
        *HEAD,
        ("size", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("items", ctypes.POINTER(ctypes.POINTER(Buffer))),
    )


class Frame(ctypes.Structure):
    """A call, up to its results."""

    _fields_ = (
        *HEAD,
        ("api", ctypes.POINTER(Api)),
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("arguments", Buffers),
        ("results", Buffers),
    )


class Extension(ctypes.Structure):
    """An extension, with the fields that METADATA has behind its head."""

    _fields_ = (*HEAD[:1], ("type", ctypes.c_int), ("next", ctypes.c_void_p), ("metadata", ctypes.c_void_p))


class Metadata(ctypes.Structure):
    _fields_ = (*HEAD[:1], ("version", Version), ("traits", ctypes.c_uint32))


class NewError(ctypes.Structure):
    _fields_ = (*HEAD, ("message", ctypes.c_char_p), ("code", ctypes.c_int))


class StreamOf(ctypes.Structure):
    _fields_ = (*HEAD, ("context", ctypes.c_void_p), ("stream", ctypes.c_void_p))


@dataclass(frozen=True)
class Given:
    """A buffer of a call, dense in the order of its dimensions that the call asked for; numpy's name of its type."""

    address: int
    shape: tuple[int, ...]
    dtype: str


Handle = Callable[[list[Given], list[Given], int], None]  # of arguments, results and the stream's handle
HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Frame))
ASKED = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)  # of the API's functions that are used


def handler(handle: Handle, on_device: bool) -> Any:
    """The handler to register, which must live as long as XLA may call it. An exception of `handle` becomes XLA's
    error."""

    def called(frame: Any) -> int | None:
        call = frame.contents
        if _answered(call):
            return None
        api = call.api.contents
        try:
            if call.stage == EXECUTE:
                handle(_given(call.arguments), _given(call.results), _stream(api, call.context) if on_device else 0)
        except Exception as error:  # no Python frame is above that could take it
            return _error(api, f"{type(error).__name__}: {error}")
        return None

    return HANDLER(called)


def _answered(call: Any) -> bool:
    """Whether the call only asked for the handler's version; if so, it is answered with the caller's own."""
    if not call.extensions:
        return False
    extension = Extension.from_address(call.extensions)
    if extension.type != METADATA:
        return False
    metadata = Metadata.from_address(extension.metadata)
    version = call.api.contents.version
    metadata.version.major, metadata.version.minor, metadata.traits = version.major, version.minor, 0
    return True


def _given(buffers: Any) -> list[Given]:
    found = []
    for place in range(buffers.size):
        one = buffers.items[place].contents
        shape = tuple(one.dims[axis] for axis in range(one.rank))
        found.append(Given(one.data or 0, shape, NAMES.get(one.dtype, f"XLA's type {one.dtype}")))
    return found


def _stream(api: Any, context: int) -> int:
    asked = StreamOf(ctypes.sizeof(StreamOf), None, context, None)
    failed = ASKED(api.get_stream)(ctypes.addressof(asked))
    if failed:
        raise RuntimeError("XLA has no stream for this call")
    return int(asked.stream or 0)


def _error(api: Any, message: str) -> int | None:
    wanted = NewError(ctypes.sizeof(NewError), None, message.encode(), INTERNAL)
    made: int | None = ASKED(api.create_error)(ctypes.addressof(wanted))
    return made
