"""How operands that are prepared once lie, and launches that know one operand alone."""

from __future__ import annotations

from typing import Any

from gemmgen.arrays.binding import Prepared, bound, require_address, require_operand, size_of
from gemmgen.arrays.view import ArrayView
from gemmgen.kernel.prepare import Pack, Prepare
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case


def layout_of(source: KernelSource, prepare: Prepare) -> str:
    """The layout of a copy in words, equal for all kernels that can share it."""
    if isinstance(prepare, Pack):
        types, inputs = source.problem.types, source.problem.inputs
        codes = f"codes of {types.b.label} with {inputs} for {types.a.label}"
        return f"{codes}, in chunks of {prepare.depth(source.problem)} k"
    dtype, pieces = prepare.lies(source.problem).dtype, prepare.pieces(source.problem)
    split = f"{pieces} pieces of " if pieces > 1 else ""
    summed = " and their sums" if source.launch.sums_of(prepare.operand) else ""
    return f"{split}{dtype.label} {'rows' if prepare.order == 'r' else 'columns'} of whole 16 bytes{summed}"


def case_of_one(source: KernelSource, name: str, view: ArrayView) -> Case:
    """A launch for preparing `name`, its only known operand: unknown sizes are the least ones."""
    problem = source.problem
    matrix = next(one for one in problem.matrices if one.name == name)
    batched = ("batch",) if problem.batched else ()
    names = (*batched, matrix.rows, matrix.cols)[-len(view.shape) :]
    known = {one: size_of(matrix, one, elements) for one, elements in zip(names, view.shape, strict=True)}

    def size(one: str) -> int:
        return int(known.get(one, problem.sizes[one] or 1))

    others = {}
    for other in problem.matrices[:2]:
        if other.name != name:
            shape = *(size(one) for one in batched), size(other.rows), other.beside * size(other.cols)
            if other.channels and problem.inputs.conv is not None:
                images = problem.inputs.conv.images(size(problem.inputs.places))
                shape = images * problem.inputs.conv.pixels, other.channels
            others[other.name] = Prepared(other.name, None, shape, "")
    case, _ = bound(problem, {name: view, **others})
    require_operand(problem, name, view)
    if 0 not in view.shape:
        require_address(problem, name, view.address, case.tensors[name])
    return case


def like(a: Any) -> Any:
    """The array that a call passed as A, whose library makes new arrays."""
    return a.array if isinstance(a, Prepared) else a
