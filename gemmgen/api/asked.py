"""Arguments of the API's callers: kernels, folders and numbers, looked up and checked; and where progress shows."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gemmgen.exports.kernelfile import KernelFile, find_kernel, find_rung
from gemmgen.exports.writing import DEFAULT_OUT, Folder
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DeviceSpec
from gemmgen.run.card import compile_target
from gemmgen.search.result import TuneResult
from gemmgen.search.trial import Progress, Trial
from gemmgen.support.errors import InvalidInput, require, whole

# Found by `tune`, rendered, read from its files, or a `.cu` file or name to look up
Kernel = TuneResult | Trial | KernelSource | KernelFile | Folder


def kernel_file(kernel: Kernel, spec: DeviceSpec, out: Path = DEFAULT_OUT) -> KernelFile:
    """The kernel that `kernel` names; a name is looked up in `out` first."""
    if isinstance(kernel, TuneResult):
        kernel = kernel.winner
    if isinstance(kernel, Trial):
        kernel = kernel.source
    if isinstance(kernel, KernelSource):
        return KernelFile(kernel)
    known = isinstance(kernel, KernelFile | str | os.PathLike)
    require(known, f"kernel = {kernel!r:.100} is none: give its name, a .cu file, or what generate or tune returned")
    return kernel if isinstance(kernel, KernelFile) else find_kernel(os.fspath(kernel), out, spec)


def rung_or_kernel(kernel: Kernel, out: Path) -> Kernel:
    """The kernel of the rung with this title, or else the kernel that `kernel` names, looked up in `out` first."""
    if not isinstance(kernel, str):
        return kernel
    card = compile_target("auto")[1]
    rung = find_rung(kernel, out, card)
    if rung is not None:
        return rung
    try:
        return find_kernel(kernel, out, card)
    except InvalidInput as error:
        raise InvalidInput(
            f"{error}; no rung there has this title: gemmgen study LADDER --out {out} leaves them"
        ) from error


def count_of(name: str, count: int | None, least: int = 1) -> int | None:
    """`count` if it is a whole number of at least `least`, or None. Raises InvalidInput."""
    return None if count is None else whole(name, count, least)


@contextmanager
def shown(progress: Progress | None) -> Iterator[Progress]:
    """Yield `progress` or, if it is None, bars for the duration of a call, where standard error is a terminal."""
    if progress is not None or sys.stderr is None or not sys.stderr.isatty():
        yield progress or Progress()
        return
    from gemmgen.search.bars import Bars  # rich takes a while
    from gemmgen.support.console import PlainConsole

    with Bars(PlainConsole(stderr=True, width=shutil.get_terminal_size().columns)) as bars:
        yield bars
