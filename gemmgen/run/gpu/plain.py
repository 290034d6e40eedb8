"""Kernels that are not products: they fill and compare operands, and measure what a card reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gemmgen.run.compile import compile_text
from gemmgen.support.files import TEMPLATES, Store

FOLDER = TEMPLATES / "device" / "plain"
THREADS = 256  # a block of theirs
BLOCKS_PER_SM = 8


def plain_blocks(device: Any) -> int:
    """Blocks in the grid of a plain kernel on `device`, one of pycuda's."""
    return int(device.multiprocessor_count) * BLOCKS_PER_SM


def plain_path(name: str) -> Path:
    return FOLDER / f"{name}.cu"


def plain_cubin(name: str, arch: str, store: Store) -> bytes:
    """The cubin of NAME.cu; its kernel is called NAME, or its kernels begin with NAME."""
    return compile_text(plain_path(name).read_text(), arch, store).cubin
