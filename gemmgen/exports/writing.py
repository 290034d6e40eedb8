"""Writes a kernel to disk: NAME.cu and, beside it, NAME.json. `kernelfile` finds and reads it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmgen.exports.record_form import record_text
from gemmgen.kernel.source import KernelSource
from gemmgen.support.errors import GemmgenError
from gemmgen.support.files import write_atomic

Folder = str | os.PathLike[str]
DEFAULT_OUT = Path("gemmgen-out")  # where commands write, and look first


def write_kernel(source: KernelSource, record: Mapping[str, Any], folder: Path) -> tuple[Path, Path]:
    """Write NAME.cu and NAME.json into `folder` and return their paths.

    Raises GemmgenError where that fails; a kernel that was not there before is not there then either.
    """
    kernel, provenance = folder / f"{source.name}.cu", folder / f"{source.name}.json"
    new = not provenance.exists()
    write_record(provenance, record)
    try:
        write_atomic(kernel, source.text)
    except BaseException:
        if new:
            provenance.unlink(missing_ok=True)
        raise
    return kernel, provenance


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write NAME.json. Raises GemmgenError."""
    write_atomic(path, record_text(record))


def require_writable(folder: Path) -> None:
    """Raise GemmgenError if `folder` cannot take files: better before a long search than after it."""
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise GemmgenError(f"cannot write to {folder}: {existing}: {error.strerror}") from error
