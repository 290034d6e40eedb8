"""Temporary folders that are removed after use; those of a killed process are removed by the next one."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

if sys.platform != "win32":
    import fcntl

PREFIX = ".gemmgen-scratch-"  # nobody else's
UNLOCKED = ".gemmgen-unlocked-"  # by its process, so far


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder, removed at the end of the block. Folders that killed processes left are removed first.

    Windows has no locks on folders, so there such folders stay.
    """
    if sys.platform == "win32":
        with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
            yield Path(name)
        return
    _sweep_once(tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix=UNLOCKED))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # for as long as the process lives
        folder = folder.rename(folder.with_name(folder.name.replace(UNLOCKED, PREFIX, 1)))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(parent: str) -> None:
    """Remove the scratch folders in `parent` whose processes are gone."""
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                _remove_unlocked(entry.path)


_sweep_once = cache(sweep)


def _remove_unlocked(folder: str) -> None:
    assert sys.platform != "win32"
    with suppress(OSError):  # in use, somebody else's, or just removed by another process
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
