"""Files that are either whole or absent, and the store of results by content."""

from __future__ import annotations

import atexit
import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import platformdirs

from gemmgen.support.errors import GemmgenError
from gemmgen.support.scratch import scratch_folder

PACKAGE = Path(__file__).resolve().parents[1]
# Beside the package in a checkout, inside it in an installed wheel.
TEMPLATES = next(folder for folder in (PACKAGE / "templates", PACKAGE.parent / "templates") if folder.is_dir())
CHECKSUM_BYTES = hashlib.sha256().digest_size


def write_atomic(path: Path, data: bytes | str, mode: int = 0o644) -> None:
    """Write `path` by rename, so that a reader sees either the old file or the new one.

    Creates missing folders. Raises GemmgenError with the path and the system's reason
    (read-only folder, full disk); nothing is left behind then.
    """
    payload = data.encode() if isinstance(data, str) else data
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        raise GemmgenError(f"cannot write {path}: {error.strerror or error}") from error


def sha256(data: bytes) -> str:
    """SHA-256 in the form of certificates and records."""
    return hashlib.sha256(data).hexdigest()


def content_key(*parts: str) -> str:
    """One key for all that a result depends on (source, compiler, flags, device, ...)."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part.encode())
    return digest.hexdigest()


def code_digest(*files: str) -> str:
    """One key for files of gemmgen ("search/order.py"): results that depend on them stay valid while they do not
    change."""
    return content_key(*((PACKAGE / file).read_text() for file in files))


@cache
def generator_digest() -> str:
    """One key for all of gemmgen's code and templates, the same in a checkout and in an installed package."""
    files = [(path, PACKAGE) for pattern in ("*.py", "*.hpp", "*.cpp") for path in PACKAGE.rglob(pattern)]
    files += [(path, TEMPLATES) for path in TEMPLATES.rglob("*") if path.is_file()]
    named = sorted((path.relative_to(root).as_posix(), path) for path, root in files)
    return content_key(*(part for name, path in named for part in (name, path.read_text())))


@cache
def _usable(folder: Path) -> Path:
    """Return `folder`, created if it is missing, or a temporary folder, with a warning, if it cannot be used."""
    reason = _why_unusable(folder)
    if reason is None:
        return folder
    until_exit = ExitStack()
    temporary = until_exit.enter_context(scratch_folder())
    atexit.register(until_exit.close)
    warnings.warn(f"cannot use the cache {folder} ({reason}): results are not kept for later", stacklevel=3)
    return temporary


def _why_unusable(folder: Path) -> str | None:
    """The reason why `folder`, created if it is missing, cannot be the cache; None if it can."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None if _is_private(folder.stat()) else "it belongs to another user, or others may write to it"
    except OSError as error:
        return error.strerror or str(error)


def _is_private(status: os.stat_result) -> bool:
    """Whether this user owns a file or folder and nobody else may write to it. True on Windows, which does not say."""
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


class Store:
    """Results by content key: kind/ab/abcdef... under one folder, shared by any number of processes.

    Entries appear by rename and carry a checksum. A corrupt entry, or one that another user owns or may write, counts
    as missing and is removed; its next `put` repairs it. The default `root` is the user's cache. If that cannot be
    written, or is not private to the user, it is a temporary folder for this process, with a warning. If a write fails,
    for example on a full disk, the store warns and keeps nothing new.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root if root is not None else _usable(Path(platformdirs.user_cache_dir("gemmgen")))
        self._writable = True

    def path(self, kind: str, key: str) -> Path:
        return self.root / kind / key[:2] / key

    def get(self, kind: str, key: str) -> bytes | None:
        """The entry's payload, or None if there is no intact one."""
        path = self.path(kind, key)
        try:
            with path.open("rb") as file:
                private, entry = _is_private(os.fstat(file.fileno())), file.read()
        except OSError:
            return None
        checksum, payload = entry[:CHECKSUM_BYTES], entry[CHECKSUM_BYTES:]
        if not private or hashlib.sha256(payload).digest() != checksum:
            with suppress(OSError):  # a cache that is not ours to write
                path.unlink(missing_ok=True)
            return None
        return payload

    @contextmanager
    def alone(self, kind: str, key: str, *, shared: bool = False) -> Iterator[None]:
        """Run the block in one process and thread at a time, so that expensive results are made once: check again
        inside.

        `shared` blocks run concurrently with each other, but not with others. Waiting blocks go first, so shared blocks
        cannot starve an exclusive one. If the folder or the system (Windows) has no locks, nobody waits.
        """
        with ExitStack() as held:
            with suppress(OSError, ImportError):
                import fcntl

                lock = self.path(kind, key).with_suffix(".lock")
                lock.parent.mkdir(parents=True, exist_ok=True)
                file = held.enter_context(open(lock, "w", opener=_private_file))
                with open(lock.with_suffix(".turn"), "w", opener=_private_file) as turn:
                    fcntl.flock(turn, fcntl.LOCK_EX)
                    fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            yield

    def made(self, kind: str, key: str, make: Callable[[], bytes]) -> bytes:
        """The entry, made by `make` if there is none, once for all processes that ask at the same time."""
        found = self.get(kind, key)
        if found is not None:
            return found
        with self.alone(kind, key):
            found = self.get(kind, key)
            if found is None:
                found = make()
                self.put(kind, key, found)
        return found

    def put(self, kind: str, key: str, payload: bytes) -> None:
        """Keep `payload`, if it can be written."""
        if not self._writable:
            return
        try:
            write_atomic(self.path(kind, key), hashlib.sha256(payload).digest() + payload, mode=0o600)
        except GemmgenError as error:
            self._writable = False
            warnings.warn(f"{error}: results are not kept from here on", stacklevel=2)


def _private_file(path: str, flags: int) -> int:
    """Open a lock file that only this user can open, because whoever can open it could hold it."""
    return os.open(path, flags, 0o600)
