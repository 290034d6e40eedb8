"""The command line: `gemmgen COMMAND ...`. One module a command, imported when it is called.

options.py   options and argument types that commands share
output.py    what goes to standard output (tables, or one JSON document) and to standard error
progress.py  what a person sees while a command works: bars of gemmgen.search.bars, or lines
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence

import click

from gemmgen.cli.output import DONE, report_error, show_warning
from gemmgen.support.stamp import gemmgen_version

# What `gemmgen --help` says of each: its module, and all that it needs, is imported when the command is called.
COMMANDS = {
    "tune": "Find the fastest correct kernel for each SHAPE and write it.",
    "generate": "Render one kernel: the model's choice, or given parameters.",
    "space": "Show a family's axes, and why configs are rejected.",
    "verify": "Property-test a kernel as its .cu stands, edits included.",
    "selfcheck": "Check the verifier: it must find seeded bugs.",
    "fuzz": "Try kernels and situations at random, until one fails.",
    "worker": "Work for a cluster: with this machine's GPUs and cores.",
    "bench": "Time kernels against cuBLASLt, interleaved in one run.",
    "suite": "Run every shape of the performance suite.",
    "explain": "Say why a kernel is as it is, and what to expect of it.",
    "diff": "Show what sets two kernels apart.",
    "export": "Verify a kernel, and write it as files that stand alone.",
    "library": "Write kernels of several products with one dispatcher.",
    "devices": "Show what this machine has, and the cards known.",
    "study": "Series of kernels that differ in one idea or one number.",
    "results": "Write measured times as CSV or Kernel Tuner's.",
    "import": "Read measured times from these formats.",
    "report": "Write one HTML page of the kernels on file.",
    "gallery": "Make the README.md of each FOLDER/<arch> from its JSON.",
}


# Commands of two rooms that nothing of the product imports. The others are modules of this package.
LAB = ("space", "suite", "study", "results", "import", "report", "gallery")
MODULES = {"selfcheck": "gemmgen.proof.command", **{name: f"gemmgen.lab.commands.{name}" for name in LAB}}


class Commands(click.Group):
    """Imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(MODULES.get(cmd_name, f"gemmgen.cli.{cmd_name}")).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(gemmgen_version(), prog_name="gemmgen")
def cli() -> None:
    """Turn a GEMM shape into a CUDA kernel that is specialised, verified and tuned.

    C = alpha * A * B + beta * C, with A: M x K, B: K x N and C: M x N (row-major).

    A SHAPE is written MxNxK: 512x512x512. A size written ? stays a parameter of the kernel at run time,
    which then serves every value of it: '?x4096x4096'. A convolution is written conv NxHxWxC KxRxS, by
    its images and filters: conv 32x56x56x64 64x3x3 --pad 1.

    \b
    Start here:
      gemmgen tune 512x512x512         search, verify, pick; writes NAME.cu and NAME.json to gemmgen-out/
      gemmgen explain NAME             why this kernel
      gemmgen export NAME --to DIR     a folder that builds with nvcc and needs no gemmgen

    Without a GPU, kernels run in an emulator on the CPU and times are predicted; every figure says which.
    Exit codes: 0 done, 1 the work failed, 2 wrong usage, 3 not judged here and 4 passed in part (verify, export),
    130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with `arguments` (None: those of the process); returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        try:
            code = cli.main(words, prog_name="gemmgen", obj=words, standalone_mode=False)
        except (Exception, KeyboardInterrupt) as error:
            return report_error(error, as_json="--json" in words)
    return code if isinstance(code, int) else DONE
