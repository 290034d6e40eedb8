"""`gemmgen verify`: is a kernel right, edits by hand included?"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click
from click.core import ParameterSource
from rich.console import Console

from gemmgen.cli.options import (
    Sectioned,
    device_option,
    json_option,
    out_option,
    seed_option,
)
from gemmgen.cli.output import DONE, FAILED, IN_PART, NOT_JUDGED, emit, judging
from gemmgen.cli.progress import counter
from gemmgen.cli.reports.certificate import show_recheck
from gemmgen.cli.reports.invariance import show_invariance
from gemmgen.cli.reports.verify import coverage_words, show_ptx, show_unconfined, show_verdict
from gemmgen.exports.certificate import examples_to_certify
from gemmgen.exports.json_records import cuda_document, kernel_document, verdict_document
from gemmgen.exports.kernelfile import KernelFile, find_kernel
from gemmgen.exports.library.invariance import calls_of_library
from gemmgen.exports.other_compilers import hidden_lines
from gemmgen.exports.recheck import Recheck, open_certified, read_certificate, recheck, recheck_document
from gemmgen.exports.writing import DEFAULT_OUT
from gemmgen.kernel.conditionals import Conditional
from gemmgen.kernel.source import KernelSource
from gemmgen.render.rerender import is_rendered
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.emulator.ptx import GivenPtx, read_ptx
from gemmgen.run.target import DeviceChoice, Target, open_target
from gemmgen.support.errors import Failure, require
from gemmgen.support.files import Store
from gemmgen.verification.checks import REPLAY
from gemmgen.verification.host_memory import require_memory
from gemmgen.verification.invariance import check_invariance
from gemmgen.verification.sanitizers.tool import TOOLS, Tool
from gemmgen.verification.verifier import DEFAULT_EXAMPLES, Verdict
from gemmgen.verification.verifier import verify as property_test
from gemmgen.verification.with_nvrtc import CudaCheck, check_cuda
from gemmgen.verification.with_sanitizers import require_sanitizer
from gemmgen.verification.with_sanitizers import sanitize as add_sanitizers

# Parameters that have no meaning with --certificate.
FOR_A_KERNEL = ("kernel", "sanitize", "tool", "require_coverage", "bits", "ptx", "out")


@click.command(cls=Sectioned)
@click.argument("kernel", metavar="NAME|FILE", required=False)
@click.option(
    "--certificate",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Check an exported kernel's certificate again, from scratch, instead.",
)
@click.option(
    "--invariant",
    is_flag=True,
    help="Check instead that the bits of a row depend neither on M nor on other rows, in the library in this folder.",
)
@device_option
@click.option(
    "--examples", type=click.IntRange(1), default=DEFAULT_EXAMPLES, show_default=True, help="Situations to try."
)
@seed_option
@click.option(
    "--sanitize",
    is_flag=True,
    help="Then run it under NVIDIA's compute-sanitizer too: memcheck, racecheck, initcheck and synccheck.",
)
@click.option("--tool", type=click.Choice(TOOLS), multiple=True, help="Only this one of them; may be repeated.")
@click.option(
    "--require-coverage", is_flag=True, help="Fail a kernel of which a line or a branch outcome never ran (emulator)."
)
@click.option(
    "--bits",
    is_flag=True,
    help="Fail a kernel whose sums are not those of its plan, though its text was edited and may sum in another order.",
)
@click.option(
    "--ptx",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Judge this output of your own nvcc -ptx instead of NVRTC's PTX (emulator).",
)
@out_option("Folder in which a NAME is looked up first.")
@json_option
@click.pass_context
@judging()
def command(
    ctx: click.Context,
    kernel: str | None,
    certificate: Path | None,
    invariant: bool,
    device: DeviceChoice,
    examples: int,
    seed: int,
    sanitize: bool,
    tool: tuple[Tool, ...],
    require_coverage: bool,
    bits: bool,
    ptx: Path | None,
    out: Path,
    as_json: bool,
) -> None:
    """Property-test a kernel as its .cu stands, edits by hand included.

    Each example draws sizes and leading dimensions (those that are run-time parameters), alpha, beta, and data:
    small integers, whose result must be exact, random numbers, whose result must stay within an error bound for every
    element, and in some examples NaN, infinities, huge, denormal or one-hot values. Padding, memory around the
    operands, and C where beta = 0, hold NaN that no kernel may read or write.

    A failure is shrunk to the smallest case that still fails, and printed with its first wrong element.

    The kernel is a .cu file, or the name (or its beginning) of one in --out, in this folder or in generated/. How to
    launch it is read from the JSON beside it, or from its header. A JSON of another problem than its header or name
    says is refused; what it alone promises, the verdict says.

    The emulator executes the PTX that NVRTC makes of the text, for the architecture of the kernel's JSON. A text that
    NVRTC refuses fails, and so does one whose parameters are not those of its launch, or that needs more registers or
    shared memory, or takes fewer threads, than it may. A kernel that uses what the emulator lacks is not judged, nor
    are lines that another compiler may read differently (#if on what the text does not define, __FILE__).

    With --ptx FILE the emulator executes that PTX, which you make by nvcc -ptx -lineinfo of the .cu for the kernel's
    architecture. The verdict is then about that compiler; registers and shared memory are not checked.

    The emulator counts which lines and branch outcomes of the text ran, and PASS names those that never did. An edited
    text has then only PASSED IN PART; with --require-coverage any kernel fails. Outcomes that the compiler finds
    impossible do not count, nor those that the plan of a kernel as gemmgen renders it rules out (PASS says why).

    Exit codes: 0 PASS, 1 FAIL, 2 wrong usage, 3 not judged: the kernel cannot be judged, or this machine lacks a C++
    compiler, memory or the GPU for it; 4 passed in part.

    --sanitize needs a GPU. The kernel runs in a few small situations under each tool, for a few seconds; of larger
    launches only the first blocks run. A finding fails the kernel and names the line of the .cu.

    With --certificate the files beside the certificate must be those that it names, byte for byte, and all but the
    kernel's own text must be what gemmgen renders. The tests that it reports are repeated, with its seed and number of
    examples, and must come out the same. Then the kernel must pass in --examples situations of another seed: 100 (of
    large problems 20) and a random one, unless they are given.

    With --invariant FILE is the folder of a library. Equal rows of A run at M = 1, 2, 7, 63 to 65, 129, 271, 1000 and
    4096, in random places, by the kernels that the library's rules choose. All must give the same bits, which for
    tensor cores are those that the kernels' class of summation predicts. A difference is named by row and M.
    """
    if invariant:
        require(
            kernel is not None and Path(kernel).is_dir(), f"--invariant takes the folder of a library, not {kernel}"
        )
        ctx.exit(_check_invariance(Path(kernel or ""), device, seed, as_json))
    if certificate is not None:
        ctx.exit(_certificate_code(ctx, certificate, device, as_json))
    if kernel is None:
        raise click.UsageError("name a kernel, or its --certificate", ctx)
    chosen = (tool or TOOLS) if sanitize or tool else ()
    if chosen:
        require(device != "emulator", "--sanitize watches kernels on a GPU, not in the emulator")
        require_sanitizer()
    target = _target(device, ptx)
    counts = target.gpu is None
    require(counts or not require_coverage, "--require-coverage: a GPU counts no branches; --device emulator does")
    with target.executor:
        found = find_kernel(kernel, out, target.spec)
        own_ptx, cuda, hidden = _compiled(target, found, ptx)
        verdict = _verified(target, found.source, examples, seed, chosen, cuda, bits)
        unconfined = target.executor.unconfined
    if require_coverage:
        verdict = covered(verdict)
    in_part = passed_in_part(found.alone.source, verdict)
    again = reproduction(found, verdict, examples, out, ptx)
    document = {
        **kernel_document(found.source),
        "only_promised": list(found.only_promised),
        "launch_is_wrong": found.launch_is_wrong,
        "verification": verdict_document(verdict),
        "in_part": in_part,
        "unconfined": [*unconfined],
        "reproduce": again,
        "cuda_compiler": cuda_document(cuda),
        "ptx": own_ptx and {"file": str(own_ptx.file), "compiler": own_ptx.compiler, "arch": own_ptx.arch},
        "not_judged": [[one.first, one.last] for one in hidden],
    }

    def show(console: Console) -> None:
        show_verdict(console, found, verdict, again, cuda, hidden, in_part)
        show_ptx(console, own_ptx)
        show_unconfined(console, unconfined)

    emit(as_json, lambda: document, show)
    ctx.exit(exit_code(verdict, hidden, in_part))


def _certificate_code(ctx: click.Context, certificate: Path, device: DeviceChoice, as_json: bool) -> int:
    """The exit code of `gemmgen verify --certificate FILE`."""
    given = {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    extra = [name for name in FOR_A_KERNEL if name in given]
    require(not extra, f"--certificate says what is run: leave out {', '.join(extra)}")
    own = {name: ctx.params[name] for name in ("examples", "seed") if name in given}
    result = _check_certificate(certificate, device, as_json, **own)
    if not result.passes:
        return FAILED if result.wrong is None else exit_code(result.wrong)
    return DONE if result.stands else NOT_JUDGED


def _check_invariance(folder: Path, device: DeviceChoice, seed: int, as_json: bool) -> int:
    """The exit code of `gemmgen verify FOLDER --invariant`."""
    target = open_target(device, "auto", Store())
    with target.executor:
        products = calls_of_library(folder, target.arch)
        total = sum(len(calls) for some in products.values() for calls in some)
        with counter("calls", total) as on_call:
            found = {
                name: [check_invariance(target.executor, calls, seed=seed, on_call=on_call) for calls in some]
                for name, some in products.items()
            }
    documents = {name: [asdict(one) for one in some] for name, some in found.items()}
    emit(as_json, lambda: {"invariance": documents}, lambda console: show_invariance(console, found))
    return DONE if all(one.passed for some in found.values() for one in some) else FAILED


def _target(device: DeviceChoice, ptx: Path | None) -> Target:
    if ptx is None:
        return open_target(device, "auto", Store())
    require(device in ("auto", "emulator"), f"--ptx runs in the emulator, not on --device {device}")
    return open_target("emulator", "auto", Store())


def _compiled(
    target: Target, found: KernelFile, ptx: Path | None
) -> tuple[GivenPtx | None, CudaCheck | None, Sequence[Conditional]]:
    """(the user's PTX, which `target` now executes; the check of the launch; the lines that are not judged)."""
    if ptx is None:
        cuda = check_cuda(found.source, found.arch, target.executor.store) if target.gpu is None else None
        return None, cuda, hidden_lines(found)
    assert isinstance(target.executor, EmulatorExecutor)
    own_ptx = read_ptx(ptx, found.source)
    target.executor.use_ptx(own_ptx)
    return own_ptx, None, ()


def passed_in_part(source: KernelSource, verdict: Verdict) -> bool:
    """Whether an edited text passed although some of it never ran, as far as that was counted."""
    never_ran = verdict.passed and verdict.coverage is not None and not verdict.coverage.complete
    return never_ran and not is_rendered(source)


def exit_code(verdict: Verdict, hidden: Sequence[Conditional] = (), in_part: bool = False) -> int:
    """The exit code for `verdict`, which does not cover the `hidden` lines."""
    if verdict.failure is None:
        return NOT_JUDGED if hidden else IN_PART if in_part else DONE
    return NOT_JUDGED if verdict.failure.kind == "unjudged" else FAILED


def covered(verdict: Verdict) -> Verdict:
    """`verdict`, or a failure if some of the kernel's text never ran."""
    if not verdict.passed or (verdict.coverage is not None and verdict.coverage.complete):
        return verdict
    return replace(verdict, failure=Failure("uncovered", coverage_words(verdict.coverage), "verifier"))


def _verified(
    target: Target,
    source: KernelSource,
    examples: int,
    seed: int,
    tools: Sequence[Tool],
    cuda: CudaCheck | None,
    bits: bool,
) -> Verdict:
    require_memory(source.problem)
    if cuda is not None and cuda.failure is not None:
        return cuda.verdict(target.executor.name, seed)
    with counter("verify", examples) as on_example:
        verdict = property_test(target.executor, source, examples=examples, seed=seed, bits=bits, on_example=on_example)
    if not tools or target.gpu is None:
        return verdict
    with counter("sanitize", len(tools)) as on_tool:
        return add_sanitizers(target.gpu, source, verdict, tools, on_tool=on_tool)


def _check_certificate(
    path: Path, device: DeviceChoice, as_json: bool, examples: int | None = None, seed: int | None = None
) -> Recheck:
    certificate = read_certificate(path)
    if certificate.runs:
        require_memory(certificate.source.problem)
        target = open_certified(certificate, device, Store())
        examples = examples_to_certify(certificate.source.problem) if examples is None else examples
        with target.executor, counter("verify", certificate.examples + examples) as on_example:
            result = recheck(certificate, target, examples=examples, seed=seed, on_example=on_example)
    else:
        result = Recheck(certificate)
    emit(as_json, lambda: recheck_document(result), lambda console: show_recheck(console, result))
    return result


def reproduction(kernel: KernelFile, verdict: Verdict, examples: int, out: Path, ptx: Path | None = None) -> str:
    """The command that repeats the same examples."""
    words = ["gemmgen", "verify", kernel.reference, "--device", verdict.executor]
    words += ["--seed", str(verdict.seed), "--examples", str(examples)]
    for result in verdict.sanitizers:
        words += ["--tool", result.tool]
    if verdict.failure is not None and verdict.failure.source == REPLAY:
        words.append("--bits")
    if verdict.failure is not None and verdict.failure.kind == "uncovered":
        words.append("--require-coverage")
    if ptx is not None:
        words += ["--ptx", str(ptx)]
    if kernel.path is None and out != DEFAULT_OUT:
        words += ["--out", str(out)]
    return shlex.join(words)
