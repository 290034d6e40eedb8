"""A kernel of a library, or cuBLASLt in its place: the conditions that it puts on calls, and how long it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from functools import cached_property
from typing import Any

from gemmgen.exports.interface import Interface
from gemmgen.exports.library.estimates import Tiling
from gemmgen.exports.library.spec import CHUNK, Product
from gemmgen.exports.library.table import Sizes
from gemmgen.families import plan_of, summation_of
from gemmgen.kernel.model import predict
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.sizes import SIZE_LIMIT
from gemmgen.problem.types import Compute
from gemmgen.run.compile import CompiledKernel
from gemmgen.support.errors import require
from gemmgen.support.short_repr import brief

# A kernel is timed at sizes for which the model predicts less than so many times the least of all. By the times of
# nine libraries (H200, 2026-11-28, about 112 sizes each) 1.3 leaves out the fastest kernel at one size, 1.5 at none.
HOPE = 1.3


class Needs(IntFlag):
    """The conditions, other than sizes, that a kernel puts on calls, beyond those of the product.

    ALIGNED  addresses are divisible by CHUNK bytes, and leading dimensions and strides by the product's `unit`
    DENSE    addresses are divisible by CHUNK bytes, and lines and matrices lie without a gap
    """

    NONE = 0
    ALIGNED = 1
    DENSE = 2

    @property
    def text(self) -> str:
        """The conditions as rules write them."""
        return " | ".join(need.name or "" for need in (Needs.ALIGNED, Needs.DENSE) if need in self) or "ANY"


@brief
@dataclass(frozen=True)
class Member:
    """A kernel that serves calls of `product`, compiled for `arch` ("sm_90a"). Raises InvalidInput if it cannot.

    record  what is known of it: see json_records.provenance
    """

    product: Product
    source: KernelSource
    arch: str
    compiled: CompiledKernel | None = None
    record: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        ours, theirs = self.problem, self.product.general
        for name in ("types", "inputs", "layout", "epilogue", "pointers", "batched"):
            mine, wanted = getattr(ours, name), getattr(theirs, name)
            require(mine == wanted, f"{self.name} has {name} {mine}, and product {self.product.name} {wanted}")
        for name, wanted in theirs.sizes.items():
            size = ours.sizes[name]
            require(
                wanted in (None, size), f"{self.name} has {name} = {size}, and product {self.product.name} {wanted}"
            )
        require(ours.batch in (None, theirs.batch), f"{self.name} is for {ours.batch} products alone")
        unit, most = self.product.unit, max(self.interface.aligns.values())
        require(most <= CHUNK, f"{self.name} wants addresses divisible by {most} bytes, more than {CHUNK}")
        blind = ours.pointers and ours.pointer_align > self.product.element_bytes
        require(
            not blind, f"{self.name} wants matrices behind pointers at {ours.pointer_align} bytes: nobody reads these"
        )
        require(
            all(unit % one == 0 for one in self._units),
            f"{self.name} wants lines of whole {max(self._units)} elements, which do not divide {unit}",
        )
        for name in self._fixed_distances:
            dense = self._dense[name]
            require(
                ours.sizes[name] == dense, f"{self.name} is for {name} = {ours.sizes[name]} alone, no dense {dense}"
            )

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def problem(self) -> Problem:
        return self.source.problem

    @cached_property
    def interface(self) -> Interface:
        return Interface(self.source, self.arch)

    @cached_property
    def needs(self) -> Needs:
        promised = self.product.general
        units = Needs.ALIGNED if max(self._units) > promised.ld_align else Needs.NONE
        if self._fixed_distances:
            return Needs.DENSE | units
        wide = any(align > promised.align_of(name) for name, align in self._aligns)
        return Needs.ALIGNED if wide else units

    @property
    def _units(self) -> tuple[int, ...]:
        """The numbers of elements that divide its run-time leading dimensions and strides."""
        lds, strides = self.interface.runtime_lds, self.interface.runtime_strides
        return (1, *(ld.unit for ld in lds), *(stride.unit for stride in strides))

    @property
    def _aligns(self) -> list[tuple[str, int]]:
        """Operands and the alignment of their addresses in bytes; with pointers, that of the matrices."""
        located, problem = self.interface.located, self.problem
        behind = {name: problem.align_of(name) for name in "ABC"} if problem.pointers else {}
        return [(name, behind.get(name, self.interface.aligns[text])) for name, text in located.items()]

    @cached_property
    def fixed(self) -> dict[str, int]:
        """The sizes, of M, N and K, for which it is built, of those that the product leaves open."""
        sizes, open_sizes = self.problem.sizes, self.product.general.sizes
        return {name: size for name in "MNK" if open_sizes[name] is None and (size := sizes[name]) is not None}

    @property
    def _fixed_distances(self) -> tuple[str, ...]:
        """The leading dimensions and strides for which it is built, of those that the product leaves open."""
        problem, open_sizes = self.problem, self.product.general.sizes
        distances = (*problem.line_sizes, *(one.stride for one in problem.strides))
        return tuple(name for name in distances if open_sizes[name] is None and problem.sizes[name] is not None)

    @property
    def _dense(self) -> dict[str, int | None]:
        """The distances that are fixed, for lines and matrices without gaps."""
        problem = self.problem
        lines = {matrix.ld: matrix.extent(matrix.line, problem.sizes) for matrix in problem.matrices}
        strides = {matrix.stride: matrix.dense_stride({**problem.sizes, **lines}) for matrix in problem.matrices}
        return {**lines, **strides}

    def serves(self, sizes: Sizes, given: Needs) -> bool:
        """Whether it computes products of these sizes in calls that meet what is `given`."""
        wanted = dict(zip("MNK", sizes, strict=True))
        return self.needs in given and all(wanted[name] == size for name, size in self.fixed.items())

    @property
    def summation(self) -> str | None:
        """Its class of summation: see `Plan.summation`."""
        return summation_of(self.source)

    def tiling(self, device: DeviceSpec) -> Tiling:
        """The way in which it divides C, and how many blocks run at once on a card."""
        launch, registers = self.source.launch, self.compiled.registers if self.compiled else None
        tiles, at_once = dict(launch.grid), predict(self._plan, device, registers).occupancy.blocks * device.sms
        return Tiling(tiles.get("M", SIZE_LIMIT), tiles.get("N", SIZE_LIMIT), launch.blocks_per_tile, max(1, at_once))

    def predicted_us(self, sizes: Sizes, device: DeviceSpec) -> float:
        """The model's time for a product of these sizes, in microseconds."""
        typical = {name: size for name, size in zip("MNK", sizes, strict=True) if name in self.problem.open_sizes}
        if "batch" in self.problem.open_sizes and self.product.batch is not None:
            typical["batch"] = self.product.batch
        plan = self._plan
        plan = replace(plan, problem=replace(plan.problem, typical=tuple(typical.items())))
        return predict(plan, device, self.compiled.registers if self.compiled else None).time_us

    @cached_property
    def _plan(self) -> Any:
        return plan_of(self.source)


def hopeful(members: Sequence[Member], sizes: Sizes, device: DeviceSpec) -> dict[str, float]:
    """The model's microseconds, by name, of the `members` with less than HOPE times the least."""
    predicted = {one.name: one.predicted_us(sizes, device) for one in members}
    least = min(predicted.values())
    return {name: us for name, us in predicted.items() if us < HOPE * least}


def case_of(product: Product, sizes: Sizes, given: Needs) -> Case:
    """A launch of `product` for these sizes that meets what is `given`, and no more."""
    m, n, k = sizes
    problem = product.aligned(m, n, k) if Needs.ALIGNED in given else product.general
    odd = {}
    if not given and not product.whole_chunks:  # no vector width divides a line's length, or one more
        by_name = {"M": m, "N": n, "K": k}
        odd = {one.ld: (one.extent(one.line, by_name) or 0) | 1 for one in product.general.matrices}
    return problem.case(m=m, n=n, k=k, batch=product.batch, **odd)


CUDA_TYPES = {DType.F32: "CUDA_R_32F", DType.F64: "CUDA_R_64F", DType.F16: "CUDA_R_16F", DType.BF16: "CUDA_R_16BF"}
NAME = "cublasLt"


@dataclass(frozen=True)
class CublasLt:
    """cuBLASLt's own choice of an algorithm for a product, called like one of the library's kernels.

    It serves only calls with aligned addresses and lines, so that a kernel serves all other calls.
    """

    product: Product
    name: str = NAME
    needs: Needs = Needs.ALIGNED

    @property
    def fixed(self) -> Mapping[str, int]:
        """The sizes that it is built for: none."""
        return {}

    def serves(self, sizes: Sizes, given: Needs) -> bool:
        """Whether it serves calls that meet what is `given`: see `Member.serves`."""
        return self.needs in given

    def tiling(self, device: DeviceSpec) -> Tiling:
        """Typical tiles, as cuBLASLt does not say which it uses."""
        return Tiling(128, 128, 1, device.sms)

    @property
    def types(self) -> tuple[str, ...]:
        """The CUDA types of A, B, C and the scalars."""
        types = self.product.types
        return tuple(CUDA_TYPES[dtype] for dtype in (*types.operands, types.scalar))

    @property
    def compute(self) -> str:
        return "CUBLAS_COMPUTE_64F" if self.product.types.accumulator is DType.F64 else "CUBLAS_COMPUTE_32F"


Contestant = Member | CublasLt


def why_no_fallback(product: Product) -> str | None:
    """The reason why cuBLASLt cannot serve `product`; None if it can."""
    types = product.types
    if product.invariant:
        return "the bits of cuBLASLt's rows depend on M"
    if not product.epilogue.is_linear:
        return f"the epilogue {product.epilogue} is not cuBLASLt's"
    if product.moved:
        others = "images" if product.inputs.conv else "rows by an index"
        return f"cuBLASLt is asked for no {'groups' if product.inputs.groups else others}"
    if product.pointers:
        return "cuBLASLt takes no arrays of pointers"
    if types.compute is not Compute.FMA or any(dtype not in CUDA_TYPES for dtype in types.operands):
        return f"types {types} {types.compute.label} are not taken over"
    return None if types.a == types.b else f"A of {types.a.label} and B of {types.b.label} differ"
