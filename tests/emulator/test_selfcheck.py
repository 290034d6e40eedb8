"""The checker checked: every seeded bug is found with its diagnosis, and no correct kernel is rejected."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gemmgen.bugs import BUGS, NAIVE_RR, SUBJECTS, VALUE, Bug
from gemmgen.cli import main
from gemmgen.device import ARCHS
from gemmgen.emulator import EmulatorExecutor
from gemmgen.errors import InvalidInput
from gemmgen.paths import TEMPLATES
from gemmgen.selfcheck import check_kernels, chosen, plant, rendered, try_bug

LIMITS = ARCHS["sm_90"].limits
KERNELS = len(SUBJECTS) + 15  # `gemmgen selfcheck` tries 500


@pytest.fixture(scope="module")
def emulator():
    with EmulatorExecutor() as executor:
        yield executor


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.subject}: {bug.name}")
def test_a_seeded_bug_is_found(bug, emulator):
    assert try_bug(emulator, bug, LIMITS).trouble is None


def test_correct_kernels_pass(emulator):
    assert check_kernels(emulator, KERNELS, LIMITS, seed=1) == ()


def test_the_catalogue_reaches_every_skeleton_and_subject():
    assert len(BUGS) >= 40
    skeletons = {path.stem for path in (TEMPLATES / "kernel").iterdir()} - {"gemm"}
    assert {bug.subject.skeleton for bug in BUGS} == skeletons
    assert {bug.subject for bug in BUGS} == set(SUBJECTS)
    assert len({(bug.subject, bug.name) for bug in BUGS}) == len(BUGS)


def test_every_barrier_is_removed_once():
    removed = {bug.subject.skeleton: set[int]() for bug in BUGS}
    for bug in BUGS:
        if bug.breaks == "barrier":
            removed[bug.subject.skeleton].add(rendered(bug.subject, LIMITS).text.index(bug.old))
    for subject in SUBJECTS:
        barriers = rendered(subject, LIMITS).text.count("__syncthreads();")
        assert len(removed[subject.skeleton]) >= barriers, subject.skeleton


def test_a_stale_edit_is_an_error_not_a_survivor():
    stale = Bug("stale", "guard", NAIVE_RR, "no such text", "", (VALUE,))
    with pytest.raises(InvalidInput, match="stands 0 times, not 1"):
        plant(stale, LIMITS)
    with pytest.raises(InvalidInput, match="no bug of the catalogue"):
        chosen("no such bug")


def test_what_is_no_bug_survives(emulator):
    harmless = Bug("harmless", "none", NAIVE_RR, "acc = fmaf(a, b, acc);", "acc = fmaf(b, a, acc);", (VALUE,))
    outcome = try_bug(emulator, harmless, LIMITS, examples=20)
    assert not outcome.found and outcome.trouble == "survived 20 situations on the emulator"


def test_a_wrong_diagnosis_and_a_kernel_that_does_not_compile_are_trouble(emulator):
    bug = next(bug for bug in BUGS if bug.name == "beta is taken as 1")
    misread = try_bug(emulator, replace(bug, diagnoses=()), LIMITS)
    assert misread.found and not misread.diagnosed and "not the diagnosis" in str(misread.trouble)
    broken = try_bug(emulator, replace(bug, new="no C++"), LIMITS)
    assert not broken.found and "did not run" in str(broken.trouble)


def test_the_command_prints_the_kill_table(capsys):
    words = ["selfcheck", "--device", "emulator", "--only", "scalars", "--kernels", "2"]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "alpha is dropped" in shown.out and "PASS" in shown.out and "0 false alarms over 2 correct" in shown.out
    assert "plant bugs" in shown.err
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["passed"] and document["killed"] == len(document["bugs"]) == len(chosen("scalars"))
    assert all(bug["found_after"] >= 1 for bug in document["bugs"])


def test_a_survivor_makes_the_command_fail(capsys):
    words = ["selfcheck", "--device", "emulator", "--only", "no barrier between stages", "--kernels", "0"]
    assert main([*words, "--examples", "1"]) == 1
    assert "survived 1 situations" in capsys.readouterr().out
