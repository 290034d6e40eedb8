"""How A and B are given where they are more than two plain matrices: scales, groups of rows, gathered rows, images.

Rows of C may be scattered, too. The tensors that a kernel reads for that are the companions of A and B. They are dense
and row-major. Records and names leave out what a product does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gemmgen.problem import convolution
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.dtype import DType
from gemmgen.problem.types import Compute, Types
from gemmgen.support.errors import InvalidInput, require

WHOLE_K = 0  # in place of a group of K: all of it has one scale
GROUPS_OF_K = (32, 64, 128, WHOLE_K)
SCALED = (DType.U4, DType.S4, DType.U8, DType.S8)  # types of B that may have scales along K
ROUNDED_TO = (DType.F16, DType.BF16, DType.F32)  # types of A: of B's elements, too, once they are scaled
COMPANIONS = (
    "scales_a",
    "scales_b",
    "zeros_b",
    "offs",
    "group_rows",
    "index_a",
    "index_c",
)  # every name that a companion has
VECTORS = ("offs", "group_rows", "index_a", "index_c")  # those with one dimension
OF_CODES = ("scales_b", "zeros_b")  # those that go with columns of B, where it has codes
MOST_GROUPS = 2**16
BLOCK = 128  # elements along K of A and B, and columns of B, that share a scale
IN_BLOCKS = (DType.E4M3, DType.E5M2)  # types of A and B that may have scales by blocks
QUANTISED = (DType.F32, DType.F16, DType.BF16)  # types of what becomes e4m3 with such scales
SWITCHES = ("masked", "along_k", "gathered", "scattered", "blocks", "lines", "padded")
SCALES_TOGETHER = 4  # f32 of 16 bytes: rows of padded scales begin at multiples of them
_PART = r"(?:k(?:32|64|128)?|zeros|g[1-9]\d*|masked|alongk|gathered|scattered|blocks|lines|padded)"
TOKEN = f"(?:i{convolution.TEXT}(?:_wgrad)?|{_PART}(?:_{_PART})*)"  # of inputs, in full names
KNOWN = (
    "scales=32, 64, 128 or K, maybe with +zeros; groups=8, gathered or both; groups=8+masked; groups=8+along_k; "
    "blocks, maybe with +lines and +padded; scales or blocks with groups=8; any of these with +scattered, if there is "
    "one C; im2col=56x56x64_3x3_p1x1, maybe with +wgrad"
)


@dataclass(frozen=True)
class Extent:
    """Number of rows or columns of a companion: ceil(`size` / `step`), or `number` where no size is named."""

    size: str = ""
    step: int = 1
    number: int = 1

    def count(self, sizes: Mapping[str, int]) -> int:
        return -(-sizes[self.size] // self.step) if self.size else self.number

    def text(self, sizes: Mapping[str, int | None]) -> str:
        """The same for a header, where sizes may stay open."""
        if not self.size:
            return str(self.number)
        known = sizes[self.size]
        if known is not None:
            return str(-(-known // self.step))
        return self.size if self.step == 1 else f"ceil({self.size} / {self.step})"


@dataclass(frozen=True)
class Companion:
    """A tensor that kernels read in addition to A, B and C.

    unit      rows begin at multiples of so many elements
    matrices  number of such tensors, one of each group of rows, that follow each other; 0: there is one for all
    """

    name: str
    dtype: DType
    rows: Extent
    cols: Extent
    meaning: str
    unit: int = 1
    matrices: int = 0

    def pitch(self, sizes: Mapping[str, int]) -> int:
        """Elements from a row to the next."""
        return -(-self.cols.count(sizes) // self.unit) * self.unit

    def lies(self, sizes: Mapping[str, int | None]) -> str:
        """Its shape for a header: "8 elements", "ceil(K / 128) x N, row-major"."""
        rows, cols = self.rows.text(sizes), self.cols.text(sizes)
        rows = f"{self.matrices} x {rows}" if self.matrices else rows
        if self.unit > 1:
            known = sizes[self.cols.size]
            apart = f"ceil({cols} / {self.unit}) * {self.unit}" if known is None else -(-known // self.unit) * self.unit
            return f"{rows} x {cols}, row-major, rows {apart} apart"
        return f"{cols} elements" if rows == "1" else f"{rows} x {cols}, row-major"


@dataclass(frozen=True)
class Inputs:
    """How A and B are given. By default they are plain matrices: their elements are multiplied as they are stored.

    group     number of elements along K that share a scale in a column of B: one of GROUPS_OF_K; None: no scales. The
              element that is multiplied is (code - zero point) * scale, rounded once to the type of A. The last group
              may be shorter
    zeros     each group has a zero point, of the type of B, too; otherwise zero points are 0
    groups    number of groups of rows of A and C, each with its own matrix B; 0: all rows use one B. `offs` holds the
              ends: group g has rows offs[g - 1] to offs[g] and may be empty. Rows of C from the last end on keep their
              values
    masked    each group has its own A, B and C, of M rows, a stride apart as in a batch. Only the first group_rows[g]
              rows of group g are computed; its other rows of C keep their values
    along_k   groups are ranges of K: `offs` holds their ends, group g has k from offs[g - 1] to offs[g], and its own C.
              K is that of all groups together. A group without any k has a product of 0
    gathered  row m of C is computed from row index_a[m] of A. Indices may repeat, and A has any number of rows
    scattered row m of the product is stored in row index_c[m] of C, which has at least M rows. No two rows that are
              computed have the same index. The other rows of C keep their values
    blocks    A has a scale for each BLOCK elements along K of a row, B has one for each BLOCK x BLOCK elements. The
              product of both, rounded to f32, multiplies the sum of a block: total = fma(scale, sum, total)
    lines     with blocks: B, too, has a scale for each BLOCK elements along K, of a column
    padded    with blocks: rows of scales along M, and along N with lines, begin at multiples of 16 bytes, as TMA loads
              them in DeepGEMM; otherwise they follow each other, as in torch
    conv      A holds images: each row of C is an output pixel, computed from those under the filter; None: a matrix
    wgrad     with conv: B holds the images instead, K counts output pixels, and C is the gradient of the filters: A is
              that of the convolution's result, M x K for M filters, and C's columns are (r, s, c). The last image is
              whole and finite even if K ends within it: its other pixels are multiplied by A's zeros
    """

    group: int | None = None
    zeros: bool = False
    groups: int = 0
    masked: bool = False
    along_k: bool = False
    gathered: bool = False
    scattered: bool = False
    blocks: bool = False
    lines: bool = False
    padded: bool = False
    conv: Convolution | None = None
    wgrad: bool = False

    def __post_init__(self) -> None:
        known = ", ".join(_group_text(group) for group in GROUPS_OF_K)
        require(self.group is None or self.group in GROUPS_OF_K, f"scales of groups of {self.group}: known are {known}")
        require(self.coded or not self.zeros, "zero points of B go with scales: scales=128+zeros")
        require(0 <= self.groups <= MOST_GROUPS, f"groups = {self.groups}: at most {MOST_GROUPS}")
        require(self.blocks or not self.lines, f"inputs = {self}: lines of B with scales go with blocks+lines")
        require(self.blocks or not self.padded, f"inputs = {self}: padded rows of scales go with blocks+padded")
        require(self.conv is not None or not self.wgrad, f"inputs = {self}: wgrad goes with im2col=HxWxC_RxS+wgrad")
        for name, wanted in (("masked", self.masked), ("along_k", self.along_k)):
            require(not wanted or self.groups > 0, f"{name}, and groups = {self.groups}: write groups=8+{name}")
        require(not (self.masked and self.along_k), f"inputs = {self}: groups are masked or along_k, not both")
        rows = not (self.own_c and self.gathered)
        require(rows, f"inputs = {self}: rows are gathered in one A, and groups are masked or along_k")
        one_c = not (self.scattered and (self.own_c or self.conv is not None))
        require(one_c, f"inputs = {self}: rows are scattered in one C, and not with masked, along_k or im2col")
        scaled, moved = self.coded + self.blocks, self.groups > 0 or self.gathered
        own_b = self.row_groups > 0 and not self.gathered
        kinds = scaled, moved and not (scaled and own_b), self.conv is not None
        alone = "scales along K, those of blocks, rows and images go alone, but for scales with groups=8"
        require(sum(kinds) <= 1, f"inputs = {self}: {alone}")

    @classmethod
    def parse(cls, text: str) -> Inputs:
        """What `str` wrote: "scales=128+zeros", or "plain". Raises InvalidInput."""
        fields: dict[str, int | bool | Convolution] = {}
        for part in text.split("+") if text != str(PLAIN) else ():
            name, _, number = part.partition("=")
            if re.fullmatch(r"scales=(?:32|64|128|K)", part):
                fields["group"] = WHOLE_K if number == "K" else int(number)
            elif re.fullmatch(r"groups=[1-9]\d{0,9}", part):
                fields["groups"] = int(number)
            elif name == "im2col":
                fields["conv"] = Convolution.parse(number)
            elif part in ("zeros", *SWITCHES, "wgrad"):
                fields[name] = True
            else:
                raise InvalidInput(f"inputs = {text!r}: write {KNOWN}, or {PLAIN}")
        return cls(**fields)  # type: ignore[arg-type]

    @classmethod
    def from_token(cls, token: str) -> Inputs:
        """What `token` wrote."""
        if token.startswith("i"):
            return cls.parse(f"im2col={token[1:]}".replace("_wgrad", "+wgrad"))
        short = {"k": "scales=", "g": "groups="}
        parts = token.replace("alongk", "along-k").split("_")
        numbered = (re.fullmatch(r"([kg])(\d*)|(.*)", part.replace("-", "_")) for part in parts)
        return cls.parse("+".join(one[3] or short[one[1]] + (one[2] or "K") for one in numbered if one))

    def __str__(self) -> str:
        return "+".join(self._parts) or "plain"

    @property
    def _parts(self) -> Iterator[str]:
        if self.group is not None:
            yield f"scales={_group_text(self.group)}"
        if self.zeros:
            yield "zeros"
        if self.groups:
            yield f"groups={self.groups}"
        yield from (name for name in SWITCHES if getattr(self, name))
        if self.conv is not None:
            yield f"im2col={self.conv}"
        if self.wgrad:
            yield "wgrad"

    @property
    def token(self) -> str:
        """In names: "k128_zeros"; empty where nothing is said."""
        parts = (part.replace("scales=", "k").replace("groups=", "g").replace("im2col=", "i") for part in self._parts)
        return "_".join({"kK": "k", "along_k": "alongk"}.get(part, part) for part in parts)

    @property
    def block(self) -> int:
        """For templates: the side of a block that has a scale."""
        return BLOCK

    @property
    def is_plain(self) -> bool:
        return self == PLAIN

    @property
    def coded(self) -> bool:
        """Whether B holds codes: a scale for each group along K makes numbers of them."""
        return self.group is not None

    @property
    def own_c(self) -> bool:
        """Whether each group has its own C, as each product of a batch."""
        return self.masked or self.along_k

    @property
    def row_groups(self) -> int:
        """The number of groups of rows, in their order, of one C and of one A, or of rows gathered in it; 0: others."""
        return 0 if self.own_c else self.groups

    @property
    def ragged_groups(self) -> int:
        """The number of groups whose rows the device alone counts: those of one A, or masked; 0: other inputs."""
        return self.groups if self.masked else self.row_groups

    @property
    def k_groups(self) -> int:
        """The number of groups along K, each with a C of its own; 0: other inputs."""
        return self.groups if self.along_k else 0

    @property
    def images(self) -> str:
        """The operand that holds images: "A" or "B"; "" if none does."""
        return "" if self.conv is None else "B" if self.wgrad else "A"

    @property
    def places(self) -> str:
        """The size that counts places of a filter in images, "M" or "K"; "" without images."""
        return {"A": "M", "B": "K"}.get(self.images, "")

    @property
    def by_rows(self) -> str:
        """The operand that has to be row-major, "A" or "B", as its rows are taken one by one; "" if none has."""
        return self.images or ("A" if self.gathered else "")

    @property
    def by_index(self) -> bool:
        """Whether an index names rows of A, or of C."""
        return self.gathered or self.scattered

    @property
    def leaves_rows(self) -> bool:
        """Whether some rows of the product are not computed."""
        return self.groups > 0 and not self.along_k

    @property
    def squares(self) -> bool:
        """Whether B has a scale for each BLOCK x BLOCK elements."""
        return self.blocks and not self.lines

    @property
    def depends_on_rows(self) -> bool:
        """Whether a row of C depends on its number, so that the last rows of a launch cannot be run as the first."""
        return bool(self.groups) or self.by_index or self.blocks or self.conv is not None

    def companions(self, types: Types) -> Iterator[Companion]:
        """The tensors beside A and B, in the order in which kernels take them."""
        if self.groups:
            name, what = "offs", f"ends of the groups {'along K' if self.along_k else 'of rows'}"
            if self.masked:
                name, what = "group_rows", "how many of each group's rows are computed"
            yield Companion(name, DType.S32, Extent(), Extent(number=self.groups), what)
        if self.gathered:
            told = "row m of the product is computed from row index_a[m] of A"
            yield Companion("index_a", DType.S32, Extent(), Extent("M"), told)
        if self.scattered:
            told = "row m of the product is stored in row index_c[m] of C"
            yield Companion("index_c", DType.S32, Extent(), Extent("M"), told)
        if self.blocks:
            along_k, f32, unit = Extent("K", BLOCK), DType.F32, SCALES_TOGETHER if self.padded else 1
            of_a = f"a scale for each {BLOCK} along K of a row of A"
            yield Companion("scales_a", f32, along_k, Extent("M"), of_a, unit)
            squares = Extent("N", BLOCK), along_k, f"a scale for each {BLOCK} x {BLOCK} of B", 1
            lines = along_k, Extent("N"), f"a scale for each {BLOCK} along K of a column of B", unit
            yield Companion("scales_b", f32, *(lines if self.lines else squares), self.row_groups)
        if not self.coded:
            return
        rows = Extent("K", self.group) if self.group else Extent()
        each, groups = "for each column of B and group of K", self.row_groups
        yield Companion("scales_b", types.a, rows, Extent("N"), f"a scale {each}", matrices=groups)
        if self.zeros:
            yield Companion("zeros_b", types.b, rows, Extent("N"), f"a zero point {each}", matrices=groups)

    def require_types(self, types: Types) -> None:
        """Raise InvalidInput unless A and B may be of these types."""
        for name, dtype in (("A", types.a), ("B", types.b)) if self.blocks else ():
            require(dtype in IN_BLOCKS, f"{name} of {dtype.label}: scales by blocks are for {_labels(IN_BLOCKS)}")
        known = Compute.FMA, Compute.PROMOTED
        summed = not self.blocks or types.compute in known
        labels = " or ".join(one.label for one in known)
        require(summed, f"scales by blocks go with --compute {labels}, not {types.compute.label}")
        if not self.coded:
            packed = types.b.storage_bits < 8
            require(not packed, f"B of {types.b.label} needs scales, as numbers of A's type: inputs = scales=128")
            promoted = types.compute is Compute.PROMOTED and types.b.is_integer
            require(
                not promoted, f"B of {types.b.label}: {types.compute.label} sums go with scales: inputs = scales=128"
            )
            return
        require(types.b in SCALED, f"B of {types.b.label}: scales along K are for {_labels(SCALED)}")
        require(
            types.a in ROUNDED_TO, f"A of {types.a.label}: scaled numbers of B are of A's type, {_labels(ROUNDED_TO)}"
        )


def _group_text(group: int) -> str:
    return "K" if group == WHOLE_K else str(group)


def _labels(dtypes: tuple[DType, ...]) -> str:
    return ", ".join(dtype.label for dtype in dtypes)


PLAIN = Inputs()
