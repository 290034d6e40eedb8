"""Kernels that a command line names."""

from __future__ import annotations

from pathlib import Path

from gemmgen.cli.output import stderr
from gemmgen.exports.kernelfile import SHOWN, KernelFile, find_kernel, others_named
from gemmgen.problem.device import DeviceSpec


def named(text: str, out: Path, card: DeviceSpec) -> KernelFile:
    """`find_kernel`, which says where other cards have another kernel by that name."""
    found = find_kernel(text, out, card)
    tell_others(text, found)
    return found


def tell_others(text: str, found: KernelFile) -> None:
    """Say which kernel `text` was taken for where it may mean others, too."""
    others = others_named(text, found)
    if others:
        which = ", ".join([*map(str, others[:SHOWN]), *(["..."] if len(others) > SHOWN else [])])
        stderr().print(
            f"{text} is taken for {found.path}; of another card: {which}. A file's path names it", soft_wrap=True
        )
