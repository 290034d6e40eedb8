"""A library as its templates see it: products, kernels and rules. Values only, no code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from gemmgen.exports.arguments import ELEMENTS, Argument, Element
from gemmgen.exports.built import Architectures
from gemmgen.exports.library.choice import Choice
from gemmgen.exports.library.members import CublasLt, Member
from gemmgen.exports.library.product_interface import ProductInterface, ProductTest, Reach, product_interface
from gemmgen.exports.library.spec import OWN_NAMES, Product, Spec, own_name, quantise_names
from gemmgen.exports.library.statuses import (
    INVALID,
    MISALIGNED,
    MISALIGNED_BESIDE_CODES,
    MISALIGNED_WHERE_TOLD,
    NO_GRID,
    OF_CUBLASLT,
    OLD_DRIVER,
    SUCCESS,
    Status,
)
from gemmgen.exports.library.table import AXES
from gemmgen.exports.library.table_text import TableText
from gemmgen.problem.device import arch_number
from gemmgen.problem.inputs import QUANTISED
from gemmgen.problem.sizes import SIZE_LIMIT
from gemmgen.support.errors import require

# Names that the header of a kernel declares behind its name.
FUNCTIONS = (
    *("launch", "make_plan", "plan", "prepare_a", "prepare_b", "refusal", "run", "run_prepared", "workspace_bytes"),
    *("h", "make_packed_plan", "pack_b", "packed_bytes"),
)


@dataclass(frozen=True)
class ProductText:
    """A product, its function and its tables, with the newest architecture first."""

    product: Product
    out: ProductInterface
    tables: tuple[TableText, ...]
    test: ProductTest

    @property
    def name(self) -> str:
        return self.product.name

    @property
    def packs(self) -> tuple[tuple[TableText, str], ...]:
        """Where B has codes: each table, and a kernel that packs B as all its kernels take it. Its functions are named
        after the library's name."""
        if not self.out.takes_packed:
            return ()
        return tuple((table, table.choice.kernels[0].name) for table in self.tables)

    @property
    def cublaslt(self) -> CublasLt | None:
        """cuBLASLt, if a rule of the product names it."""
        members = (one for table in self.tables for one in table.choice.members)
        return next((one for one in members if isinstance(one, CublasLt)), None)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments without the workspace."""
        return self.out.called

    @property
    def fields(self) -> tuple[tuple[str, Argument], ...]:
        """These arguments, each behind the field of a call that holds it."""
        return tuple((field_of(one), one) for one in self.arguments)

    @property
    def function_of(self) -> str:
        """A sentence about what the function computes."""
        several = ", for each product of the batch" if self.out.takes_batch else ""
        if self.out.problem.inputs.groups:
            inputs = self.out.problem.inputs
            own = "matrices A, B and C" if inputs.masked else f"a matrix {'C' if inputs.along_k else 'B'}"
            several = f", {self.out.each}, with {own} each"
        return f"C = {self.out.formula}{several}."

    @property
    def distances(self) -> tuple[str, ...]:
        """The leading dimensions and strides."""
        return tuple(name for name in self.out.runtime_names if name not in ("M", "N", "K", "batch"))

    def capability(self, reach: Reach) -> int:
        """The compute capability of the devices on which a rule decides."""
        return arch_number(reach.choice.arch)

    @property
    def sizes_doc(self) -> str:
        """The sizes for which kernels were chosen, as text."""
        return ", ".join(f"{axis} {one}" for axis, one in zip(AXES, self.product.ranges, strict=True))

    @property
    def serves_doc(self) -> str:
        """The sizes that it serves beside them, as text."""
        if self.out.images:
            return f"all other M and {'K' if self.product.inputs.wgrad else 'N'}"
        return "all other M" if self.out.takes_packed else "all other sizes"


@dataclass(frozen=True)
class KernelText:
    """A kernel as the dispatcher calls it."""

    member: Member
    library: str

    @property
    def name(self) -> str:
        return self.member.name

    @property
    def own_name(self) -> str:
        """The name of its files and symbols."""
        return own_name(self.library, self.name)

    @property
    def takes_packed(self) -> bool:
        """Whether it takes B packed."""
        return self.member.product.packed

    @property
    def arguments(self) -> tuple[str, ...]:
        """The launcher's arguments from a call `a`, without the workspace."""
        out = self.member.interface
        given = out.by_packed if self.takes_packed else out.arguments
        return tuple(_field_as(one) for one in given if not one.is_workspace)

    @property
    def sizes(self) -> tuple[str, ...]:
        return tuple(f"a.{name}" for name in self.member.interface.runtime_sizes)


def _field_as(argument: Argument) -> str:
    """The field of a call for this argument, converted to its type."""
    if argument.ctype in ("int", "ptrdiff_t") and argument.text not in ("alpha", "beta"):
        return f"a.{argument.text}"
    return f"static_cast<{argument.ctype}>(a.{field_of(argument)})"


def field_of(argument: Argument) -> str:
    """The name of the field of a call that holds this argument."""
    return "B" if argument.text == "packed" else argument.text.removesuffix("_array")


@dataclass(frozen=True)
class LibraryText:
    """A library: its specification and the choice for each product and architecture."""

    spec: Spec
    choices: tuple[Choice, ...]
    most = SIZE_LIMIT

    def __post_init__(self) -> None:
        """Raise InvalidInput if a kernel's name, after the library's, is that of another function or file."""
        products = [product.name for product in self.spec.products]
        functions = ("workspace_bytes", "pack_b", "packed_bytes")
        taken = {*OWN_NAMES, *products, *(f"{name}_{what}" for name in products for what in functions), "selftest"}
        taken |= {*quantise_names()}
        for kernel in self.members:
            name = kernel.name
            own = next((one for one in (name, *(f"{name}_{what}" for what in FUNCTIONS)) if one in taken), None)
            require(own is None, f"{self.name} has a {self.name}_{own} of its own: give the kernel {name} another name")

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def estimates(self) -> bool:
        """Whether some rule compares estimated times."""
        return any(rule.estimates for choice in self.choices for rule in choice.rules)

    @property
    def steps(self) -> bool:
        """Whether some rule has steps along a size."""
        return any(rule.steps for choice in self.choices for rule in choice.rules)

    @property
    def calls_cublaslt(self) -> bool:
        return any(product.cublaslt for product in self.products)

    @cached_property
    def products(self) -> tuple[ProductText, ...]:
        return tuple(self._product(product) for product in self.spec.products)

    def _product(self, product: Product) -> ProductText:
        choices = tuple(choice for choice in self.choices if choice.product is product)
        out = product_interface(self.name, product, self.spec.architectures[0])
        texts = (TableText(choice, self.builds[choice.arch].endswith("a"), self.estimates) for choice in choices)
        tables = sorted(texts, key=lambda one: -one.least)
        return ProductText(product, out, tuple(tables), ProductTest(out, choices))

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """The kernels of all products, each once, by name."""
        found = {member.name: member for choice in self.choices for member in choice.kernels}
        return tuple(found[name] for name in sorted(found))

    @property
    def kernels(self) -> tuple[KernelText, ...]:
        return tuple(KernelText(member, self.name) for member in self.members)

    @property
    def headers(self) -> tuple[str, ...]:
        """The CUDA headers that define element types."""
        return tuple(sorted({header for one in self.products for header in one.out.cuda_headers}))

    @property
    def cuda_elements(self) -> tuple[Element, ...]:
        """Element types that C++ lacks."""
        found = {element.name: element for one in self.products for element in one.out.cuda_elements}
        return tuple(found[name] for name in sorted(found))

    @property
    def has_integers(self) -> bool:
        return any(one.out.has_integers for one in self.products)

    @property
    def distances(self) -> tuple[str, ...]:
        """Leading dimensions and strides that some product takes, in the order of a signature."""
        return _union([one.distances for one in self.products])

    @property
    def batched(self) -> bool:
        """Whether some product takes the number of products."""
        return any(one.out.takes_batch for one in self.products)

    @property
    def pointers(self) -> tuple[str, ...]:
        """The functions that take arrays of pointers to matrices."""
        return tuple(one.out.name for one in self.products if one.out.problem.pointers)

    @property
    def extra(self) -> dict[str, bool]:
        """Tensors beside A, B and C by name, and whether they are written."""
        scales = {scale.name: False for one in self.products for scale in one.out.beside}
        operands = [operand for one in self.products for operand in one.out.epilogue.operands]
        return {**scales, **{operand.name: operand.written for operand in operands}}

    @property
    def scalars(self) -> tuple[str, ...]:
        return _union([one.out.epilogue.scalars for one in self.products])

    @property
    def takes_packed(self) -> bool:
        """Whether some product takes B packed."""
        return any(one.out.takes_packed for one in self.products)

    @property
    def fixes_sizes(self) -> bool:
        """Whether some product has a size that is the same in every call."""
        return any(one.out.fixed_sizes for one in self.products)

    @property
    def quantised(self) -> dict[str, str]:
        """The C++ types in templates/device/plain/quantise.cu that it quantises, by label, if a product has scales of
        blocks."""
        scaled = any(one.out.problem.inputs.blocks for one in self.products)
        return {dtype.label: dtype.ctype for dtype in QUANTISED} if scaled else {}

    @property
    def quantised_on_host(self) -> dict[str, str]:
        """The same types in CUDA's headers."""
        return {dtype.label: ELEMENTS[dtype].name for dtype in QUANTISED}

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a call."""
        batch = ("batch",) if self.batched else ()
        return ("product", "M", "N", "K", "A", "B", "C", *self.extra, *self.distances, *batch, *self.scalars)

    @property
    def statuses(self) -> tuple[Status, ...]:
        """The return values of its functions, besides other CUDA errors."""
        built = f"there is no kernel for this device: the library needs {self.run_by.text}, and a build for it"
        driver = (OLD_DRIVER,) if any(one.interface.maps.encoded for one in self.members) else ()
        no_kernel = Status("cudaErrorNoKernelImageForDevice", built)
        return (
            SUCCESS,
            INVALID,
            self._misaligned,
            NO_GRID,
            no_kernel,
            *driver,
            *(OF_CUBLASLT if self.calls_cublaslt else ()),
        )

    @property
    def _misaligned(self) -> Status:
        if any(one.product.moved for one in self.products):
            return MISALIGNED_WHERE_TOLD
        return MISALIGNED_BESIDE_CODES if self.takes_packed else MISALIGNED

    @cached_property
    def builds(self) -> dict[str, str]:
        """The code that is compiled for each architecture: "90a" for sm_90 if a kernel there has instructions of it
        alone."""
        specific = {choice.arch for choice in self.choices for one in choice.kernels if one.arch.endswith("a")}
        return {arch: f"{arch_number(arch)}{'a' if arch in specific else ''}" for arch in self.spec.architectures}

    @property
    def cmake_archs(self) -> str:
        """The architectures as CMAKE_CUDA_ARCHITECTURES."""
        return ";".join(sorted(self.builds.values(), key=lambda number: int(number.rstrip("a"))))

    @property
    def run_by(self) -> Architectures:
        """The architectures for which it has kernels."""
        specific = {member.interface.feature: arch_number(member.arch) for member in self.members}
        exact = sorted((number, feature) for feature, number in specific.items() if feature is not None)
        others = [int(build) for build in self.builds.values() if not build.endswith("a")]
        return Architectures(min(others, default=None), tuple(exact))

    @property
    def gencode(self) -> str:
        """The nvcc options that compile for these architectures."""
        return " ".join(f"-gencode arch=compute_{arch},code=sm_{arch}" for arch in self.cmake_archs.split(";"))


def _union(names: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for some in names for name in some))
