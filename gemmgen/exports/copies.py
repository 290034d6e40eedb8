"""The launches that prepare operands, as an exported launcher needs them. Values only, no code."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.exports.elements import ELEMENTS
from gemmgen.kernel.prepare import LineSums, Prepare, Step
from gemmgen.problem.gemm import Problem


@dataclass(frozen=True)
class Prepared:
    """A part of the workspace that an earlier launch writes; sizes are as in `Interface.sizes`.

    entry    the launch's function
    passed   its arguments, in order
    """

    prepare: Step
    problem: Problem
    sizes: dict[str, str]
    entry: str
    passed: tuple[str, ...]

    @property
    def part(self) -> str:
        return self.prepare.part

    @property
    def operand(self) -> str:
        return self.prepare.operand

    @property
    def grid(self) -> tuple[tuple[str, int], ...]:
        """(size, tile) pairs of its grid, as in `Interface.grid`."""
        return tuple((self.sizes[size], tile) for size, tile in self.prepare.grid(self.problem))


@dataclass(frozen=True)
class Sums(Prepared):
    """The sums of an operand's lines."""

    prepare: LineSums

    @property
    def element(self) -> str:
        """The C++ element type."""
        return ELEMENTS[self.problem.types.accumulator].name

    @property
    def bytes(self) -> str:
        """The bytes of all products' sums, as an expression."""
        batch = f"{self.sizes['batch']} * " if self.problem.batched else ""
        return f"sizeof({self.element}) * {batch}{self.sizes[self.prepare.lines]}"

    @property
    def sized_by(self) -> tuple[str, ...]:
        """The arguments that its size depends on."""
        return tuple(name for name in (self.prepare.lines, "batch") if name in self.problem.runtime_names)


@dataclass(frozen=True)
class Copy(Prepared):
    """The copy of an operand."""

    prepare: Prepare

    @property
    def element(self) -> str:
        """The C++ element type. Pieces have the kernels' own types: their bits need no CUDA header."""
        if self.prepare.pieces(self.problem) > 1:
            return "unsigned short"
        return ELEMENTS[self.prepare.lies(self.problem).dtype].name

    @property
    def unit(self) -> int:
        """The number of elements that divides the copy's leading dimension."""
        return self.prepare.unit(self.problem)

    @property
    def lines(self) -> str:
        copy = self.prepare.lies(self.problem)
        return copy.extent_text(copy.lines, self.sizes)

    @property
    def length(self) -> str:
        """The length of its lines."""
        copy = self.prepare.lies(self.problem)
        return copy.extent_text(copy.line, self.sizes)

    @property
    def ld(self) -> str:
        """Elements from one line to the next, in terms of a function copy_ld(length, unit)."""
        return f"copy_ld({self.length}, {self.unit})"

    @property
    def stride(self) -> str:
        """Elements from the copy for one product to the next."""
        return f"{self.lines} * {self.ld}"

    @property
    def elements(self) -> str:
        """Elements of all copies, including the padding of lines."""
        return f"{self.matrices} * {self.stride}" if self.matrices else self.stride

    @property
    def matrices(self) -> str:
        """The number of matrices, over all products and pieces; empty if it is one."""
        pieces = self.prepare.pieces(self.problem)
        batch = [self.sizes["batch"]] if self.problem.batched else []
        return " * ".join([*([str(pieces)] if pieces > 1 else []), *batch])

    @property
    def bytes(self) -> str:
        """The bytes of all copies, as an expression."""
        return f"sizeof({self.element}) * {self.elements}"

    @property
    def sized_by(self) -> tuple[str, ...]:
        """The arguments that its size depends on."""
        operand = self.prepare.of(self.problem)
        names = (operand.rows, operand.cols, "batch")
        return tuple(name for name in names if name in self.problem.runtime_names)
