"""Several files that appear together or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from gemmgen.support.errors import GemmgenError


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
