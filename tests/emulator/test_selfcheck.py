"""The checker checked: every seeded bug is found with its diagnosis, and no correct kernel is rejected."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from gemmgen.cli import main
from gemmgen.families import FAMILIES
from gemmgen.problem.device import ARCHS, DEVICES
from gemmgen.proof.bugs import BUGS, NAIVE_RR, SUBJECTS, VALUE, Bug, Diagnosis
from gemmgen.proof.edits import EDITS
from gemmgen.proof.mutants import LAUNCH, Mutant
from gemmgen.proof.selfcheck import (
    BUG_EXAMPLES,
    KERNEL_EXAMPLES,
    SAME_CODE,
    BugOutcome,
    EditOutcome,
    check_kernels,
    chosen,
    correct_kernels,
    draw_mutants,
    edited,
    plant,
    rendered,
    try_bugs,
    try_edits,
    try_mutants,
    why_harmless,
)
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.target import Target
from gemmgen.verification.parallel import Lanes, VerifyJob, emulate_many
from gemmgen.verification.verifier import verify

LIMITS = ARCHS["sm_90"].limits
DRAWN = len(SUBJECTS) + 70  # kernels here: each subject, and others; the command tries more
EVERY = 100  # of them one is verified
MUTANTS = 30
# What hides in a branch that few sizes take, or in a grid of which samples run, is sought for long, as some others are.
LONG = {
    "16 bits of a tile's number",
    "a float holds the distance of C's lines",
    "a float holds the stride of A",
    "an alpha that is NaN scales nothing",
    "parts are added from this block's on",
    "sums end at 24 bits",
    "the row of many starts at an int, beside the largest magnitudes",
    "the last block keeps its own part in registers",
    "an alpha that is no number counts where K = 0",
    "zeros of the weights are skipped",
    "products of a batch by pointers counted in 16 bits",
}
QUICK = [bug for bug in BUGS if bug.breaks != "branch" and not bug.name.endswith("sampled") and bug.name not in LONG]
BRANCH = next(bug for bug in BUGS if bug.name == "the k tile 40 is not loaded")
# One bug of each skeleton, and of each twelfth way to break a kernel; the command plants all.
SKELETONS = list({bug.subject.skeleton: bug for bug in QUICK}.values())
PLANTED = list(dict.fromkeys([*SKELETONS, BRANCH, *list({bug.breaks: bug for bug in QUICK}.values())[::12]]))
SHRUNK = SKELETONS[::5]
# Right edits: what the emulator may only run in order, or not at all, and one of each family.
EDITED = {
    "blocks that add to C in their turn",
    "a load by inline PTX",
    "a promise about K to the compiler",
    "warp barriers in a block of one warp",
    "two stages told apart by a bit",
}


@pytest.fixture(scope="module")
def emulator():
    with EmulatorExecutor() as executor:
        yield executor


def on(emulator, processes=None):
    """A machine with no GPU."""
    return Lanes(Target(emulator, "sm_90", DEVICES["H200"]), emulator.store, processes=processes)


def try_bug(emulator, bug, *, examples=BUG_EXAMPLES, shrink=True):
    """Plant `bug` and verify. Without `shrink` the first situation that fails stands."""
    source = plant(bug, LIMITS)
    return BugOutcome(bug, source, verify(emulator, source, examples=examples, seed=0, shrink=shrink, bits=bug.bits))


@pytest.fixture(scope="module")
def correct():
    return list(correct_kernels(DRAWN, 10, LIMITS))


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: f"{bug.subject}: {bug.name}")
def test_a_seeded_bug_is_found(bug, emulator):
    if bug in SHRUNK or try_bug(emulator, bug, shrink=False).trouble is not None:
        assert try_bug(emulator, bug).trouble is None


def test_a_failure_is_shrunk_where_its_diagnosis_is_not_the_one_expected(emulator, monkeypatch):
    """Here the smallest situation alone shows it: one element of C."""
    asked = []

    def verdicts(lanes, jobs, on_done=None):
        asked.append([job.shrink for job in jobs])
        return [job.run(emulator) for job in jobs]

    monkeypatch.setattr(Lanes, "verdicts", verdicts)
    anywhere = Bug("the last product is left out", "value", NAIVE_RR, "k < s.K;", "k < s.K - (s.K > 9);", (VALUE,))
    smallest = replace(anywhere, diagnoses=(Diagnosis("wrong", "; 1 elements wrong"),))
    assert [outcome.trouble for outcome in try_bugs(on(emulator), [anywhere, smallest])] == [None, None]
    assert asked == [[False, False], [True]]


def test_correct_kernels_pass(emulator, correct):
    for source in correct[::EVERY]:
        verdict = verify(emulator, source, examples=KERNEL_EXAMPLES, seed=1, runs=2)
        assert verdict.passed, f"{source.name}: {verdict.situation}: {verdict.failure}"


def test_correct_kernels_are_of_every_family_and_schedule(correct):
    drawn = correct[len(SUBJECTS) :]
    assert {source.family for source in drawn} == set(FAMILIES)
    tiled = [source.config for source in drawn if source.family == "simt"]
    assert len(tiled) > len(drawn) / 3
    assert sum(config["K_UNROLL"] > 0 for config in tiled) >= 10
    assert {1, 2} <= {config["SLICES"] for config in tiled}
    streams = [config for config in tiled if config["STREAM"]]
    assert len(streams) >= 5 and len({(one["ASYNC"], one["K_UNROLL"] > 0) for one in streams}) > 1
    assert sum("min(nominal." in source.text for source in drawn) >= 5  # tiles that move back from an edge
    assert {config["SPLIT"] > 1 for config in tiled if config["SLICES"] > 1} == {True, False}
    shared = [source for source in drawn if source.launch.splits > 1]
    assert {source.family for source in shared} == {"mma", "simt", "skinny", "wgmma"}


def test_no_right_edit_of_the_catalogue_is_stale():
    for edit in EDITS:
        right, after = rendered(edit.subject, LIMITS), edited(edit, LIMITS)
        assert right.text != after.text and (edit.dynamic_shared is None) == (right.launch == after.launch), edit.name


@pytest.mark.parametrize("edit", [edit for edit in EDITS if edit.name in EDITED], ids=lambda edit: edit.name)
def test_a_right_edit_passes(edit):
    with EmulatorExecutor(timeout=0.3) as emulator:
        source = edited(edit, LIMITS)
        assert EditOutcome(edit, source, verify(emulator, source, examples=5, seed=1, runs=2)).trouble is None


@pytest.mark.soak
def test_right_edits_pass(emulator):
    outcomes = try_edits(on(emulator), EDITS)
    assert [f"{one.edit.name}: {one.trouble}" for one in outcomes if one.trouble is not None] == []
    assert sum(not one.judged for one in outcomes) <= 1


def test_a_refused_edit_is_a_false_alarm(emulator, capsys):
    (edit,) = chosen("K from its end")[1]
    source = edited(replace(edit, changes=(("k < s.K;", "k < s.K - 1;"),)), LIMITS)
    outcome = EditOutcome(edit, source, verify(emulator, source, examples=10))
    assert outcome.judged and "wrong" in str(outcome.trouble)
    lacking = replace(edit, judged=False)
    right = rendered(edit.subject, LIMITS)
    assert "out of date" in str(EditOutcome(lacking, right, verify(emulator, right, examples=2)).trouble)


@pytest.mark.soak
def test_no_mutant_survives():
    """Those that compile, are no duplicates of the original and still pass: explained one by one, or a hole."""
    with EmulatorExecutor(timeout=10) as emulator:
        outcomes = try_mutants(on(emulator), draw_mutants(MUTANTS, 5, LIMITS))
    assert sum(outcome.killed for outcome in outcomes) > MUTANTS / 2
    assert [str(outcome.mutant) for outcome in outcomes if outcome.survived] == []


def test_kernels_are_verified_side_by_side(emulator):
    """As one after another: what is wrong, what is right, and what does not compile."""
    right = rendered(NAIVE_RR, LIMITS)
    wrong = replace(right, text=right.text.replace("k < s.K;", "k < s.K - 1;"))
    broken = replace(right, text=right.text.replace("float acc", "flaot acc"))
    done = []
    jobs = [VerifyJob(source, examples=10) for source in (wrong, right, broken)]
    verdicts = emulate_many(emulator, jobs, lambda job, verdict: done.append(job), processes=1)
    assert done == jobs, "one process takes one after the other"
    assert [verdict.failure and verdict.failure.kind for verdict in verdicts] == ["wrong", None, "compile"]
    ((alarm, verdict),) = check_kernels(on(emulator, processes=1), [right, wrong])
    assert alarm == wrong and verdict.failure is not None and verdict.failure.kind == "wrong"


def test_equal_machine_code_is_proof(store):
    right = rendered(NAIVE_RR, LIMITS)
    same = replace(right, text=right.text.replace("k < s.K;", "s.K > k;"))
    other = replace(right, text=right.text.replace("k < s.K;", "k <= s.K;"))
    reasons = [why_harmless(Mutant("relation", 1, "", "", right, source), store) for source in (same, other)]
    assert reasons == [SAME_CODE, None]
    moved = right.promising(launch=replace(right.launch, threads=512))
    assert why_harmless(Mutant(LAUNCH, 0, "", "", right, moved), store) is None


def test_a_mutant_that_nobody_compiles_is_told_from_one_that_is_not_judged(emulator):
    """And one with what the emulator lacks is no mistake where its machine code is the original's."""
    right = rendered(NAIVE_RR, LIMITS)
    changed = (
        ("fmaf(a, b, acc)", "fmaf(a, b, no_such)"),
        ("fmaf(a, b, acc)", "fmaf(a, b, acc + __fns(1, 0, 2))"),
        ("float acc = 0.0f;", 'float acc = 0.0f; asm volatile("{ .reg .b32 unused; fns.b32 unused, 1, 0, 2; }");'),
    )
    mutants = [
        Mutant("fma", 67, old, new, right, replace(right, text=right.text.replace(old, new))) for old, new in changed
    ]
    outcomes = try_mutants(on(emulator, processes=1), mutants, examples=5)
    assert [(one.counts, one.judged, one.survived) for one in outcomes] == [
        (False, False, False),
        (True, False, False),
        (True, True, False),
    ]
    assert outcomes[2].harmless == SAME_CODE and not outcomes[2].verdict.passed


def test_what_is_no_bug_survives(emulator):
    harmless = Bug("harmless", "none", NAIVE_RR, "acc = fmaf(a, b, acc);", "acc = fmaf(b, a, acc);", (VALUE,))
    outcome = try_bug(emulator, harmless, examples=20)
    assert not outcome.found and outcome.trouble == "survived 20 situations on the emulator"


def test_a_wrong_diagnosis_and_a_kernel_that_does_not_compile_are_trouble(emulator):
    bug = next(bug for bug in BUGS if bug.name == "beta is taken as 1")
    misread = try_bug(emulator, replace(bug, diagnoses=()))
    assert misread.found and not misread.diagnosed and "not the diagnosis" in str(misread.trouble)
    broken = try_bug(emulator, replace(bug, new="no C++"))
    assert not broken.found and "did not run" in str(broken.trouble)


def test_the_command_prints_the_kill_table(capsys):
    only = "beta is taken as 1"
    words = ["selfcheck", "--device", "emulator", "--only", only, "--kernels", "1", "--mutants", "1"]
    words += ["--examples", "8", "--processes", "1"]
    count = len(chosen(only)[0])
    code = main(words)
    shown = capsys.readouterr()
    assert only in shown.out and "0 false alarms over 1 correct" in shown.out
    assert ("PASS" in shown.out) == (code == 0) and re.search(r"\b[01] mutants?\b", shown.out)
    assert re.findall(r"^plant bugs: \d+$", shown.err, re.M) == [f"plant bugs: {count}"], "once"


def test_the_command_tries_mutants(capsys):
    words = ["selfcheck", "--device", "emulator", "--only", "an old NaN counts", "--kernels", "0", "--mutants", "2"]
    words += ["--examples", "8", "--processes", "1"]
    code = main([*words, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert len(document["mutants"]) == 2 and code == (0 if document["passed"] else 1)
    assert document["killed"] == len(document["bugs"]) == len(chosen("an old NaN counts")[0])
    assert all(bug["found_after"] >= 1 for bug in document["bugs"])


def test_a_survivor_makes_the_command_fail(capsys):
    words = ["selfcheck", "--device", "emulator", "--only", "denormal numbers of B"]
    assert main([*words, "--examples", "1", "--processes", "1"]) == 1
    shown = capsys.readouterr().out
    assert re.search(r"^missed  #1 denormal numbers of B .*: survived 1 situations on the emulator$", shown, re.M)
