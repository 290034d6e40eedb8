"""Known calls in C: fastcall.c, which is compiled once per machine and Python, if there is a compiler.

It repeats `ArrayKernel.seen` and `Form.run` for torch tensors with the layout of an earlier call, and leaves all other
calls to them by answering NotImplemented. All one-time checks are made only there.
"""

from __future__ import annotations

import sys
import sysconfig
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain
from pathlib import Path
from typing import Any

from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store, content_key
from gemmgen.support.scratch import scratch_folder

SOURCE = Path(__file__).with_name("fastcall.c")
KIND = "fastcall"  # of the store's entries
MOST_PARAMETERS, MOST_MAPS = 32, 5  # of a launch, as in fastcall.c

Call = Callable[..., Any]  # of (a, b, out, alpha, beta, stream, operands): C, or NotImplemented


def unknown(*given: Any) -> Any:
    """Answer NotImplemented, as no call is known."""
    return NotImplemented


@dataclass(frozen=True)
class Direct:
    """A form's only launch in one context, for `Launch` of fastcall.c.

    pointers    addresses of the driver's cuCtxGetCurrent, cuLaunchKernelEx and cuTensorMapEncodeTiled
    config      CUlaunchConfig, in which the first dimension of the grid and the stream are set per call
    parameters  host addresses of the arguments
    variables   (index of an argument, index of its word); the words are the addresses and M
    maps        the same for tensor maps, with whether a map has as many lines as C has rows, and `MapEncoder.arguments`
    tile        rows per tile: M with the same number of such tiles have the same grid
    blocks      blocks of the grid, by M
    kept        objects that must live as long
    """

    pointers: tuple[int, ...]
    context: int
    function: int
    config: bytes
    parameters: Sequence[int]
    variables: Sequence[tuple[int, int]]
    maps: Sequence[tuple[int, ...]]
    tile: int
    blocks: Callable[[int | None], int]
    kept: Any

    @property
    def fits(self) -> bool:
        """Whether fastcall.c has room for it."""
        return len(self.parameters) <= MOST_PARAMETERS and len(self.maps) <= MOST_MAPS


def launch_of(native: Any, direct: Direct, by_rows: bool, masks: Iterable[Any], pairs: Iterable[Any]) -> Any:
    """A `Launch` of fastcall.c that tests addresses by `Checked.masks` and `Checked.pairs`."""
    arrays = direct.variables, direct.maps, masks, pairs
    return native.Launch(
        *direct.pointers,
        direct.context,
        direct.function,
        by_rows,
        direct.tile,
        direct.config,
        _words(direct.parameters),
        *(_words(chain.from_iterable(one)) for one in arrays),
        direct.blocks,
        direct.kept,
    )


def _words(values: Iterable[int]) -> bytes:
    return array("q", values).tobytes()


_made: dict[Path, Any] = {}  # by the folder of the store


def native(store: Store) -> Any:
    """The module of fastcall.c, kept by `store`; None if it cannot be made, so that Python does everything."""
    if store.root not in _made:
        _made[store.root] = None
        if suits():
            with suppress(CandidateFailed, ImportError, OSError):
                _made[store.root] = _load(_program(store))
    return _made[store.root]


def suits() -> bool:
    """Whether fastcall.c supports this Python, on whose interpreter lock it relies, and its headers are installed."""
    cpython = sys.platform.startswith("linux") and sys.implementation.name == "cpython"
    headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    return cpython and headers and not sysconfig.get_config_var("Py_GIL_DISABLED")


def _program(store: Store) -> bytes:
    """The shared library. Raises CandidateFailed (unavailable)."""
    headers = sysconfig.get_path("include")
    key = content_key(SOURCE.read_text(), sys.version, str(sysconfig.get_config_var("SOABI")), headers)
    return store.made(KIND, key, lambda: HostCompiler.find().extension(SOURCE, headers))


def _load(program: bytes) -> Any:
    """The module of a shared library. Raises ImportError."""
    with scratch_folder() as folder:  # of a new name: what was loaded from one path is not loaded from it again
        path = folder / "fastcall.so"
        path.write_bytes(program)
        loader = ExtensionFileLoader("fastcall", str(path))
        spec = spec_from_file_location("fastcall", path, loader=loader)
        assert spec is not None
        module = module_from_spec(spec)
        loader.exec_module(module)
        return module


@cache
def tensor_type() -> Any:
    """The type torch.Tensor, whose calls may be known here."""
    import torch

    return torch.Tensor
