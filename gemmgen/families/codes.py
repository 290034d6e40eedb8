"""Packed codes of 4 bits, of which threads make the numbers that tensor cores multiply: what templates/device/codes.cu
reads of them."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.kernel.prepare import Pack
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem

STEP = 16  # k of a word of eight codes: it holds those of two columns


@dataclass(frozen=True)
class Codes:
    """B's codes as threads read them.

    number  the type of the numbers that they stand for
    zeros   whether each group has a zero point
    middle  the code that stands for 0 where it has none
    depth   k of a chunk
    fused   whether pairs of numbers are made by fma alone: before sm_90 there is nothing else for bf16
    """

    number: DType
    zeros: bool
    middle: int
    depth: int
    fused: bool = False

    @classmethod
    def of(cls, problem: Problem, *, fused: bool = False) -> Codes | None:
        """Those of `problem`; None if its B has none."""
        types, inputs = problem.types, problem.inputs
        if inputs.group is None:
            return None
        middle = 8 if types.b.is_signed else 0
        return cls(types.a, inputs.zeros, middle, Pack("B").depth(problem), fused and types.a is DType.BF16)

    @property
    def words(self) -> int:
        """Words that a thread loads at once."""
        return min(4, self.depth // STEP)

    @property
    def span(self) -> int:
        """k of the words that a thread loads at once."""
        return STEP * self.words
