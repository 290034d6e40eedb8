"""Options and argument types that commands share, and the problem that they add up to."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

import click

from gemmgen.exports.writing import DEFAULT_OUT
from gemmgen.families import FAMILIES
from gemmgen.problem.dtype import ELEMENTS, DType
from gemmgen.problem.epilogue import LINEAR
from gemmgen.problem.forms import FORM_NAMES
from gemmgen.problem.functions import FUNCTIONS
from gemmgen.problem.gemm import Problem
from gemmgen.problem.images import DTYPE as CONV_DTYPE
from gemmgen.problem.images import ConvShape
from gemmgen.problem.inputs import PLAIN
from gemmgen.problem.matrix import ROW_MAJOR
from gemmgen.problem.operands import ACC, ACCUMULATORS, DEPTH, OPERANDS, SCALARS, SUMS, C
from gemmgen.problem.parser import FORM_CALLS
from gemmgen.problem.sizes import ALIGNS, TYPICAL, Size, parse_shape
from gemmgen.problem.types import Compute
from gemmgen.support.errors import require
from gemmgen.support.words import listed

Function = TypeVar("Function", bound=Callable[..., Any])
Shape = tuple[Size, Size, Size] | ConvShape

OPTION_WIDTH = 30  # columns of --help for options and their arguments
LONGEST_NUMBER = 20  # digits; beyond it, it is no size that anyone means
FAMILY = click.Choice(list(FAMILIES), case_sensitive=False)
SIZES = ("m", "n", "k")  # of a Problem, which SHAPE gives
CONV = "conv"  # in place of MxNxK, before the words of images and filters
AROUND = ("pad", "stride", "dilation")  # options of a convolution
DIGITS = re.compile(rf"[0-9]{{1,{LONGEST_NUMBER}}}")  # int() reads the digits of every script, and 1_0


# What --help lists together. Options of no section stand first, as "Options".
SECTIONS = {
    "Shape and types": ("--dtype", "--types", "--compute", "--inputs", "--batch", "--pointers", "--typical"),
    "Convolution": tuple(f"--{name}" for name in AROUND),
    "Layout": (
        *("--layout", "--lda", "--ldb", "--ldc", "--stride-a", "--stride-b", "--stride-c"),
        *("--pointer-align", "--ld-align"),
    ),
    "Epilogue": ("--epilogue", "--ld-residual", "--stride-residual"),
    "Search": ("--family", "--set", "--budget", "--points", "--sizes", "--regret", "--fallback"),
    "Verification": (
        *("--certificate", "--invariant", "--examples", "--seed", "--sanitize", "--tool"),
        *("--require-coverage", "--bits", "--ptx"),
    ),
    "Machine": ("--arch", "--device", "--cluster", "--energy"),
    "Output": ("--to", "--out", "--as", "--torch", "--json", "--help"),
}
TITLES = {option: title for title, options in SECTIONS.items() for option in options}


class Sectioned(click.Command):
    """A command whose --help lists its options by SECTIONS."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        records = [(one.opts[-1], record) for one in options if (record := one.get_help_record(ctx))]
        width = min(OPTION_WIDTH, max(len(usage) for _, (usage, _) in records))  # the same in every section
        for title in ("Options", *SECTIONS):
            rows = [
                (f"{usage:<{width}}", text) for name, (usage, text) in records if TITLES.get(name, "Options") == title
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=OPTION_WIDTH)


def elements(text: str) -> int | str:
    """The number that `text` writes in plain digits; else `text`, such as ? or dense, which a Problem judges."""
    return int(text) if DIGITS.fullmatch(text) else text[: 3 * LONGEST_NUMBER]


def numbers(text: str) -> tuple[int, ...]:
    """ "1" -> (1,), "1x2" -> (1, 2). Raises InvalidInput."""
    parts = text.lower().split("x")
    known = all(map(DIGITS.fullmatch, parts))
    require(known, f"{text[:40]!r} is neither a number nor several, as 1x2: rows x columns")
    return tuple(map(int, parts))


def typical(text: str) -> tuple[str, int]:
    """NAME=N -> (name, size), whatever the case of the name. Raises InvalidInput."""
    name, size = _setting(text, "M=512")
    return next((known for known in TYPICAL if known.lower() == name.lower()), name), size


def axis_value(text: str) -> tuple[str, int]:
    """NAME=VALUE -> (the axis in capitals, its value). Raises InvalidInput."""
    name, value = _setting(text, "BM=128")
    return name.upper(), value


def _setting(text: str, example: str) -> tuple[str, int]:
    """NAME=VALUE -> (name, value). Raises InvalidInput, with an `example`."""
    name, _, number = text.partition("=")
    require(
        bool(name) and DIGITS.fullmatch(number.removeprefix("-")) is not None,
        f"{text[:40]!r} sets nothing: write NAME=VALUE with an integer, for example {example}",
    )
    return name, int(number)


@dataclass(frozen=True)
class ProblemOptions:
    """The arguments of Problem that the options give, without the shape."""

    given: Mapping[str, Any]

    def problem(self, shape: Shape, default: DType = DType.F32) -> Problem:
        """The problem of `shape`, of type `default` where nothing is said of types, or a convolution of CONV_DTYPE.

        Raises InvalidInput.
        """
        given = {name: value for name, value in self.given.items() if value is not None}
        require("types" not in given or "dtype" not in given, "--dtype and --types both say what A, B and C are")
        if isinstance(shape, ConvShape):
            return shape.problem(**given)
        return Problem(*shape, **({} if "types" in given else {"dtype": default}) | given)


_READ = ", ".join(name for name, one in OPERANDS.items() if not one.written)
_WRITTEN = ", ".join(name for name, one in OPERANDS.items() if one.written)
EPILOGUE = (
    "What becomes of acc, an element of A * B. Either forms joined by +, as in scale_m+bias+gelu: "
    f"{', '.join((*FORM_NAMES, *FORM_CALLS))}. Or an expression such as 'gelu(alpha * acc + bias_n) + residual'. It "
    f"may read {', '.join((ACC, *SCALARS))}, {C} (as beta * {C}), {listed(ACCUMULATORS[1:])} (of A times "
    f"further matrices beside B), "
    f"{' and '.join(SUMS)} (of A's row and B's column), {DEPTH}, {_READ}; call {', '.join(FUNCTIONS)}; "
    f"and write x by {_WRITTEN}, which go on with x."
)


def _dtype_option(default: DType) -> Callable[[Function], Function]:
    return click.option(
        "--dtype",
        metavar="TYPE",
        help=f"Element type of A, B and C: {', '.join(dtype.label for dtype in ELEMENTS)}. Floating-point types "
        f"narrower than f32 are summed in f32, integers in s32.  [default: {default.label}]",
    )


def _distance_option(name: str, text: str) -> Callable[[Function], Function]:
    return click.option(name, type=elements, default="dense", show_default=True, metavar="N|?", help=text)


_PROBLEM = (
    click.option(
        "--types",
        metavar="A,B,C",
        help="Element types of A, B and C where they differ: s8,s8,s32, bf16,bf16,f32 or, with --inputs, bf16,u4,f32.",
    ),
    click.option(
        "--compute",
        default=Compute.FMA.label,
        show_default=True,
        metavar="|".join(compute.label for compute in Compute),
        help="How products are made and summed. fma: in the type of the sums, on CUDA or tensor cores; the others on "
        "tensor cores. tf32: operands of f32 are rounded to 11 bits; f16acc: sums of f16 in f16; promoted, fast: sums "
        "of e4m3 and e5m2 in 14 bits, of 128 products or of all; promoted of codes: scales multiply sums; "
        "bf16x6: as exact as f32, by six products of pieces.",
    ),
    click.option(
        "--layout",
        metavar="rr|rc|cr|cc",
        help="Storage order of A, then B: r row-major, c column-major. C is row-major.  "
        f"[default: {ROW_MAJOR}; rc of conv]",
    ),
    *(
        _distance_option(f"--ld{name.lower()}", f"Leading dimension of {name} in elements; ? leaves it to run time.")
        for name in "ABC"
    ),
    click.option(
        "--batch",
        type=elements,
        default="1",
        show_default=True,
        metavar="N|?",
        help="Number of products, each with its own A, B and C; ? leaves it to run time.",
    ),
    *(
        _distance_option(
            f"--stride-{name.lower()}",
            f"Elements from one {name} of the batch to the next; ? leaves it to run time"
            + ("." if name == "C" else f", with 0 all products share one {name}."),
        )
        for name in "ABC"
    ),
    click.option(
        "--pointers",
        is_flag=True,
        help="The batch comes as arrays of pointers to its matrices A, B and C, which may lie anywhere.",
    ),
    click.option(
        "--epilogue",
        default=str(LINEAR),
        show_default=True,
        metavar="FORMS|EXPRESSION",
        help=EPILOGUE,
    ),
    click.option(
        "--inputs",
        default=str(PLAIN),
        show_default=True,
        metavar="WHAT",
        help="How A and B are given. scales=128: B's columns have scales by groups of 128 (32, 64, K) along K, and "
        "zero points with scales=128+zeros. groups=8: groups of rows, each with its B; groups=8+masked: each with an A "
        "and C, too, and a number of rows; groups=8+along_k: ranges of K, each with its C. gathered: A's rows by their "
        "numbers; scattered: C's rows. blocks: A has scales of 1 x 128, B of 128 x 128; blocks+lines: B, too, of "
        "1 x 128; with +padded rows of scales begin at multiples of 16 bytes. Scales and blocks go with groups=8. "
        "im2col=56x56x64_3x3_p1x1_s1x1_d1x1: A is images; with +wgrad B is. Family naive serves all; mma and skinny "
        "(sm_80 and newer) and wgmma (sm_90) B of codes with scales; mma and wgmma im2col; wgmma groups, gathered and "
        "scattered rows, wgrad and, with --compute promoted, blocks.",
    ),
    _distance_option(
        "--ld-residual", "Leading dimension of the epilogue's residual in elements; ? leaves it to run time."
    ),
    _distance_option(
        "--stride-residual",
        "Elements from one residual of the batch to the next; ? leaves it to run time, with 0 all share one.",
    ),
    click.option(
        "--typical",
        type=typical,
        multiple=True,
        metavar="NAME=N",
        help="At which M, N, K or batch a kernel is tuned and timed that leaves it to run time: M=16; of a convolution "
        "images=32, too; may be repeated.",
    ),
    click.option(
        "--pointer-align",
        type=click.IntRange(min=1, max=ALIGNS[-1]),
        default=16,
        show_default=True,
        help="Alignment of the addresses of A, B and C, in bytes, as you promise. Less than 16 narrows accesses.",
    ),
    click.option(
        "--ld-align",
        type=click.IntRange(min=1, max=ALIGNS[-1]),
        default=1,
        show_default=True,
        help="Elements of which every run-time leading dimension and stride is a multiple, as you promise. More than 1 "
        "allows wider accesses.",
    ),
)

_CONV = tuple(
    click.option(f"--{name}", type=numbers, metavar="N|NxN", help=text)
    for name, text in zip(
        AROUND,
        (
            f"Zeros around the images of {CONV} NxHxWxC KxRxS: rows x columns, or above x left x below x right. A "
            f"convolution is of {CONV_DTYPE.label} and layout rc unless you say else.  [default: 0]",
            "Rows x columns from one place of a filter to the next.  [default: 1]",
            "Rows x columns from one tap of a filter to the next.  [default: 1]",
        ),
        strict=True,
    )
)


def shape_argument(function: Function) -> Callable[..., Any]:
    """SHAPE, the one problem of a command, and the options of convolutions; `function` gets `shape: Shape`."""

    @wraps(function)
    def collected(shape: Sequence[Shape], **values: Any) -> Any:
        if len(shape) > 1:
            raise click.UsageError(f"{len(shape)} shapes are given, and this command takes one")
        return function(shape=shape[0], **values)

    return words_argument("shape", "SHAPE")(collected)


def words_argument(
    name: str, metavar: str, other: Callable[[str], Any] = parse_shape
) -> Callable[[Function], Callable[..., Any]]:
    """Shapes, and the options of convolutions; the function gets a list by this name.

    other  reads a word that belongs to no convolution
    """

    def decorated(function: Function) -> Callable[..., Any]:
        @wraps(function)
        def collected(**values: Any) -> Any:
            around = {name: one for name in AROUND if (one := values.pop(name)) is not None}
            return function(**{**values, name: list(_read(values[name], around, other))})

        return _all(collected, (click.argument(name, metavar=metavar, nargs=-1, required=True), *_CONV))

    return decorated


def _read(words: Sequence[str], around: Mapping[str, Sequence[int]], other: Callable[[str], Any]) -> Iterator[Any]:
    """Yield what each word stands for. The word CONV and the two that follow it stand for one convolution.

    Raises InvalidInput.
    """
    if CONV not in map(str.lower, words):
        told = " and ".join(f"--{name} {'x'.join(map(str, one))}" for name, one in around.items())
        require(not around, f"{told} without a convolution: write {CONV} NxHxWxC KxRxS in place of MxNxK")
    left = iter(words)
    for word in left:
        if word.lower() != CONV:
            yield other(word)
            continue
        images, filters = next(left, ""), next(left, "")
        told = f"{CONV} takes images NxHxWxC and filters KxRxS, for example {CONV} 32x56x56x64 64x3x3"
        require(bool(filters), f"{told}, and {f'{images} alone follows' if images else 'nothing follows'}")
        yield ConvShape.parse(images, filters, **around)


def problem_options(function: Function, dtype: DType = DType.F32) -> Callable[..., Any]:
    """Adds the options of a problem; `function` gets them as one argument, `options: ProblemOptions`.

    dtype  what A, B and C are where nothing is said of types: --help says so, and `function` has to make it so
    """

    @wraps(function)
    def collected(**values: Any) -> Any:
        given = {name: values.pop(name) for name in signature(Problem).parameters if name not in SIZES}
        return function(options=ProblemOptions(given), **values)

    return _all(collected, (_dtype_option(dtype), *_PROBLEM))


def out_option(help_text: str) -> Callable[[Function], Function]:
    """--out: the folder of kernels."""
    return click.option(
        "--out", type=click.Path(path_type=Path), default=DEFAULT_OUT, show_default=True, help=help_text
    )


def out_words(out: Path) -> str:
    """What a command line says of `out`, with a space before it; empty where it is the default."""
    return "" if out == DEFAULT_OUT else f" --out {shlex.quote(str(out))}"


def as_option(function: Function) -> Function:
    """--as: the user's own name."""
    text = (
        "Your name for kernel, files and launcher: a C identifier, of at most 100 letters, digits and _.  "
        "[default: one that says what it computes]"
    )
    return click.option("--as", "own_name", metavar="NAME", help=text)(function)


def arch_option(function: Function, auto: str = "of the GPU here, else sm_90") -> Function:
    """--arch: what to compile for, and whose limits count; `auto` is what --help says of "auto"."""
    text = f"Architecture to compile for: sm_NN, sm_NNa, or that of a card such as A100. auto: {auto}."
    return click.option("--arch", default="auto", show_default=True, help=text)(function)


# --arch of a command for kernels on file.
recorded_arch_option = partial(arch_option, auto="that of the kernel's JSON, else of the GPU here, else sm_90")


def device_option(function: Function) -> Function:
    """--device: where kernels run."""
    text = "Where kernels run. auto: the GPU where there is one, else the emulator on the CPU."
    return click.option(
        "--device", type=click.Choice(["auto", "gpu", "emulator"]), default="auto", show_default=True, help=text
    )(function)


def cluster_option(function: Function) -> Function:
    """--cluster: whose workers do the work."""
    text = "Workers of dask.distributed do the work: those of this machine (local), of the scheduler at an address, or "
    text += "of what client() of a Python file returns: see docs/cluster.md."
    return click.option("--cluster", metavar="local|tcp://...|FILE.py", help=text)(function)


def json_option(function: Function) -> Function:
    """--json: one machine-readable document."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")(function)


def seed_option(function: Function) -> Function:
    """--seed: of every random choice."""
    text = "Seed of test data, thread schedules and what the property tests draw: the same seed, the same run."
    return click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help=text)(function)


def _all(function: Callable[..., Any], options: tuple[Callable[..., Any], ...]) -> Callable[..., Any]:
    for option in reversed(options):
        function = option(function)
    return function
