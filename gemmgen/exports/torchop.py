"""NAME_torch.cpp as its template sees it: torch operators over the launcher. Values only, no code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from gemmgen.exports.arguments import ELEMENTS
from gemmgen.exports.interface import Interface
from gemmgen.problem.dtype import DType
from gemmgen.problem.operands import Operand
from gemmgen.problem.sizes import MatrixSizes


@dataclass(frozen=True)
class TorchOperator:
    """The operators `gemm`, which makes C, and `gemm_out`, over the launcher of `out`. They take no arrays of
    pointers."""

    out: Interface

    @property
    def matrices(self) -> tuple[MatrixSizes, ...]:
        return self.out.problem.matrices

    @property
    def vectors(self) -> tuple[Operand, ...]:
        """The epilogue's operands that are not matrices."""
        return tuple(one for one in self.out.epilogue.operands if not one.is_matrix)

    @property
    def read(self) -> tuple[str, ...]:
        """The epilogue's operands that are read."""
        return tuple(one.name for one in self.out.epilogue.operands if not one.written)

    @property
    def written(self) -> tuple[str, ...]:
        """The epilogue's outputs beside C."""
        return tuple(one.name for one in self.out.epilogue.outputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """All outputs: C, and those of the epilogue."""
        return ("C", *self.written)

    def type(self, operand: str) -> str:
        return f"at::{ELEMENTS[self.out.problem.dtype_of(operand)].torch}"

    def columns(self, matrix: MatrixSizes) -> str:
        """The columns of a matrix in terms of the sizes."""
        return matrix.extent_text(matrix.cols, {matrix.cols: matrix.cols})

    def fixed(self, name: str) -> int | None:
        """The size or distance that the kernel is built for; None if it is a run-time size."""
        return self.out.problem.sizes[name]

    def distance(self, name: str) -> int:
        """The leading dimension or stride; -1 if it is a run-time size."""
        fixed = self.fixed(name)
        return -1 if fixed is None else fixed

    def units(self, matrix: MatrixSizes) -> int:
        """The number of elements that divides its leading dimension, if that is a run-time size."""
        return next((one.unit for one in self.out.runtime_lds if one.name == matrix.ld), 1)

    @property
    def new_ld(self) -> str:
        """The leading dimension of a new C, in terms of N."""
        unit, fixed = self.units(self.matrices[2]), self.fixed("ldc")
        return f"(N + {unit - 1}) / {unit} * {unit}" if fixed is None and unit > 1 else str(fixed or "N")

    @property
    def new_stride(self) -> str:
        """The stride of a new C in a batch, in terms of M and its leading dimension."""
        ld = self.new_ld
        return str(self.fixed("stride_c") or f"M * {f'({ld})' if ' ' in ld else ld}")

    @cached_property
    def scalars(self) -> tuple[tuple[str, int], ...]:
        """The scalars of the epilogue, with their defaults."""
        return tuple((name, int(name == "alpha")) for name in self.out.epilogue.scalars)

    @property
    def number(self) -> tuple[str, str]:
        """The type of a scalar in a schema and in C++."""
        return ("int", "int64_t") if self.out.types.scalar.is_integer else ("float", "double")

    @property
    def rounds_scalars(self) -> bool:
        """Whether scalars are narrower than torch's numbers."""
        return bool(self.scalars) and self.out.types.scalar is DType.F32

    @property
    def schema(self) -> str:
        """The schema of `gemm`; it lacks beta, as its C holds nothing before."""
        made = ", ".join(["Tensor"] * len(self.outputs))
        returned = f"({made})" if self.written else made
        return f"gemm({self._schema(('A', 'B'), (), 'alpha')}) -> {returned}"

    @property
    def out_schema(self) -> str:
        """The schema of `gemm_out`."""
        return f"gemm_out({self._schema(('A', 'B', 'C'), self.written, 'alpha beta')}) -> ()"

    def _schema(self, matrices: tuple[str, ...], written: tuple[str, ...], scalars: str) -> str:
        marked = {name: f"({mark}!)" for name, mark in zip(self.outputs, "abcd", strict=False)}
        named = [f"Tensor {name}" for name in self.read] + [f"Tensor{marked[name]} {name}" for name in written]
        named += [f"{self.number[0]} {name}={value}" for name, value in self.scalars if name in scalars.split()]
        plain = [f"Tensor{marked[name] if name == 'C' else ''} {name}" for name in matrices]
        return ", ".join([*plain, *(["*", *named] if named else [])])

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """The parameters of the function behind `gemm`: types and names."""
        return (*_tensors("A", "B", *self.read), *self._numbers("alpha"))

    @property
    def out_parameters(self) -> tuple[tuple[str, str], ...]:
        """The parameters of the function behind `gemm_out`."""
        written = (("Tensor&", name) for name in self.written)
        return (*_tensors("A", "B"), ("Tensor&", "C"), *_tensors(*self.read), *written, *self._numbers("alpha", "beta"))

    def _numbers(self, *names: str) -> Iterator[tuple[str, str]]:
        return ((self.number[1], name) for name, _ in self.scalars if name in names)

    @property
    def out_arguments(self) -> tuple[str, ...]:
        """The arguments that `gemm` passes to the function behind `gemm_out`."""
        scalars = ("0" if name == "beta" else name for name, _ in self.scalars)
        return ("A", "B", "C", *self.read, *self.written, *scalars)

    @property
    def passed(self) -> tuple[str, ...]:
        """The launcher's arguments, without workspace and stream."""
        return tuple(self._passed(one.text, one.ctype) for one in self.out.arguments if not one.is_workspace)

    def _passed(self, name: str, ctype: str) -> str:
        if name in self.out.tensors:
            return f"static_cast<{ctype}>({name}.{'const_data_ptr' if ctype.startswith('const') else 'data_ptr'}())"
        if name in dict(self.scalars):
            known = {"float": "as_float", "int": "as_int"}
            return f'{known[ctype]}("{name}", {name})' if ctype in known else name
        for matrix in self.matrices:
            if name == matrix.ld:
                return f'as_int("{name}", place_of_{matrix.name}.ld)'
            if name == matrix.stride:
                return f"place_of_{matrix.name}.stride"
        return f'as_int("{name}", {name})'


def _tensors(*names: str) -> Iterator[tuple[str, str]]:
    return (("const Tensor&", name) for name in names)
