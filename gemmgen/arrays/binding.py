"""Checks arrays against a kernel: the result is the sizes of the launch, or an error that shows what does not fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gemmgen.arrays.images import places_of_images
from gemmgen.arrays.view import ArrayView, dense_strides, seen
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.inputs import COMPANIONS, VECTORS, Companion
from gemmgen.problem.matrix import Matrix
from gemmgen.problem.operands import OPERANDS, SCALARS
from gemmgen.problem.sizes import MatrixSizes
from gemmgen.support.errors import InvalidInput, require

BYTE = 8  # bits


@dataclass(frozen=True)
class Prepared:
    """The copy of an operand that a kernel's launches would make, made once for many launches.

    operand  "A" or "B"
    array    the copy: an array of the operand's library
    shape    shape of the operand: (rows, columns), in a batch (products, rows, columns)
    layout   identifies the copy's layout: kernels with the same layout can share it
    sums     an array of the sums of its lines, for zero points, if the kernel takes them
    """

    operand: str
    array: Any
    shape: tuple[int, ...]
    layout: str
    sums: Any = None

    def seen_by(self, locate: Callable[[ArrayView], ArrayView]) -> tuple[Hashable, Any, int]:
        """See `view.seen`."""
        lies, _, address = seen(self.operand, self.array, locate)
        return (type(self.array), lies, self.operand, self.layout, self.sums is None), self.shape, address


Sizes = dict[str, int]


CALLED = ("out", "alpha", "beta", "stream")  # what a call takes by name beside the epilogue's operands


def require_known(problem: Problem, given: Iterable[str], others: tuple[str, ...] = CALLED) -> None:
    """Raise InvalidInput for an argument name that is neither in `others` nor that of a further operand."""
    known = (*others, *further_operands(problem))
    for name in given:
        require(
            name in known,
            f"no argument is called {name}: known are {', '.join(known)}, of the epilogue {problem.epilogue}",
        )


def further_operands(problem: Problem) -> tuple[str, ...]:
    """The operands that a call takes beside A, B and C: the companions of A and B, and those of the epilogue."""
    beside = (one.name for one in beside_a_and_b(problem))
    return (*beside, *(operand.name for operand in problem.epilogue.operands))


def beside_a_and_b(problem: Problem) -> tuple[Companion, ...]:
    """The companions of A and B that a call takes; those of codes are packed with B."""
    return problem.apart_from_b


def number(name: str, value: Any) -> float:
    """Return the scalar `name` as a float. Raises InvalidInput if it is not a real number."""
    try:
        if not isinstance(value, str):
            return float(value)
    except TypeError:
        pass
    raise InvalidInput(f"{name} = {value!r} is no real number")


def require_names(problem: Problem, operands: Mapping[str, Any], alpha: float, beta: float) -> None:
    """Raise InvalidInput unless all further operands are given, and only scalars that the epilogue names."""
    for one in beside_a_and_b(problem):
        told = f"inputs = {problem.inputs} have {one.name}, {one.meaning}: give {one.name}="
        require(operands.get(one.name) is not None, told)
    for operand in problem.epilogue.operands:
        name, does = operand.name, "writes" if operand.written else "reads"
        require(operands.get(name) is not None, f"the epilogue {problem.epilogue} {does} {name}: give {name}=")
    for name, value, idle in zip(SCALARS, (alpha, beta), (1, 0), strict=True):
        taken = name in problem.epilogue.scalars or value == idle
        require(taken, f"{name} = {value}, and the epilogue {problem.epilogue} has no {name}")


class Bound(NamedTuple):
    """A launch, and the shape of C: M x N, in a batch products x M x N, where groups have a C each groups x M x N.

    A C whose rows are scattered may have more rows. If C has no element, the case has the least sizes: it is checked
    like others, but not launched.
    """

    case: Case
    shape: tuple[int, ...]


def bound(problem: Problem, views: Mapping[str, ArrayView | Prepared], alpha: float = 1.0, beta: float = 0.0) -> Bound:
    """The launch with the operands `views`: A, B, C if it is given, and matrices of the epilogue.

    Raises InvalidInput with both values where two operands disagree, or one with what the kernel is built for.
    """
    sizes: Sizes = _rows_of_an_index(problem, views)
    distances: dict[str, int | None] = {}
    for matrix in problem.matrices:
        view = views.get(matrix.name)
        if view is None:
            continue
        if problem.inputs.conv is not None and matrix.name == problem.inputs.images:
            _agree_of_images(sizes, problem, problem.inputs.conv, view.shape)
        else:
            strides = view.strides if isinstance(view, ArrayView) else ()
            _agree(sizes, problem, matrix, view.shape, strides)
        if isinstance(view, ArrayView):
            for name, value in zip((matrix.ld, matrix.stride), _distances(problem, matrix, view), strict=True):
                _same(distances, name, value, matrix.name)
    given = {name: value for name, value in distances.items() if value is not None}
    lead = _lead(problem, problem.matrices[2])
    shape = tuple(sizes[name] for name in (*lead, "M", "N") if name in sizes)
    m, n, batch = (max(1, sizes[name]) if name in sizes else None for name in ("M", "N", BATCH))
    if problem.inputs.gathered:
        given["rows_a"] = max(1, sizes[ROWS_OF_A])  # of no row nothing is read, as C has none
    if problem.inputs.scattered and ROWS_OF_C in sizes:
        spare = sizes[ROWS_OF_C] - sizes["M"]
        require(spare >= 0, f"C has {sizes[ROWS_OF_C]} rows, and index_c names {sizes['M']}")
        given["spare_c"] = spare
    return Bound(problem.case(m, n, sizes["K"], alpha=alpha, beta=beta, batch=batch, **given), shape)


BATCH, GROUPS, ROWS_OF_A, ROWS_OF_C = (
    "batch",
    "groups",
    "rows of A",
    "rows of C",
)  # sizes of operands beside M, N and K, by name


def _lead(problem: Problem, matrix: MatrixSizes) -> tuple[str, ...]:
    """The name of the size that counts the matrices of an operand, before rows and columns; () if it is one matrix."""
    if problem.inputs.groups:
        return (GROUPS,) if matrix in problem.strides else ()
    return (BATCH,) if problem.batched else ()


def _rows_of_an_index(problem: Problem, views: Mapping[str, ArrayView | Prepared]) -> Sizes:
    """M, if rows of A are gathered: the length of the index. A has any number of rows, but not 0 where C has some."""
    if not problem.inputs.gathered:
        return {}
    index = views["index_a"].shape
    require(len(index) == 1, f"index_a has {len(index)} dimensions: it is a vector of M numbers")
    rows = views["A"].shape[0] if views["A"].shape else 1
    require(rows > 0 or index[0] == 0, f"A has {rows} rows, and index_a names {index[0]}")
    return {"M": index[0] if problem.m is None else problem.m}


def case_of_codes(problem: Problem, views: Mapping[str, ArrayView]) -> Case:
    """A launch for packing B's codes, "B", with their companions. Raises InvalidInput for what does not fit."""
    b = next(one for one in problem.matrices if one.name == "B")
    shape, groups = views["B"].shape, problem.inputs.row_groups
    are = f"matrices of {groups} groups, of lines of bytes" if groups else "lines of bytes"
    require(len(shape) == 2 + bool(groups), f"codes of shape {shape}: they are {are}")
    require(not groups or shape[0] == groups, f"codes of shape {shape}: this kernel is built for groups = {groups}")
    lines, length = shape[-2], BYTE // problem.code_bits * shape[-1]
    k, n = (length, lines) if b.order == "c" else (lines, length)
    for name, given in (("K", k), ("N", n)):
        built = problem.sizes[name]
        require(built in (None, given), f"codes have {name} = {given}: this kernel is built for {name} = {built}")
    case = problem.case(m=problem.m or 1, n=n, k=k)
    require(case.b.ld == length, f"lines of {length} codes: this kernel takes them {case.b.ld} apart")
    dense, apart = lines * length, case.b.stride
    require(not groups or apart == dense, f"groups of {dense} codes: this kernel takes them {apart} apart")
    wanted = [one.name for one in problem.packed_with_b]
    missing = sorted({*wanted} ^ ({*views} - {"B"}))
    require(not missing, f"codes go with {', '.join(wanted)}: {', '.join(missing)} differ")
    for name, view in views.items():
        matrix = case.tensors[name]
        packs = matrix.dtype.storage_bits < 8
        dtype = DType.U8 if packs else matrix.dtype
        require(view.dtype is dtype, f"{name} of {view.dtype.label}: it is given as {dtype.label}")
        elements = matrix.dtype.bytes(matrix.elements) if packs else matrix.elements
        held = math.prod(view.shape)
        require(held == elements, f"{name} has {held} elements: this product has {elements}")
        steps = zip(view.shape, view.strides, dense_strides(view.shape), strict=True)
        require(all(size == 1 or step == dense for size, step, dense in steps), f"{name} is not contiguous")
    return case


def _agree(
    sizes: Sizes, problem: Problem, matrix: MatrixSizes, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    """Take the sizes that `shape` gives. Raises InvalidInput if another operand has given others."""
    lead, rows = _lead(problem, matrix), matrix.rows
    if problem.batched and len(shape) == 2 and matrix.stride != "stride_c":  # one matrix for all products
        lead = ()
    if problem.inputs.gathered and matrix.name == "A":
        rows = ROWS_OF_A
    if problem.inputs.scattered and matrix.name == "C":
        rows = ROWS_OF_C
    names = (*lead, rows, matrix.cols)
    extent = " x ".join(map(str, shape)) or "one element"
    wanted = " x ".join(matrix.extent_text(name, {name: name}) for name in names)
    require(len(shape) == len(names), f"{matrix.name} is {extent}: this kernel takes it as {wanted}")
    for name, elements in zip(names, shape, strict=True):
        fixed, size = _fixed(problem, name), size_of(matrix, name, elements)
        before = sizes.setdefault(name, size if fixed is None else fixed)
        whose = "this kernel is built for" if fixed is not None else "the other operands have"
        hint = _transposed({**problem.sizes, **sizes}, matrix, shape, strides) if before != size else ""
        require(before == size, f"{matrix.name} is {extent} ({wanted}): {whose} {name} = {before}{hint}")


def _agree_of_images(sizes: Sizes, problem: Problem, conv: Convolution, shape: tuple[int, ...]) -> None:
    """The same of the operand that holds images."""
    name, places = problem.inputs.places, places_of_images(problem, conv, shape)
    before = sizes.setdefault(name, places)
    told = f"{problem.inputs.images} has images with {places} places of a filter in all, and A has {name} = {before}"
    require(before == places, told)
    if problem.inputs.wgrad:
        sizes["N"] = conv.depth


def _fixed(problem: Problem, name: str) -> int | None:
    """The size for which the kernel is built; None if a launch gives it."""
    return problem.inputs.groups if name == GROUPS else problem.sizes.get(name)


def size_of(matrix: MatrixSizes, name: str, elements: int) -> int:
    """The size `name` from the rows or columns of `matrix`. Raises InvalidInput if they are not a multiple of it."""
    times = matrix.times(name)
    require(
        elements % times == 0, f"{matrix.name} has {elements} columns: of {times} matrices side by side as many each"
    )
    return elements // times


def _transposed(
    known: Mapping[str, int | None], matrix: MatrixSizes, shape: tuple[int, ...], strides: tuple[int, ...]
) -> str:
    """A hint for an operand whose transpose has the `known` sizes and the right order; else empty."""
    rows, cols = shape[-1], shape[-2]
    fits = matrix.extent(matrix.rows, known) in (None, rows) and matrix.extent(matrix.cols, known) in (None, cols)
    lies = matrix.order == "c" and strides[-1:] == (1,)  # its transpose is column-major
    told = " x ".join(map(str, (*shape[:-2], rows, cols)))
    return f". Pass its transpose, a view of {told}" if fits and lies else ""


def _distances(problem: Problem, matrix: MatrixSizes, view: ArrayView) -> tuple[int | None, int | None]:
    """The distances of lines and of matrices in elements; None if there is only one.

    Raises InvalidInput if lines do not run as the kernel reads them.
    """
    rows, cols = view.shape[-2:]
    down, right = view.strides[-2:]
    along, across = (right, down) if matrix.order == "r" else (down, right)
    length, lines = (cols, rows) if matrix.order == "r" else (rows, cols)
    empty = 0 in view.shape
    order, strides = ("row", f"({matrix.ld}, 1)") if matrix.order == "r" else ("column", f"(1, {matrix.ld})")
    require(
        length <= 1 or along == 1 or lines == 0 or empty,
        f"{matrix.name} of {view.extent} has strides ({down}, {right}): this kernel reads it {order}-major, with "
        f"strides {strides}" + (", such as those of w.t() where rows of w follow each other" * (order == "column")),
    )
    together = len(view.shape) == 3 and view.shape[0] > 1
    shared = len(view.shape) == 2 and problem.batched and matrix in problem.strides
    apart = view.strides[0] if together else 0 if shared else None
    return None if empty or lines == 1 else across, None if empty else apart


def _same(distances: dict[str, int | None], name: str, value: int | None, whose: str) -> None:
    """Check that an output of the epilogue has C's layout."""
    before = distances.get(name)
    require(
        before is None or value is None or before == value,
        f"{whose} has {name} = {value}, and C {name} = {before}: they lie alike",
    )
    distances[name] = before if value is None else value


def require_operands(case: Case, views: Mapping[str, ArrayView], device: str, shape: tuple[int, ...]) -> None:
    """Raise InvalidInput unless each operand has the type, shape and device that the kernel takes. `shape` is C's."""
    located = {name: view for name, view in views.items() if view.ordinal is not None}  # empty arrays may not say it
    first, whole = next(iter((located or views).items()))
    for name, view in views.items():
        require_operand(case.problem, name, view)
        other = "the emulator reads arrays of the host" if device == "cpu" else "this kernel runs on a GPU"
        require(view.device == device, f"{name} is on {view.place}: {other}")
        require(view.ordinal in (None, whole.ordinal), f"{name} is on {view.place}, and {first} on {whole.place}")
        if name in COMPANIONS:
            _require_companion(case, name, view, shape)
        elif name in case.extra and not OPERANDS[name].is_matrix:
            _require_vector(case.problem, name, view, shape)
    for name in case.written:
        require(not views[name].readonly, f"{name} is written, and its array is read-only")


def require_operand(problem: Problem, name: str, view: ArrayView) -> None:
    """Raise InvalidInput unless `view` has the operand's element type."""
    wanted = problem.dtype_of(name)
    require(view.dtype is wanted, f"{name} is of {view.dtype.label}: this kernel ({problem}) takes {wanted.label}")


def require_address(problem: Problem, name: str, address: int, matrix: Matrix) -> None:
    """Raise InvalidInput for an address with less alignment than the kernel was promised."""
    align = problem.align_of(name)
    if address % align == 0 or matrix.elements == 0:
        return
    divides = address & -address
    require(
        False,
        f"{name} begins at address {address:#x}, which {divides} bytes divide: this kernel takes one that {align} "
        "bytes divide",
    )


def vector_shape(problem: Problem, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the epilogue's vector `name` for this `shape` of C; products of a batch share vectors that are
    read."""
    operand = OPERANDS[name]
    count, groups = {"m": shape[-2], "n": shape[-1]}.get(operand.along, 1), problem.groups_of(operand)
    if groups:
        return (groups, count) if operand.along else (groups,)
    return (*shape[:-2], count) if operand.is_amax else (count,)


def _require_companion(case: Case, name: str, view: ArrayView, shape: tuple[int, ...]) -> None:
    """Check the shape of a companion of A and B, and that its rows are as far apart as the kernel takes them. `shape`
    is C's."""
    one = next(one for one in case.problem.companions if one.name == name)
    sizes = {"M": shape[-2], "N": shape[-1], "K": case.k}
    rows, pitch, first = one.rows.count(sizes), one.pitch(sizes), 1 if name in VECTORS else 0
    lead, apart = ((one.matrices,), (rows * pitch,)) if one.matrices else ((), ())
    wanted, lies = (*lead, rows, one.cols.count(sizes))[first:], (*apart, pitch, 1)[first:]
    require(view.shape == wanted, f"{name} is {view.extent}: this launch takes {' x '.join(map(str, wanted))}")
    steps = zip(view.shape, view.strides, lies, strict=True)
    fits = 0 in wanted or all(size == 1 or step == wanted_step for size, step, wanted_step in steps)
    require(fits, f"{name} of {view.extent} has strides {view.strides}: this launch takes {lies}")


def _require_vector(problem: Problem, name: str, view: ArrayView, shape: tuple[int, ...]) -> None:
    """Check a vector's shape: one element per row or column, a row of them per group, or one for all. `shape` is
    C's."""
    wanted = vector_shape(problem, name, shape)
    count = wanted[-1]
    shapes = [wanted, ()] if wanted == (1,) else [wanted]
    told = " or ".join(" x ".join(map(str, shape)) or "one element" for shape in shapes)
    require(view.shape in shapes, f"{name} is {view.extent}: this launch takes {told}")
    dense = all(size <= 1 or step == 1 for size, step in zip(view.shape[-1:], view.strides[-1:], strict=True))
    apart = len(view.shape) < 2 or view.shape[0] == 1 or view.strides[0] == count
    require(
        dense and apart, f"{name} of {view.extent} has strides {view.strides}: its elements have to follow each other"
    )
