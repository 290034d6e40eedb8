"""The record that every checkpoint format is read into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType
from gemmgen.problem.inputs import GROUPS_OF_K, ROUNDED_TO, WHOLE_K, Inputs
from gemmgen.support.errors import require

Codes = npt.NDArray[np.uint8]
BITS = {4: (DType.U4, DType.S4), 8: (DType.U8, DType.S8)}  # types of B that hold codes, and codes less their middle


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape for messages: "64 x 512"."""
    return " x ".join(map(str, shape)) or "one element"


@dataclass(frozen=True, eq=False)
class QuantisedWeight:
    """The quantised weight W of a linear layer: N x K, that is out_features x in_features.

    Element w[n, k] is (codes[n, k] - zeros[g, n]) * scales[g, n], rounded once, where g = k // group. Raises
    InvalidInput for arrays that do not fit together.

    codes   N x K codes, uint8: 0..15, or 0..255 if `bits` is 8
    scales  ceil(K / group) x N scales in the checkpoint's type: f16, f32, or the bfloat16 of ml_dtypes
    zeros   ceil(K / group) x N zero points, uint8 codes; None: all are the middle code, 8 or 128
    group   number of elements along K that share a scale: 32, 64, 128 or K. The last group may be shorter
    bits    of a code: 4 or 8
    """

    codes: Codes
    scales: npt.NDArray[Any]
    zeros: Codes | None
    group: int
    bits: int = 4

    def __post_init__(self) -> None:
        require(self.bits in BITS, f"bits = {self.bits}: known are {', '.join(map(str, BITS))}")
        self._require_codes("codes", self.codes)
        shape = shape_text(self.codes.shape)
        require(self.codes.ndim == 2 and self.codes.size > 0, f"codes are {shape}: N x K, both at least 1, are needed")
        groups = [group for group in GROUPS_OF_K if group != WHOLE_K]
        known = f"known are {', '.join(map(str, groups))} and K = {self.k}"
        require(self.group in (*groups, self.k), f"groups of {self.group}: {known}")
        floats = ", ".join(one.label for one in ROUNDED_TO)
        require(self.scale_type in ROUNDED_TO, f"scales of {self.scales.dtype}: known are {floats}")
        wanted = -(-self.k // self.group), self.n
        for name, array in (("scales", self.scales), ("zeros", self.zeros)):
            if array is not None:
                found = shape_text(array.shape)
                why = f"codes of {shape} in groups of {self.group} need {shape_text(wanted)}"
                require(array.shape == wanted, f"{name} are {found}: {why}")
        if self.zeros is not None:
            self._require_codes("zeros", self.zeros)

    @classmethod
    def nearest(
        cls,
        weight: npt.ArrayLike,
        group: int = 128,
        scale_type: DType = DType.BF16,
        *,
        symmetric: bool = False,
        bits: int = 4,
    ) -> QuantisedWeight:
        """Quantise W to 4 or 8 bits, each group by itself: round to nearest.

        weight      N x K numbers of f32, or what numpy makes f32 of
        group       elements along K that share a scale: 32, 64, 128 or K
        scale_type  of the scales: F16, BF16 or F32
        symmetric   whether zero is the middle code, 8 or 128, so that there are no zero points: the scale is the least
                    with which all elements fit in -8 to 7, or -128 to 127. Else the least and the largest element, or
                    0, are the first and the last code
        bits        of a code: 4 or 8

        Raises InvalidInput for other shapes, groups and scales, and for elements that are not finite.
        """
        values = np.asarray(weight, np.float32)
        require(values.ndim == 2, f"a weight of shape {shape_text(values.shape)}: N x K is needed")
        require(group > 0, f"groups of {group}: a group has at least one element")
        require(bool(np.isfinite(values).all()), "a weight with elements that are not finite has no codes")
        require(bits in BITS, f"bits = {bits}: known are {', '.join(map(str, BITS))}")
        last, middle = 2**bits - 1, 2 ** (bits - 1)
        (n, k), count = values.shape, -(-values.shape[1] // group)
        padded = np.pad(values, ((0, 0), (0, count * group - k))).reshape(n, count, group)
        low, high = np.minimum(padded.min(2), 0), np.maximum(padded.max(2), 0)
        exact = np.maximum(-low / middle, high / (middle - 1)) if symmetric else (high - low) / last
        scales = np.where(exact > 0, exact, 1).astype(scale_type.numpy)
        steps = scales.astype(np.float32)
        zeros = np.full((n, count), middle) if symmetric else np.clip(np.rint(-low / steps), 0, last)
        codes = np.clip(np.rint(padded / steps[..., None]) + zeros[..., None], 0, last).reshape(n, -1)[:, :k]
        of_groups = None if symmetric else np.ascontiguousarray(zeros.T).astype(np.uint8)
        return cls(codes.astype(np.uint8), np.ascontiguousarray(scales.T), of_groups, group, bits)

    def _require_codes(self, name: str, array: Codes) -> None:
        require(array.dtype == np.uint8, f"{name} of {array.dtype}: uint8 is needed")
        largest = int(array.max(initial=0))
        require(largest < 2**self.bits, f"{name} hold {largest}: {self.bits} bits hold at most {2**self.bits - 1}")

    @property
    def n(self) -> int:
        """Number of output features: columns of B."""
        return int(self.codes.shape[0])

    @property
    def k(self) -> int:
        """Number of input features: rows of B."""
        return int(self.codes.shape[1])

    @property
    def scale_type(self) -> DType:
        return DType.of(self.scales.dtype)

    @property
    def middle(self) -> int:
        """The code that stands for 0 where there are no zero points."""
        return int(2 ** (self.bits - 1))

    @property
    def inputs(self) -> Inputs:
        """How a product is given this weight as B of `element`."""
        known = self.group in GROUPS_OF_K
        return Inputs(group=self.group if known else WHOLE_K, zeros=self.zeros is not None)

    @property
    def element(self) -> DType:
        """The type of B that goes with `inputs`: without zero points it is signed, because such a product takes 0 as
        the zero point."""
        unsigned, signed = BITS[self.bits]
        return signed if self.zeros is None else unsigned

    def dequantised(self) -> npt.NDArray[np.float32]:
        """W in f32, N x K, before it is rounded to a type of 16 bits: exact with scales of f16 or bf16; with scales of
        f32 the product is rounded to f32."""
        zeros = self.middle if self.zeros is None else self._along_k(self.zeros).astype(np.int16)
        with np.errstate(over="ignore", invalid="ignore"):  # a scale that is infinite or NaN
            scales = self._along_k(self.scales).astype(np.float32)
            return (self.codes.astype(np.int16) - zeros).astype(np.float32) * scales

    def _along_k(self, of_groups: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The value of each element's group, N x K."""
        return np.repeat(of_groups.T, self.group, axis=1)[:, : self.k]

    def packed(self, dtype: DType, layout: Literal["r", "c"] = "c") -> Codes:
        """The bytes of B, K x N, as kernels take them, with no padding between rows or columns.

        In layout "c" the elements of a column follow each other along K ("rc" of A and B), in "r" those of a row along
        N. Of two 4-bit elements in a byte the first is in the low half. U4 and U8 hold the codes, S4 and S8 hold codes
        less their middle. Raises InvalidInput for another type.
        """
        labels = " or ".join(one.label for one in BITS[self.bits])
        require(dtype in BITS[self.bits], f"codes of {self.bits} bits as {dtype.label}: they are packed as {labels}")
        codes = self.codes if layout == "c" else self.codes.T
        flat = np.ascontiguousarray(codes).reshape(-1)
        return dtype.packed(flat ^ np.uint8(self.middle) if dtype.is_signed else flat)

    def packed_zeros(self) -> Codes | None:
        """The bytes of `zeros_b`, the companion of B with zero points; None without zero points."""
        if self.zeros is None:
            return None
        return self.element.packed(np.ascontiguousarray(self.zeros).reshape(-1))
