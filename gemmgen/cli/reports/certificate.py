"""A certificate, checked again, for people."""

from __future__ import annotations

from rich.console import Console

from gemmgen.artifacts.recheck import Difference, Recheck
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
    else:
        _show_verified(console, result)
        console.print(f"      {_conditions(result)}", soft_wrap=True)
    rendered = "the same" if certificate.rendered else "another"
    console.print(f"      this version of gemmgen renders {rendered} text for it")


def _show_changed(console: Console, result: Recheck) -> None:
    certificate = result.certificate
    console.print(bad("VOID"), " the certificate no longer stands: it is of other bytes\n")
    for file in certificate.changed:
        _show_facts(console, file=file.what, certified=file.certified, found=file.found or "no such file")
    kernel = certificate.path.parent / f"{certificate.source.name}.cu"
    console.print(bold("\nto judge the kernel as it stands"), f"gemmgen verify {kernel}", sep="\n  ", soft_wrap=True)


def _show_verified(console: Console, result: Recheck) -> None:
    assert result.verdict is not None
    failure = result.verdict.failure
    if failure is not None and failure.kind == "unjudged":
        console.print(bold("NOT JUDGED"), f" the emulator lacks what this kernel uses: {failure.reason}")
    elif failure is not None:
        console.print(bad("FAIL"), f" every file is the one certified, but the kernel is wrong: {failure.reason}")
    elif result.stands:
        console.print(good("STANDS"), " every file is the one certified, and the kernel passes again")
        show_pass(console, result.verdict)
    else:
        console.print(bad("FAIL"), " every file is the one certified, but the kernel does not do what it says")
        for one in result.differences:
            _show_facts(console, figure=one.what, certified=_short(one.certified), found=_short(one.found))


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
