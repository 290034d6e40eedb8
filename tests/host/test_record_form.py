"""The form of records on file: defaults are left out, nothing is lost, and what is new rewrites no file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gemmgen as api
from gemmgen.exports import record_form, verdict_form
from gemmgen.exports.cards import card_folders
from gemmgen.exports.kernelfile import kernel_paths, read_kernel
from gemmgen.exports.record_form import completed, record_text, shortened
from gemmgen.families import FAMILIES
from gemmgen.families.naive.family import NaiveConfig
from gemmgen.kernel.config import axis
from gemmgen.problem.gemm import Problem

REPOSITORY = Path(__file__).parents[2]
ON_FILE = [path for folder in card_folders(REPOSITORY / "generated") for path in kernel_paths(folder)]


@dataclass(frozen=True)
class Wider(NaiveConfig):
    """The family's axes and one that is new."""

    PATTERN = f"{NaiveConfig.PATTERN}[_new{{NEW}}]"

    NEW: int = axis(0, (0, 1), "what nobody has thought of yet")


@pytest.fixture
def record(tmp_path: Path) -> dict[str, Any]:
    """The whole record of a kernel with two verdicts, and times of its own and of the baseline."""
    source = api.generate(Problem(64, 96, 32), family="naive", out=tmp_path)
    whole = dict(read_kernel(tmp_path / f"{source.name}.cu").record or {})
    verdict = {"passed": True, "executor": "gpu", "examples": 5, "seed": 0, "worst_error_over_bound": 0.5}
    time = {
        "kind": "measured",
        "us": 2.0,
        "samples_us": [2.0, 2.0],
        "protocol": {"samples": 2, "launches_per_sample": 9},
    }
    baseline = {**time, "us": 3.0, "protocol": {"samples": 2, "launches_per_sample": 7}}
    measured = {"time": time, "bench": {"name": source.name, "cublaslt": baseline, "speedup": 1.5}}
    return completed({**whole, "verification": verdict, "emulator": {**verdict, "executor": "emulator"}, **measured})


@pytest.mark.parametrize("path", ON_FILE[::20], ids=lambda path: path.stem)
def test_records_on_file_have_the_form_that_is_written(path: Path) -> None:
    record = read_kernel(path).record
    assert record is not None and path.with_suffix(".json").read_text() == record_text(record)


def test_what_is_left_out_comes_back(record: dict[str, Any]) -> None:
    text = record_text(record)
    assert completed(json.loads(text)) == record == completed(record)
    assert 2 * len(text) < len(json.dumps(record, indent=2))


def test_defaults_are_left_out_and_nothing_else(record: dict[str, Any]) -> None:
    record["problem"]["ld_align"], record["config"]["BM"], record["launch"]["splits"] = 4, 16, 2
    record["emulator"]["sampled"], record["bench"]["cublaslt"]["case"]["M"] = 3, 65
    short = shortened(record)
    assert short["problem"].keys() == {"m", "n", "k", "types", "compute", "layout", "ld_align"}
    assert short["config"] == {"BM": 16, "BN": 16}, "axes that every name states"
    assert short["launch"].keys() == {"threads", "grid", "splits"}
    assert short["verification"].keys() == {"passed", "executor", "examples", "seed", "worst_error_over_bound"}
    assert short["emulator"]["sampled"] == 3
    assert "ours" not in short["bench"] and "case" not in short["time"]
    assert short["bench"]["cublaslt"]["protocol"] == {"launches_per_sample": 7}
    assert completed(short) == record


def test_of_sizes_left_to_run_time_a_record_says_what_was_timed(tmp_path: Path) -> None:
    source = api.generate(Problem("?", 96, 32), family="naive", out=tmp_path)
    assert "case" in json.loads((tmp_path / f"{source.name}.json").read_text())["time"]


def test_no_record_passes_by_default(record: dict[str, Any]) -> None:
    record["verification"] = {"executor": "gpu", "examples": 5, "seed": 0, "worst_error_over_bound": 0.5}
    assert "passed" not in completed(record)["verification"]


def test_parts_that_a_record_has_not_stay_away(record: dict[str, Any]) -> None:
    for name in ("bench", "emulator", "resources"):
        del record[name]
    record["time"] = None
    assert completed(record) == record and shortened(record).keys() == record.keys() - {"parameters"}


def test_an_axis_that_is_new_rewrites_no_file(record: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    before = record_text(record)
    monkeypatch.setattr(FAMILIES["naive"], "config_type", Wider)
    now = completed(json.loads(before))
    assert now["config"] == {**record["config"], "NEW": 0}
    assert record_text(now) == record_text(record) == before
    now["config"]["NEW"] = 1
    assert json.loads(record_text(now))["config"]["NEW"] == 1


@pytest.mark.parametrize(
    ("part", "defaults"),
    [
        ("problem", record_form.PROBLEM),
        ("resources", record_form.RESOURCES),
        ("verification", verdict_form.VERDICT),
        ("emulator", verdict_form.VERDICT),
    ],
)
def test_a_field_that_is_new_rewrites_no_file(
    record: dict[str, Any], monkeypatch: pytest.MonkeyPatch, part: str, defaults: dict[str, Any]
) -> None:
    record["resources"] = {"arch": "sm_90", "registers": 32, "spill_bytes": 0}
    before = record_text(record)
    monkeypatch.setitem(defaults, "new", None)
    now = completed(json.loads(before))
    assert now[part]["new"] is None and record_text(now) == before
