"""The arguments of an exported launcher, their element types and the conditions on them, as records that templates
read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gemmgen.problem.dtype import DType


@dataclass(frozen=True)
class Element:
    """An element type in C++.

    name    the type's name
    header  the CUDA header that defines it; "" for a type of C++ itself or <cstdint>
    torch   torch's name of the type, in at::
    decode  an expression for the exact value of an element x
    encode  an expression for the element nearest to `value`, ties to even; all but f16, bf16, f32 and f64 saturate

    An element of 4 bits is half of a byte: x and the result of `encode` are from 0 to 15.
    """

    name: str
    header: str
    torch: str
    decode: str
    encode: str

    @property
    def guard(self) -> str:
        """The macro that marks that a header has declared the type for C."""
        return f"GEMMGEN_{self.name.strip('_').upper()}"


ELEMENTS = {
    DType.F32: Element("float", "", "kFloat", "x", "float(value)"),
    DType.F64: Element("double", "", "kDouble", "x", "double(value)"),
    DType.F16: Element("__half", "cuda_fp16.h", "kHalf", "__half2float(x)", "__double2half(value)"),
    DType.BF16: Element("__nv_bfloat16", "cuda_bf16.h", "kBFloat16", "__bfloat162float(x)", "__double2bfloat16(value)"),
    DType.E4M3: Element("__nv_fp8_e4m3", "cuda_fp8.h", "kFloat8_e4m3fn", "double(x)", "__nv_fp8_e4m3(value)"),
    DType.E5M2: Element("__nv_fp8_e5m2", "cuda_fp8.h", "kFloat8_e5m2", "double(x)", "__nv_fp8_e5m2(value)"),
    DType.S32: Element("int32_t", "", "kInt", "x", "int32_t(value)"),
    DType.S8: Element("int8_t", "", "kChar", "x", "int8_t(std::nearbyint(std::clamp(value, -128.0, 127.0)))"),
    DType.U8: Element("uint8_t", "", "kByte", "x", "uint8_t(std::nearbyint(std::clamp(value, 0.0, 255.0)))"),
    DType.U4: Element("uint8_t", "", "kByte", "x", "uint8_t(std::nearbyint(std::clamp(value, 0.0, 15.0)))"),
    DType.S4: Element(
        "uint8_t", "", "kByte", "(x ^ 8) - 8", "uint8_t(int(std::nearbyint(std::clamp(value, -8.0, 7.0))) & 15)"
    ),
}


@dataclass(frozen=True)
class LeadingDimension:
    """A leading dimension that the launcher takes, and the least line length: a size's name or number, "2 * N".

    unit   the number of elements that divides it
    least  its lower bound if the line has no element
    """

    name: str
    line: str
    unit: int
    least: int

    def line_of(self, shape: str) -> str:
        """The line's length if sizes are members of `shape`."""
        return _of_shape(self.line, shape)


@dataclass(frozen=True)
class Stride:
    """A stride that the launcher takes, for `batch` matrices with `lines` of `line` elements, `ld` apart.

    Each is a name or a number.

    unit         the number of elements that divides it
    may_be_zero  whether the matrix is only read: all products may share it, and lines of several may interleave or
                 overlap
    """

    name: str
    lines: str
    ld: str
    line: str
    unit: int
    may_be_zero: bool
    batch: str

    def least(self, shape: str = "") -> str:
        """The least stride in C++, if sizes are members of `shape`: lines of a written matrix must not overlap.

        It spans a matrix, unless the lines of all products lie between two lines of one.
        """
        if self.may_be_zero:
            return "0"
        at = f"{shape}." if shape else ""
        lines, line, batch = (_of_shape(text, shape) if shape else text for text in (self.lines, self.line, self.batch))
        stride, ld = f"{at}{self.name}", f"{at}{self.ld}" if self.ld.startswith("ld") else self.ld
        between = f"{stride} >= {line} && {stride} <= {ld} && ({batch} - 1LL) * {stride} + {line} <= {ld}"
        return f"{between} ? {line} : ({lines} - 1LL) * {ld} + {line}"

    def lines_of(self, shape: str) -> str:
        """The number of lines if sizes are members of `shape`."""
        return _of_shape(self.lines, shape)

    def line_of(self, shape: str) -> str:
        """The length of a line if sizes are members of `shape`."""
        return _of_shape(self.line, shape)


def _of_shape(text: str, shape: str) -> str:
    return re.sub(r"\b(?:[MNK]|batch)\b", rf"{shape}.\g<0>", text)


@dataclass(frozen=True)
class Argument:
    """An argument of the launcher: its type in C and C++, its name, and the expression that the kernel gets for it."""

    ctype: str
    text: str
    passed: str

    @property
    def is_workspace(self) -> bool:
        """Whether it is the workspace, or the workspace's size in bytes."""
        return self in WORKSPACE


WORKSPACE_ALIGN = 256  # bytes that divide its address, as cudaMalloc's, and where its parts begin
WORKSPACE = (Argument("void*", "workspace", "workspace"), Argument("size_t", "workspace_bytes", "workspace_bytes"))


@dataclass(frozen=True)
class Part:
    """A part of the workspace: the kernel's argument that points to it, and its size in bytes.

    bytes  a C++ expression of the sizes and of functions tiles_of_c and copy_ld
    """

    ctype: str
    name: str
    bytes: str


@dataclass(frozen=True)
class Alignment:
    """The alignment in bytes of the addresses in these arguments."""

    bytes: int
    names: tuple[str, ...]
