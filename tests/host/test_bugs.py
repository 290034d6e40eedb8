"""The catalogue of seeded bugs and the drawn mutants: what each one edits."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from gemmgen.families import FAMILIES
from gemmgen.problem.device import ARCHS
from gemmgen.proof.bugs import BUGS, NAIVE_RR, SUBJECTS, VALUE, Bug
from gemmgen.proof.edits import EDITS
from gemmgen.proof.mutants import LAUNCH, OPERATORS, Code
from gemmgen.proof.selfcheck import chosen, draw_mutants, plant, rendered
from gemmgen.proof.tokens import exchanged, places_of
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import TEMPLATES

LIMITS = ARCHS["sm_90"].limits


def skeletons():
    """The stems of templates that render a kernel from its signature on, but those that others extend."""
    whole = (path for path in TEMPLATES.rglob("*.cu") if re.search("import signature|//% extends", path.read_text()))
    return {path.stem for path in whole} - {"tiled", "mma", "apart"}


def test_the_catalogue_reaches_every_skeleton():
    assert len(BUGS) >= 40
    assert {bug.subject.skeleton for bug in BUGS} == skeletons()
    assert len({(bug.subject, bug.name) for bug in BUGS}) == len(BUGS)


def test_every_bug_is_an_edit_of_its_kernel():
    for bug in BUGS:
        right, wrong = rendered(bug.subject, LIMITS), plant(bug, LIMITS)
        assert (right.text, right.launch) != (wrong.text, wrong.launch), bug.name


def test_the_right_edits_are_of_every_family():
    assert len(EDITS) >= 40 and len({edit.name for edit in EDITS}) == len(EDITS)
    assert {edit.subject.family.name for edit in EDITS} == set(FAMILIES)
    assert sum(not edit.judged for edit in EDITS) <= 1


def barriers(text):
    """What tells each barrier of a kernel from the others of its skeleton: its comment, or the line before it."""
    lines = [line.strip() for line in text.splitlines()]
    found = [pair for pair in pairwise(lines) if pair[1].startswith("__syncthreads();")]
    return {line.partition("//")[2] or before for before, line in found}


def test_every_barrier_is_removed_once():
    removed = {subject.skeleton: set() for subject in SUBJECTS}
    for bug in BUGS:
        if bug.breaks == "barrier":
            gone = barriers(rendered(bug.subject, LIMITS).text) - barriers(plant(bug, LIMITS).text)
            assert len(gone) == 1, bug.name
            removed[bug.subject.skeleton] |= gone
    for subject in SUBJECTS:
        assert barriers(rendered(subject, LIMITS).text) <= removed[subject.skeleton], subject


def respaced(text):
    """The same code with other white space and comments."""
    lines = [re.sub("//.*", "// a comment", line) for line in text.splitlines()]
    return "\n\n".join(line if '"' in line else re.sub(r"(?<=[;{}),]) ", " /* one */\n\t", line) for line in lines)


def test_white_space_and_comments_of_a_template_do_not_break_bugs():
    texts = {subject: respaced(rendered(subject, LIMITS).text) for subject in SUBJECTS}
    for bug in BUGS:
        if bug.launch is None:
            assert len(places_of(bug.old, texts[bug.subject])) == bug.count, bug.name
    first, second = ("acc = fmaf(a, b, acc);", "acc=fmaf( a,b,\n  acc ) ; // the sum")
    assert exchanged(first, second, "acc += a;") == ("acc += a;", 1)
    assert exchanged(second, first, "acc += a;") == ("acc += a; // the sum", 1)


@pytest.mark.parametrize("text", ["k < K", "k << s.K", "kk < s.K", "k < s.K2", "k <= s.K", '"k < s.K"', "// k < s.K"])
def test_a_token_more_or_less_is_other_code(text):
    assert places_of("k < s.K", text) == []
    assert places_of("k < s.K", f"{text}\n k<s.K;") == [(len(text) + 2, len(text) + 7)]


def test_a_stale_edit_is_an_error_not_a_survivor():
    stale = Bug("stale", "guard", NAIVE_RR, "no such text", "", (VALUE,))
    with pytest.raises(InvalidInput, match="stands 0 times, not 1"):
        plant(stale, LIMITS)
    with pytest.raises(InvalidInput, match="no bug or edit of the catalogue"):
        chosen("no such bug")


def test_factors_of_a_product_do_not_change_places():
    code = Code("  acc = fmaf(a, b, acc);\n  store(row, column, value);\n")
    edits = [edit.apply(code.text) for edit in OPERATORS["arguments"](code)]
    assert any("store(column, row, value)" in text for text in edits)
    assert not any("fmaf(b, a, acc)" in text for text in edits)


def test_mutants_are_small_edits_of_code():
    mutants = draw_mutants(80, 5, LIMITS)
    assert {mutant.operator for mutant in mutants} == {*OPERATORS, LAUNCH}
    assert len({(mutant.source.text, mutant.source.launch) for mutant in mutants}) == len(mutants)
    for mutant in mutants:
        before, after = mutant.original.text.splitlines(), mutant.source.text.splitlines()
        changed = [i for i, lines in enumerate(zip(before, after, strict=True)) if lines[0] != lines[1]]
        assert changed or mutant.source.launch != mutant.original.launch
        assert all(not before[i].startswith(("//", "static_assert", "#")) for i in changed)
    assert draw_mutants(20, 5, LIMITS) == mutants[:20]
