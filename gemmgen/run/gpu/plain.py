"""Kernels that are no products: they fill and compare operands, and measure what a card reaches."""

from __future__ import annotations

from pathlib import Path

from gemmgen.run.compile import compile_text
from gemmgen.support.files import Store
from gemmgen.support.paths import TEMPLATES

FOLDER = TEMPLATES / "device" / "plain"
THREADS = 256  # a block of theirs


def plain_path(name: str) -> Path:
    return FOLDER / f"{name}.cu"


def plain_cubin(name: str, arch: str, store: Store) -> bytes:
    """NAME.cu compiled; its kernel is called NAME, or begins so where there are several."""
    return compile_text(plain_path(name).read_text(), arch, store).cubin
