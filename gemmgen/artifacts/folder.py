"""The form `folder`: kernel, launcher, header, self-test, build file and certificate. It builds with CUDA alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmgen.artifacts.certificate import certificate, certificate_name, check_replaceable
from gemmgen.artifacts.interface import Interface
from gemmgen.artifacts.selftest_sizes import selftest_shapes
from gemmgen.artifacts.together import write_together
from gemmgen.kernel.render import environment
from gemmgen.kernel.source import KernelSource
from gemmgen.support.errors import require


def export(source: KernelSource, record: Mapping[str, Any], to: Path) -> list[Path]:
    """Write `source` into the folder `to`, ready to be vendored; returns the paths of the files.

    NAME.cu begins with the kernel's text as it stands, edits by hand included. `record` is JSON-ready and goes
    into the certificate; its "arch" ("sm_90") is what the build files compile for unless told otherwise.

    Raises InvalidInput where `record` is of another kernel, no JSON or without an arch, or where `to` holds files
    of these names that are not an earlier export's, and GemmgenError where `to` cannot be written. `to` is then
    as it was before.
    """
    types = source.problem.types
    require(types.uniform, f"export writes no launcher for types that are converted ({types}): f32 and f64 alone")
    require("arch" in record, f"the record of {source.name} has no arch: the build files need one, such as sm_90")
    files = {name: text.encode() for name, text in folder_texts(source, str(record["arch"])).items()}
    certified = certificate(source, record, files)
    check_replaceable(source.name, files, to)
    return write_together({**files, certificate_name(source.name): certified}, to)


def folder_texts(source: KernelSource, arch: str) -> dict[str, str]:
    """The text of each file by name, without the certificate."""
    out = Interface(source, arch)
    shapes = selftest_shapes(source)

    def render(template: str) -> str:
        return environment(source.problem.types).get_template(f"export/{template}").render(out=out, shapes=shapes)

    return {
        f"{source.name}.cu": source.text + render("launcher.cu"),
        f"{source.name}.h": render("kernel.h"),
        f"{source.name}_selftest.cu": render("selftest.cu"),
        "CMakeLists.txt": render("CMakeLists.txt"),
        "README.md": render("README.md"),
    }
