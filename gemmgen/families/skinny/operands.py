"""The roles of `skinny`'s operands: which one is small, how wide accesses are, and what unpacking an element costs."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import gcd

from gemmgen.families.base import Side, sides
from gemmgen.families.skinny.axes import MOST_SMALL, SkinnyConfig
from gemmgen.kernel.prepare import Codes
from gemmgen.problem.device import WARP
from gemmgen.problem.dtype import WORD, DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import Instruction, instruction
from gemmgen.problem.types import Types

# Instructions that take an element out of its register, as compiled for sm_90; an integer's where sums are floats.
LANES_OF_K = 4  # lanes of a warp at different k, in fragments of tensor-core instructions
PAIR = 2  # neighbouring k in a register of such a fragment
UNPACKING = {DType.F32: 0, DType.BF16: 1, DType.F16: 1, DType.E4M3: 1.5, DType.E5M2: 2, DType.S8: 2, DType.U8: 2}


@lru_cache(maxsize=64)
def roles(problem: Problem) -> tuple[Side, Side]:
    """Return (the small operand, the weights): B is the small one if N is known to be less than M."""
    a, b = sides(problem)
    if problem.coded:  # packed codes lie along k, whatever the order of B is
        return a, replace(b, along_k=True)
    n_is_less = problem.n is not None and (problem.m is None or problem.n < problem.m)
    m_is_small = problem.m is None and problem.n is not None and problem.n > MOST_SMALL
    return (b, a) if n_is_less and not m_is_small else (a, b)


def tensor_core(types: Types) -> Instruction:
    """The instruction m16n8k16, for whose fragments the templates are written."""
    return Instruction() if types.uniform else instruction(types, k=16, m=16)


def weight_width(problem: Problem, config: SkinnyConfig) -> int:
    """Elements per access to the weights: VEC, capped by the alignment of their lines, and by T if lines run across
    C. Of packed codes, the k of a lane's access, which has two columns."""
    _, w = roles(problem)
    codes = Codes.of(problem)
    if codes is not None:
        return codes.span // LANES_OF_K
    width = gcd(config.VEC * WORD // problem.dtype_of(w.X).size, problem.vector_limit(w.ld))
    return width if w.along_k else gcd(width, config.T)


def small_width(problem: Problem, config: SkinnyConfig) -> int:
    """Elements per access of a thread to the small operand in global memory: along its lines, as far as the step
    goes."""
    x, w = roles(problem)
    width = gcd(config.VEC * WORD // problem.dtype_of(x.X).size, problem.vector_limit(x.ld))
    if not x.along_k:
        return gcd(width, config.S)
    if problem.coded:
        return gcd(width, PAIR)
    if config.BK == 0:
        return gcd(width, weight_width(problem, config) if w.along_k else config.DEPTH)
    # Chunks begin at multiples of BK from a block's first k, and that lies whole steps from 0.
    step = WARP if w.along_k else config.WARPS * (WARP // config.LANES) * config.DEPTH
    return gcd(width, config.BK, step if config.SPLIT > 1 else 0)


def dots(problem: Problem, config: SkinnyConfig) -> bool:
    """Whether a register holds four neighbouring k, as bytes, of a thread's weights and of the small operand."""
    x, w = roles(problem)
    whole = weight_width(problem, config) % 4 == 0 and (
        config.BK > 0 or (x.along_k and small_width(problem, config) % 4 == 0)
    )
    return problem.types.accumulator.is_integer and not problem.types.uniform and w.along_k and whole


def unpacking(problem: Problem, side: Side) -> float:
    """Instructions that unpack one element of `side` from its register."""
    dtype = problem.dtype_of(side.X)
    return 0 if problem.types.uniform else 1 if problem.types.accumulator.is_integer else UNPACKING[dtype]
