"""The form `folder`: kernel, launcher, header, self-test, build file and certificate. It builds with CUDA alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmgen.artifacts.certificate import certificate_name, certificate_text
from gemmgen.artifacts.interface import Interface
from gemmgen.artifacts.selftest import SelfTest
from gemmgen.artifacts.together import write_together
from gemmgen.kernel.render import environment
from gemmgen.kernel.source import DEPENDENT_LAUNCH, KernelSource
from gemmgen.run.compile import arch_for
from gemmgen.support.errors import InvalidInput, require
from gemmgen.support.files import sha256


def require_exportable(source: KernelSource) -> None:
    """Raise InvalidInput for a kernel that `export` has no launcher for."""
    launch = source.launch
    special = [name for name in launch.attributes if name != DEPENDENT_LAUNCH]
    if launch.cluster > 1 and "__cluster_dims__" not in source.text:
        special.append(f"clusters of {launch.cluster} blocks")
    require(not special, f"export writes no launcher for kernels whose launch takes {', '.join(special)}")


def export(source: KernelSource, record: Mapping[str, Any], to: Path) -> list[Path]:
    """Write `source` into the folder `to`, ready to be vendored; returns the paths of the files.

    NAME.cu begins with the kernel's text as it stands, edits by hand included. `record` goes into the certificate
    (`certificate.certified_record`); its "arch" ("sm_90") is what the build files compile for unless told otherwise.

    Raises InvalidInput where `to` holds files of these names that are not an earlier export's, and GemmgenError where
    `to` cannot be written. `to` is then as it was before.
    """
    require_exportable(source)
    files = {name: text.encode() for name, text in folder_texts(source, record["arch"]).items()}
    certificate = certificate_text(source, record, files)
    require_replaceable(source.name, files, to)
    return write_together({**files, certificate_name(source.name): certificate.encode()}, to)


def folder_texts(source: KernelSource, arch: str) -> dict[str, str]:
    """The text of each file by name, without the certificate."""
    rest = {name: _render(source, arch, name) for name in ("CMakeLists.txt", "README.md")}
    return kernel_texts(source, arch) | {f"{source.name}_selftest.cu": _render(source, arch, "selftest.cu"), **rest}


def kernel_texts(source: KernelSource, arch: str) -> dict[str, str]:
    """Of these files the kernel with its launcher, and its header."""
    text = _render(source, arch, "prologue.cu") + source.text + _render(source, arch, "launcher.cu")
    return {f"{source.name}.cu": text, f"{source.name}.h": _render(source, arch, "kernel.h")}


def _render(source: KernelSource, arch: str, template: str) -> str:
    out = Interface(source, arch_for(source, arch))
    return environment(source.problem.types).get_template(f"export/{template}").render(out=out, test=SelfTest(out))


def require_replaceable(kernel: str, files: Mapping[str, bytes], folder: Path) -> None:
    """Raise InvalidInput where writing `files` to `folder` would lose what no export of `kernel`, or library, wrote.

    A file there may be replaced if it holds the same bytes already, or those that the certificate of an earlier
    export names. So nobody loses a README.md, a kernel edited in place or another kernel's build file.
    """
    earlier = certified_files(folder / certificate_name(kernel))
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


def certified_files(path: Path) -> dict[str, str]:
    """SHA-256 by file name as the certificate at `path` states it; nothing where there is none that can be read."""
    try:
        files = json.loads(path.read_bytes())["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return dict(files) if isinstance(files, dict) else {}
