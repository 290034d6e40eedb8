"""`gemmgen explain`: why this kernel."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from gemmgen.api.kernels import explain
from gemmgen.cli.options import json_option, out_option, recorded_arch_option
from gemmgen.cli.output import emit
from gemmgen.cli.reports.explain import show_explanation
from gemmgen.exports.json_records import compiled_document, failure_document, kernel_document, prediction_document
from gemmgen.exports.kernelfile import find_kernel
from gemmgen.judge.explain import Explanation, LoopUse
from gemmgen.run.card import compile_target


@click.command()
@click.argument("kernel", metavar="NAME|FILE")
@recorded_arch_option
@out_option("Folder in which a NAME is looked up first.")
@json_option
def command(kernel: str, arch: str, out: Path, as_json: bool) -> None:
    """Say why a kernel is as it is, and what to expect of it.

    Tile levels; bytes read per FMA; intensity and roofline; registers, occupancy and what limits it; waves; the
    expected bottleneck; the instruction mix of the compiled main loop, how busy it can keep the FMA pipe and shared
    memory, and what the model says of both.

    The kernel is a .cu file, or the name (or its beginning) of one in --out, in this folder or in generated/. --arch
    auto is the architecture that its JSON names.
    """
    _, spec = compile_target(arch)
    it = explain(find_kernel(kernel, out, spec), arch=arch)
    emit(as_json, lambda: _document(it), lambda console: show_explanation(console, it))


def _document(it: Explanation) -> dict[str, Any]:
    return {
        **kernel_document(it.kernel.source),
        "edited": it.kernel.edited,
        "edited_time": asdict(it.edited) if it.edited else None,
        "edited_axes": dict(it.axes),
        "device": it.device.name,
        "arch": it.arch,
        "case": dict(it.case.values),
        "tiles": [asdict(tile) for tile in it.tiles],
        "parts": it.parts,
        "steps": it.steps,
        "used": it.used,
        "traffic": asdict(it.traffic),
        "roofline": {**asdict(it.roofline), "bound": it.roofline.bound},
        "prediction": prediction_document(it.prediction),
        "last_wave": it.last_wave,
        "resources": compiled_document(it.compiled),
        "compile_failure": failure_document(it.compile_failure),
        "main_loop": it.main_loop.counts if it.main_loop else None,
        "loop_use": _loop_use(it.loop_use),
        "sass_failure": failure_document(it.sass_failure),
    }


def _loop_use(use: LoopUse | None) -> dict[str, Any] | None:
    if use is None:
        return None
    return {**asdict(use), "fma_share": use.fma.share, "fma_use_allowed": use.fma.allowed}
