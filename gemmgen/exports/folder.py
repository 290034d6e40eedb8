"""The folder format: kernels with launcher, header, self-test and certificate, which CUDA alone can build."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gemmgen.exports.certificate import certificate_name, certificate_of
from gemmgen.exports.interface import Interface
from gemmgen.exports.kernelfile import read_record, read_text, source_from_record
from gemmgen.exports.names import taken_by
from gemmgen.exports.selftest import SelfTest
from gemmgen.exports.torchop import TorchOperator
from gemmgen.exports.writing import write_together
from gemmgen.kernel.launch import DEPENDENT_LAUNCH
from gemmgen.kernel.prepare import Pack
from gemmgen.kernel.source import KernelSource
from gemmgen.render.kernel_text import environment
from gemmgen.run.compile import arch_for
from gemmgen.support.errors import InvalidInput, require
from gemmgen.support.files import sha256
from gemmgen.support.jsontext import json_text, json_value

SHARED = ("CMakeLists.txt", "README.md")  # of all kernels of a folder


def own_files(kernel: str) -> tuple[str, ...]:
    """The names of the files that belong to one kernel."""
    return (f"{kernel}.cu", f"{kernel}.h", f"{kernel}_selftest.cu", operator_name(kernel), certificate_name(kernel))


def operator_name(kernel: str) -> str:
    """The name of the file with torch operators, which a kernel has on request."""
    return f"{kernel}_torch.cpp"


def files_of(source: KernelSource, written: Iterable[Path]) -> list[Path]:
    """The files of an export, possibly of several kernels, that concern `source`."""
    return [path for path in written if path.name in (*own_files(source.name), *SHARED)]


def require_together(sources: Iterable[KernelSource], *, torch: bool = False) -> None:
    """Raise InvalidInput if two kernels would write the same file, or if `export` has no launcher for one.

    With `torch` it also refuses kernels that take arrays of pointers, scales of A and B, ends of groups, an index of
    rows or images, which have no operators.
    """
    taken: set[str] = set()
    for source in sources:
        require_exportable(source)
        arrays = torch and source.problem.pointers
        require(not arrays, f"{source.name} takes arrays of pointers, and tensors are none: export it without --torch")
        beside = torch and not source.problem.inputs.is_plain
        inputs = source.problem.inputs
        others = "images" if inputs.conv else "an index of rows" if inputs.by_index else "scales"
        what = "ends or rows of groups" if inputs.groups else others
        require(not beside, f"{source.name} takes {what}, and operators take none: export it without --torch")
        twice = sorted(taken.intersection(own_files(source.name)))
        require(not twice, f"two of the kernels write {', '.join(twice)}: export one by another name, with --as NAME")
        taken.update(own_files(source.name))


def require_exportable(source: KernelSource) -> None:
    """Raise InvalidInput for a kernel that `export` has no launcher for, or whose name a launcher cannot have."""
    special = _special(source)
    require(not special, f"export writes no launcher for kernels whose launch takes {', '.join(special)}")
    around = "its launcher has another use for it" if source.name in _declared_around(source) else None
    use = taken_by(source.name) or around
    require(use is None, f"{source.name!r} cannot name an exported kernel: {use}. --as NAME gives it another")


# Matches a line that declares a function, a variable or a type of a namespace.
_DECLARES = re.compile(
    r"^(?:(?:using|struct) (\w+)|(?!#|template|namespace|extern|return)[\w:<>]+[\w:<>*& ]*[*& ](\w+)[(\[])",
    re.MULTILINE,
)


def _declared_around(source: KernelSource) -> set[str]:
    """Return the names that the launcher declares beside the kernel. Local variables do not count: they may hide it."""
    nameless = replace(source, name="kernel_of_no_name", text="")
    code = kernel_texts(nameless, source.arch)["kernel_of_no_name.cu"]
    return {name for found in _DECLARES.findall(code) for name in found if name}


def exportable(source: KernelSource) -> bool:
    """Whether `export` has a launcher for a kernel."""
    return not _special(source)


def _special(source: KernelSource) -> list[str]:
    """The features of a kernel's launch that launchers do not support."""
    launch = source.launch
    special = [name for name in launch.attributes if name != DEPENDENT_LAUNCH]
    if launch.cluster > 1 and "__cluster_dims__" not in source.text:
        special.append(f"clusters of {launch.cluster} blocks")
    inputs = source.problem.inputs
    if source.problem.coded and not isinstance(launch.prepared("B"), Pack):
        special.append(f"inputs = {source.problem.inputs}")
    stride = source.problem.stride_b
    if inputs.row_groups and stride not in ("dense", None):  # self-tests lay the groups' B side by side
        special.append(f"inputs = {source.problem.inputs} with stride_b = {stride}")
    return special


@dataclass(frozen=True)
class Vendored:
    """A kernel in an exported folder, and its certificate."""

    out: Interface
    certificate: Mapping[str, Any]


def export(source: KernelSource, record: Mapping[str, Any], to: Path, *, torch: bool = False) -> list[Path]:
    """`export_all` of one kernel."""
    return export_all([(source, record)], to, torch=torch)


def export_all(
    kernels: Iterable[tuple[KernelSource, Mapping[str, Any]]], to: Path, *, torch: bool = False
) -> list[Path]:
    """Write kernels into the folder `to`, beside those that it holds; returns the paths of the files.

    NAME.cu has the kernel's text as it is, including edits by hand. Its record goes into the certificate
    (`certificate.certified_record`); builds compile for the record's "arch" ("sm_90") by default. Operators are written
    with `torch`, or if `to` already has some for the kernel.

    Raises InvalidInput if two kernels have the same name, or if `to` holds files of these names that no earlier export
    wrote, and GemmgenError if `to` cannot be written. `to` is then as it was before.
    """
    kernels = [*kernels]
    require_together([source for source, _ in kernels], torch=torch)
    files: dict[str, bytes] = {}
    folder = kernels_in(to)
    earlier = {item for one in folder.values() for item in one.certificate["files"].items()}
    for source, record in kernels:
        out = interface_of(source, record["arch"], torch=torch or _has_operators(folder, source.name))
        own = _encoded(own_texts(source, record["arch"], torch=out.torch))
        files |= own
        folder[source.name] = Vendored(out, certificate_of(source, record, own))
    shared = _encoded(shared_texts(one.out for one in folder.values()))
    require_replaceable({**files, **shared}, earlier, to)
    hashes = {name: sha256(data) for name, data in shared.items()}
    for name, one in folder.items():
        certificate = {**one.certificate, "files": {**one.certificate["files"], **hashes}}
        files[certificate_name(name)] = f"{json_text(certificate)}\n".encode()
    return write_together({**files, **shared}, to)


def _encoded(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in texts.items()}


def _has_operators(folder: Mapping[str, Vendored], kernel: str) -> bool:
    return kernel in folder and folder[kernel].out.torch


def own_texts(source: KernelSource, arch: str, *, torch: bool = False) -> dict[str, str]:
    """The texts of the files that belong to one kernel, by name, without the certificate."""
    out = interface_of(source, arch)
    texts = kernel_texts(source, arch) | {f"{source.name}_selftest.cu": _render(out, "selftest.cu", test=SelfTest(out))}
    if torch:
        texts[operator_name(source.name)] = _render(out, "torch.cpp", op=TorchOperator(out))
    return texts


def kernel_texts(source: KernelSource, arch: str, own_name: str | None = None) -> dict[str, str]:
    """The texts of the kernel with its launcher, and of its header.

    own_name  the name of files and symbols in a library, in place of the kernel's name. The kernel's text stays: macros
              before it rename its entry points
    """
    own = source if own_name is None else replace(source, name=own_name)
    out = interface_of(own, arch)
    entries = [(one.name, other.name) for one, other in zip(source.program, own.program, strict=True)]
    renamed = [(name, other) for name, other in entries if name != other]
    before, behind = (
        _render(out, part, renamed=renamed, alone=own_name is None) for part in ("prologue.cu", "launcher.cu")
    )
    text = before + source.text + behind
    return {f"{own.name}.cu": text, f"{own.name}.h": _render(out, "kernel.h")}


def _render(out: Interface, template: str, **values: object) -> str:
    return environment(out.types).get_template(f"export/{template}").render(out=out, **values)


def shared_texts(kernels: Iterable[Interface]) -> dict[str, str]:
    """The texts of the files that all kernels of a folder share, by name."""
    ordered = sorted(kernels, key=lambda one: one.name)
    templates = environment(ordered[0].types)
    return {name: templates.get_template(f"export/{name}").render(kernels=ordered) for name in SHARED}


def folder_texts(source: KernelSource, arch: str, folder: Path) -> dict[str, str]:
    """The texts of a kernel's files in `folder`, which may hold other kernels; without the certificates."""
    kernels = kernels_in(folder)
    out = interface_of(source, arch, torch=_has_operators(kernels, source.name))
    beside = (one.out for name, one in kernels.items() if name != source.name)
    return {**own_texts(source, arch, torch=out.torch), **shared_texts([out, *beside])}


def interface_of(source: KernelSource, arch: str, *, torch: bool = False) -> Interface:
    """The interface of a kernel whose record names `arch`."""
    return Interface(source, arch_for(source, arch), torch)


def kernels_in(folder: Path) -> dict[str, Vendored]:
    """The kernels that exports left in `folder`, by name; unreadable ones are left out with a warning."""
    found = {}
    for path in sorted(folder.glob(certificate_name("*"))):
        try:
            record = read_record(path)
            source = source_from_record(record, path)
            source = replace(source, text=read_text(folder / f"{source.name}.cu"))
            named, files = certificate_name(source.name) == path.name, dict(record["files"])
            out = interface_of(source, record["arch"], torch=operator_name(source.name) in files)
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else error
            warnings.warn(f"{', '.join(SHARED)} leave out the kernel of {path}: {why}", stacklevel=2)
            continue
        if named:
            found[source.name] = Vendored(out, record)
    return found


def require_replaceable(files: Mapping[str, bytes], earlier: Collection[tuple[str, str]], folder: Path) -> None:
    """Raise InvalidInput if writing `files` to `folder` would overwrite anything that no export wrote.

    A file may be replaced if it already holds the same bytes, or those named by the certificate of an earlier export:
    `earlier` has (name, SHA-256). So nobody loses a README.md, or a kernel edited in place.
    """
    for name, data in files.items():
        try:
            present = (folder / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise InvalidInput(f"cannot read {folder / name}, which would be replaced: {error.strerror}") from error
        require(
            present == data or (name, sha256(present)) in earlier,
            f"{folder / name} exists and is not as an export left it: move it or choose another folder",
        )


def certified_files(path: Path) -> dict[str, str]:
    """SHA-256 by file name, as stated by the certificate at `path`; empty if there is no readable one."""
    try:
        files = json_value(path.read_bytes())["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return dict(files) if isinstance(files, dict) else {}
