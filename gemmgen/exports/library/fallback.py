"""cuBLASLt among the kernels of a library, for sizes where it was measured to be faster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gemmgen.exports.library.estimates import Tiling
from gemmgen.exports.library.members import Member, Needs
from gemmgen.exports.library.spec import Product
from gemmgen.exports.library.table import Sizes
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.dtype import DType
from gemmgen.problem.types import Compute

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
    if not product.epilogue.is_linear:
        return f"the epilogue {product.epilogue} is not cuBLASLt's"
    if product.pointers:
        return "cuBLASLt takes no arrays of pointers"
    if types.compute is not Compute.FMA or any(dtype not in CUDA_TYPES for dtype in types.operands):
        return f"types {types} {types.compute.label} are not taken over"
    return None if types.a == types.b else f"A of {types.a.label} and B of {types.b.label} differ"
