"""Measured times go out in the formats of the field and come back as they were; each format is what its schema says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gemmgen.cli import main
from gemmgen.exports.cards import GALLERY
from gemmgen.families import family_named
from gemmgen.lab.formats.cache import cache_document
from gemmgen.lab.formats.importing import read_foreign, times_of
from gemmgen.lab.formats.results import Result, Results, read_results, results_of
from gemmgen.lab.formats.sheet import csv_text
from gemmgen.lab.study.times import TIMES, load_times, save_times
from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import Store

REPOSITORY = Path(__file__).parents[2]
PROBLEM, SIMT = Problem(512, 512, 512), family_named("simt")
CONFIG = SIMT.default(PROBLEM).values


@pytest.fixture
def results() -> Results:
    """A config that was timed, one whose samples were not kept, and one that failed."""
    return results_of(
        Result(CONFIG, 20.5, (20.25, 20.5, 21.0), 128, date="2026-11-21T10:00:00+00:00"),
        Result({**CONFIG, "BM": 64}, 18.0, registers=96),
        Result({**CONFIG, "BN": 64}, None, failure="compile"),
        problem=PROBLEM,
        family=SIMT,
        device="H200",
    )


def written(results: Results, kind: str, folder: Path) -> Path:
    path = folder / ("times.csv" if kind == "csv" else "times.json")
    path.write_text(csv_text([results]) if kind == "csv" else json.dumps(cache_document(results)))
    return path


@pytest.mark.parametrize("kind", ["csv", "kernel-tuner"])
def test_what_was_written_comes_back(results: Results, kind: str, tmp_path: Path) -> None:
    (back,) = read_foreign(written(results, kind, tmp_path))
    assert (back.problem, back.family, back.device) == (results.problem, results.family, results.device)
    for ours, theirs in zip(results.rows, back.rows, strict=True):
        assert (theirs.config, theirs.failure, theirs.registers) == (ours.config, ours.failure, ours.registers) or (
            ours.failure is not None and theirs.failure == ours.failure
        )
        assert theirs.us == (None if ours.us is None else pytest.approx(ours.us)) and theirs.date == ours.date
    assert [row.us for row in back.rows] == [pytest.approx(18.0), pytest.approx(20.5), None]


def test_a_cache_file_has_what_kernel_tuner_requires(results: Results) -> None:
    document = cache_document(results)
    required = ("schema_version", "device_name", "kernel_name", "problem_size", "tune_params_keys", "tune_params")
    assert {*required, "objective", "cache"} <= document.keys() and document["schema_version"] == "1.1.0"
    assert document["problem_size"] == [512, 512, 512] and len(document["cache"]) == 3
    for key, one in document["cache"].items():
        assert key == ",".join(str(one[name]) for name in document["tune_params_keys"])
        assert all(one[name] in document["tune_params"][name] for name in document["tune_params_keys"])
        spent = ("compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time")
        assert {"time", "timestamp", *spent} <= one.keys()
    assert sorted(str(one["time"]) for one in document["cache"].values()) == [
        "0.018",
        "0.0205",
        "CompilationFailedConfig",
    ]


def test_times_of_another_program_need_a_shape_and_a_family(tmp_path: Path, results: Results) -> None:
    path = written(results, "kernel-tuner", tmp_path)
    document = json.loads(path.read_text())
    del document["gemmgen"]
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="name SHAPE and --family"):
        read_foreign(path)
    (back,) = read_foreign(path, (PROBLEM, SIMT))
    assert [row.config for row in back.rows][:2] == [row.config for row in results.rows][:2]
    with pytest.raises(InvalidInput, match="is no axis of naive"):
        read_foreign(path, (PROBLEM, family_named("naive")))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not a file of measured times"),
        ("{}", "which has a cache"),
        ('{"cache": {"": {"time": "Nonsense"}}, "tune_params_keys": [], "device_name": "x"}', "time = 'Nonsense'"),
    ],
)
def test_what_is_no_such_file_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=said):
        read_foreign(path, (PROBLEM, SIMT))


@pytest.mark.parametrize("kind", ["csv", "kernel-tuner"])
def test_times_that_come_with_gemmgen_go_out_and_come_back(kind: str, tmp_path: Path) -> None:
    (first, *_) = read_results(TIMES["simt"])
    times = times_of(read_foreign(written(first, kind, tmp_path)), None, "a test", Store(tmp_path / "store"))
    known = load_times(TIMES["simt"])
    assert times.device == known.device and times.families == known.families
    (part,) = times.measured
    (before,) = known.problems[part.problem]
    assert [round(row.us, 3) for row in part.rows] == sorted(row.us for row in before.rows)
    assert sorted(row.registers for row in part.rows) == sorted(row.registers for row in before.rows)


def test_commands_write_and_read_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (first, *_) = read_results(TIMES["simt"])
    path, to = written(first, "kernel-tuner", tmp_path), tmp_path / "imported.json"
    assert main(["import", str(path), "--to", str(to)]) == 0
    assert f"{len(first.rows)} times of 1 problem on H200; 0 configs left out" in capsys.readouterr().out
    assert main(["results", str(to), "--format", "kernel-tuner"]) == 0
    assert len(json.loads(capsys.readouterr().out)["cache"]) == len(first.rows)
    assert main(["results", str(TIMES["simt"]), "--format", "kernel-tuner"]) == 2
    assert "name a folder with --to" in capsys.readouterr().err
    assert (
        main(["results", str(TIMES["simt"]), "--format", "kernel-tuner", "--to", str(tmp_path / "all"), "--json"]) == 0
    )
    assert len(json.loads(capsys.readouterr().out)["files"]) == len(load_times(TIMES["simt"]).problems)


def test_times_of_batches_and_several_families_go_out_and_come_back(tmp_path: Path) -> None:
    known = load_times(Path(__file__).parent / "data" / "groups" / "h100_bf16_batched.json")
    some = known.measured[:6]
    times, table, again = (tmp_path / name for name in ("times.json", "times.csv", "again.json"))
    save_times(replace(known, measured=some), times)
    assert main(["results", str(times), "--format", "csv", "--to", str(table)]) == 0
    assert main(["import", str(table), "--to", str(again)]) == 0
    found = {(part.problem, part.family): part for part in load_times(again).measured}
    assert len({family for _, family in found}) > 1 and len(found) == len(some)
    for part in some:
        ours, theirs = ([row.us for row in one.rows] for one in (part, found[part.problem, part.family]))
        assert sorted(ours) == sorted(theirs)


def test_files_of_times_do_not_hold_every_problem(tmp_path: Path) -> None:
    promised = Problem(None, 64, 64, "f32", ldc=None, ld_align=8)
    row = Result(SIMT.default(promised).values, 5.0, registers=99)
    found = [results_of(row, problem=promised, family=SIMT, device="H100")]
    with pytest.raises(InvalidInput, match="measured times hold shape, types, layout, batch, pointers, epilogue"):
        times_of(found, None, "a test", Store(tmp_path))


def test_a_folder_of_kernels_gives_their_measured_times() -> None:
    found = read_results(REPOSITORY / GALLERY / "sm_90")
    assert sum(len(one.rows) for one in found) > 150
    assert {one.device for one in found} == {"H200"}
    assert all(row.samples_us for one in found for row in one.rows)
