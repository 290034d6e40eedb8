"""The functions that an epilogue may call: CUDA's text, the same in float64, and what a kernel may be off by.

A function is a primitive, which CUDA computes, or is defined by an expression over others. Whoever adds one adds one
record to FUNCTIONS: the parser, kernels, the reference, its error bound and messages follow from it.

CUDA's math functions are off by at most two units in the last place (CUDA C++ Programming Guide, "Mathematical
Functions": expf, erff and tanhf 2; exp 1, erf 2, tanh 2) on the GPUs that exist. In f32 they are made of ex2.approx
and rcp.approx, whose errors the PTX ISA limits to 2 units and 1: if both are that large, tanhf(0.55) is off by 3.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.support.errors import require

Doubles = npt.NDArray[np.float64]
Slope = Callable[[Doubles, Doubles], Any]  # of an interval's ends

LIBRARY_ULPS = 4.0  # error of CUDA's exp, erf and tanh, from the limits in the PTX ISA


@dataclass(frozen=True)
class Function:
    """A function of an epilogue.

    parameters  names of its arguments
    definition  its value as an epilogue's expression over `parameters`; empty of a primitive
    cuda        of a primitive: CUDA's expression over `parameters`, with {f} where names of f32 functions end in f
    f32         template whose macro `definition` is its function in f32, where `cuda` is not the fastest
    f32_helper  such a template of what that function calls, as others may in the same kernel
    reference   the primitive in float64
    slope       the largest derivative, up to sign, on an interval, from its two ends (of several arguments: how much
                the value changes at most where each changes by 1)
    ulps        how far off CUDA's value is, in units of its last place; 0: it is one of the arguments, or its magnitude
    of_x        those are units of the last place of the argument, where the value may be far smaller
    constants   how many of the last arguments have to be numbers
    integers    CUDA's text serves integers as well
    instructions  of a thread for each element, in f32 as compiled for sm_90: what the model counts
    short       its record where results are rounded to 16 bits or fewer, if fewer instructions serve those
    """

    name: str
    parameters: tuple[str, ...]
    definition: str = ""
    cuda: str = ""
    f32: str = ""
    f32_helper: str = ""
    reference: Callable[..., Any] = np.positive
    slope: Slope = lambda low, high: 1.0
    ulps: float = 0.0
    of_x: bool = False
    constants: int = 0
    integers: bool = False
    instructions: float = 2.0
    short: Function | None = None

    def __post_init__(self) -> None:
        require(bool(self.definition) != bool(self.cuda), f"{self.name} has either a definition or CUDA's text")


def _nearest_to_zero(low: Doubles, high: Doubles) -> Doubles:
    """The least magnitude in the interval."""
    least: Doubles = np.maximum(np.maximum(low, -high), 0.0)
    return least


def _slope_of_erf(low: Doubles, high: Doubles) -> Doubles:
    slope: Doubles = 2 / math.sqrt(math.pi) * np.exp(-(_nearest_to_zero(low, high) ** 2))
    return slope


def _slope_of_tanh(low: Doubles, high: Doubles) -> Doubles:
    slope: Doubles = np.cosh(_nearest_to_zero(low, high)) ** -2.0
    return slope


def _sigmoid(x: Doubles) -> Doubles:
    value: Doubles = 1 / (1 + np.exp(-x))
    return value


def _slope_of_sigmoid(low: Doubles, high: Doubles) -> Doubles:
    value = _sigmoid(-_nearest_to_zero(low, high))
    slope: Doubles = value * (1 - value)
    return slope


ERF_STEP, ERF_ENDS = 1 / 1024, 6.0  # of points where erf is known; beyond the last it rounds to 1
ERF_TERMS = 5  # of its Taylor series around a point, behind erf there: what is left out is below 1e-21


def _series_of_erf() -> list[Doubles]:
    """The coefficients of each power, from the highest on, at all points.

    From f' = 2 / sqrt(pi) * exp(-x^2) follows f^(n+1) = -2 x f^(n) - 2 (n - 1) f^(n-1).
    """
    points = np.arange(round(ERF_ENDS / ERF_STEP) + 1) * ERF_STEP
    derivatives = [np.array([math.erf(point) for point in points]), 2 / math.sqrt(math.pi) * np.exp(-(points**2))]
    for n in range(1, ERF_TERMS):
        derivatives.append(-2 * points * derivatives[n] - 2 * (n - 1) * derivatives[n - 1])
    return [derivative / math.factorial(n) for n, derivative in enumerate(derivatives)][::-1]


_SERIES_OF_ERF = _series_of_erf()


def _erf(x: Doubles) -> Doubles:
    """By the Taylor series around the nearest point: numpy has none, and a call of `math.erf` holds all threads up."""
    size = np.abs(x)
    number = np.rint(np.fmin(size, ERF_ENDS) / ERF_STEP)  # NaN's is the last, and its step is NaN
    step, point = np.minimum(size, ERF_ENDS) - number * ERF_STEP, number.astype(np.intp)
    value = np.zeros_like(size)
    for coefficients in _SERIES_OF_ERF:
        value *= step
        value += np.take(coefficients, point)
    return np.copysign(value, x)


def _gelu(x: Doubles) -> Doubles:
    """Of -infinity 0, its limit."""
    value: Doubles = 0.5 * x * (1 + _erf(math.sqrt(0.5) * x))
    return np.where(np.isneginf(x), 0.0, value)


def _gelu_tanh(x: Doubles) -> Doubles:
    value: Doubles = x * _sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * (x * x * x)))
    return value


def _slope_behind_a_dip(turn: float, most: float) -> Slope:
    """Of x times what goes from 0 to 1: it falls before `turn`, by most - 1 at most, and rises behind it."""
    return lambda low, high: np.subtract(most, high < turn, dtype=np.float64)  # np.where mispredicts branches


_GELU = Function(
    "gelu",
    ("x",),
    cuda="x < -40 ? 0 : 0.5 * x * erfc(-0.7071067811865476 * x)",
    f32="device/gelu.cu",
    reference=_gelu,
    slope=_slope_behind_a_dip(-0.7518, 1.13),  # rises by 1.129 at most
    ulps=2,
    of_x=True,
    instructions=12,
)
_ALL = (
    Function(
        "relu",
        ("x",),
        cuda="x < 0 ? 0 : x",
        reference=lambda x: np.where(x < 0, 0.0, x),
        slope=lambda low, high: high > 0,
        integers=True,
    ),
    replace(_GELU, short=replace(_GELU, f32="device/gelu_short.cu", ulps=64, instructions=8)),
    Function(  # 0.5 * x * (1 + tanh(u)) is x / (1 + e^-2u)
        "gelu_tanh",
        ("x",),
        cuda="x / (1 + exp{f}(-1.5957691216057308 * (x + 0.044715 * (x * x * x))))",
        f32="device/gelu_tanh.cu",
        f32_helper="device/logistic.cu",
        reference=_gelu_tanh,
        slope=_slope_behind_a_dip(-0.7525, 1.13),  # likewise
        ulps=3,
        of_x=True,
        instructions=7,
    ),
    Function(
        "silu",
        ("x",),
        cuda="x / (1 + exp{f}(-x))",
        f32="device/silu.cu",
        f32_helper="device/logistic.cu",
        reference=lambda x: x * _sigmoid(x),
        slope=_slope_behind_a_dip(-1.2785, 1.1),  # by 1.0999
        ulps=3,
        of_x=True,
        instructions=5,
    ),
    Function(
        "sigmoid",
        ("x",),
        cuda="1 / (1 + exp{f}(-x))",
        reference=_sigmoid,
        slope=_slope_of_sigmoid,
        ulps=LIBRARY_ULPS + 2,
        instructions=25,
    ),
    Function("hardswish", ("x",), definition="x * clamp(x + 3, 0, 6) / 6"),
    Function(
        "tanh", ("x",), cuda="tanh{f}(x)", reference=np.tanh, slope=_slope_of_tanh, ulps=LIBRARY_ULPS, instructions=15
    ),
    Function("erf", ("x",), cuda="erf{f}(x)", reference=_erf, slope=_slope_of_erf, ulps=LIBRARY_ULPS, instructions=21),
    Function(
        "exp",
        ("x",),
        cuda="exp{f}(x)",
        reference=np.exp,
        slope=lambda low, high: np.exp(high),
        ulps=LIBRARY_ULPS,
        instructions=8,
    ),
    Function("abs", ("x",), cuda="fabs{f}(x)", reference=np.abs),
    Function("min", ("x", "y"), cuda="fmin{f}(x, y)", reference=np.fmin),
    Function("max", ("x", "y"), cuda="fmax{f}(x, y)", reference=np.fmax),
    Function(
        "clamp",
        ("x", "lo", "hi"),
        cuda="x < lo ? lo : x > hi ? hi : x",
        reference=lambda x, lo, hi: np.where(x < lo, lo, np.where(x > hi, hi, x)),
        constants=2,
        integers=True,
    ),
)
FUNCTIONS = {function.name: function for function in _ALL}


def function_named(name: str, short: bool) -> Function:
    """The record of one of FUNCTIONS; with `short` that for results of at most 16 bits."""
    function = FUNCTIONS[name]
    return function.short if short and function.short is not None else function
