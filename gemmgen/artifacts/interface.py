"""What the exported files say about a kernel: its arguments, their ranges, its launch. Values only, no code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from gemmgen.kernel.epilogue_text import ReferenceText, reference_text
from gemmgen.kernel.notes import MatrixText, matrix_texts
from gemmgen.kernel.source import OPERANDS, KernelSource, Parameter
from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import Epilogue
from gemmgen.problem.matrix import Layout
from gemmgen.problem.sizes import POINTER_BYTES, SIZE_LIMIT
from gemmgen.support.errors import require
from gemmgen.verification.reference import LAMBDA


@dataclass(frozen=True)
class LeadingDimension:
    """A leading dimension that the launcher takes, and the line that it must hold (a size's name or number)."""

    name: str
    line: str


@dataclass(frozen=True)
class Stride:
    """A stride that the launcher takes, and the matrix that it must reach over: lines of `line` elements, `ld` apart.

    Each is a name or a number. may_be_zero: all products may share the matrix.
    """

    name: str
    lines: str
    ld: str
    line: str
    may_be_zero: bool


@dataclass(frozen=True)
class Interface:
    """The launcher of `source`, built for `arch` ("sm_90"), as the templates see it.

    Raises InvalidInput for a name that is no C identifier (it becomes file names) and an arch that is none.
    """

    source: KernelSource
    arch: str

    def __post_init__(self) -> None:
        require(
            re.fullmatch(r"[A-Za-z_]\w*", self.name, re.ASCII) is not None,
            f"{self.name!r} is no C identifier: it cannot name the exported files",
        )
        require(
            re.fullmatch(r"sm_[0-9]+[af]?", self.arch) is not None,
            f"{self.arch!r} is no architecture: the record's arch reads sm_90 or alike",
        )

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def cmake_arch(self) -> str:
        return self.arch.removeprefix("sm_")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.source.parameters

    @property
    def dtype(self) -> str:
        return str(self.source.problem.types)

    @property
    def precision(self) -> int:
        """Bits of an element's significand."""
        return self.source.problem.types.accumulator.precision

    @property
    def wide(self) -> str:
        """C++'s type for the self-test's reference."""
        return "double" if self.source.problem.types.accumulator == DType.F32 else "long double"

    @property
    def digits(self) -> int:
        """Decimal digits that tell any two elements apart."""
        return 9 if self.source.problem.types.accumulator == DType.F32 else 17

    @property
    def layout(self) -> Layout:
        return self.source.problem.layout

    @cached_property
    def sizes(self) -> dict[str, str]:
        """M, N, K, lda, ldb, ldc: the argument's name, or the number that the kernel is built for."""
        return {name: name if size is None else str(size) for name, size in self.source.problem.sizes.items()}

    @property
    def runtime_names(self) -> tuple[str, ...]:
        return self.source.problem.runtime_names

    @property
    def runtime_sizes(self) -> tuple[str, ...]:
        return tuple(name for name in self.runtime_names if name in ("M", "N", "K", "batch"))

    @property
    def runtime_lds(self) -> tuple[LeadingDimension, ...]:
        lines = self.source.problem.line_sizes
        return tuple(
            LeadingDimension(name, self.sizes[line]) for name, line in lines.items() if name in self.runtime_names
        )

    @property
    def runtime_strides(self) -> tuple[Stride, ...]:
        return tuple(
            Stride(name, self.sizes[lines], self.sizes[ld], self.sizes[line], name != "stride_c")
            for name, (lines, ld, line) in self.source.problem.stride_sizes.items()
            if name in self.runtime_names
        )

    @property
    def batched(self) -> bool:
        return self.source.problem.batched

    @property
    def pointers(self) -> bool:
        """Whether the launcher takes arrays of pointers to the matrices of a batch."""
        return self.source.problem.pointers

    @property
    def operands(self) -> tuple[str, ...]:
        """The arguments that say where A, B and C are: themselves, or the arrays."""
        return tuple(p.text for p in self.parameters if p.name in OPERANDS)

    @property
    def operand_align(self) -> int:
        """Bytes that divide what these arguments are."""
        return POINTER_BYTES if self.pointers else self.pointer_align

    @property
    def batch(self) -> str:
        """How many products: a number, or "batch"."""
        return self.sizes.get("batch", "1")

    @property
    def may_be_empty(self) -> tuple[str, ...]:
        """The sizes that can leave C without an element."""
        return tuple(name for name in self.runtime_sizes if name != "K")

    @property
    def size_limit(self) -> int:
        return SIZE_LIMIT

    @property
    def pointer_align(self) -> int:
        return self.source.problem.pointer_align

    @property
    def ld_align(self) -> int:
        return self.source.problem.ld_align

    @property
    def bound_lambda(self) -> float:
        """The self-test allows the errors that gemmgen's own verifier allows."""
        return LAMBDA

    @property
    def threads(self) -> int:
        return self.source.launch.threads

    @property
    def shared_bytes(self) -> int:
        return self.source.launch.shared_bytes

    @property
    def grid(self) -> tuple[tuple[str, int], ...]:
        """(size, tile): the grid has the product of ceil(size / tile) blocks."""
        return tuple((self.sizes[size], tile) for size, tile in self.source.launch.grid)

    @property
    def splits(self) -> int:
        return self.source.launch.splits

    @property
    def adds_up(self) -> bool:
        """Whether blocks share tiles, so that a launch takes a workspace."""
        return self.source.launch.adds_up

    @property
    def stream(self) -> int:
        """Blocks that share the last tiles; 0 where each tile has blocks of its own."""
        return 0 if self.source.launch.stream is None else self.source.launch.stream.blocks

    @property
    def partial_elements(self) -> int:
        """Of a part of a tile that a block leaves."""
        return self.source.launch.partial_elements

    @property
    def tiles(self) -> str:
        """Tiles of C, in terms of a function tiles(size, tile)."""
        return " * ".join(f"tiles({size}, {tile})" for size, tile in self.grid)

    @property
    def workspace_sizes(self) -> tuple[str, ...]:
        """The arguments that the workspace's size depends on."""
        return tuple(name for name in self.runtime_sizes if name != "K")

    @property
    def epilogue(self) -> Epilogue:
        return self.source.problem.epilogue

    @property
    def formula(self) -> str:
        """What becomes of C."""
        return "alpha * A * B + beta * C" if self.epilogue.is_linear else f"{self.epilogue}, acc = A * B"

    @property
    def reference(self) -> ReferenceText | None:
        """The self-test's, where the epilogue is not the linear one."""
        return None if self.epilogue.is_linear else reference_text(self.epilogue)

    @property
    def extra(self) -> tuple[str, ...]:
        """The arguments that say where the epilogue's operands are."""
        return tuple(operand.name for operand in self.epilogue.operands)

    @property
    def shape_fields(self) -> tuple[str, ...]:
        """Sizes and leading dimensions of a self-test's shape."""
        return ("M", "N", "K", *self.source.problem.line_sizes, "batch")

    @property
    def shape_strides(self) -> tuple[str, ...]:
        """And its strides."""
        return tuple(self.source.problem.stride_sizes)

    @property
    def matrices(self) -> tuple[MatrixText, ...]:
        return matrix_texts(self.source.problem)
