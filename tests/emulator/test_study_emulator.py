"""A small study from its points to its files: compiled, verified on the emulator, predicted, explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmgen.lab.prints.study import write_study
from gemmgen.lab.study import Study, StudyPoint, run_study
from gemmgen.lab.study.points import BLOCK_TILE, LADDER, SCALAR
from gemmgen.problem.gemm import Problem
from gemmgen.run.nvrtc import compiler_version
from gemmgen.run.sass import find_nvdisasm
from gemmgen.run.target import open_card
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store

PROBLEM = Problem(96, 64, 40)
BASE = {**BLOCK_TILE.points[0].settings, "BM": 64, "BN": 64}
SMALL = Study(
    "small",
    "four ways",
    "What becomes of each?",
    "tile",
    (
        StudyPoint("inner", {**SCALAR, "OUTER": 0, "TM": 4, "TN": 4}),
        StudyPoint("outer", {**SCALAR, "OUTER": 1, "TM": 4, "TN": 4}),
        StudyPoint("spills", {**BASE, "TM": 16, "TN": 16}),
        StudyPoint("too many threads", {**BASE, "TM": 1, "TN": 2}),
        LADDER.points[-1],
    ),
)


def test_every_point_becomes_a_row(tmp_path: Path, shared_store: Store) -> None:
    try:
        compiler_version(), find_nvdisasm()
    except CandidateFailed as error:
        pytest.skip(str(error))
    target = open_card("RTX 4050 Laptop", shared_store)
    if target.gpu is not None:
        pytest.skip("that card is here, and would be measured")
    with target.executor:
        result = run_study(SMALL, PROBLEM, target, shared_store)
    inner, outer, spills, refused, library = result.rows
    assert result.kind == "predicted" and result.device.name == "RTX 4050 Laptop" and result.arch == "sm_89"

    for row in (inner, outer, spills):
        assert row.runs and row.trial is not None and row.trial.verdict is not None and row.trial.verdict.passed
        assert row.explanation is not None and row.explanation.main_loop is not None
    assert inner.explanation is not None and inner.explanation.main_loop is not None
    assert outer.explanation is not None and outer.explanation.main_loop is not None
    assert inner.explanation.main_loop.per_fma("LDS") == 2  # what the documents count
    assert outer.explanation.main_loop.per_fma("LDS") == (4 + 4) / (4 * 4)

    assert spills.trial is not None and spills.trial.compiled is not None and spills.trial.compiled.spill_bytes > 1000
    assert f"{spills.trial.compiled.spill_bytes:,} bytes spilled" in spills.reason
    assert spills.time_us > spills.trial.prediction.time_us
    assert refused.failure is not None and refused.reason == "blocks of 2,048 threads cannot launch: CUDA allows 1,024"
    assert library.failure is not None and "needs a GPU" in library.reason

    paths = write_study(result, "gemmgen study small", tmp_path / "out").paths
    record = json.loads(next(path for path in paths if path.suffix == ".json").read_text())
    assert [row["runs"] for row in record["rows"]] == [True, True, True, False, False]
    assert all(path.stat().st_size > 0 for path in paths)
