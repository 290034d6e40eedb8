"""A kernel on disk: NAME.cu and, beside it, NAME.json. Finds it by name or file, and reads it.

A `.cu` is read as it is, including edits by hand. Its launch comes from the JSON beside it or, without JSON, from its
header, which has problem and config.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gemmgen.exports.cards import GALLERY, arch_of, card_folder, card_folders, recorded_card
from gemmgen.exports.exported_text import kernel_alone
from gemmgen.exports.stated_contract import launch_is_wrong, only_promised, require_agreement
from gemmgen.exports.writing import write_record
from gemmgen.families.base import check
from gemmgen.kernel.config import AXIS_END, axes_of_record
from gemmgen.kernel.prepare import ENTRY, step_of_record
from gemmgen.kernel.source import CONFIG, KernelSource, Launch, Parameter, full_name_in, parameters
from gemmgen.kernel.streamk import Stream
from gemmgen.kernel.tensor_map import TensorMap
from gemmgen.problem.device import DEFAULT_ARCH, Arch, DeviceSpec, short_name
from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import LINEAR, parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.sizes import RUNTIME
from gemmgen.problem.types import Compute, Types
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import full_name_of, parse_name, require_identifier
from gemmgen.support.errors import InvalidInput, require, whole
from gemmgen.support.jsontext import json_value
from gemmgen.support.short_repr import brief

SHOWN = 10  # names that a message lists


@brief
@dataclass(frozen=True)
class KernelFile:
    """A kernel and its origin.

    record  the contents of NAME.json, if there is one
    path    the path of the `.cu`; None for a kernel that was rendered
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
        require(path.is_file(), f"{text} stands for the kernel beside it, and there is no {path}")
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


def others_named(text: str, found: KernelFile) -> list[Path]:
    """Other kernels of generated/, for other cards, that `text`, a name or its beginning, could mean instead of
    `found`.

    They have the same architecture and another text; a kernel with the same text is on file for every card that it
    suits.
    """
    if "/" in text or found.path is None or found.path.parent.parent != GALLERY:
        return []
    beside = [it for it in card_folders(GALLERY, arch_of(found.path.parent)) if it != found.path.parent]
    paths = [path for folder in beside for path in _beginning(text, folder)]
    exact = [path for path in paths if path.stem == text]
    return [path for path in exact or paths if path.read_text() != found.source.text]


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
        for path in _beginning(text, folder):
            found.setdefault(path.stem, path)
    if text in found:
        return found[text]
    names = [*found]
    shown = "\n  ".join([*names[:SHOWN], *(["..."] if len(names) > SHOWN else [])])
    require(len(names) <= 1, f"{text!r} begins the names of {len(names)} kernels:\n  {shown}")
    return found[names[0]] if names else None


def _beginning(text: str, folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{glob.escape(text)}*.cu"))


def render_full_name(name: str, arch: Arch) -> KernelSource:
    """Render the kernel of a full name. Raises InvalidInput if it is not one, or if its config breaks a constraint."""
    problem, family, config = parse_name(name)
    check(family, problem, config, arch.limits)
    return render(problem, family, config, arch.name)


def read_kernel(path: Path) -> KernelFile:
    """Read the `.cu` at `path` as it is. Raises InvalidInput if it, or its JSON, cannot be used."""
    text = read_text(path)
    record_path = path.with_suffix(".json")
    record = read_record(record_path) if record_path.exists() else None
    source = _source_from_header(path, text) if record is None else source_from_record(record, record_path)
    code = (line for line in text.splitlines() if not line.lstrip().startswith("//"))  # the header has the name, too
    require(
        any(source.name in line for line in code),
        f"{path} has no function {source.name}: the function keeps its name however the kernel is edited",
    )
    source = replace(source, text=text)
    require_agreement(source, record_path)
    return KernelFile(source, record, path)


def kernels_in(folder: Path, refused: Callable[[InvalidInput], object] = lambda _: None) -> Iterator[KernelFile]:
    """The kernels of `folder` that have a record, by name; unreadable files are skipped.

    refused  is called with the reason for each unreadable kernel that has a JSON
    """
    for path in sorted(folder.glob("*.cu")):
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
        return _source(record)


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


# What a problem and its launch are where their record does not say: old ones do not, nor do certificates.
ASSUMED: dict[str, dict[str, Any]] = {
    "problem": {
        "batch": 1,
        "pointers": False,
        **dict.fromkeys(("stride_a", "stride_b", "stride_c", "ld_residual", "stride_residual"), "dense"),
    },
    "launch": {
        "splits": 1,
        "stream": None,
        "cluster": 1,
        "summed": 0,
        **dict.fromkeys(("attributes", "maps", "prepares"), ()),
        **dict.fromkeys(("persistent", "overlapped"), False),
    },
}


def problem_from(fields: Mapping[str, Any]) -> Problem:
    """Read a problem from its `json_records.problem_document`, which may lack what is `ASSUMED`."""
    fields = {**ASSUMED["problem"], **fields}
    return Problem(
        m=_size(fields["m"]),
        n=_size(fields["n"]),
        k=_size(fields["k"]),
        types=_types(fields),
        layout=Layout.parse(fields["layout"]),
        lda=_line(fields["lda"]),
        ldb=_line(fields["ldb"]),
        ldc=_line(fields["ldc"]),
        pointer_align=fields["pointer_align"],
        ld_align=fields["ld_align"],
        batch=_size(fields["batch"]),
        stride_a=_line(fields["stride_a"]),
        stride_b=_line(fields["stride_b"]),
        stride_c=_line(fields["stride_c"]),
        pointers=fields["pointers"],
        epilogue=parse_epilogue(fields["epilogue"]) if "epilogue" in fields else LINEAR,  # likewise
        ld_residual=_line(fields["ld_residual"]),
        stride_residual=_line(fields["stride_residual"]),
        typical=fields.get("typical", {}),
    )


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


def _source(record: Mapping[str, Any]) -> KernelSource:
    name, launch, family = record["name"], record["launch"], record["family"]
    require(isinstance(family, str), f"family = {family!r} is no name")
    launch, problem = {**ASSUMED["launch"], **launch}, problem_from(record["problem"])
    is_word = isinstance(name, str) and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None
    require(is_word, f"name = {name!r} names no function")  # files get it too: with a "/" it would be a path
    geometry = Launch(
        launch["threads"],
        tuple((size, tile) for size, tile in launch["grid"]),
        launch["shared_bytes"],
        launch["splits"],
        None if launch["stream"] is None else Stream(**launch["stream"]),
        launch["cluster"],
        tuple(launch["attributes"]),
        launch["summed"],
        tuple(TensorMap(**{**one, "box": tuple(one["box"])}) for one in launch["maps"]),
        launch["persistent"],
        tuple(step_of_record(one) for one in launch["prepares"]),
        launch["overlapped"],
    )
    given = record.get("parameters")  # a certificate leaves them out where they follow
    return KernelSource(
        name=name,
        text="",
        problem=problem,
        family=family,
        config=axes_of_record({name: _axis(name, value) for name, value in record["config"].items()}),
        launch=geometry,
        parameters=parameters(problem, geometry) if given is None else tuple(_parameter(one) for one in given),
    )


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


def _types(fields: Mapping[str, Any]) -> Types:
    """Read the types. Records written before operands had their own types hold one dtype."""
    if "types" not in fields:
        return Types.of(DType.parse(fields["dtype"]))
    a, b, c = (DType.parse(fields["types"][operand]) for operand in "abc")
    return Types(a, b, c, Compute.parse(fields["compute"]))


def _size(value: int | str) -> int | None:
    return None if value == RUNTIME else whole("a size", value)


def _axis(name: str, value: object) -> int:
    number = whole(name, value, least=0)
    require(number < AXIS_END, f"{name} = {number}: less than {AXIS_END} is needed, as kernels have it as an int")
    return number


def _line(value: int | str) -> Any:
    """A leading dimension: "dense", "?" or a number."""
    return value if value == "dense" else _size(value)


def _parameter(fields: Mapping[str, str]) -> Parameter:
    name = "semaphores" if fields["name"] == "tickets" else fields["name"]  # as records of old call them
    return Parameter(**{**fields, "name": name})
