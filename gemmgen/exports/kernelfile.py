"""A kernel on disk: NAME.cu and, beside it, NAME.json. Finds it by name or file, and reads it.

A `.cu` is read as it is, including edits by hand. Its launch comes from the JSON beside it or, without JSON, from its
header, which has problem and config.

A kernel of generated/ that several cards share has one NAME.cu, in the folder of its architecture. Beside it and in
the other cards' folders NAME.json has what each card measured, and the SHA-256 of the text.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gemmgen.exports.cards import (
    GALLERY,
    arch_of,
    card_folder,
    card_folders,
    recorded_card,
    shared_folder,
)
from gemmgen.exports.exported_text import kernel_alone
from gemmgen.exports.record_form import completed
from gemmgen.exports.record_reading import OF_KERNEL, source_of
from gemmgen.exports.stated_contract import launch_is_wrong, only_promised, require_agreement
from gemmgen.exports.writing import text_path, write_record
from gemmgen.families.base import check
from gemmgen.kernel.prepare import ENTRY
from gemmgen.kernel.source import CONFIG, KernelSource, full_name_in
from gemmgen.problem.device import DEFAULT_ARCH, Arch, DeviceSpec, short_name
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import full_name_of, parse_name, require_identifier
from gemmgen.support.errors import InvalidInput, require
from gemmgen.support.jsontext import json_value
from gemmgen.support.short_repr import brief

SHOWN = 10  # names that a message lists
LAUNCHED = '"launch": {'  # which a kernel's record has and no other JSON of a card's folder


@brief
@dataclass(frozen=True)
class KernelFile:
    """A kernel and its origin.

    record  the contents of NAME.json, if there is one, completed: see `record_form`
    path    NAME.cu beside its record; None for a kernel that was rendered. `text_path` says where the text is
    """

    source: KernelSource
    record: Mapping[str, Any] | None = None
    path: Path | None = None

    @property
    def edited(self) -> bool:
        """Whether the text differs from the one for which the record was made."""
        return self.record is not None and self.record.get("sha256") != self.source.digest

    @property
    def only_promised(self) -> tuple[str, ...]:
        """The facts about arguments and launch that only the JSON gives: see `stated_contract.only_promised`."""
        return () if self.record is None else only_promised(self.source)

    @property
    def launch_is_wrong(self) -> bool:
        """Whether the JSON launches a text that gemmgen renders in another way: see
        `stated_contract.launch_is_wrong`."""
        return self.record is not None and launch_is_wrong(self.source)

    @property
    def arch(self) -> str:
        """The architecture that the kernel was made for, as its record says."""
        return str((self.record or {}).get("arch", DEFAULT_ARCH))

    @property
    def card(self) -> DeviceSpec:
        """The known card that its record names, or else the one that stands for its architecture. Raises
        InvalidInput."""
        return recorded_card(self.arch, str((self.record or {}).get("device")))

    @property
    def device(self) -> str:
        """The name that the card of its record reports, "H100 80GB HBM3", or else the name of `card`."""
        named = (self.record or {}).get("device")
        return self.card.name if named is None else short_name(str(named))

    @property
    def alone(self) -> KernelFile:
        """The same kernel without the launcher that an export wrote around it: see `kernel_alone`."""
        text = kernel_alone(self.source.text, self.source.name)
        return self if text == self.source.text else replace(self, source=replace(self.source, text=text))

    def renamed(self, name: str) -> KernelFile:
        """Return the same kernel, and its record, under a user's name. Raises InvalidInput."""
        require_identifier(name)
        source = self.source.renamed(name)
        if self.record is None:
            return KernelFile(source)
        record = {**self.record, "name": name}
        return KernelFile(source, record if self.edited else {**record, "sha256": source.digest})

    @property
    def measured_time(self) -> Mapping[str, Any] | None:
        """The time in the record if it was measured, else None: see `json_records.timing_document`."""
        time = self.record.get("time") if self.record else None
        return time if isinstance(time, dict) and time.get("kind") == "measured" else None

    @property
    def reference(self) -> str:
        """The text that names this kernel on a command line."""
        return full_name_of(self.source) if self.path is None else str(self.path)


def find_kernel(text: str, out: Path, card: DeviceSpec) -> KernelFile:
    """Find the kernel that `text` names: a `.cu` file or its JSON, a name or its beginning, or a full name.

    Names are looked up in `out`, in the current folder and in generated/: see `_places`. A full name is rendered for
    the architecture of `card`, whose limits the kernel must satisfy. Raises InvalidInput if there is no such kernel, or
    several.
    """
    path = Path(text)
    if path.suffix == ".json":  # a kernel's record stands for the kernel beside it
        path = path.with_suffix(".cu")
        require(text_path(path).is_file(), f"{text} stands for the kernel beside it, and there is no {text_path(path)}")
    if path.suffix == ".cu" or path.is_file():
        return read_kernel(path)
    found = next((it for folders in _places(out, card) if (it := _named(text, folders)) is not None), None)
    if found is not None:
        return read_kernel(found)
    try:
        return KernelFile(render_full_name(text, card.arch))
    except InvalidInput as error:
        places = f"no kernel in {out}, this folder or {GALLERY}/ has a name that begins so"
        raise InvalidInput(f"{error}; {places}") from error


def find_rung(title: str, out: Path, card: DeviceSpec) -> KernelFile | None:
    """The kernel for the rung of a ladder that is called `title`; None if there is none. Looks where `find_kernel`
    does.

    Raises InvalidInput if there are several, in ladders of several problems.
    """
    for folders in _places(out, card):
        paths = [path for folder in folders for path in sorted(folder.glob("*.json")) if _is_rung(path, title)]
        found = {path.stem: path for path in reversed(paths)}
        require(len(found) <= 1, f"{title!r} is a rung of several ladders: {', '.join(sorted(found))}")
        if found:
            return read_kernel(next(iter(found.values())).with_suffix(".cu"))
    return None


def _places(out: Path, card: DeviceSpec) -> tuple[Sequence[Path], ...]:
    """Groups of folders with kernels, in the order of their precedence.

    In generated/ the order is: the folder of `card`, that of the card which stands for its architecture, those of such
    cards for other architectures, and all others.
    """
    own, its_arch = GALLERY / card_folder(card.arch.name, card), GALLERY / card.arch.name
    first = [folder for folder in card_folders(GALLERY) if folder.name == arch_of(folder)]
    return (out, Path(), own), (its_arch,), first, sorted(GALLERY.glob("*/"))


def _is_rung(path: Path, title: str) -> bool:
    text = read_text(path)
    return '"rung"' in text and (json_value(text).get("rung") or {}).get("title") == title


def _named(text: str, folders: Iterable[Path]) -> Path | None:
    """The `.cu` called `text`, or the only one whose name begins so; None if there is none."""
    if "/" in text or not text:
        return None
    found: dict[str, Path] = {}  # of two folders that have the same name the first one counts
    for folder in folders:
        for path in kernel_paths(folder, text):
            found.setdefault(path.stem, path)
    if text in found:
        return found[text]
    names = [*found]
    shown = "\n  ".join([*names[:SHOWN], *(["..."] if len(names) > SHOWN else [])])
    require(len(names) <= 1, f"{text!r} begins the names of {len(names)} kernels:\n  {shown}")
    return found[names[0]] if names else None


def kernel_paths(folder: Path, beginning: str = "") -> list[Path]:
    """The paths of the kernels of `folder` whose names begin so, by name; `text_path` says where a text is."""
    pattern = glob.escape(beginning)
    records = folder.glob(f"{pattern}*.json") if shared_folder(folder) is not None else ()
    return sorted({*folder.glob(f"{pattern}*.cu"), *(path.with_suffix(".cu") for path in records if is_record(path))})


def is_record(path: Path) -> bool:
    """Whether a JSON file is the record of a kernel: the text is there, or the file says how it is launched."""
    text = text_path(path.with_suffix(".cu"))
    return text.exists() or (text.parent != path.parent and LAUNCHED in path.read_text(errors="replace"))


def text_link(path: Path) -> str:
    """What a page in the folder of the kernel at `path` calls the file of its text."""
    return Path(os.path.relpath(text_path(path), path.parent)).as_posix()


def render_full_name(name: str, arch: Arch) -> KernelSource:
    """Render the kernel of a full name. Raises InvalidInput if it is not one, or if its config breaks a constraint."""
    problem, family, config = parse_name(name)
    check(family, problem, config, arch.limits)
    return render(problem, family, config, arch.name)


def read_kernel(path: Path) -> KernelFile:
    """Read the kernel at `path` as its text is. Raises InvalidInput if that, or its JSON, cannot be used."""
    record_path, text_file = path.with_suffix(".json"), text_path(path)
    if text_file != path and not text_file.exists():
        raise InvalidInput(f"{record_path} has no text: there is neither {path} nor {text_file}")
    text = read_text(text_file)
    record = None
    if record_path.exists():
        on_file = read_record(record_path)
        with reading(record_path):
            record = completed(on_file)
    source = _source_from_header(path, text) if record is None else source_from_record(record, record_path)
    code = (line for line in text.splitlines() if not line.lstrip().startswith("//"))  # the header has the name, too
    require(
        any(source.name in line for line in code),
        f"{text_file} has no function {source.name}: the function keeps its name however the kernel is edited",
    )
    kernel = KernelFile(replace(source, text=text), record, path)
    require_agreement(kernel.source, record_path)
    require(
        text_file == path or not kernel.edited,
        f"{text_file} is not the text that {record_path} is of: its SHA-256 is another. Put the right one beside that",
    )
    return kernel


def kernels_in(folder: Path, refused: Callable[[InvalidInput], object] = lambda _: None) -> Iterator[KernelFile]:
    """The kernels of `folder` that have a record, by name; unreadable files are skipped.

    refused  is called with the reason for each unreadable kernel that has a JSON
    """
    for path in kernel_paths(folder):
        try:
            kernel = read_kernel(path)
        except InvalidInput as error:
            if path.with_suffix(".json").exists():
                refused(error)
            continue
        if kernel.record is not None:
            yield kernel


def source_from_record(record: Mapping[str, Any], path: Path) -> KernelSource:
    """Read a kernel, without its text, from the contents of NAME.json.

    Raises InvalidInput for a JSON that is incomplete or has invalid values. Family and config may be of another
    version, as launching does not need them.
    """
    with reading(path):
        return source_of(completed({name: record[name] for name in OF_KERNEL if name in record}))


@contextmanager
def reading(path: Path, what: str = "the record of a kernel") -> Iterator[None]:
    """Turn errors from the contents of the file at `path` into InvalidInput that begins with the path."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error
    except KeyError as error:
        raise InvalidInput(f"{path} is not {what}: it lacks {error}") from error
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InvalidInput(f"{path} is not {what} ({type(error).__name__}: {error})") from error


def update_record(kernel: KernelFile, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """Change the present contents of NAME.json, which other processes may write, too; do nothing if its text has
    changed."""
    assert kernel.path is not None
    on_file = read_kernel(kernel.path)
    if on_file.record is not None and on_file.source.text == kernel.source.text:
        write_record(kernel.path.with_suffix(".json"), change(dict(on_file.record)))


def read_record(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file. Raises InvalidInput if there is none."""
    try:
        record = json_value(read_text(path))
    except ValueError as error:
        raise InvalidInput(f"{path} is not JSON: {error}") from error
    require(isinstance(record, dict), f"{path} is not the record of a kernel: it holds no object")
    return dict(record)


def read_text(path: Path) -> str:
    """Read the text of a file that a user names. Raises InvalidInput if it cannot be read."""
    try:
        return path.read_text()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not a text file: {error.reason}") from error


def _source_from_header(path: Path, text: str) -> KernelSource:
    """A kernel without JSON, from its header's full name or, in old files without one, from the file's name."""
    config = full_name_in(text)
    asked = r"(?:__cluster_dims__\([^()]*\) )?__launch_bounds__\([^()]*\)"
    function = re.search(rf"__global__ void {asked}\s+(?!{ENTRY}\()(\w+)\(", text)
    try:
        source = render(*parse_name(config or path.stem))
    except (InvalidInput, ZeroDivisionError) as error:
        raise InvalidInput(
            f"how to launch {path} is not known: no line `{CONFIG}...` of it is the full name of a gemmgen kernel, nor "
            f"is the file's, and there is no {path.with_suffix('.json').name} beside it. Copy its JSON along"
        ) from error
    return replace(source, name=function[1] if config and function else path.stem)
