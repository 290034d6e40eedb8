"""`gemmgen study arithmetic` with the emulator in the card's place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmgen.cli import main
from gemmgen.verification.tensor_core import dot
from gemmgen.verification.tensor_core_recordings import Recording

WORDS = ["study", "arithmetic", "--device", "emulator", "--arch", "sm_90", "--only", "m16n8k8_tf32"]


def test_it_records_and_compares(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    path = tmp_path / "made" / "sm_90.npz"
    assert main([*WORDS, "--json", "--out", str(path)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [(row["instruction"], row["steps"], row["differing"]) for row in said["rows"]] == [
        ("mma_m16n8k8_tf32", 1, 0),
        ("mma_m16n8k8_tf32", 4, 0),
    ]
    read = Recording.load(path)
    assert read.provenance["executor"] == "emulator" and "--only m16n8k8_tf32" in read.provenance["command"]
    assert not any(one.differing for one in read.against_model())

    def wrong(*operands: object) -> object:  # the model, one bit off
        return dot(*operands) ^ 1  # type: ignore[arg-type]

    monkeypatch.setattr("gemmgen.verification.vectors.dot", wrong)
    assert main(WORDS) == 1
    out = capsys.readouterr().out
    assert "11,520 of 11,520 elements differ from the model of sm_90" in out
    assert "numbers up to 2, product 0, row 0, column 0: 0x" in out


def test_an_architecture_without_such_an_instruction_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS[:-1], "m16n8k32_e4m3"]) == 2
    assert "sm_90 has no instruction with 'm16n8k32_e4m3' in its name" in capsys.readouterr().err
