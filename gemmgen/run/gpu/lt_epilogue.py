"""The baseline's way to compute an epilogue: cuBLASLt's own if it has one, else a kernel behind the product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from gemmgen.families import NAIVE
from gemmgen.kernel.contract import Parameter
from gemmgen.kernel.plan import Plan
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DEFAULT_ARCH
from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import Epilogue, parse_epilogue
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.types import Compute
from gemmgen.render.kernel_text import Kernel, environment
from gemmgen.render.naming import short_name

APART_COLUMNS = 256  # that a block of the kernel behind the product serves: of one row
APART = "a kernel behind it"
ADDED = "residual as C"
# Types of A, B and C (of A and B beside a residual) for which cuBLASLt computes epilogues. It adds a bias of C's type.
OWN_TYPES = (DType.F32, DType.BF16, DType.F16)
LEFT = "partials"  # the parameter that is where a product was left which is no C: see `left_apart`


@dataclass(frozen=True)
class LtEpilogue:
    """An epilogue of cuBLASLt: its name and number (cublasLtEpilogue_t). Its gelu is the form with tanh.

    bias   whether it adds a vector's element to each column
    """

    name: str
    number: int
    bias: bool


_OWN = {
    "bias": LtEpilogue("BIAS", 4, True),
    "relu": LtEpilogue("RELU", 2, False),
    "bias+relu": LtEpilogue("RELU_BIAS", 6, True),
    **dict.fromkeys(("gelu", "gelu_tanh"), LtEpilogue("GELU", 32, False)),
    **dict.fromkeys(("bias+gelu", "bias+gelu_tanh"), LtEpilogue("GELU_BIAS", 36, True)),
}


@cache
def _own() -> dict[Epilogue, LtEpilogue]:
    """cuBLASLt's own by epilogue, with beta * C and without."""
    forms = {parse_epilogue(forms): own for forms, own in _OWN.items()}
    without = {parse_epilogue(str(epilogue).replace(" + beta * C", "")): own for epilogue, own in forms.items()}
    return {**without, **forms}


class _Apart(Kernel):
    """The view of an epilogue behind a product, for its template."""

    def __init__(self, plan: Plan, arch: str, name: str) -> None:
        super().__init__(plan, arch, name)
        self.left = left_apart(plan.problem)
        if self.left is not None:
            self.parameters = (*self.parameters, Parameter(LEFT, f"const {self.left.ctype}*"))


def own_epilogue(problem: Problem) -> LtEpilogue | None:
    """cuBLASLt's own epilogue for `problem`; None if it has none, or if the epilogue is linear."""
    types = problem.types
    alike = types.a is types.b is types.c and types.c in OWN_TYPES and types.compute in (Compute.FMA, Compute.TF32)
    return _own().get(problem.epilogue) if alike and not problem.pointers else None


def adds_residual(problem: Problem) -> bool:
    """Whether cuBLASLt adds the residual of `problem` itself: as its beta * C with a C that is not the result.

    C and the result have one type, and C may lie with strides of its own.
    """
    types, added = problem.types, str(problem.epilogue) == "alpha * acc + residual"
    known = types.a is types.b and types.a in OWN_TYPES and types.compute in (Compute.FMA, Compute.TF32)
    plain = problem.inputs.is_plain and not problem.pointers
    return added and known and plain and problem.dtype_of("residual") is types.c


def left_apart(problem: Problem) -> DType | None:
    """The type of the product that is left for a separate epilogue kernel; None if the product is left in C.

    A product with several matrices of B is wider than C, and cuBLASLt stores sums of integers only as s32 or s8.
    """
    types = problem.types
    left = types.accumulator if types.accumulator.is_integer else types.c
    return left if problem.products > 1 or left is not types.c else None


def epilogue_apart(problem: Problem, arch: str = DEFAULT_ARCH) -> KernelSource | None:
    """The kernel, for `arch`, that computes C from A * B once a product is done; None if none is needed.

    It takes the parameters of a fused kernel but does not read A and B, nor the old C if beta = 0. A product that is
    `left_apart` lies at the parameter LEFT: M x N, with as many times N as B has matrices. The result is also None if
    the epilogue needs sums of A or B.
    """
    own = own_epilogue(problem) is not None or adds_residual(problem)
    if problem.epilogue.is_linear or problem.epilogue.sums or own:
        return None
    plan = NAIVE.plan(problem, NAIVE.config_type(BM=1, BN=APART_COLUMNS))
    kernel = _Apart(plan, arch, short_name(problem, arch, "apart"))
    text = environment(problem.types, arch).get_template("epilogue/apart.cu").render(kernel=kernel)
    contract = replace(plan.contract, parameters=kernel.parameters)
    return KernelSource(kernel.name, text, plan.family, dict(plan.config.values), contract)


def product_before(case: Case) -> Case:
    """The product alone: that of `case`, or, if it is `left_apart`, the product with all of B's columns in a dense
    matrix."""
    problem = case.problem
    left = left_apart(problem)
    if left is None:
        return replace(case, alpha=1.0, beta=0.0)
    strides = {name: getattr(case, name) for name in ("stride_a", "stride_b") if problem.batched}
    dense = Problem(
        *(case.m, case.b.cols, case.k),
        types=replace(problem.types, c=left),
        layout=problem.layout,
        lda=case.lda,
        ldb=case.ldb,
        batch=case.batch,
        **strides,
    )
    return dense.case()


def baseline_epilogue(problem: Problem) -> str:
    """The name of the baseline's epilogue: "GELU_BIAS", `ADDED` or `APART`; empty for a linear one."""
    own = own_epilogue(problem)
    if own is not None:
        return own.name
    if adds_residual(problem):
        return ADDED
    return "" if problem.epilogue.is_linear else APART


def baseline_words(problem: Problem) -> str:
    """The baseline's epilogue as it follows the product's name in a table: ", GELU_BIAS"."""
    epilogue = baseline_epilogue(problem)
    return epilogue and (" and " if epilogue == APART else ", ") + epilogue
