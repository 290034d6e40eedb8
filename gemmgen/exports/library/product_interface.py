"""The function of a library's product: its arguments, and the self-test that reaches every rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from gemmgen.exports.arguments import Argument
from gemmgen.exports.interface import Interface
from gemmgen.exports.library.choice import Choice
from gemmgen.exports.library.members import case_of
from gemmgen.exports.library.spec import CHUNK, Product
from gemmgen.exports.selftest import SelfTest
from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case
from gemmgen.problem.inputs import Companion


@dataclass(frozen=True)
class ProductInterface(Interface):
    """The function of a product, like the launcher of a kernel that serves every call. B with codes it takes packed."""

    @property
    def takes_packed(self) -> bool:
        return self.coded

    @property
    def pointer_align(self) -> int:
        """The alignment in bytes of the addresses in the self-test, the largest that kernels may ask for."""
        return CHUNK

    @property
    def called(self) -> tuple[Argument, ...]:
        """The arguments of its function, without the workspace."""
        arguments = self.by_packed if self.takes_packed else self.arguments
        return tuple(one for one in arguments if not one.is_workspace)

    @property
    def located(self) -> dict[str, str]:
        """The arguments of its function that point to tensors, by the tensor's name."""
        if not self.takes_packed:
            return super().located
        found = {name: text for name, text in super().located.items() if name not in self.packed_from}
        return {**found, "B": "packed"}

    @cached_property
    def aligns(self) -> dict[str, int]:
        """The alignment in bytes of these, and of the tensors that are packed."""
        packed = {"packed": self.workspace_align, **{name: self.problem.align_of(name) for name in self.packed_from}}
        return {**super().aligns, **(packed if self.takes_packed else {})}

    @property
    def beside(self) -> tuple[Companion, ...]:
        """The operands of its function beside A and B: scales of blocks, ends of groups. Those of codes lie in B."""
        return self.problem.apart_from_b

    @property
    def fixed_sizes(self) -> dict[str, str]:
        """The sizes that are the same in every call, by name."""
        return {name: size for name, size in self.sizes.items() if name in ("M", "N", "K") and name != size}


def product_interface(library: str, product: Product, arch: str) -> ProductInterface:
    contract = Contract.of(product.general, Launch(1, (("M", 1), ("N", 1))))
    return ProductInterface(KernelSource(f"{library}_{product.name}", "", "", {}, contract), arch)


@dataclass(frozen=True)
class ProductTest(SelfTest):
    """The self-test of a product: sizes that reach every rule."""

    choices: tuple[Choice, ...] = ()

    @cached_property
    def shapes(self) -> tuple[Case, ...]:
        """The shapes. The one with the largest minimum of its sizes comes first, as its arguments can be made too
        small."""
        cases = dict.fromkeys(reach.case for reach in self.reaches)
        return tuple(sorted(cases, key=lambda case: -min(case.m, case.n, case.k)))

    @cached_property
    def reaches(self) -> tuple[Reach, ...]:
        return tuple(
            Reach(choice, kernel, case_of(replace(choice.product, batch=batch), example, rule.needs))
            for choice in self.choices
            for rule in choice.rules
            for kernel, example, batch in zip(
                rule.kernels,
                rule.examples,
                rule.batches or [choice.product.batch] * len(rule.kernels),
                strict=True,
            )
        )

    def place(self, reach: Reach) -> int:
        """The index of a call's shape."""
        return self.shapes.index(reach.case)


@dataclass(frozen=True)
class Reach:
    """A call that must go to a certain kernel, given by number."""

    choice: Choice
    number: int
    case: Case

    @property
    def kernel(self) -> str:
        return self.choice.members[self.number].name
