"""A certificate, checked again, for people."""

from __future__ import annotations

from rich.console import Console

from gemmgen.artifacts.recheck import Claim, Recheck
from gemmgen.cli.reports.verify import show_pass
from gemmgen.cli.reports.words import bad, bold, facts, good


def show_recheck(console: Console, result: Recheck) -> None:
    """STANDS, VOID (a file changed) or FAIL (it does not do what the certificate says), and why."""
    certificate = result.certificate
    console.print(f"{certificate.path}", soft_wrap=True)
    if certificate.changed:
        _show_changed(console, result)
        return  # what is rendered for the certified config says nothing of other bytes
    if result.verdict is None:
        console.print(bad("FAIL"), " the files are those of the certificate, which shows nothing:")
        console.print("      the kernel was exported with --examples 0. `gemmgen export` again verifies it")
    elif result.stands:
        _show_standing(console, result)
    else:
        _show_broken(console, result)
    console.print(f"      this version of gemmgen renders {'the same' if result.rendered else 'another'} text for it")


def _show_changed(console: Console, result: Recheck) -> None:
    console.print(bad("VOID"), " the certificate no longer stands: it is of other bytes\n")
    for file in result.certificate.changed:
        made = facts()
        made.add_row("file", file.file)
        made.add_row("certified", file.certified)
        made.add_row("found", file.found or "no such file")
        console.print(made)
    kernel = result.certificate.path.parent / str(result.certificate.record["kernel_file"])
    console.print(bold("\nto judge the kernel as it stands"), f"gemmgen verify {kernel}", sep="\n  ", soft_wrap=True)


def _show_standing(console: Console, result: Recheck) -> None:
    assert result.verdict is not None
    console.print(good("STANDS"), " every file is the one certified, and the kernel passes again")
    show_pass(console, result.verdict)
    console.print(f"      {_conditions(result)}", soft_wrap=True)


def _show_broken(console: Console, result: Recheck) -> None:
    console.print(bad("FAIL"), " every file is the one certified, but the kernel does not do what it says")
    for claim in result.claims:
        if not claim.holds:
            made = facts()
            made.add_row("claim", claim.what)
            made.add_row("certified", _short(claim.certified))
            made.add_row("found", _short(claim.found))
            console.print(made)
    if result.verdict is not None and result.verdict.failure is not None:
        console.print(f"      {result.verdict.failure.reason}")
    console.print(f"      {_conditions(result)}", soft_wrap=True)


def _conditions(result: Recheck) -> str:
    """Whether the figures had to be the same, and which are not."""
    if result.same:
        return "same executor, compiler, machine and gemmgen as certified: every figure has to be the same"
    certified, here = result.certificate.executor, result.executor or {}
    others = [claim for claim in result.claims if not claim.binding and claim.found != claim.certified]
    figures = "; ".join(_figures(claim) for claim in others) or "the figures are the same all the same"
    return (
        f"other conditions than certified ({certified['name']}: {certified['description']}; "
        f"here {here.get('name')}: {here.get('description')}, or another gemmgen or machine): {figures}"
    )


def _figures(claim: Claim) -> str:
    if isinstance(claim.found, int | float) and isinstance(claim.certified, int | float):
        return f"{claim.what} {claim.found:g}, certified {claim.certified:g}"
    return f"{claim.what} differ"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 400 else text[:400] + " ..."
