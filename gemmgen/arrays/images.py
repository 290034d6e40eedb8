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

    With "+wgrad" A is images x P x Q x M, B is images x H x W x C, and C, and what lies alike, is M x R x S x C; a new
    C is a matrix.
    """
    if problem.inputs.wgrad:
        return _of_gradient(problem, conv, views), ()
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
            column_major = problem.layout.b == "c"
            told = f"B is {view.extent}, filter by filter: layout rc reads it, and this kernel has {problem.layout}"
            require(column_major, told)
            found[name] = _transposed(_filters(name, view))
            continue
        _require_sizes(name, view, "images", (rows, columns, view.shape[-1]))
        told = f"{name} is {view.extent}, and A {views['A'].extent}"
        require(images in (None, view.shape[0]), f"{told}: they have as many images")
        found[name] = _pixels(name, view)
    return found, lead


def _of_gradient(problem: Problem, conv: Convolution, views: Mapping[str, ArrayView]) -> dict[str, ArrayView]:
    """The same of a gradient of filters."""
    found = dict(views)
    for matrix in problem.matrices:
        name, view = matrix.name, views.get(matrix.name)
        if view is None or len(view.shape) != FOUR:
            continue
        if name == "A":
            _require_sizes(name, view, "images", (*conv.places, view.shape[-1]))
            column_major = problem.layout.a == "c"
            told = f"A is {view.extent}, place by place: layout cr reads it, and this kernel has {problem.layout}"
            require(column_major, told)
            found[name] = _transposed(_pixels(name, view))
        elif name == "B":
            _require_sizes(name, view, "images", conv.size)
            found[name] = _pixels(name, view)
        else:
            _require_sizes(name, view, "M", (*conv.taps, conv.size[2]))
            found[name] = _filters(name, view)
    return found


def places_of_images(problem: Problem, conv: Convolution, shape: tuple[int, ...]) -> int:
    """The places of a filter in all images, whose operand has this `shape`, or the number for which the kernel is
    built. Raises InvalidInput."""
    height, width, channels = conv.size
    name, size_name = problem.inputs.images, problem.inputs.places
    built = problem.sizes[size_name]
    extent, size = " x ".join(map(str, shape)) or "one element", f"{height} x {width}"
    fits = len(shape) == 2 and shape[1] == channels
    require(fits, f"{name} is {extent}: this kernel takes images x {size} x {channels}, or all pixels x {channels}")
    images, more = divmod(shape[0], conv.pixels)
    require(more == 0, f"{name} is {extent}: its rows are pixels, {conv.pixels} for each image of {size}")
    if built is None:
        return images * math.prod(conv.places)
    wanted = conv.images(built)
    told = f"{name} is {extent}, with {conv.pixels} pixels for each image of {size}"
    require(
        images == wanted, f"{told}: this kernel, built for {size_name} = {built}, takes {wanted * conv.pixels} rows"
    )
    return built


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


def _filters(name: str, view: ArrayView) -> ArrayView:
    """Filters as a matrix whose rows they are."""
    count, *filters = view.shape
    step = _step(view, filters, view.strides[1:], 1)
    require(
        step == 1,
        f"{name} of {view.extent} has strides {view.strides}: elements of a filter have to follow each other, "
        "with channels together (KRSC)",
    )
    return replace(view, shape=(count, math.prod(filters)), strides=(view.strides[0], 1))


def _transposed(view: ArrayView) -> ArrayView:
    return replace(view, shape=view.shape[::-1], strides=view.strides[::-1])


def _step(view: ArrayView, sizes: list[int], strides: tuple[int, ...], alone: int) -> int | None:
    """The stride of dimensions that are counted as one, or `alone` of one element; None if they have no such stride."""
    several = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size > 1]
    first = wanted = several[-1][1] if several and 0 not in view.shape else alone
    for size, stride in reversed(several):
        if stride != wanted and 0 not in view.shape:
            return None
        wanted *= size
    return first
