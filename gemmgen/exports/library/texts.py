"""A library as its templates see it: products, kernels and rules. Values only, no code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gemmgen.exports.arguments import ELEMENTS, Argument, Element
from gemmgen.exports.built import Architectures
from gemmgen.exports.interface import Interface
from gemmgen.exports.library.choice import Choice, Rule
from gemmgen.exports.library.estimates import Estimates, EstimatesText, EstimateText
from gemmgen.exports.library.members import Contestant, CublasLt, Member, case_of
from gemmgen.exports.library.spec import CHUNK, OWN_NAMES, Product, Spec, own_name, quantise_names
from gemmgen.exports.library.steps import Steps
from gemmgen.exports.library.table import AXES, FEATURES, Box
from gemmgen.exports.selftest import SelfTest
from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case
from gemmgen.problem.inputs import QUANTISED, Companion
from gemmgen.problem.sizes import SIZE_LIMIT
from gemmgen.support.errors import require


@dataclass(frozen=True)
class Status:
    """A cudaError_t that a library returns, and its meaning."""

    name: str
    meaning: str


SUCCESS = Status("cudaSuccess", "the product is on the stream")
INVALID = Status("cudaErrorInvalidValue", "an argument is null or out of its range, or the workspace is too small")
MISALIGNED = Status(
    "cudaErrorMisalignedAddress", "an address is not divisible by its elements' size, or the workspace's not by 256"
)
NO_GRID = Status(
    "cudaErrorInvalidConfiguration",
    "C has more tiles than a grid can have blocks, or the device's blocks have too little shared memory",
)
MISALIGNED_BESIDE_CODES = Status(
    "cudaErrorMisalignedAddress",
    "an address is not divisible by its elements' size, or by 16 bytes beside a packed B, or that of a workspace or a "
    "packed B not by 256",
)
MISALIGNED_WHERE_TOLD = Status(
    "cudaErrorMisalignedAddress",
    "an address is not divisible by what its function says, or that of a workspace or a packed B not by 256",
)
OLD_DRIVER = Status("cudaErrorCallRequiresNewerDriver", "the driver is older than CUDA 12.0")
OF_CUBLASLT = (
    Status("cudaErrorNotSupported", "cuBLASLt has no algorithm for the product"),
    Status("cudaErrorInitializationError", "cuBLASLt makes no handle"),
    Status("cudaErrorLaunchFailure", "cuBLASLt does not start the product"),
    Status("cudaErrorInvalidDevice", "cuBLASLt serves the first 64 devices alone"),
)


# Names that the header of a kernel declares behind its name.
FUNCTIONS = (
    *("launch", "make_plan", "plan", "prepare_a", "prepare_b", "refusal", "run", "run_prepared", "workspace_bytes"),
    *("h", "make_packed_plan", "pack_b", "packed_bytes"),
)


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


@dataclass(frozen=True)
class RuleText:
    """A rule: its needs, the ranges of M, N, K and M * N in columns, and what decides: a kernel, or estimates."""

    needs: str
    columns: str
    decides: str


@dataclass(frozen=True)
class StepsText:
    """Steps along a size: bounds as C++ writes them, and the kernel up to each."""

    name: str
    axis: str
    steps: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TableText:
    """The rules of a product on one architecture.

    least   least compute capability of devices that have them, as 10 times major plus minor
    exact   whether only devices of exactly that capability have them
    compares  whether some rule of the library has estimated times, so that each of its records has the field
    """

    choice: Choice
    exact: bool
    compares: bool = False

    @property
    def name(self) -> str:
        return f"{self.choice.product.name}_sm_{self.least}"

    @property
    def least(self) -> int:
        return int(bare_number(self.choice.arch))

    @property
    def rules(self) -> tuple[RuleText, ...]:
        rules = zip(self.choice.rules, self._ranges, strict=True)
        return tuple(
            RuleText(rule.needs.text, self._columns([f"{one}," for one in ranges]), self._decides(number, rule))
            for number, (rule, ranges) in enumerate(rules)
        )

    def _decides(self, number: int, rule: Rule) -> str:
        if rule.steps is not None:
            return f"nullptr, {'nullptr, ' if self.compares else ''}&{self.name}_steps_{number}"
        if rule.estimates is not None:
            return f"nullptr, &{self.name}_times_{number}"
        return f"&{identifier(self.choice.members[rule.kernels[0]])}_kernel"

    @property
    def steps(self) -> tuple[StepsText, ...]:
        """The steps of the rules along a size."""
        return tuple(
            StepsText(f"{self.name}_steps_{number}", rule.steps.axis, tuple(self._bounded(rule, rule.steps)))
            for number, rule in enumerate(self.choice.rules)
            if rule.steps is not None
        )

    def _bounded(self, rule: Rule, steps: Steps) -> Iterator[tuple[str, str]]:
        members = self.choice.members
        for bound, place in zip((*map(str, steps.bounds), "SIZE_LIMIT"), steps.kernels, strict=True):
            yield bound, identifier(members[rule.kernels[place]])

    @property
    def estimates(self) -> tuple[EstimatesText, ...]:
        """The estimates of the rules that compare kernels' times."""
        return tuple(
            EstimatesText(f"{self.name}_times_{number}", rule.estimates, self._compared(rule, rule.estimates))
            for number, rule in enumerate(self.choice.rules)
            if rule.estimates is not None
        )

    def _compared(self, rule: Rule, estimates: Estimates) -> tuple[EstimateText, ...]:
        members = self.choice.members
        return tuple(
            EstimateText(identifier(members[kernel]), one.tiling, tuple(f"{cost:.6g}" for cost in one.costs))
            for kernel, one in zip(rule.kernels, estimates.kernels, strict=True)
        )

    @property
    def heading(self) -> str:
        """The heading above the columns."""
        return self._columns(FEATURES)

    @cached_property
    def _ranges(self) -> list[tuple[str, ...]]:
        return [tuple(map(range_text, rule.box.least, rule.box.most, WIDEST)) for rule in self.choice.rules]

    def _columns(self, texts: Sequence[str]) -> str:
        widths = [max(map(len, column)) for column in zip(FEATURES, *self._ranges, strict=True)]
        return "".join(f"{text:{width + 2}}" for text, width in zip(texts, widths, strict=True))

    @property
    def source(self) -> str:
        """The origin of its times."""
        device = self.choice.device
        if not self.choice.times:
            return "nothing to choose from: one kernel serves each call"
        if self.choice.kind == "measured":
            return f"times measured on {device}"
        return f"times predicted for {device} by a model: nothing was measured"


def bare_number(arch: str) -> str:
    """ "90" for "sm_90a"."""
    return arch.removeprefix("sm_").rstrip("af")


def identifier(member: Contestant) -> str:
    """The dispatcher's name for a kernel; cuBLASLt has a different name for each product."""
    return f"{member.product.name}_{member.name}" if isinstance(member, CublasLt) else member.name


WIDEST = Box().most


def range_text(least: int, most: int, widest: int) -> str:
    """A range as text: "{1, 16}"; "ALL" without bounds; MOST for a missing upper bound."""
    if (least, most) == (0, widest):
        return "ALL"
    return f"{{{least}, {'MOST' if most == widest else most}}}"


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
        several = ", for each product of the batch" if self.out.problem.batched else ""
        if self.out.problem.inputs.groups:
            several = f", for each of {self.out.problem.inputs.groups} groups of rows, with a matrix B each"
        return f"C = {self.out.formula}{several}."

    @property
    def distances(self) -> tuple[str, ...]:
        """The leading dimensions and strides."""
        return tuple(name for name in self.out.runtime_names if name not in ("M", "N", "K", "batch"))

    def capability(self, reach: Reach) -> int:
        """The compute capability of the devices on which a rule decides."""
        return int(bare_number(reach.choice.arch))

    @property
    def sizes_doc(self) -> str:
        """The sizes for which kernels were chosen, as text."""
        return ", ".join(f"{axis} {one}" for axis, one in zip(AXES, self.product.ranges, strict=True))

    @property
    def serves_doc(self) -> str:
        """The sizes that it serves beside them, as text."""
        if self.out.images:
            return "all other M and N"
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
        return any(one.out.problem.batched for one in self.products)

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
        if any(one.product.inputs.groups for one in self.products):
            return MISALIGNED_WHERE_TOLD
        return MISALIGNED_BESIDE_CODES if self.takes_packed else MISALIGNED

    @cached_property
    def builds(self) -> dict[str, str]:
        """The code that is compiled for each architecture: "90a" for sm_90 if a kernel there has instructions of it
        alone."""
        specific = {choice.arch for choice in self.choices for one in choice.kernels if one.arch.endswith("a")}
        return {arch: bare_number(arch) + ("a" if arch in specific else "") for arch in self.spec.architectures}

    @property
    def cmake_archs(self) -> str:
        """The architectures as CMAKE_CUDA_ARCHITECTURES."""
        return ";".join(sorted(self.builds.values(), key=lambda number: int(number.rstrip("a"))))

    @property
    def run_by(self) -> Architectures:
        """The architectures for which it has kernels."""
        specific = {member.interface.feature: int(bare_number(member.arch)) for member in self.members}
        exact = sorted((number, feature) for feature, number in specific.items() if feature is not None)
        others = [int(build) for build in self.builds.values() if not build.endswith("a")]
        return Architectures(min(others, default=None), tuple(exact))

    @property
    def gencode(self) -> str:
        """The nvcc options that compile for these architectures."""
        return " ".join(f"-gencode arch=compute_{arch},code=sm_{arch}" for arch in self.cmake_archs.split(";"))


def _union(names: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for some in names for name in some))
