"""Floats as e4m3 with scales, as products with `inputs="blocks"` take them: BLOCK elements along K share a scale.

A scale is the largest magnitude of these elements over 448; a code is the element times 1 / scale, both in f32, rounded
to nearest. A largest magnitude below LEAST counts as LEAST. That is DeepGEMM's definition.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.arrays.emulated import storage
from gemmgen.arrays.libraries import handle_of, library_of
from gemmgen.arrays.view import ArrayView, view_of
from gemmgen.kernel.launch import Launch
from gemmgen.problem.dtype import DType
from gemmgen.problem.inputs import BLOCK, QUANTISED
from gemmgen.problem.matrix import Matrix
from gemmgen.support.errors import require
from gemmgen.support.files import Store

LEAST = np.float32(1e-4)
THREADS, TEAMS, MOST_BLOCKS = 128, 8, 1 << 20  # of a thread block; those with a block of a row each; of a launch

Floats32 = npt.NDArray[np.float32]


def quantise_rows(x: Any, *, stream: Any = None) -> tuple[Any, Any]:
    """Return (codes, scales) of x, M x K: M x K of e4m3, and ceil(K / 128) x M of f32.

    They are A and scales_a of a kernel with `inputs="blocks"`: a scale for 128 elements along K of a row.

    x       M x K of f32, f16 or bf16, whose rows are contiguous: an array of any library. NaN counts as 0 where the
            largest magnitude is looked for. Arrays of numpy, and tensors of torch on the CPU, are quantised on the host
    stream  the stream of the launch, in place of the library's current one

    Raises InvalidInput for other types, dimensions and strides.
    """
    return _quantised(x, stream, squares=False)


def quantise_squares(weight: Any, *, stream: Any = None) -> tuple[Any, Any]:
    """Return (codes, scales) of a weight, N x K: N x K of e4m3, and ceil(N / 128) x ceil(K / 128) of f32.

    The transpose of the codes is B, and the scales, one for each 128 x 128 elements, are scales_b: see `quantise_rows`.
    """
    return _quantised(weight, stream, squares=True)


def _quantised(x: Any, stream: Any, *, squares: bool) -> tuple[Any, Any]:
    view, library = view_of("x", x), library_of(x)
    labels = ", ".join(one.label for one in QUANTISED)
    require(view.dtype in QUANTISED, f"x is of {view.dtype.label}: {labels} become e4m3")
    require(len(view.shape) == 2, f"x has {len(view.shape)} dimensions: a matrix has 2")
    rows, k = view.shape
    contiguous = k <= 1 or view.strides[1] == 1
    require(contiguous, f"elements of a row of x are {view.strides[1]} apart: make it contiguous")
    blocks = -(-k // BLOCK)
    shape = (-(-rows // BLOCK), blocks) if squares else (blocks, rows)
    codes, scales = library.empty((rows, k), DType.E4M3, x), library.empty(shape, DType.F32, x)
    made = view_of("codes", codes), view_of("scales", scales)
    if rows * k > 0:
        if view.device == "cpu":
            _on_the_host(view, *made, squares=squares)
        else:
            handle = library.stream(view.ordinal or 0) if stream is None else handle_of(stream)
            _on_the_gpu(view, *made, handle, squares=squares)
    return codes, scales


def _scaled(values: Floats32, *, squares: bool) -> tuple[Floats32, Floats32]:
    """Return (values over their scales, which are not rounded yet; scales) of values, rows x K."""
    (rows, k), height = values.shape, BLOCK if squares else 1
    down, across = -(-rows // height), -(-k // BLOCK)
    padded = np.zeros((down * height, across * BLOCK), np.float32)
    padded[:rows, :k] = np.abs(values)
    largest = np.fmax.reduce(padded.reshape(down, height, across, BLOCK), axis=(1, 3), initial=0)  # NaN counts as 0
    with np.errstate(all="ignore"):
        scales = np.maximum(largest, LEAST) / np.float32(DType.E4M3.largest)
        times = (np.float32(1) / scales).repeat(height, 0)[:rows].repeat(BLOCK, 1)[:, :k]
        return values * times, scales if squares else scales.T


def _on_the_host(view: ArrayView, codes: ArrayView, scales: ArrayView, *, squares: bool) -> None:
    rows, k = view.shape
    lead = view.strides[0] if rows > 1 else k
    matrix = Matrix(rows, k, max(lead, k), "r", dtype=view.dtype)
    values = view.dtype.decode(matrix.view(storage(view.address, matrix))).astype(np.float32)
    numbers, found = _scaled(values, squares=squares)
    for to, result in ((codes, DType.E4M3.encode(numbers.astype(np.float64))), (scales, found)):
        lies = Matrix(to.shape[0], to.shape[1], max(1, to.shape[1]), "r", dtype=to.dtype)
        lies.view(storage(to.address, lies).view(to.dtype.bits))[...] = np.ascontiguousarray(result).view(to.dtype.bits)


def _on_the_gpu(view: ArrayView, codes: ArrayView, scales: ArrayView, stream: int, *, squares: bool) -> None:
    """Enqueue the launch."""
    from gemmgen.arrays.form import current, failures  # the driver's bindings take a while
    from gemmgen.run.arguments import Argument

    rows, k = view.shape
    tasks = math.prod(scales.shape) if squares else -(-math.prod(scales.shape) // TEAMS)
    pointers = [Argument.pointer(one.address) for one in (view, codes, scales)]
    sizes = *(Argument.scalar("int", one) for one in (rows, k)), Argument.scalar("long long", view.strides[0])
    with failures(), current(view.ordinal or 0) as context:
        function = _function(context, f"quantise_{'squares' if squares else 'rows'}_{view.dtype.label}")
        function.planned([*pointers, *sizes], min(MOST_BLOCKS, tasks))(stream)


@cache
def _function(context: Any, name: str) -> Any:
    """A kernel of templates/device/plain/quantise.cu in this context."""
    from gemmgen.run.gpu.bindings import DriverFunction
    from gemmgen.run.gpu.plain import plain_cubin

    cubin = plain_cubin("quantise", context.arch, Store())
    return DriverFunction(name, Launch(THREADS, (("M", 1),)), cubin)
