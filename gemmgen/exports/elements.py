"""Element types as exported files name them: the types of CUDA's users in C and C++, and their conversions on a
host."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.problem.dtype import DType


@dataclass(frozen=True)
class Element:
    """An element type in C++.

    name    the type's name
    header  the CUDA header that defines it; "" for a type of C++ itself or <cstdint>
    decode  an expression for the exact value of an element x
    encode  an expression for the element nearest to `value`, ties to even; all but f16, bf16, f32 and f64 saturate
    """

    name: str
    header: str
    decode: str
    encode: str

    @property
    def guard(self) -> str:
        """The macro that marks that a header has declared the type for C."""
        return f"GEMMGEN_{self.name.strip('_').upper()}"


ELEMENTS = {
    DType.F32: Element("float", "", "x", "float(value)"),
    DType.F64: Element("double", "", "x", "double(value)"),
    DType.F16: Element("__half", "cuda_fp16.h", "__half2float(x)", "__double2half(value)"),
    DType.BF16: Element("__nv_bfloat16", "cuda_bf16.h", "__bfloat162float(x)", "__double2bfloat16(value)"),
    DType.E4M3: Element("__nv_fp8_e4m3", "cuda_fp8.h", "double(x)", "__nv_fp8_e4m3(value)"),
    DType.E5M2: Element("__nv_fp8_e5m2", "cuda_fp8.h", "double(x)", "__nv_fp8_e5m2(value)"),
    DType.S32: Element("int32_t", "", "x", "int32_t(value)"),
    DType.S8: Element("int8_t", "", "x", "int8_t(std::nearbyint(std::clamp(value, -128.0, 127.0)))"),
    DType.U8: Element("uint8_t", "", "x", "uint8_t(std::nearbyint(std::clamp(value, 0.0, 255.0)))"),
}
