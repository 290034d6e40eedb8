"""Options and argument types that commands share, and the problem that they add up to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from gemmgen.api import DEFAULT_OUT
from gemmgen.errors import InvalidInput
from gemmgen.problem import RUNTIME, DType, Layout, Problem, Size, parse_shape

Function = TypeVar("Function", bound=Callable[..., Any])
Shape = tuple[Size, Size, Size]

LONGEST_NUMBER = 20  # digits; beyond it, it is no size that anyone means


class ShapeType(click.ParamType):
    """MxNxK -> (m, n, k)."""

    name = "MxNxK"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Shape:
        if isinstance(value, tuple):
            return value
        if any(len(part) > LONGEST_NUMBER for part in value.split("x")):
            self.fail(f"{value[:40]}... is no shape: a size is a number of at most {LONGEST_NUMBER} digits", param, ctx)
        try:
            return parse_shape(value)
        except InvalidInput as error:
            self.fail(str(error), param, ctx)


class LineType(click.ParamType):
    """A leading dimension: a number, or ? for one that stays a parameter."""

    name = "N|?"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Size | Literal["dense"]:
        if value is None or isinstance(value, int):
            return value
        if value == RUNTIME:
            return None
        if value == "dense":
            return "dense"
        if not value.isdecimal() or len(value) > LONGEST_NUMBER:
            self.fail(f"{value!r} is no leading dimension: write a number of elements, or ?", param, ctx)
        return int(value)


class SettingType(click.ParamType):
    """NAME=VALUE -> (name, value)."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, _, number = value.partition("=")
        if not name or not number.removeprefix("-").isdecimal() or len(number) > LONGEST_NUMBER:
            self.fail(f"{value!r} sets nothing: write NAME=VALUE with an integer, for example BM=128", param, ctx)
        return name, int(number)


@dataclass(frozen=True)
class ProblemOptions:
    """What the options say of a problem, its shape apart."""

    dtype: str
    layout: str
    lda: Size | Literal["dense"]
    ldb: Size | Literal["dense"]
    ldc: Size | Literal["dense"]
    pointer_align: int
    ld_align: int

    def problem(self, shape: Shape) -> Problem:
        """The problem of `shape`. Raises InvalidInput."""
        return Problem(
            *shape,
            dtype=DType.parse(self.dtype),
            layout=Layout.parse(self.layout),
            lda=self.lda,
            ldb=self.ldb,
            ldc=self.ldc,
            pointer_align=self.pointer_align,
            ld_align=self.ld_align,
        )


SHAPE = ShapeType()
LINE = LineType()
SETTING = SettingType()

_PROBLEM = (
    click.option("--dtype", default="f32", show_default=True, help="Element type of A, B, C and the accumulator: f32."),
    click.option(
        "--layout", default="rr", show_default=True, metavar="rr|rc|cr|cc",
        help="Storage order of A, then B: r row-major, c column-major. C is row-major.",
    ),
    click.option("--lda", type=LINE, default="dense", help="Elements from a line of A to the next; ? at run time. [dense]"),
    click.option("--ldb", type=LINE, default="dense", help="The same of B. [dense]"),
    click.option("--ldc", type=LINE, default="dense", help="The same of C. [dense]"),
    click.option(
        "--pointer-align", type=int, default=16, show_default=True,
        help="Bytes that divide the addresses of A, B and C: your promise. 4 and 8 narrow the accesses.",
    ),
    click.option(
        "--ld-align", type=int, default=1, show_default=True,
        help="Elements that divide every run-time leading dimension: your promise. 4 allows 128-bit accesses.",
    ),
)  # fmt: skip


def problem_options(function: Function) -> Callable[..., Any]:
    """Adds the options of a problem; `function` gets them as one argument, `options: ProblemOptions`."""

    @wraps(function)
    def collected(**values: Any) -> Any:
        fields = {name: values.pop(name) for name in ProblemOptions.__dataclass_fields__}
        return function(options=ProblemOptions(**fields), **values)

    return _all(collected, _PROBLEM)


def out_option(help_text: str) -> Callable[[Function], Function]:
    """--out: the folder of kernels."""
    return click.option("--out", type=click.Path(path_type=Path), default=DEFAULT_OUT, show_default=True, help=help_text)


def arch_option(function: Function) -> Function:
    """--arch: what to compile for, and whose limits count."""
    text = "What to compile for, and whose limits count: sm_NN[a] or a card's name, such as A100; auto: the GPU's here, else sm_90."
    return click.option("--arch", default="auto", show_default=True, help=text)(function)


def device_option(function: Function) -> Function:
    """--device: where kernels run."""
    text = "Where kernels run. auto: the GPU where there is one, else the emulator on the CPU."
    return click.option(
        "--device", type=click.Choice(["auto", "gpu", "emulator"]), default="auto", show_default=True, help=text
    )(function)


def json_option(function: Function) -> Function:
    """--json: one machine-readable document."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")(function)


def family_option(function: Function) -> Function:
    """--family: which kernels."""
    return click.option("--family", default="simt", show_default=True, help="Kernel family: simt or naive.")(function)


def seed_option(function: Function) -> Function:
    """--seed: of every random choice."""
    text = "Of test data, thread schedules and what the property tests draw: the same seed, the same run."
    return click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help=text)(function)


def _all(function: Callable[..., Any], options: tuple[Callable[..., Any], ...]) -> Callable[..., Any]:
    for option in reversed(options):
        function = option(function)
    return function
