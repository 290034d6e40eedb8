"""What becomes of the accumulator: an expression over it, alpha and beta, C, further tensors and functions.

    gelu(alpha * acc + beta * C + bias_n) + residual

`acc` is an element of A * B, which K = 0 makes 0; `acc2`, `acc3` and `acc4` are those of A times further matrices,
which lie beside the first in B: K x 2N, 3N or 4N. `silu(acc) * acc2` is a gated activation. `row_sum` is the sum of its
row of A, `column_sum` that of its column of B, which the kernel computes besides, and `K` the number of their elements.
`C` stands for what C holds before the launch: it occurs only as `beta * C`, and beta = 0 leaves it unread. The value is
C's new element, rounded once.

Where sums are integers, what is made of acc, these and zero points by +, - and * alone is computed in integers, which
wrap around, and converted to the type of alpha by what uses it. Where alpha is an integer, all is.

The tree is the single source of CUDA's text (`kernel.epilogue_text`), of the reference and its error bound
(`verification.roundings`), of the operands that a kernel takes, and of its name.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property

from gemmgen.problem.forms import FORMS, forms_of, parse_forms
from gemmgen.problem.functions import FUNCTIONS
from gemmgen.problem.nodes import Binary, Call, Name, Node, Number, is_whole, unparse, walk
from gemmgen.problem.operands import ACC, ACCUMULATORS, DEPTH, OPERANDS, SCALARS, SUMS, C, Operand
from gemmgen.problem.parser import parse
from gemmgen.support.errors import require
from gemmgen.support.words import listed

MOST_NODES = 100  # of a tree
_SCALED_ACC = Binary("*", Name("alpha"), Name(ACC))


@dataclass(frozen=True)
class Epilogue:
    """The tree of C's new element. Raises InvalidInput for one that no kernel computes."""

    tree: Node

    def __post_init__(self) -> None:
        require(len(self.nodes) <= MOST_NODES, f"an epilogue has at most {MOST_NODES} terms, not {len(self.nodes)}")
        for name, matrix in self.accumulators.items():
            require(name in self.names, f"the epilogue {self} leaves out {name}, the product of A and {matrix}")
        summed = " and ".join(self.sums)
        require(
            self.products == 1 or not self.sums,
            f"the epilogue {self} takes {summed}, which go with one product, and {[*self.accumulators][-1]}",
        )
        scaled = sum(is_old(node) for node in self.nodes)
        require(
            self.names.count(C) == scaled,
            f"C stands apart from beta in {str(self)!r}: write beta * C, or residual for another matrix",
        )
        for operand in self.outputs:
            calls = sum(isinstance(node, Call) and node.name == operand.name for node in self.nodes)
            require(calls == 1, f"the epilogue {self} writes {operand.name} {calls} times")

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All of the tree, each behind its parts."""
        return tuple(walk(self.tree))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes if isinstance(node, Name))

    @cached_property
    def products(self) -> int:
        """The number of its accumulators: the products of A with as many matrices of B, for one C."""
        return max((n for n, name in enumerate(ACCUMULATORS, 1) if name in self.names), default=1)

    @property
    def accumulators(self) -> dict[str, str]:
        """Those of ACCUMULATORS that the kernel computes, each with the name of its matrix of B."""
        if self.products == 1:
            return {ACC: "B"}
        return {name: f"B{n}" for n, name in enumerate(ACCUMULATORS[: self.products], 1)}

    @property
    def accumulators_text(self) -> str:
        """What they are: "acc = A * B"."""
        each = ", ".join(f"{name} = A * {matrix}" for name, matrix in self.accumulators.items())
        return each if self.products == 1 else f"{each}, {listed(self.accumulators.values())} side by side in B"

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """What the kernel takes beside A, B and C, in the order of OPERANDS."""
        used = {*self.names, *(node.name for node in self.nodes if isinstance(node, Call))}
        return tuple(operand for name, operand in OPERANDS.items() if name in used)

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """The names of those that it calls, each as often as it does."""
        return tuple(node.name for node in self.nodes if isinstance(node, Call) and node.name in FUNCTIONS)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """Of these, what it writes."""
        return tuple(operand for operand in self.operands if operand.written)

    @property
    def scalars(self) -> tuple[str, ...]:
        """Of alpha and beta those that the kernel takes."""
        return tuple(name for name in SCALARS if name in self.names)

    @cached_property
    def sums(self) -> tuple[str, ...]:
        """Of SUMS those that the kernel computes."""
        return tuple(name for name in SUMS if name in self.names)

    @property
    def beside(self) -> tuple[str, ...]:
        """The sums that it takes beside acc."""
        return (*ACCUMULATORS[1 : self.products], *self.sums)

    @property
    def read(self) -> tuple[Operand, ...]:
        """Of these, what it reads."""
        return tuple(operand for operand in self.operands if not operand.written)

    @property
    def amaxes(self) -> tuple[Operand, ...]:
        """Of its outputs, the largest magnitudes of rows or columns."""
        return tuple(operand for operand in self.outputs if operand.is_amax)

    @property
    def written_matrices(self) -> tuple[Operand, ...]:
        """Of its outputs, the others."""
        return tuple(operand for operand in self.outputs if operand.is_matrix)

    @property
    def reads_shape(self) -> bool:
        """Whether C's new element depends on K or on a leading dimension."""
        return self.reads_depth or self.reads_matrix

    @property
    def reads_matrix(self) -> bool:
        """Whether it depends on a matrix beside C."""
        return any(operand.is_matrix for operand in self.read)

    @cached_property
    def alpha_scales_acc(self) -> bool:
        """Whether alpha is there for alpha * acc alone: where K = 0 it does not count then, be it infinite or NaN."""
        scaled = [node for node in self.nodes if node == _SCALED_ACC]
        return 0 < len(scaled) == self.names.count("alpha")

    @property
    def reads_depth(self) -> bool:
        """Whether it depends on K."""
        return DEPTH in self.names

    @property
    def has_matrix(self) -> bool:
        return any(operand.is_matrix for operand in self.operands)

    @property
    def reads_rows(self) -> bool:
        """Whether it depends on the row of C."""
        return any("m" in operand.along for operand in self.read)

    @property
    def reads_columns(self) -> bool:
        """Likewise on the column."""
        return any("n" in operand.along for operand in self.read)

    @property
    def reads_c(self) -> bool:
        """Whether it reads C, where beta is not 0."""
        return C in self.names

    @property
    def is_linear(self) -> bool:
        """alpha * acc + beta * C."""
        return self == LINEAR

    @property
    def token(self) -> str:
        """In a kernel's name: the forms that it is made of, else digits that are its own. Empty where linear."""
        forms = "" if self.is_linear else forms_of(self.tree)
        return f"ep{self._digest[:8]}" if forms is None else forms.replace("+", "_")

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(str(self).encode()).hexdigest()

    def __hash__(self) -> int:
        """Of the text, once: a search hashes its problem often."""
        return int(self._digest[:15], 16)

    def __str__(self) -> str:
        return unparse(self.tree)


def is_old(node: Node) -> bool:
    """Whether it is beta * C."""
    return isinstance(node, Binary) and node.operator == "*" and {node.left, node.right} == {Name("beta"), Name(C)}


def require_integers(epilogue: Epilogue) -> None:
    """Raise InvalidInput unless it can be computed in integers throughout."""
    for node in epilogue.nodes:
        match node:
            case Number(value):
                require(is_whole(node), f"the epilogue {epilogue} has {value:g}, and with C of s32 all is integers")
            case Binary("/"):
                require(False, f"the epilogue {epilogue} divides, and with C of s32 all is integers")
            case Call(name) if name in OPERANDS:
                whole = not OPERANDS[name].is_amax
                require(
                    whole, f"the epilogue {epilogue} has {name}, and with C of s32, where all is integers, none is kept"
                )
            case Call(name):
                known = ", ".join(name for name, one in FUNCTIONS.items() if one.integers)
                require(
                    FUNCTIONS[name].integers,
                    f"the epilogue {epilogue} calls {name}; with C of s32 all is integers, and of functions {known}",
                )


def parse_epilogue(text: str) -> Epilogue:
    """An expression over acc, or names of forms joined by +: `bias+gelu`. Raises InvalidInput.

    Forms apply in their order to alpha * acc; the first that is no scale adds beta * C before. zero_m and zero_n, which
    begin, take the zero points of A's rows and B's columns from acc. swiglu, geglu and lstm begin, too, and take the
    accumulators as they are.
    """
    if re.search(rf"\b({'|'.join(ACCUMULATORS)})\b", text, re.ASCII):
        read = (name for name, one in OPERANDS.items() if not one.written)
        return Epilogue(parse(text, (*ACCUMULATORS, *SUMS, DEPTH, *SCALARS, C, *read)))
    return Epilogue(parse_forms(text))


LINEAR = parse_epilogue("alpha * acc + beta * C")


def epilogue_of_token(token: str) -> Epilogue | None:
    """The epilogue whose `token` this is, where it is made of forms; None for any other text."""
    names = re.findall("|".join(sorted(FORMS, key=len, reverse=True)), token)
    return parse_epilogue("+".join(names)) if names and "_".join(names) == token else None
