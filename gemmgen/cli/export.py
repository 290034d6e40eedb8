"""`gemmgen export`: a kernel as something that another project vendors."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from gemmgen.cli.options import arch_option, json_option, out_option
from gemmgen.cli.output import emit
from gemmgen.device import DeviceSpec
from gemmgen.export import export as export_kernel
from gemmgen.families import config_of
from gemmgen.kernelfile import KernelFile, find_kernel, require_writable
from gemmgen.model import predict
from gemmgen.records import Origin, provenance
from gemmgen.target import compile_target
from gemmgen.tuner import Trial


@click.command()
@click.argument("kernel", metavar="NAME|FILE")
@click.option("--to", type=click.Path(path_type=Path), required=True, help="Folder for the exported files.")
@arch_option
@out_option("Folder in which a NAME is looked up first.")
@json_option
@click.pass_obj
def command(words: list[str], kernel: str, to: Path, arch: str, out: Path, as_json: bool) -> None:
    """Export a kernel as a folder that stands alone: no gemmgen, no Python.

    NAME.cu (the kernel and its host launcher NAME_launch), NAME.h (extern "C"), a self-test with a main of its own,
    CMakeLists.txt, and a certificate: what was checked and measured, and of exactly which bytes. Where the kernel has
    a JSON and was not edited since, that names the architecture for --arch auto.
    """
    name, spec = compile_target(arch)
    found = find_kernel(kernel, out, spec.arch.limits)
    require_writable(to)
    files = export_kernel(found.source, record_of(found, arch, name, spec, shlex.join(["gemmgen", *words])), to)
    emit(
        as_json,
        lambda: {"name": found.source.name, "files": [str(path) for path in files]},
        lambda console: console.print(*files, sep="\n", soft_wrap=True),
    )


def record_of(kernel: KernelFile, chosen: str, arch: str, spec: DeviceSpec, command: str) -> dict[str, Any]:
    """The record for the certificate: NAME.json where it is of this very text, else what is known without it.

    `chosen` is what the user asked for: "auto" keeps the record's arch.
    """
    if kernel.record is not None and "arch" in kernel.record and not kernel.edited:
        return dict(kernel.record) if chosen == "auto" else {**kernel.record, "arch": arch}
    source = kernel.source
    family, config = config_of(source)
    trial = Trial(source, config, predict(source.problem, family, config, spec))
    return {**provenance(trial, Origin.unrun(arch, spec, command)), "edited": kernel.edited}
