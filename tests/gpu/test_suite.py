"""`gemmgen suite` on a GPU: rows tuned and benched, kept, gone on with, and watched by the sanitizers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmgen.cli import main
from gemmgen.exports.kernelfile import kernels_in
from gemmgen.lab.gallery import check
from gemmgen.verification.sanitizers.tool import TOOLS, why_no_sanitizer


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of a suite of three small problems, in a folder and with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mine").write_text("256x256x256\n8x1024x1024 --layout rc\n16x16x16 --batch 4096\n")
    return ["suite", "--shapes", str(tmp_path / "mine"), "--out", str(tmp_path / "generated"), "--budget", "6"]


def records(tmp_path: Path) -> list[dict[str, Any]]:
    (folder,) = (tmp_path / "generated").iterdir()
    return [dict(kernel.record or {}) for kernel in kernels_in(folder)]


def test_rows_are_measured_and_kept(gpu: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*gpu, "--step", "measure", "--limit-seconds", "0"]) == 0, "starts nothing"
    assert main([*gpu, "--step", "measure", "--part", "1/2"]) == 0
    assert len(records(tmp_path)) == 2
    capsys.readouterr()
    assert main([*gpu, "--step", "measure", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["state"] for row in rows] == ["on file", "done", "on file"]
    found = records(tmp_path)
    assert len(found) == 3 and all(record["verification"]["executor"] == "gpu" for record in found)
    limits = {record["problem"]["batch"]: record["bench"]["limited_by"] for record in found}
    assert limits[4096] == "copy bandwidth"
    assert check(tmp_path / "generated") == []


def test_winners_pass_the_sanitizers(gpu: list[str], tmp_path: Path) -> None:
    reason = why_no_sanitizer()
    if reason is not None:
        pytest.skip(reason)
    assert main([*gpu, "--step", "measure", "--step", "sanitize"]) == 0
    for record in records(tmp_path):
        assert [tool["tool"] for tool in record["sanitizers"]] == [*TOOLS]
        assert all(tool["passed"] for tool in record["sanitizers"])
