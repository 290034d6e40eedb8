"""Compilers that are asked once: what one made of the same files by the same words is taken from the user's cache."""

from __future__ import annotations

import io
import itertools
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.support.files import Store, content_key, sha256

KIND = "test-build"
READ = (".c", ".cpp", ".cu", ".h", ".hpp")  # what compilers read
COMPILERS = ("nvcc", "gcc", "g++")
SAID = ("stdout", "stderr")  # members of an archive, beside files that are made


class Refused(Exception):
    """A compiler that failed: nothing of it is kept."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        super().__init__(done.stderr)
        self.done = done


def built(command: Sequence[str | Path], folder: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a compiler in `folder`, where it writes, with `text` as its standard input.

    A success is kept by the versions of the compilers, the features of this machine's CPU, the words of the command,
    and the files of C, C++ and CUDA in `folder` and in all other folders that the words name. Those behind `-isystem`
    count as parts of the compiler. A command that fails runs again each time.
    """
    words = [str(part) for part in command]

    def made() -> bytes:
        before = {path: path.stat().st_mtime_ns for path in files_in(folder)}
        done = subprocess.run(words, cwd=folder, input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Refused(done)
        written = [path for path in files_in(folder) if before.get(path) != path.stat().st_mtime_ns]
        return packed(done, {path.relative_to(folder): path.read_bytes() for path in written})

    places = others(words, folder)
    shown = [word.replace(str(folder), ".") for word in words]
    shown = [f"{word.partition('/')[0]}{places[path_of(word)]}" if path_of(word) in places else word for word in shown]
    read = [f"{name} {sha256(path.read_bytes())}" for name, path in sorted(read_by(folder, places))]
    key = content_key(version(words[0]), *HostCompiler.find().identity, *shown, text, *read)
    try:
        kept = Store().made(KIND, key, made)
    except Refused as refused:
        return refused.done
    with ZipFile(io.BytesIO(kept)) as archive:
        for name in {*archive.namelist()} - {*SAID}:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).unlink(missing_ok=True)  # a program that runs, or a library that is loaded
            (folder / name).write_bytes(archive.read(name))
            (folder / name).chmod(0o755)
        said = [archive.read(name).decode() for name in SAID]
    return subprocess.CompletedProcess(words, 0, *said)


def run(*command: str | Path, folder: Path) -> str:
    """What a tool says in `folder`; it has to succeed, and is kept only of a compiler."""
    if command[0] in COMPILERS:
        done = built(command, folder)
    else:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def path_of(word: str) -> Path:
    return Path(word.removeprefix("-I"))


def others(words: Sequence[str], folder: Path) -> dict[Path, str]:
    """Names for the files and `-I` folders outside of `folder` that a command names: a checkout may lie anywhere."""
    system = {Path(after) for before, after in itertools.pairwise(words) if before == "-isystem"}
    named = (path for path in map(path_of, words[1:]) if path.is_absolute() and not path.is_relative_to(folder))
    return {path: f"{number}/{path.name}" for number, path in enumerate(dict.fromkeys(named)) if path not in system}


def read_by(folder: Path, places: Mapping[Path, str]) -> Iterator[tuple[str, Path]]:
    """The files that a compiler may read, by names that do not depend on where the folders are."""
    for place, name in {folder: ".", **places}.items():
        for path in files_in(place) if place.is_dir() else [place]:
            if path.suffix in READ and path.is_file():
                yield f"{name}/{path.relative_to(place)}", path


def packed(done: subprocess.CompletedProcess[str], written: dict[Path, bytes]) -> bytes:
    buffer = io.BytesIO()
    with ZipFile(buffer, "w", ZIP_DEFLATED) as archive:
        for name, content in {**dict(zip(SAID, (done.stdout, done.stderr), strict=True)), **written}.items():
            archive.writestr(str(name), content)
    return buffer.getvalue()


@cache
def version(compiler: str) -> str:
    """All that `compiler` says of its version."""
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
