"""Writes a kernel to disk: NAME.cu and, beside it, NAME.json; or several files together. `kernelfile` finds and reads
a kernel.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gemmgen.exports.cards import shared_folder, sharing_folders
from gemmgen.exports.record_form import record_text
from gemmgen.kernel.source import KernelSource
from gemmgen.support.errors import GemmgenError
from gemmgen.support.files import write_atomic

Folder = str | os.PathLike[str]
DEFAULT_OUT = Path("gemmgen-out")  # where commands write, and look first


def write_kernel(source: KernelSource, record: Mapping[str, Any], folder: Path) -> tuple[Path, Path]:
    """Write NAME.cu and NAME.json into `folder` and return their paths; `write_text` says where the text goes.

    Raises GemmgenError where that fails; a kernel that was not there before is not there then either.
    """
    kernel, provenance = folder / f"{source.name}.cu", folder / f"{source.name}.json"
    new = not provenance.exists()
    write_record(provenance, record)
    try:
        write_text(kernel, source.text)
    except BaseException:
        if new:
            provenance.unlink(missing_ok=True)
        raise
    return kernel, provenance


def text_path(path: Path) -> Path:
    """The file that holds the text of the kernel at `path`: that, or the one of its architecture's folder where `path`
    has a record alone.
    """
    shared = shared_folder(path.parent)
    if shared is None or path.exists() or not path.with_suffix(".json").exists():
        return path
    return shared / path.name


def write_text(path: Path, text: str) -> None:
    """Make `text` the text of the kernel at `path`. Cards of one architecture have equal texts once, in its folder.

    Kernels of other cards keep their text.
    """
    shared = shared_folder(path.parent)
    if shared is not None and _has_text(shared / path.name, text):
        path.unlink(missing_ok=True)
        return
    sharing = [folder / path.name for folder in sharing_folders(path.parent)]
    if sharing and not _has_text(path, text):
        _keep_for(sharing, path)
    write_atomic(path, text)
    for other in sharing:
        if other.with_suffix(".json").exists() and _has_text(other, text):
            other.unlink()


def remove_kernel(path: Path) -> None:
    """Delete the kernel at `path` and its record."""
    remove_text(path)
    path.with_suffix(".json").unlink(missing_ok=True)


def remove_text(path: Path) -> None:
    """Delete the text at `path`. Kernels of other cards keep their text."""
    _keep_for((folder / path.name for folder in sharing_folders(path.parent)), path)
    path.unlink(missing_ok=True)


def _keep_for(others: Iterable[Path], path: Path) -> None:
    """Copy the text at `path` to those of `others` that share it."""
    for other in others:
        if path.exists() and text_path(other) == path:
            write_atomic(other, path.read_text())


def _has_text(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


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


def write_together(files: Mapping[str, bytes], to: Path) -> list[Path]:
    """Write `files` (name: content) into the folder `to`, which keeps what else it holds; returns their paths.

    They are written to a hidden folder first: beside `to` if that does not exist yet, so that one rename completes it,
    else inside `to`, which is certain to be on the same file system. Files of the same names are replaced.

    Raises GemmgenError with the path and the system's reason; `to` is then as it was before.
    """
    hidden = f".gemmgen-export-{secrets.token_hex(4)}"
    staging = to.parent / hidden
    try:
        exists = to.is_dir()
        if exists:
            staging = to / hidden
        staging.mkdir(parents=True)
        for name, data in files.items():
            (staging / name).write_bytes(data)
        if exists:
            _move_into(files, staging, to)
        else:
            staging.rename(to)
    except OSError as error:
        raise GemmgenError(f"cannot export to {to}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return [to / name for name in files]


def _move_into(names: Iterable[str], staging: Path, to: Path) -> None:
    """Rename each file from `staging` to `to`. A failure restores the files that were there."""
    replaced = staging / "replaced"
    replaced.mkdir()
    done: list[str] = []
    try:
        for name in names:
            if (to / name).exists():
                shutil.copy2(to / name, replaced / name)
            os.replace(staging / name, to / name)
            done.append(name)
    except BaseException:  # an interrupt, too
        for name in done:
            if (replaced / name).exists():
                os.replace(replaced / name, to / name)
            else:
                (to / name).unlink()
        raise
