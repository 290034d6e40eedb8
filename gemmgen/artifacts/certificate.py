"""The record that travels with an exported kernel: what was checked and measured, and of exactly which bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmgen.kernel.source import KernelSource
from gemmgen.support.errors import InvalidInput, require
from gemmgen.support.files import sha256


def certificate_name(kernel: str) -> str:
    return f"{kernel}.certificate.json"


def certificate(source: KernelSource, record: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """`record` as JSON text, with the kernel's name and the SHA-256 of its text and of each of `files`.

    The kernel's text is the first `kernel_bytes` bytes of `kernel_file`: `head -c kernel_bytes NAME.cu | sha256sum`.

    Raises InvalidInput for a record of another kernel, for one that is no JSON (NaN included), and where none of
    `files` begins with the kernel's text.
    """
    text = source.text.encode()
    holders = [name for name, data in files.items() if data.startswith(text)]
    require(bool(holders), f"none of {', '.join(files)} begins with the text of {source.name}")
    named = record.get("name", source.name)
    require(named == source.name, f"the record is of {named}, the kernel is {source.name}")
    contents = {
        **record,
        "name": source.name,
        "kernel_file": holders[0],
        "kernel_sha256": source.digest,
        "kernel_bytes": len(text),
        "files": {name: sha256(data) for name, data in files.items()},
    }
    try:
        return (json.dumps(contents, indent=2, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the record of {source.name} is no JSON: {error}") from error


def check_replaceable(kernel: str, files: Mapping[str, bytes], folder: Path) -> None:
    """Raise InvalidInput where writing `files` to `folder` would lose what no export of `kernel` wrote.

    A file there may be replaced if it holds the same bytes already, or those that the certificate of an
    earlier export names. So nobody loses a README.md, a kernel edited in place or another kernel's build file.
    """
    earlier = _certified_files(folder / certificate_name(kernel))
    for name, data in files.items():
        try:
            present = (folder / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise InvalidInput(f"cannot read {folder / name}, which would be replaced: {error.strerror}") from error
        require(
            present == data or sha256(present) == earlier.get(name),
            f"{folder / name} exists and is not as an export of {kernel} left it: move it or choose another folder",
        )


def _certified_files(path: Path) -> dict[str, str]:
    """SHA-256 by file name as the certificate at `path` states it; nothing where there is none that can be read."""
    try:
        files = json.loads(path.read_bytes())["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return dict(files) if isinstance(files, dict) else {}
