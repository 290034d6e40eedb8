"""Prints a verdict: how much was tried, or how to reproduce the failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from gemmgen.cli.reports.words import bad, bold, facts, good
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.exports.writing import text_path
from gemmgen.kernel.conditionals import OTHERWISE, Conditional
from gemmgen.run.coverage import Coverage
from gemmgen.run.emulator.ptx import GivenPtx
from gemmgen.support.errors import MEMORY, Failure
from gemmgen.support.words import figure, plural
from gemmgen.verification.bit_replay import Replayed
from gemmgen.verification.checks import OWN_TILES, SAMPLE_TILES
from gemmgen.verification.domain import Domain
from gemmgen.verification.sanitizers.tool import SanitizerResult
from gemmgen.verification.verifier import Verdict
from gemmgen.verification.with_nvrtc import CudaCheck

FINDINGS = 5  # findings per tool that are shown; --json has all
NEVER_RAN = 3  # likewise for lines and branches that never ran


def show_verdict(
    console: Console,
    kernel: KernelFile,
    verdict: Verdict,
    again: str,
    cuda: CudaCheck | None = None,
    hidden: Sequence[Conditional] = (),
    in_part: bool = False,
) -> None:
    """Print PASS, FAIL or NOT JUDGED with the reasons.

    hidden   lines that are not judged, because compilers may read them differently
    in_part  an edited text passed, but some of it never ran
    """
    origin = "rendered from its name" if kernel.path is None else f"{text_path(kernel.path)}"
    edited = ", edited by hand since its JSON was written" if kernel.edited else ""
    console.print(f"{origin}{edited}", soft_wrap=True)
    show_hidden(console, hidden)
    if verdict.failure is None:
        show_pass(console, verdict, in_part)
    elif verdict.failure.kind == "unjudged":
        _show_unjudged(console, verdict.failure)
    else:
        _show_failure(console, kernel, verdict, again)
    show_promised(console, kernel.only_promised)
    if cuda is not None and cuda.failure is None:
        _show_cuda(console, cuda)
    for result in verdict.sanitizers:
        _show_sanitizer(console, result)


def show_ptx(console: Console, given: GivenPtx | None) -> None:
    """Print whose PTX was judged instead of NVRTC's."""
    if given is not None:
        words = f"{given.file}, for {given.arch} by {given.compiler}; registers and shared memory were not checked"
        console.print(f"      judged: {words}", soft_wrap=True, markup=False)


def show_promised(console: Console, promised: Sequence[str]) -> None:
    """Print the promises that come only from the kernel's JSON, not from its header or name."""
    if promised:
        console.print(
            f"      judged under {', '.join(promised)}, which only its JSON promises", soft_wrap=True, markup=False
        )


def show_hidden(console: Console, hidden: Sequence[Conditional]) -> None:
    """Print the lines that the verdict does not cover, if any."""
    if hidden:
        lines = ", ".join(map(str, hidden))
        console.print(bold("NOT JUDGED"), f"{lines}: {OTHERWISE}", sep="  ")


def show_pass(console: Console, verdict: Verdict, in_part: bool = False) -> None:
    """Print what was tried, and the largest error."""
    console.print(
        bold("PASSED IN PART") if in_part else good("PASS"), f"{_tried(verdict)}, seed {verdict.seed}", sep="  "
    )
    console.print(
        f"      integers exact; random data off by at most {figure(verdict.worst)} of the error bound of its element"
    )
    determinism = verdict.determinism
    if determinism is not None:
        part = "" if determinism.blocks == determinism.grid else f", of {determinism.blocks} of its blocks"
        console.print(f"      the same bits in {determinism.runs} runs of one launch{part}")
    if verdict.replayed is not None:
        console.print(f"      {_replay_words(verdict.replayed)}", soft_wrap=True, markup=False)
    for words in verdict.assumes:
        console.print(f"      judged under an assumption: {words}", soft_wrap=True, markup=False)
    if verdict.domain is not None:
        for words in _reach_words(verdict.domain):
            console.print(f"      {words}", soft_wrap=True, markup=False)
    if verdict.executor == "emulator":
        console.print(f"      {coverage_words(verdict.coverage)}", soft_wrap=True, markup=False)


def _replay_words(replayed: Replayed) -> str:
    """How many elements are as planned, and the first that is not."""
    others = "" if replayed.first is None else f": {replayed.first}; --bits makes that a failure"
    return f"as planned: {replayed.equal:,} of {replayed.elements:,} elements, by {replayed.order}{others}"


def _reach_words(domain: Domain) -> Iterator[str]:
    """Lines about the special runs: every block of a large grid, ring mode, and offsets beyond 32 bits."""
    if domain.grid is not None:
        yield domain.grid
    if domain.no_grid is not None:
        yield f"not judged: every block of the grid ({domain.no_grid})"
    if domain.ring is not None:
        yield domain.ring
    if domain.no_ring is not None:
        yield f"not judged in the ring of integers: {domain.no_ring}"
    if not domain.numbered:
        yield "not judged: whether each tile of a sampled grid is computed (the kernel numbers its tiles itself)"
    if domain.extent:
        reached = ", ".join(f"{offset:.2g} in {name}" for name, offset in domain.extent.items())
        yield f"offsets up to {reached}: rows and matrices gigabytes apart"
    if domain.no_extent is not None:
        yield f"not judged: offsets beyond 2^31 ({domain.no_extent})"


def coverage_words(coverage: Coverage | None) -> str:
    """How many of the kernel's branch outcomes ran, and the first that did not."""
    if coverage is None:
        return "not counted: which lines and branches ran (the PTX has no branches, or no lines: use nvcc -lineinfo)"
    if coverage.complete:
        all_ran = f"all {coverage.branches:,} branches taken" if coverage.branches else "no branches; every line ran"
        return "; ".join([all_ran, *map(str, coverage.unreachable)])
    never = list(coverage.never())
    more = f"; {len(never) - NEVER_RAN} more (--json)" if len(never) > NEVER_RAN else ""
    return f"{coverage.taken} of {coverage.branches} branches taken; never ran: {'; '.join(never[:NEVER_RAN])}{more}"


def _show_unjudged(console: Console, failure: Failure) -> None:
    console.print(bold("NOT JUDGED"), f"{unjudged_words(failure)}; it may be right\n", sep="  ")
    made = facts()
    made.add_row("reason", failure.reason)
    if failure.source == "emulator":
        made.add_row("elsewhere", "`gemmgen verify --device gpu` runs it on a GPU")
    console.print(made)


def unjudged_words(failure: Failure) -> str:
    """Why a kernel cannot be judged; the failure's reason has the details."""
    words = {
        "emulator": "the emulator lacks what this kernel uses",
        MEMORY: "this machine lacks memory for a launch",
        OWN_TILES: "the kernel numbers its tiles itself, and a few of its blocks do the work of all",
    }
    return words.get(failure.source, "its text was not compiled")


def _show_cuda(console: Console, cuda: CudaCheck) -> None:
    if cuda.compiler is None:
        console.print(f"      not checked: whether the CUDA compiler accepts the text for {cuda.arch}: {cuda.missing}")
        return
    console.print(
        f"      {cuda.compiler} compiles it for {cuda.arch}: {cuda.registers} registers a thread, {cuda.shared_bytes} "
        "bytes of shared memory a block, as its launch may have"
    )


def show_unconfined(console: Console, unconfined: Sequence[str]) -> None:
    """Print the guards that this system lacks; the text may be a stranger's."""
    if unconfined:
        console.print(f"      not confined: {'; '.join(unconfined)}", soft_wrap=True)


def _show_failure(console: Console, kernel: KernelFile, verdict: Verdict, again: str) -> None:
    assert verdict.failure is not None
    tried, made = f"{verdict.failure.kind}, after {_tried(verdict)}\n", facts()
    if kernel.launch_is_wrong:
        console.print(bad("FAIL"), f"its JSON, whose launch is not that of the text: {tried}", sep="  ")
        made.add_row("launch", f"{', '.join(kernel.only_promised)}: `gemmgen generate` writes the JSON anew")
    else:
        console.print(bad("FAIL"), tried, sep="  ")
    if verdict.situation is not None:
        made.add_row("smallest case", str(verdict.situation))
        if verdict.depends:
            made.add_row("", "it passes alone; it fails only after earlier launches")
    if verdict.mismatch is not None:
        wrong = verdict.mismatch
        made.add_row("first wrong", f"{wrong.place} of {plural(wrong.count, 'wrong element')}")
        made.add_row("computed", f"{wrong.got:.9g}, expected {wrong.expected:.9g}")
        made.add_row("error", f"{wrong.error:.3g}, its bound {wrong.bound:.3g}")
        besides = verdict.failure.reason.removeprefix(str(wrong)).removeprefix("; ")  # for a tail: the large launch
        if besides:
            made.add_row("", besides)
    else:
        made.add_row("reason", verdict.failure.reason)
    console.print(made)
    console.print(bold("\nreproduce"), again, sep="\n  ", soft_wrap=True)


def _show_sanitizer(console: Console, result: SanitizerResult) -> None:
    """Print one line per tool, and one for each of its first findings."""
    part = ", their first blocks" if result.sampled else ""
    end = ", then the time was up" if result.stopped else ""
    watched = f"{plural(result.situations, 'situation')}{part}{end}, compute-sanitizer {result.version}"
    if result.failure is None:
        console.print(good("PASS"), f"{result.tool}: {watched}", sep="  ", soft_wrap=True)
        return
    console.print(bad("FAIL"), f"{result.tool}: {watched}", sep="  ", soft_wrap=True)
    shown = [f"{finding}; {plural(finding.count, 'report')}" for finding in result.findings[:FINDINGS]]
    for line in shown or [f"{result.failure.kind}: {result.failure.reason}"]:
        console.print(f"      {line}", soft_wrap=True)
    if len(result.findings) > FINDINGS:
        console.print(f"      and {len(result.findings) - FINDINGS} more")


def _tried(verdict: Verdict) -> str:
    some = "each" if verdict.sampled == verdict.examples else f"{verdict.sampled} of them"
    part = f" ({some} on {SAMPLE_TILES} random tiles of the grid)" if verdict.sampled else ""
    return f"{plural(verdict.examples, 'situation')}{part} on the {verdict.executor}"
