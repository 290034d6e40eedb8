"""Images and filters of a convolution as the matrices that a kernel reads and writes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from gemmgen.arrays.view import ArrayView
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import require

FOUR = 4  # dimensions of images, and of filters


def as_matrices(
    problem: Problem, conv: Convolution, views: Mapping[str, ArrayView]
) -> tuple[dict[str, ArrayView], tuple[int, ...]]:
    """Return (`views`, those of four dimensions as matrices; the sizes of a new C before its columns).

    A is images x H x W x C, whose pixels are rows, B is N x R x S x C, whose filters are columns, and C and what lies
    alike are images x P x Q x N. The sizes are () where A is a matrix: C is one, too. Raises InvalidInput.
    """
    found = dict(views)
    lead: tuple[int, ...] = ()
    (rows, columns), images = conv.places, None
    if len(views["A"].shape) == FOUR:
        _require_sizes("A", views["A"], "images", conv.size)
        images, found["A"] = views["A"].shape[0], _pixels("A", views["A"])
        if problem.m in (None, images * rows * columns):
            lead = images, rows, columns
    for matrix in problem.matrices[1:]:
        name, view = matrix.name, views.get(matrix.name)
        if view is None or len(view.shape) != FOUR:
            continue
        if name == "B":
            _require_sizes(name, view, "N", (*conv.taps, conv.size[2]))
            found[name] = _filters(problem, view)
            continue
        _require_sizes(name, view, "images", (rows, columns, view.shape[-1]))
        told = f"{name} is {view.extent}, and A {views['A'].extent}"
        require(images in (None, view.shape[0]), f"{told}: they have as many images")
        found[name] = _pixels(name, view)
    return found, lead


def rows_of_images(problem: Problem, conv: Convolution, shape: tuple[int, ...]) -> int:
    """M: the places of a filter in all images of A, of this `shape`, or that for which the kernel is built. Raises
    InvalidInput."""
    height, width, channels = conv.size
    extent, size = " x ".join(map(str, shape)) or "one element", f"{height} x {width}"
    fits = len(shape) == 2 and shape[1] == channels
    require(fits, f"A is {extent}: this kernel takes images x {size} x {channels}, or all pixels x {channels}")
    images, more = divmod(shape[0], conv.pixels)
    require(more == 0, f"A is {extent}: its rows are pixels, {conv.pixels} for each image of {size}")
    if problem.m is None:
        return images * math.prod(conv.places)
    wanted = conv.images(problem.m)
    told = f"A is {extent}, with {conv.pixels} pixels for each image of {size}"
    require(images == wanted, f"{told}: this kernel, built for M = {problem.m}, takes {wanted * conv.pixels} rows")
    return problem.m


def _require_sizes(name: str, view: ArrayView, first: str, sizes: tuple[int, ...]) -> None:
    told = " x ".join(map(str, (first, *sizes)))
    require(view.shape[1:] == sizes, f"{name} is {view.extent}: this kernel takes it as {told}")


def _pixels(name: str, view: ArrayView) -> ArrayView:
    """Images as a matrix whose rows are pixels."""
    *lead, columns = view.shape
    apart = _step(view, lead, view.strides[:-1], columns)
    require(
        apart is not None,
        f"{name} of {view.extent} has strides {view.strides}: its pixels have to follow each other, row by row and "
        "image by image, with channels together (NHWC)",
    )
    assert apart is not None
    return replace(view, shape=(math.prod(lead), columns), strides=(apart, view.strides[-1]))


def _filters(problem: Problem, view: ArrayView) -> ArrayView:
    """Filters as B, whose columns they are."""
    column_major = problem.layout.b == "c"
    require(
        column_major, f"B is {view.extent}, filter by filter: layout rc reads it, and this kernel has {problem.layout}"
    )
    count, *filters = view.shape
    step = _step(view, filters, view.strides[1:], 1)
    require(
        step == 1,
        f"B of {view.extent} has strides {view.strides}: elements of a filter have to follow each other, with channels "
        "together (KRSC)",
    )
    return replace(view, shape=(math.prod(filters), count), strides=(1, view.strides[0]))


def _step(view: ArrayView, sizes: list[int], strides: tuple[int, ...], alone: int) -> int | None:
    """The stride of dimensions that are counted as one, or `alone` of one element; None if they have no such stride."""
    several = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size > 1]
    first = wanted = several[-1][1] if several and 0 not in view.shape else alone
    for size, stride in reversed(several):
        if stride != wanted and 0 not in view.shape:
            return None
        wanted *= size
    return first
