"""What an exported launcher says of the launches that prepare operands. Values only, no code."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.exports.elements import ELEMENTS
from gemmgen.kernel.prepare import LineSums, Prepare, Step
from gemmgen.problem.gemm import Problem


@dataclass(frozen=True)
class Prepared:
    """A part of the workspace that a launch before the kernel's writes; sizes as `Interface.sizes` has them.

    entry    the launch's function
    passed   what it gets, in order
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
    def threads(self) -> int:
        return self.prepare.threads

    @property
    def grid(self) -> tuple[tuple[str, int], ...]:
        """As `Interface.grid`."""
        return tuple((self.sizes[size], tile) for size, tile in self.prepare.grid(self.problem))


@dataclass(frozen=True)
class Sums(Prepared):
    """The sums of an operand's lines."""

    prepare: LineSums

    @property
    def element(self) -> str:
        """C++'s type."""
        return ELEMENTS[self.problem.types.accumulator].name

    @property
    def bytes(self) -> str:
        """Of all products' sums."""
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
        """C++'s type. Pieces are the kernels' own: their bits need no header of CUDA's."""
        if self.prepare.pieces(self.problem) > 1:
            return "unsigned short"
        return ELEMENTS[self.prepare.lies(self.problem).dtype].name

    @property
    def unit(self) -> int:
        """Elements that divide the copy's leading dimension."""
        return self.prepare.unit(self.problem)

    @property
    def lines(self) -> str:
        copy = self.prepare.lies(self.problem)
        return copy.extent_text(copy.lines, self.sizes)

    @property
    def length(self) -> str:
        """Of its lines."""
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
        """Of all copies, with what lies behind their lines' ends."""
        return f"{self.matrices} * {self.stride}" if self.matrices else self.stride

    @property
    def matrices(self) -> str:
        """How many matrices it is, of all products and pieces; empty where it is one alone."""
        pieces = self.prepare.pieces(self.problem)
        batch = [self.sizes["batch"]] if self.problem.batched else []
        return " * ".join([*([str(pieces)] if pieces > 1 else []), *batch])

    @property
    def bytes(self) -> str:
        """Of these."""
        return f"sizeof({self.element}) * {self.elements}"

    @property
    def sized_by(self) -> tuple[str, ...]:
        """The arguments that its size depends on."""
        operand = self.prepare.of(self.problem)
        names = (operand.rows, operand.cols, "batch")
        return tuple(name for name in names if name in self.problem.runtime_names)
