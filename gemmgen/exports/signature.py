"""The arguments of a launcher, their types and meanings. They are the same for every kernel of a problem."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from gemmgen.exports.arguments import ELEMENTS, WORKSPACE, Argument, Element
from gemmgen.exports.built import Built
from gemmgen.kernel.contract import OPERANDS, Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.notes import MatrixText, images_held, images_text, matrix_texts, walk_text
from gemmgen.kernel.prepare import PREPARED, dtype_of_part
from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import Epilogue
from gemmgen.problem.inputs import VECTORS
from gemmgen.problem.nodes import Call, unparse
from gemmgen.problem.sizes import SIZE_LIMIT

HALF_BYTE = 4  # bits
NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Signature(Built):
    """The arguments of a launcher as the templates see them, independent of the kernel's config."""

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The launcher's arguments without the stream at the end, which are the same for any kernel of the problem.

        They are operands, run-time sizes, leading dimensions, strides, scalars and the workspace.
        """
        plain = Launch(self.launch.threads, self.launch.grid)
        return (*(self._argument(parameter) for parameter in Contract.of(self.problem, plain).parameters), *WORKSPACE)

    def declared(
        self,
        arguments: Iterable[Argument],
        *,
        before: str = "",
        behind: str = "",
        unused: bool = False,
        commented: bool = False,
    ) -> str:
        """A list of parameters, one per line, with others `before` and `behind`.

        unused     whether the workspace has no name, for a definition that does not use it
        commented  whether names are comments, for a header whose users may have a macro M
        """
        name = "{0.ctype} /* {0.text} */" if commented else "{0.ctype} {0.text}"
        own = (name.format(one) if not (unused and one.is_workspace) else one.ctype for one in arguments)
        parts = [part.replace(" ", NO_BREAK) for part in (before, *own, behind) if part]
        lines = textwrap.wrap(", ".join(parts), 114, break_long_words=False, break_on_hyphens=False)
        return textwrap.indent("\n".join(lines), "    ").replace(NO_BREAK, " ")

    def _argument(self, parameter: Parameter) -> Argument:
        """The argument for a parameter. CUDA's headers have other names for the kernel's own structs, with the same
        bits."""
        dtype, text = self._dtype_of(parameter.name), parameter.text
        if dtype is None:
            return Argument(parameter.ctype.replace("long long", "ptrdiff_t"), text, text)  # which C89 has
        element = ELEMENTS[dtype]
        ctype = parameter.ctype.replace(dtype.ctype, element.name)
        return Argument(ctype, text, f"reinterpret_cast<{parameter.ctype}>({text})" if element.header else text)

    def _dtype_of(self, parameter: str) -> DType | None:
        """The element type of a tensor, a scalar or the workspace's partial sums; None for a size."""
        if parameter in self.tensors:
            return self.problem.dtype_of(parameter)
        if parameter in PREPARED:
            return dtype_of_part(self.problem, parameter)
        if parameter == "partials":
            return self.types.accumulator
        return self.types.scalar if parameter in self.epilogue.scalars else None

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """A, B, C, the companions of A and B, and the epilogue's operands."""
        return (*OPERANDS, *self.companions, *self.extra)

    @property
    def companions(self) -> tuple[str, ...]:
        """The tensors beside A and B: the scales and zero points of B's codes, the scales of blocks of both, or the
        ends of groups of rows."""
        return tuple(one.name for one in self.problem.companions)

    @property
    def coded(self) -> bool:
        """Whether B has codes, which are packed with their companions."""
        return self.problem.coded

    @property
    def halves(self) -> bool:
        """Whether a code of B is half of a byte."""
        return self.problem.code_bits == HALF_BYTE

    @property
    def code_range(self) -> str:
        """The values of a code of B, in words."""
        b = self.types.b
        return f"{int(b.least)} to {int(b.largest)}" + (" in two's complement" if b.is_signed else "")

    @property
    def decoded(self) -> str:
        """The value of an element of B that is stored as a code, in words."""
        value = "(code - zero point) * scale" if self.problem.inputs.zeros else "code * scale"
        if self.problem.scaled_depth:
            return f"{value}, which is not rounded: sums are multiplied by the scale"
        return f"{value}, rounded once to {self.types.a.label}"

    @cached_property
    def element(self) -> dict[str, str]:
        """The C++ element type of each tensor, of the sums and of the scalars."""
        dtypes = {name: self.problem.dtype_of(name) for name in self.tensors}
        dtypes |= {"sums": self.types.accumulator, "scalar": self.types.scalar}
        return {name: ELEMENTS[dtype].name for name, dtype in dtypes.items()}

    @cached_property
    def elements(self) -> tuple[Element, ...]:
        """The element types of the tensors."""
        return tuple(dict.fromkeys(ELEMENTS[self.problem.dtype_of(name)] for name in self.tensors))

    @property
    def cuda_elements(self) -> tuple[Element, ...]:
        """The element types that C++ lacks."""
        return tuple(element for element in self.elements if element.header)

    @property
    def cuda_headers(self) -> tuple[str, ...]:
        """The CUDA headers that define them."""
        return tuple(sorted({element.header for element in self.cuda_elements}))

    @property
    def has_integers(self) -> bool:
        """Whether a type of <stdint.h> occurs."""
        return any(re.search(r"\bu?int\d+_t\b", argument.ctype) for argument in self.arguments)

    @cached_property
    def sizes(self) -> dict[str, str]:
        """M, N, K, lda, ldb, ldc: the argument's name, or the number that the kernel is built for."""
        return {name: name if size is None else str(size) for name, size in self.problem.sizes.items()}

    @property
    def runtime_names(self) -> tuple[str, ...]:
        return self.problem.runtime_names

    @property
    def runtime_sizes(self) -> tuple[str, ...]:
        return tuple(name for name in self.runtime_names if name in ("M", "N", "K", "batch"))

    @property
    def takes_batch(self) -> bool:
        """Whether the number of products is an argument."""
        return "batch" in self.runtime_names

    @property
    def operands(self) -> tuple[str, ...]:
        """The arguments that point to A, B and C, or to their arrays of pointers."""
        return tuple(one.text for one in self.arguments if one.text.removesuffix("_array") in OPERANDS)

    @property
    def located(self) -> dict[str, str]:
        """The arguments that point to tensors, by the tensor's name."""
        beside = (*self.companions, *self.extra)
        return {**dict(zip(OPERANDS, self.operands, strict=True)), **{name: name for name in beside}}

    @property
    def behind_align(self) -> str:
        """The alignment in bytes of the addresses in arrays of pointers: "16", or "2 (A), 2 (B), 4 (C)"."""
        aligns = {name: self.problem.align_of(name) for name in OPERANDS}
        if len(set(aligns.values())) == 1:
            return str(aligns["A"])
        return ", ".join(f"{align} ({name})" for name, align in aligns.items())

    @property
    def takes_integers(self) -> bool:
        """Whether the epilogue takes zero points or sums: integers where the sums of A * B are."""
        return any(operand.summed for operand in self.epilogue.operands)

    @property
    def amaxes(self) -> dict[str, str]:
        """The output vectors that a launch zeroes before, and the number of elements of each."""
        batch = f"{self.batch} * " if self.problem.batched else ""
        return {one.name: f"{batch}{self.sizes[str(one.size)]}" for one in self.epilogue.amaxes}

    @property
    def batch(self) -> str:
        """The number of products: a number, or "batch"."""
        return self.sizes.get("batch", "1")

    @property
    def may_be_null(self) -> tuple[str, ...]:
        """The arguments that are not read if K = 0: what is packed with codes has to be there."""
        scales = [name for name in self.companions if name not in VECTORS] if self.problem.inputs.blocks else ()
        return ("A", "B", *scales) if "K" in self.runtime_sizes and not self.problem.pointers else ()

    @property
    def may_be_empty(self) -> tuple[str, ...]:
        """The sizes that can leave C without elements."""
        return tuple(name for name in self.runtime_sizes if name != "K")

    @property
    def size_limit(self) -> int:
        """The limit of each size, which the columns of B, possibly of several matrices, also obey."""
        return SIZE_LIMIT // self.problem.products

    @property
    def epilogue(self) -> Epilogue:
        return self.problem.epilogue

    @property
    def formula(self) -> str:
        """The formula of C."""
        return "alpha * A * B + beta * C" if self.epilogue.is_linear else f"{self.epilogue}, {', '.join(self._terms)}"

    @property
    def _terms(self) -> Iterator[str]:
        """The meanings of the epilogue's names that are not arguments."""
        yield self.epilogue.accumulators_text
        meant = {"row_sum": "row_sum of a row of A", "column_sum": "column_sum of a column of B"}
        yield from (meant[name] for name in self.epilogue.sums)

    @property
    def written(self) -> dict[str, str]:
        """The value of each output beside C, by the operand's name."""
        calls = {node.name: node for node in self.epilogue.nodes if isinstance(node, Call)}
        return {operand.name: unparse(calls[operand.name].arguments[0]) for operand in self.epilogue.outputs}

    @property
    def extra(self) -> tuple[str, ...]:
        """The arguments that point to the epilogue's operands."""
        return tuple(operand.name for operand in self.epilogue.operands)

    @property
    def matrices(self) -> tuple[MatrixText, ...]:
        """A, B, C and the epilogue's matrices for the header. Where an index names rows there may be any number."""
        inputs = self.problem.inputs
        named = {"A": inputs.gathered, "C": inputs.scattered}
        return tuple(replace(one, rows="rows") if named.get(one.name) else one for one in matrix_texts(self.problem))

    @property
    def groups(self) -> str | None:
        """A sentence for a header: which rows or products each group has. None without groups."""
        inputs = self.problem.inputs
        if inputs.masked:
            return "product g has group_rows[g] rows: C's other rows stay as they are"
        if inputs.along_k:
            return "product g sums k from offs[g - 1], or 0, to offs[g]; if there is none, A * B is 0"
        rows = "each with its own B: group g has rows offs[g - 1], or 0, to offs[g]; it may be empty"
        return f"{self.each}, {rows}" if inputs.groups else None

    @property
    def each(self) -> str:
        """For what C is computed, where that is more than one product, in a few words; else ""."""
        inputs = self.problem.inputs
        if inputs.own_c:
            what = "whose first rows count" if inputs.masked else "along K"
            return f"for each of {inputs.groups} groups {what}"
        if inputs.groups:
            return f"for each of {inputs.groups} groups of rows"
        if not self.problem.batched:
            return ""
        return "for each of batch products" if self.batch == "batch" else f"for each of {self.batch} products"

    @property
    def unchecked(self) -> dict[str, str]:
        """Sentences for a header, by the tensor's name: which values its integers may have. No launcher checks them."""
        inputs, found = self.problem.inputs, {}
        if inputs.masked:
            found["group_rows"] = "holds numbers from 0 to M, which is not checked"
        elif inputs.groups:
            found["offs"] = f"holds ascending numbers from 0 to {'K' if inputs.along_k else 'M'}, which is not checked"
        if inputs.row_groups:
            found["offs"] += "; rows of C behind the last group stay as they are"
        if inputs.gathered:
            none = "; it is not read for rows in no group" if inputs.groups else ""
            found["index_a"] = f"names rows that A has, which is not checked; A may have any number of rows{none}"
        if inputs.scattered:
            none = "; rows in no group may have any number" if inputs.groups else ""
            named = "names different rows that C has, which is not checked"
            found["index_c"] = f"{named}; C's other rows stay as they are{none}"
        return found

    whole_images = (
        "the last image is whole and finite even if K ends within it: its other pixels are multiplied by zeros"
    )

    @property
    def images(self) -> str | None:
        """How many images A or B holds, and where C and K come from in words; None of a product of matrices."""
        inputs = self.problem.inputs
        if inputs.conv is None:
            return None
        walk = walk_text(self.problem)
        return f"{images_held(self.problem)}; {images_text(self.problem)}{f'; {walk}' if walk else ''}"
