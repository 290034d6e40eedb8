"""The operator gemmgen::grouped_mm: products of groups of rows, or of groups along K, in torch.compile and autograd."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch

from gemmgen.arrays.checked import MOST_FORMS
from gemmgen.problem.epilogue import Epilogue, parse_epilogue
from gemmgen.support.errors import require
from gemmgen.torch.operator import PRODUCTS, SUMS, Kernel, extent, kernel_named, names_of, torch_type
from gemmgen.torch.served import Served, fitting, refuse


def _scaled(end: str) -> Iterator[Epilogue]:
    """The product times a scale of its row and one of its column, and then `end`, in the ways to write that."""
    for scaled in ("acc * scale_m * scale_n", "acc * scale_n * scale_m"):
        yield from (parse_epilogue(f"{scaled}{end}"), parse_epilogue(f"alpha * {scaled}{end}"))
        yield parse_epilogue(f"alpha * {scaled} + beta * C{end}")


SCHEMA = "(Tensor a, Tensor b, Tensor offs, Tensor? bias, str[] kernels, ScalarType dtype, bool gradient) -> Tensor"
ALIGN = 16  # bytes, of every address
SCALES = "scale_m+scale_n"
# Epilogues that products ask for, by what messages call them.
EPILOGUES = {"": PRODUCTS, "bias": SUMS, SCALES: tuple(_scaled("")), f"{SCALES}+bias": tuple(_scaled(" + bias_n"))}


def grouped_mm(
    a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None, *, kernels: Sequence[Kernel]
) -> Any:
    """Compute what torch.nn.functional.grouped_mm does, by kernels with `inputs="groups=G"`: the experts of a mixture.

    2d x 3d  a is M x K, the rows of all groups, and b is G x K x N: M x N. Group g has rows offs[g - 1] to offs[g],
             and may have none. Rows from the last end on belong to no group: those of the result are undefined
    3d x 2d  a is G x M x K and b is K x N, the columns of all groups: M x N, the transpose of a product of the first
             form
    2d x 2d  a is M x K and b is K x N, for the K of all groups ("groups=G+along_k"): G x M x N

    offs       the ends of the groups: G numbers of int32 on the device of a, which do not descend. They are read by
               kernels alone, so that a call can be captured in a CUDA graph
    bias       G x N, a row for each group, in the first form; None: nothing is added
    out_dtype  the type of the result, a type of C of a kernel; None: that of a
    kernels    loaded kernels, or products of a library, for any of these products and for those of their gradients:
               with the epilogue bias, or without one. The first serves that fits in form, number of groups, epilogue,
               types, layout and sizes; those with a fixed M come first

    It can be traced by torch.compile. The gradient of a is a product of groups of rows, with b transposed, and that of
    b is one along K: for weights `w` of G x N x K, with b = w.mT, the kernels have layouts rc and rr, and cr with
    "groups=G+along_k". If no kernel fits a gradient's product, torch computes it: bf16 by its own grouped_mm, all else
    group by group, for which the host waits for offs. The gradient of a row of no group is 0.

    Raises InvalidInput if no kernel fits, with the reason for each, and for what kernels refuse.
    """
    dims = a.dim(), b.dim()
    if bias is not None and dims != (2, 3):
        require(False, f"a has {dims[0]} dimensions, and b {dims[1]}: bias goes with groups of rows, 2 and 3")
    if dims not in ((2, 3), (3, 2), (2, 2)):
        _refuse(*dims)
    require_ends(offs)
    dtype = a.dtype if out_dtype is None else out_dtype
    names = names_of(kernels)
    if dims == (3, 2):
        return _product(b.mT, a.mT, offs, None, names, dtype).mT
    return _product(a, b, offs, bias, names, dtype)


def _product(a: Any, b: Any, offs: Any, bias: Any, names: list[str], dtype: Any) -> Any:
    given = (a, b) if bias is None else (a, b, bias)
    learns = torch.is_grad_enabled() and any(one.requires_grad for one in given)
    run = OPERATOR if learns or torch.compiler.is_compiling() else _run
    return run(a, b, offs, bias, names, dtype, False)


def _refuse(*dims: int) -> None:
    both = "gemmgen.torch.gemm multiplies batches" if dims == (3, 3) else "2 and 3, 3 and 2, or 2 and 2 are groups"
    require(False, f"a has {dims[0]} dimensions, and b {dims[1]}: {both}")


def require_ends(offs: Any) -> None:
    """Raise InvalidInput unless these can be the ends of groups."""
    if offs is not None and offs.dtype is torch.int32 and offs.dim() == 1:
        return
    require(offs is not None, "offs is None: give the ends of the groups")
    require(offs.dim() == 1, f"offs has {offs.dim()} dimensions: it is a vector of the groups' ends")
    require(False, f"offs is of {offs.dtype}: torch.int32 is needed, as counts.cumsum(0, dtype=torch.int32) makes it")


class Asked(NamedTuple):
    """The part of a product by which its kernel is chosen: of a and b shape and strides.

    groups    number of groups
    types     of a, b and the result
    epilogue  what becomes of the product: one of EPILOGUES
    """

    a: tuple[Any, Any]
    b: tuple[Any, Any]
    groups: int
    types: tuple[Any, Any, Any]
    epilogue: str

    @property
    def along_k(self) -> bool:
        return len(self.b[0]) == 2


class _Groups(Served):
    """A kernel of groups of rows, or of groups along K."""

    def lacks(self, asked: Asked) -> str | None:
        inputs, layout, epilogue = self.problem.inputs, str(self.problem.layout), self.problem.epilogue
        groups = 0 if inputs.gathered or inputs.scattered else inputs.row_groups or inputs.k_groups
        if (inputs.along_k, groups) != (asked.along_k, asked.groups):
            wanted = f"groups={asked.groups}" + ("+along_k" if asked.along_k else "")
            return f"{self.takes}, and this product {wanted}"
        if epilogue not in EPILOGUES[asked.epilogue]:
            known = next((_called(name) for name, some in EPILOGUES.items() if epilogue in some), "another epilogue")
            return f"{self.name} has {known}, and this product {_called(asked.epilogue)}"
        if self.types != asked.types:
            return f"{self.name} multiplies {_text(self.types)}, and this product {_text(asked.types)}"
        for name, order, (shape, strides) in zip("ab", layout, asked[:2], strict=True):
            if not _lies(shape, strides, order):
                return f"{self.name} has layout {layout}: {name} has strides {tuple(strides)}"
        (m, k), n = asked.a[0], asked.b[0][-1]
        return next((f"{self.name} {told}" for told in self.other_sizes("product", M=m, N=n, K=k)), None)


_served = cache(_Groups)


def _called(epilogue: str) -> str:
    return f"the epilogue {epilogue}" if epilogue else "no epilogue"


def _text(types: tuple[Any, ...]) -> str:
    a, b, c = (str(one).removeprefix("torch.") for one in types)
    return f"{a} by {b} to {c}"


def _lies(shape: Sequence[int], strides: Sequence[int], order: str) -> bool:
    """Whether the lines of a matrix are rows (order r) or columns (order c)."""
    along = -1 if order == "r" else -2
    return strides[along] == 1 or shape[along] <= 1


def _run(a: Any, b: Any, offs: Any, bias: Any, kernels: list[str], dtype: Any, gradient: bool) -> Any:
    """Compute the product; for a gradient by torch if no kernel fits, and with 0 in rows of no group."""
    given = {} if bias is None else {"bias": bias}
    asked = asked_of(a, b, offs, dtype, "bias" if given else "", given)
    if gradient and _chosen(tuple(kernels), asked) is None:
        return _by_torch(a, b, offs, dtype)
    out = _empty(a, b, offs, bias, kernels, dtype, gradient)
    if gradient and b.dim() == 3:
        out.zero_()
    return computed(kernels, asked, a, b, out, offs, {} if bias is None else {"bias_n": bias})


def asked_of(a: Any, b: Any, offs: Any, dtype: Any, epilogue: str, by_group: dict[str, Any]) -> Asked:
    """What is asked for. Raises InvalidInput unless shapes fit, and those in `by_group` have a row for each group, of
    an element for each column of the result."""
    _require_shapes(a, b, offs)
    asked = Asked((a.shape, a.stride()), (b.shape, b.stride()), offs.shape[0], (a.dtype, b.dtype, dtype), epilogue)
    wanted = asked.groups, b.shape[-1]
    for name, vectors in by_group.items():
        fits = vectors.shape == wanted
        require(fits, f"{name} is {extent(vectors.shape)}: this product takes {extent(wanted)}, a row for each group")
    return asked


def computed(kernels: list[str], asked: Asked, a: Any, b: Any, out: Any, offs: Any, vectors: dict[str, Any]) -> Any:
    """Compute a product into `out`, with the epilogue's vectors. Raises InvalidInput if no kernel fits."""
    kernel = kernel_named(_chosen(tuple(kernels), asked) or refuse(_served, kernels, asked))
    dtype = torch_type(kernel.source.problem.types.scalar)
    operands = {name: _placed(vector.to(dtype)) for name, vector in vectors.items()}
    return kernel(a, b, out, offs=_placed(offs), **operands)


@lru_cache(MOST_FORMS)
def _chosen(kernels: tuple[str, ...], asked: Asked) -> str | None:
    """The first kernel that computes the product, of those for its M if there are some; None if none does."""
    return min(fitting(_served, kernels, asked), key=lambda one: _served(one).problem.m is None, default=None)


def _placed(vector: Any) -> Any:
    """Ends and vectors as kernels take them; a copy of what begins within 16 bytes, such as the tail of [0, *ends]."""
    vector = vector.contiguous()
    return vector.clone() if vector.data_ptr() % ALIGN else vector


def _require_shapes(a: Any, b: Any, offs: Any) -> None:
    if a.shape[1] == b.shape[-2] and (b.dim() == 2 or b.shape[0] == offs.shape[0]):
        return
    told, groups = f"a is {extent(a.shape)} and b {extent(b.shape)}", offs.shape[0]
    require(a.shape[1] == b.shape[-2], f"{told}: K = {a.shape[1]} and {b.shape[-2]} differ")
    require(False, f"{told}: offs has the ends of {groups} groups, and b {b.shape[0]}")


def _empty(a: Any, b: Any, offs: Any, bias: Any, kernels: list[str], dtype: Any, gradient: bool) -> Any:
    lead = (a.shape[0],) if b.dim() == 3 else (offs.shape[0], a.shape[0])
    return a.new_empty((*lead, b.shape[-1]), dtype=dtype)


def _by_torch(a: Any, b: Any, offs: Any, dtype: Any) -> Any:
    """The product by torch's grouped_mm where that takes it as it lies, else group by group; 0 in rows of no group."""
    own = getattr(torch.nn.functional, "grouped_mm", None)
    rows = b.dim() == 3
    bf16 = a.dtype == b.dtype == dtype == torch.bfloat16
    aligned = all(one.data_ptr() % ALIGN == 0 and 0 in (one.stride(-1) % 8, one.stride(-2) % 8) for one in (a, b))
    at_any_k = rows or (_in_order(a, "c") and _in_order(b, "r"))  # else each group has to begin at 16 bytes
    if own is None or not (bf16 and aligned and at_any_k):
        return _by_groups(a, b, offs, dtype)
    out = own(a, b, offs=offs)
    if rows:
        of_no_group = torch.arange(a.shape[0], device=a.device) >= offs[-1]
        out = out.masked_fill(of_no_group[:, None], 0)
    return out.contiguous()


def _in_order(matrix: Any, order: str) -> bool:
    return _lies(matrix.shape, matrix.stride(), order)


def _by_groups(a: Any, b: Any, offs: Any, dtype: Any) -> Any:
    out, begin = torch.zeros_like(_empty(a, b, offs, None, [], dtype, True)), 0
    for group, end in enumerate(offs.tolist()):
        if b.dim() == 3:
            out[begin:end] = a[begin:end] @ b[group]
        else:
            out[group] = a[:, begin:end] @ b[begin:end]
        begin = end
    return out


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    a, b, offs, bias, ctx.kernels, _, _ = inputs
    ctx.bias = None if bias is None else bias.dtype
    ctx.save_for_backward(a, b, offs)


def _backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    a, b, offs = ctx.saved_tensors
    need_a, need_b, _, need_bias, *_ = ctx.needs_input_grad
    of_bias = _sums_of_rows(grad, offs).to(ctx.bias) if need_bias else None
    grad = grad.to(a.dtype).contiguous()

    def product(one: Any, other: Any, dtype: Any) -> Any:
        return OPERATOR(one, other, offs, None, ctx.kernels, dtype, True)

    of_a = of_b = None
    if b.dim() == 3:
        if need_a:
            of_a = product(grad, b.mT, a.dtype)
        if need_b and _in_order(b, "c"):  # as b lies, so does its gradient
            of_b = product(grad.mT, a, b.dtype).mT
        elif need_b:
            of_b = product(a.mT, grad, b.dtype)
    else:
        if need_a:
            of_a = product(b, grad.mT, a.dtype).mT
        if need_b:
            of_b = product(a.mT, grad, b.dtype)
    return of_a, of_b, None, of_bias, None, None, None


def _sums_of_rows(grad: Any, offs: Any) -> Any:
    """The sum of each group's rows; rows of no group add to one behind the last."""
    group = torch.searchsorted(offs, torch.arange(grad.shape[0], dtype=offs.dtype, device=offs.device), right=True)
    dtype = torch.promote_types(grad.dtype, torch.float32)
    return grad.new_zeros(offs.shape[0] + 1, grad.shape[1], dtype=dtype).index_add(0, group, grad.to(dtype))[:-1]


OPERATOR = torch.library.custom_op("gemmgen::grouped_mm", _run, mutates_args=(), schema=SCHEMA)
OPERATOR.register_fake(_empty)
OPERATOR.register_autograd(_backward, setup_context=_save)
