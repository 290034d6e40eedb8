"""A certificate, checked again, for people."""

from __future__ import annotations

from rich.console import Console

from gemmgen.cli.reports.verify import show_hidden, show_pass, show_promised, show_unconfined, unjudged_words
from gemmgen.cli.reports.words import bad, bold, facts, fault, good
from gemmgen.exports.other_compilers import Edit
from gemmgen.exports.recheck import Difference, Recheck
from gemmgen.support.errors import Failure
from gemmgen.verification.verifier import Verdict


def show_recheck(console: Console, result: Recheck) -> None:
    """STANDS, NOT JUDGED (of all lines), VOID (a file changed), EDITED (not as rendered) or FAIL, and why."""
    certificate = result.certificate
    console.print(f"{certificate.path}", soft_wrap=True)
    if certificate.changed:
        _show_changed(console, result)
        return  # what is rendered for the certified config says nothing of other bytes
    if certificate.verification is None:
        console.print(bad("FAIL"), " the files are those of the certificate, which shows nothing:")
        console.print("      the kernel was exported with --examples 0. `gemmgen export` again verifies it")
    elif not certificate.runs:
        _show_doubts(console, result)
    else:
        show_hidden(console, result.unseen)
        _show_verified(console, result)
        console.print(f"      {_conditions(result)}", soft_wrap=True)
        show_unconfined(console, (result.executor or {}).get("unconfined", ()))
        _show_own(console, result)
        show_promised(console, certificate.only_promised)
    _show_kernel_text(console, result)


def _show_changed(console: Console, result: Recheck) -> None:
    certificate = result.certificate
    console.print(bad("VOID"), " the certificate no longer stands: it is of other bytes\n")
    for file in certificate.changed:
        _show_facts(console, file=file.what, certified=file.certified, found=file.found or "no such file")
    _show_verify(console, result)


def _show_doubts(console: Console, result: Recheck) -> None:
    certificate = result.certificate
    if certificate.unmet:
        console.print(bad("FAIL"), " the certificate's own words certify no right kernel: nothing was run\n")
    for claim in certificate.unmet:
        _show_facts(console, claim=claim.claim, certified=_short(claim.certified), required=_short(claim.required))
    if certificate.edits:
        console.print(bad("EDITED"), " the files are those certified, but not what gemmgen renders: nothing was run\n")
    for edit in certificate.edits:
        _show_edit(console, edit)
    if certificate.edits:
        console.print("\nby hand, or by another version of gemmgen: `gemmgen export` writes them again", soft_wrap=True)
    _show_verify(console, result)


def _show_edit(console: Console, edit: Edit) -> None:
    stands, rendered = ("(no such line)" if text is None else text.strip() for text in (edit.stands, edit.rendered))
    _show_facts(console, file=f"{edit.file}:{edit.line}", stands=_short(stands), rendered=_short(rendered))


def _show_verify(console: Console, result: Recheck) -> None:
    certificate = result.certificate
    kernel = certificate.path.parent / f"{certificate.source.name}.cu"
    console.print(bold("\nto judge the kernel as it stands"), f"gemmgen verify {kernel}", sep="\n  ", soft_wrap=True)


def _show_kernel_text(console: Console, result: Recheck) -> None:
    """Whether the text that was judged is gemmgen's: a kernel edited by hand may stand, but not unseen."""
    edit = result.certificate.kernel_edit
    if edit is None:
        console.print("      this version of gemmgen renders the same text for it")
        return
    console.print(bold("EDITED"), " this version of gemmgen renders another text for it", end="")
    if edit.line:
        console.print(", from here on:")
        _show_edit(console, edit)
    else:
        console.print(", or launches it otherwise")


def _show_verified(console: Console, result: Recheck) -> None:
    assert result.verdict is not None
    wrong = result.wrong
    if wrong is not None and wrong.failure is not None:
        _show_wrong(console, result, wrong, wrong.failure)
    elif result.stands:
        console.print(good("STANDS"), " every file is the one certified, and the kernel passes again")
        show_pass(console, result.verdict)
    elif result.passes:
        console.print(
            "      every file is the one certified, and what was judged of the kernel passes again: that is no"
        )
        console.print("      certificate of the lines above")
        show_pass(console, result.verdict)
    else:
        console.print(bad("FAIL"), " every file is the one certified, but the kernel does not do what it says")
        for one in result.differences:
            _show_facts(console, figure=one.what, certified=_short(one.certified), found=_short(one.found))


def _show_wrong(console: Console, result: Recheck, wrong: Verdict, failure: Failure) -> None:
    if failure.kind == "unjudged":
        console.print(bold("NOT JUDGED"), f" {unjudged_words(failure)}: {failure.reason}")
        return
    console.print(
        bad("FAIL"), f" every file is the one certified, but the kernel {fault(failure.kind)}: {failure.reason}"
    )
    if wrong.situation is not None:
        by = "the certificate" if wrong is result.verdict else "the check"
        console.print(f"      in {wrong.situation}, drawn by seed {wrong.seed} of {by}", soft_wrap=True)


def _show_own(console: Console, result: Recheck) -> None:
    if result.own is not None and result.own.passed:
        show_pass(console, result.own)
        console.print("      by a seed of this check's own, which the certificate does not know")


def _show_facts(console: Console, **values: str) -> None:
    made = facts()
    for name, value in values.items():
        made.add_row(name, value)
    console.print(made)


def _conditions(result: Recheck) -> str:
    """Whether the figures had to be the same, and which are not."""
    if result.same:
        return "same executor, compiler, machine and gemmgen as certified: every figure has to be the same"
    certified, here = result.certificate.executor, result.executor or {}
    figures = "; ".join(map(_figure, result.differences)) or "the figures are the same all the same"
    return (
        f"other conditions than certified ({certified['name']}: {certified['description']}; "
        f"here {here.get('name')}: {here.get('description')}, or another gemmgen or machine): {figures}"
    )


def _figure(one: Difference) -> str:
    if isinstance(one.found, int | float) and isinstance(one.certified, int | float):
        return f"{one.what} {one.found:g}, certified {one.certified:g}"
    return f"{one.what} differ"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 400 else text[:400] + " ..."
