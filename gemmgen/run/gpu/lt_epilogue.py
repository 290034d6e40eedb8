"""How the baseline computes an epilogue: cuBLASLt's own where it has one, else a kernel behind the product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from gemmgen.kernel.families import NAIVE
from gemmgen.kernel.naming import short_name
from gemmgen.kernel.render import Kernel, environment
from gemmgen.kernel.source import KernelSource, Parameter
from gemmgen.problem.case import Case
from gemmgen.problem.device import DEFAULT_ARCH
from gemmgen.problem.epilogue import Epilogue, parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import F32_TYPES

APART_COLUMNS = 256  # that a block of the kernel behind the product serves: of one row
APART = "a kernel behind it"
LEFT = "partials"  # the parameter that is where a product of A and both matrices of B was left


@dataclass(frozen=True)
class LtEpilogue:
    """One of cuBLASLt's: its name and number (cublasLtEpilogue_t). Its gelu is the form with tanh.

    bias   it adds a vector's element to each column
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
    """By epilogue, with beta * C and without."""
    forms = {parse_epilogue(forms): own for forms, own in _OWN.items()}
    without = {parse_epilogue(str(epilogue).replace(" + beta * C", "")): own for epilogue, own in forms.items()}
    return {**without, **forms}


class _Apart(Kernel):
    """Of an epilogue behind a product."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        left = Parameter(LEFT, f"const {self.types.c.ctype}*")
        return (*self.plan.parameters, left) if self.problem.products > 1 else self.plan.parameters


def own_epilogue(problem: Problem) -> LtEpilogue | None:
    """cuBLASLt's own for `problem`; None where it has none, or the epilogue is linear."""
    served = problem.types == F32_TYPES and not problem.pointers
    return _own().get(problem.epilogue) if served else None


def epilogue_apart(problem: Problem, arch: str = DEFAULT_ARCH) -> KernelSource | None:
    """The kernel, for `arch`, that makes C of the A * B which a product left there; None where none is needed.

    It takes the parameters of a fused kernel, and leaves A, B and the C of before, which beta = 0 leaves unread. Where
    B is two matrices, the product, M x 2N, lies where the parameter LEFT says.
    None either where it would have to sum A or B.
    """
    if problem.epilogue.is_linear or problem.epilogue.sums or own_epilogue(problem) is not None:
        return None
    plan = NAIVE.plan(problem, NAIVE.config_type(BM=1, BN=APART_COLUMNS))
    kernel = _Apart(plan, arch, short_name(problem, arch, "apart"))
    text = environment(problem.types, arch).get_template("epilogue/apart.cu").render(kernel=kernel)
    return KernelSource(
        kernel.name, text, problem, plan.family, dict(plan.config.values), plan.launch, kernel.parameters
    )


def product_before(case: Case) -> Case:
    """The product alone: of `case` itself, or, where B is two matrices, with all of its columns, to a dense M x 2N."""
    problem = case.problem
    if problem.products == 1:
        return replace(case, alpha=1.0, beta=0.0)
    strides = {name: getattr(case, name) for name in ("stride_a", "stride_b") if problem.batched}
    dense = Problem(
        *(case.m, case.b.cols, case.k),
        types=problem.types,
        layout=problem.layout,
        lda=case.lda,
        ldb=case.ldb,
        batch=case.batch,
        **strides,
    )
    return dense.case()


def baseline_words(problem: Problem) -> str:
    """What the baseline's product is given besides, for a table: ", GELU_BIAS"; empty for a linear epilogue."""
    own = own_epilogue(problem)
    if own is not None:
        return f", {own.name}"
    return "" if problem.epilogue.is_linear else f" and {APART}"
