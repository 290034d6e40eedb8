"""A corpus entry reads back as it was written; what cannot be one is refused by name."""

from __future__ import annotations

import json

import pytest

from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import Failure, InvalidInput
from gemmgen.verification.corpus import Entry, entries, read, save
from gemmgen.verification.situation import NAN, Situation

KERNEL = "gemm_f32_rc_MxNx33_lda40_naive_8x8"
PROBLEM = Problem(None, None, 33, layout=Problem(1, 1, 1).layout.parse("rc"), lda=40)


def entry(situation):
    return Entry(KERNEL, "0" * 64, "emulator", Failure("wrong", "C[0][0] is 1", "verifier"), situation)


@pytest.mark.parametrize("beta", [0.0, 2.0, NAN, 2.0**100])
def test_an_entry_reads_back(beta, tmp_path):
    whole = entry(Situation(PROBLEM.case(3, 4, ldc=9, alpha=-1.0, beta=beta), "special", 77))
    path = save(whole, tmp_path)
    assert read(path) == whole
    assert save(whole, tmp_path) == path and entries(tmp_path) == [(path, whole)]


def test_a_kernel_that_does_not_load_has_no_situation(tmp_path):
    assert read(save(entry(None), tmp_path)) == entry(None)


def test_no_folder_is_an_empty_corpus(tmp_path):
    assert entries(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": "weird"}, "unknown data 'weird'"),
        ({"seed": -1}, "seed = -1"),
        ({"case": {"M": 1}}, "no 'N'"),
    ],
)
def test_a_corrupt_situation_is_refused(change, message, tmp_path):
    path = save(entry(Situation(PROBLEM.case(3, 4), "exact", 0)), tmp_path)
    document = json.loads(path.read_text())
    document["situation"].update(change)
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match=message) as raised:
        read(path)
    assert path.name in str(raised.value)
