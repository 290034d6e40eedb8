"""The suite's emulator step on a machine without a GPU: winners on file get a verdict, once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import gemmgen as api
from gemmgen.cli import main
from gemmgen.exports.kernelfile import kernels_in
from gemmgen.lab.gallery import check
from gemmgen.problem.gemm import Problem


def test_winners_on_file_are_verified_in_the_emulator(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    folder = tmp_path / "generated" / "sm_90"
    source = api.generate(Problem(40, 24, 16), family="naive", out=folder)
    (tmp_path / "mine").write_text("40x24x16\n8x8x8  # no winner on file\n")
    words = ["suite", "--step", "emulate", "--shapes", str(tmp_path / "mine"), "--out", str(folder.parent)]
    assert main(words) == 0
    assert "1/1  emulate   40x24x16 f32 rr" in capsys.readouterr().err
    verdict = json.loads((folder / f"{source.name}.json").read_text())["emulator"]
    assert verdict["passed"] and verdict["executor"] == "emulator" and verdict["examples"] == 20
    assert "emulator 20" in (folder / "README.md").read_text()
    assert main([*words, "--json"]) == 0
    assert [row["state"] for row in json.loads(capsys.readouterr().out)["rows"]] == ["on file"]
    path = folder / f"{source.name}.json"
    record = json.loads(path.read_text())
    assert record["emulator"].pop("coverage")["branches"] > 0
    path.write_text(json.dumps({**record, "rung": {"number": 1, "title": "", "lesson": "", "time": None}}))
    assert main([*words, "--processes", "1", "--json"]) == 0
    assert [row["state"] for row in json.loads(capsys.readouterr().out)["rows"]] == ["done"], (
        "it says what ran of a rung"
    )
    assert "coverage" in json.loads(path.read_text())["emulator"]


def test_a_wrong_winner_fails_the_run(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    folder = tmp_path / "generated" / "sm_90"
    source = api.generate(Problem(40, 24, 16), family="naive", out=folder)
    path, record = folder / f"{source.name}.cu", folder / f"{source.name}.json"
    wrong = source.text.replace("k < s.K", "k < s.K - 1")
    assert wrong != source.text
    path.write_text(wrong)
    record.write_text(json.dumps({**json.loads(record.read_text()), "sha256": replace(source, text=wrong).digest}))
    (tmp_path / "mine").write_text("40x24x16\n")
    words = ["suite", "--step", "emulate", "--shapes", str(tmp_path / "mine"), "--out", str(folder.parent)]
    assert main(words) == 1
    assert "1 row failed" in capsys.readouterr().out
    assert "emulator fails: wrong" in (folder / "README.md").read_text()


def test_an_architecture_that_is_not_at_hand_gets_verified_kernels(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """T4's tensor cores multiply s8 by instructions, and with arithmetic, of their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    (tmp_path / "mine").write_text("64x64x64 --types s8,s8,s32 --layout rc\n")
    words = ["suite", "--arch", "sm_75", "--shapes", str(tmp_path / "mine"), "--out", str(tmp_path), "--budget", "1"]
    assert main(words) == 0
    (kernel,) = kernels_in(tmp_path / "sm_75")
    record = kernel.record or {}
    assert kernel.source.arch == record["arch"] == record["resources"]["arch"] == "sm_75"
    assert record["verification"]["passed"] and record["verification"]["executor"] == "emulator"
    assert record["time"]["kind"] == "predicted" and record["resources"]["spill_bytes"] == 0
    assert check(tmp_path) == []
