"""`gemmgen results`: writes measured times in the formats of other tuners."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gemmgen.cli.options import json_option
from gemmgen.cli.output import emit
from gemmgen.lab.formats.cache import cache_document
from gemmgen.lab.formats.results import Results, read_results
from gemmgen.lab.formats.sheet import csv_text
from gemmgen.render.naming import problem_name
from gemmgen.support.errors import require
from gemmgen.support.files import write_atomic


@click.command()
@click.argument("path", metavar="FILE|DIR", type=click.Path(path_type=Path, exists=True))
@click.option("--format", "kind", type=click.Choice(["csv", "kernel-tuner"]), default="csv", show_default=True)
@click.option("--to", type=click.Path(path_type=Path), help="File to write; for several problems, a folder.")
@json_option
def command(path: Path, kind: str, to: Path | None, as_json: bool) -> None:
    """Write measured times of configs as CSV or Kernel Tuner's cache file.

    They come from a kernel's JSON, a folder of these, the output of `gemmgen tune --json`, or a file of measured times
    as `gemmgen study model --measure` writes it. Predicted times do not count. CSV takes any number of problems; a
    cache file is of one problem and family: without --to there must be only one.
    """
    found = read_results(path)
    require(bool(found), f"{path} holds no measured times")
    files = _files(found, kind)
    if to is None:
        require(len(files) == 1, f"{path} holds times of {len(files)} problems or families: name a folder with --to")
        require(not as_json, "--json says which files were written: name one with --to")
        text = next(iter(files.values()))
        emit(False, dict, lambda console: console.print(text, end="", soft_wrap=True))
        return
    written = _written(files, to)
    emit(
        as_json,
        lambda: {"files": [str(one) for one in written], "configs": sum(len(one.rows) for one in found)},
        lambda console: console.print(*written, sep="\n", soft_wrap=True),
    )


def _files(found: Sequence[Results], kind: str) -> dict[str, str]:
    if kind == "csv":
        return {"results.csv": csv_text(found)}
    made: dict[str, str] = {}
    for one in found:
        name = f"results_{problem_name(one.problem)}_{one.family.name}"
        stem = name if f"{name}.json" not in made else f"{name}_{one.device.replace(' ', '_')}"
        made[f"{stem}.json"] = _text(cache_document(one))
    return made


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _written(files: dict[str, str], to: Path) -> list[Path]:
    """Write the files, under their own names if `to` is a folder or there are several."""
    paths = [to] if len(files) == 1 and not to.is_dir() else [to / name for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        write_atomic(path, text)
    return paths
