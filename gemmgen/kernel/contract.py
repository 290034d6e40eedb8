"""What a kernel promises to its callers, whoever wrote it: its problem, its launch and its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gemmgen.kernel.launch import DEPENDENT_LAUNCH, WORKSPACE, Launch
from gemmgen.kernel.prepare import PREPARED, Pack, Step, dtype_of_part
from gemmgen.kernel.tensor_map import parameter_of
from gemmgen.problem import operands
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.inputs import COMPANIONS, Companion
from gemmgen.problem.sizes import BATCH_SIZES
from gemmgen.support.errors import require

OPERANDS = ("A", "B", "C")
EXTRA = (*COMPANIONS, *operands.OPERANDS)  # that a product may take besides
POINTERS = (*OPERANDS, *WORKSPACE, *PREPARED, *EXTRA)
MAPS = tuple(parameter_of(name, tail) for name in (*OPERANDS, *EXTRA) for tail in (False, True))
MAP_TYPE = "const __grid_constant__ TensorMap"  # which the text declares: 128 bytes by value
SCALARS = ("M", "N", "K", "lda", "ldb", "ldc", "ld_residual", *BATCH_SIZES, "alpha", "beta")


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter: a pointer (A, B, C, workspace, epilogue), a scalar of `Case.values`, or a tensor map
    (`map_a`), one per entry of `Launch.maps`.

    In a batch of pointers A, B and C are arrays of pointers, called A_array, B_array and C_array in the `.cu`.
    """

    name: str
    ctype: str

    def __post_init__(self) -> None:
        known = POINTERS if self.is_pointer else MAPS if self.is_map else SCALARS
        require(self.name in known, f"unknown parameter {self.ctype} {self.name}: known are {', '.join(known)}")

    @property
    def is_pointer(self) -> bool:
        return self.ctype.endswith("*")

    @property
    def is_map(self) -> bool:
        return self.ctype == MAP_TYPE

    @property
    def is_array(self) -> bool:
        return self.ctype.endswith("* const*")

    def passed(self, value: float) -> float:
        """Return `value` as the Python type that stands for the parameter's type."""
        return value if self.ctype in ("float", "double") else int(value)

    @property
    def text(self) -> str:
        """The parameter's name in the `.cu`."""
        return f"{self.name}_array" if self.is_array else self.name


@dataclass(frozen=True)
class Contract:
    """What a kernel promises to its callers and what it relies on: a Plan gives one, the author of any other kernel
    writes one.

    problem     what it computes, and how operands lie and align
    launch      the launch, and those before it
    parameters  its parameters in the order of its signature
    """

    problem: Problem
    launch: Launch
    parameters: tuple[Parameter, ...]

    @classmethod
    def of(cls, problem: Problem, launch: Launch) -> Contract:
        """The contract of a kernel of `problem` with this launch that takes the usual parameters, in their order.

        Tensor maps come first, as they need the widest alignment. An operand with a map has no pointer, except in a
        batch of pointers, and C of groups of rows, whose last tiles threads store. If an earlier launch copies an
        operand, its map or pointer is the copy's.
        """
        types, to = problem.types, "* const*" if problem.pointers else "*"
        packed = any(isinstance(one, Pack) for one in launch.copies)  # with the companions of B
        workspace = (Parameter("partials", f"{types.accumulator.ctype}*"), Parameter("semaphores", "unsigned*"))
        pointers = (
            Parameter("A", f"const {types.a.ctype}{to}"),
            Parameter("B", f"const {types.b.ctype}{to}"),
            Parameter("C", f"{types.c.ctype}{to}"),
            *companion_parameters(problem.apart_from_b if packed else problem.companions),
            *(_parameter(problem, operand) for operand in problem.epilogue.operands),
        )
        mapped = {one.operand for one in launch.maps if not (one.anywhere or (launch.groups and one.operand == "C"))}
        parameters = (
            *(Parameter(one.parameter, MAP_TYPE) for one in launch.maps),
            *(_reached(one, launch) for one in pointers if one.name not in mapped),
            *(workspace if launch.leaves_partials else ()),
            *(Parameter(one.part, f"const {types.accumulator.ctype}*") for one in launch.sums),
            *(Parameter(name, size_type(name)) for name in problem.runtime_names),
            *(Parameter(name, types.scalar.ctype) for name in problem.epilogue.scalars),
        )
        return cls(problem, launch, parameters)

    @property
    def program(self) -> tuple[Contract, ...]:
        """Its launches in order, each with a contract of its own: those that prepare operands, then the kernel's."""
        return (*(self._prepare(one) for one in self.launch.prepares), self)

    def _prepare(self, one: Step) -> Contract:
        attributes = (DEPENDENT_LAUNCH,) if self.launch.overlapped else ()
        launch = Launch(one.threads, one.grid(self.problem), attributes=attributes)
        return Contract(self.problem, launch, prepare_parameters(self.problem, one))

    @property
    def zeroed(self) -> tuple[str, ...]:
        """Pointers to buffers that must be zeroed before the launch: see `Operand.written`."""
        taken = {parameter.name for parameter in self.parameters}
        return tuple(operand.name for operand in self.problem.epilogue.amaxes if operand.name in taken)

    def arguments(self, case: Case, pointers: Mapping[str, Any]) -> list[Any]:
        """The arguments in order, tensor maps left out; `pointers` maps POINTERS to the executor's own pointers."""
        return [pointers[p.name] if p.is_pointer else p.passed(case.values[p.name]) for p in self.parameters]

    @property
    def interface(self) -> dict[str, Any]:
        """Launch geometry and parameters as JSON-ready data."""
        return {
            "launch": self.launch.document,
            "parameters": [asdict(parameter) for parameter in self.parameters],
            **({"zeroed": list(self.zeroed)} if self.zeroed else {}),
        }


def _reached(pointer: Parameter, launch: Launch) -> Parameter:
    prepare = launch.prepared(pointer.name)
    if prepare is None:
        return pointer
    ctype = f"const {DType.S32.ctype}*" if isinstance(prepare, Pack) else pointer.ctype
    return Parameter(prepare.part, ctype)


def companion_parameters(companions: Iterable[Companion]) -> tuple[Parameter, ...]:
    """The parameters that are these companions of A and B, in their order."""
    return tuple(Parameter(one.name, f"const {one.dtype.ctype}*") for one in companions)


def prepare_parameters(problem: Problem, prepare: Step) -> tuple[Parameter, ...]:
    """Return the parameters of a launch that prepares an operand, in the order of its signature."""
    operand = prepare.of(problem)
    lies = (operand.ld, operand.stride) if prepare.source == prepare.operand else ()
    own = (operand.rows, operand.cols, "batch", *lies)
    return (
        Parameter(prepare.source, f"const {operand.dtype.ctype}*"),
        *(companion_parameters(problem.packed_with_b) if isinstance(prepare, Pack) else ()),
        Parameter(prepare.part, f"{dtype_of_part(problem, prepare.part).ctype}*"),
        *(Parameter(name, size_type(name)) for name in problem.runtime_names if name in own),
    )


def _parameter(problem: Problem, operand: operands.Operand) -> Parameter:
    constant = "" if operand.written else "const "
    return Parameter(operand.name, f"{constant}{problem.dtype_of(operand.name).ctype}*")


def size_type(name: str) -> str:
    """The C type of `name`, one of `Problem.sizes`."""
    return "long long" if name.startswith("stride_") else "int"
