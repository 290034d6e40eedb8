"""`gemmgen bench`: ours against cuBLASLt's best."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from gemmgen.artifacts.kernelfile import KernelFile, find_kernel, require_writable
from gemmgen.benchmark.bench import BenchRow, measure, require_gpu, tuned
from gemmgen.cli.options import ProblemOptions, json_option, out_option, problem_options, shape
from gemmgen.cli.output import emit
from gemmgen.cli.progress import counter, watch
from gemmgen.cli.reports.bench import show_bench
from gemmgen.problem.gemm import Problem, parse_shape
from gemmgen.run.target import open_target
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import Store
from gemmgen.verification.host_memory import require_memory


@click.command()
@click.argument("what", metavar="SHAPE|NAME|FILE...", nargs=-1, required=True)
@problem_options
@out_option("Folder in which winners are looked up, and written if tuned now.")
@json_option
@click.pass_obj
def command(words: list[str], what: Sequence[str], options: ProblemOptions, out: Path, as_json: bool) -> None:
    """Time kernels against cuBLASLt, interleaved in one run. Needs a GPU.

    For a SHAPE, the winner on file (--out, then generated/) or, where there is none, one that is tuned first.
    cuBLASLt is asked for all its heuristics and each is timed; its best is the baseline. That of batches of pointers is
    cuBLAS's gemmBatched. Both stand beside the card's own measured limits. The result is added to the kernel's JSON.
    """
    problems = {text: options.problem(shape(text)) for text in what if is_shape(text)}
    require_gpu()
    require_writable(out)
    rows = _measure_all(what, problems, out, shlex.join(["gemmgen", *words]))
    emit(as_json, lambda: {"results": [row.document() for row in rows]}, lambda console: show_bench(console, rows))


def is_shape(text: str) -> bool:
    """Whether `text` means a shape rather than a kernel: a wrong shape such as 0x5x5 does too."""
    try:
        parse_shape(text)
    except InvalidInput:
        return False
    return True


def _measure_all(what: Sequence[str], problems: dict[str, Problem], out: Path, made_by: str) -> list[BenchRow]:
    target = open_target("gpu", "auto", store := Store())
    gpu = target.gpu
    assert gpu is not None
    with gpu:
        kernels: list[KernelFile] = []
        for text in what:
            if text in problems:
                require_memory(problems[text])
                with watch() as progress:
                    kernels.append(tuned(problems[text], target, store, out, made_by, progress))
            else:
                kernels.append(find_kernel(text, out, target.spec.arch.limits))
        with counter("bench", len(kernels)) as step:
            rows = []
            for kernel in kernels:
                rows.append(measure(kernel, gpu, store))
                step()
    return rows
