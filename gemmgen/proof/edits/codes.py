"""Right edits of kernels that multiply codes of 4 and 8 bits."""

from __future__ import annotations

from gemmgen.proof.bugs.tensor_subjects import MMA_CODES, WGMMA_BYTES, WGMMA_CODES, WGMMA_CODES_CUT
from gemmgen.proof.edits.base import Edit

CODES_EDITS = (
    Edit("codes added to the number that they end", WGMMA_CODES, ((
        '"lop3.b32 code, %1, %2, 0x43004300, 0xea;\\n"',
        '"and.b32 code, %1, %2; add.u32 code, code, 0x43004300;\\n"',
    ),)),
    Edit("twice a number by a product", WGMMA_CODES, (
        ("return number | number << 16;", "return number * 0x10001u;"),
    )),
    Edit("the distance times the scale in one instruction, minus nothing", WGMMA_CODES_CUT, (
        ('"mul.rn.f16x2 %0, difference, %4; }"', '"fma.rn.f16x2 %0, difference, %4, %5; }"'),
        ('"r"(of.scale[r % 2]));', '"r"(of.scale[r % 2]), "r"(0x80008000u));'),
    )),
    Edit("codes of a step at a time", MMA_CODES, ((
        "if (k % 64 == 0) packed[j].codes = "
        "reinterpret_cast<const Codes*>(chunk)[k / 64 * 128 + column * 2 + lane];",
        "packed[j].codes.at[k / 16 % 4] = chunk[(k / 64 * 128 + column * 2 + lane) * 4 + k / 16 % 4];",
    ),)),
    Edit("differences of bytes converted, not cut", WGMMA_BYTES, ((
        "const unsigned difference = __byte_perm(__float_as_uint(first), __float_as_uint(second), 0x7632);",
        'unsigned difference; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(difference) : "f"(second), "f"(first));',
    ),)),
    Edit("numbers of both columns in turns", WGMMA_CODES, (("""\
    for (int r = 0; r < 4; ++r) {
        asm""", """\
    for (int i = 0; i < 4; ++i) {
        const int r = i / 2 + i % 2 * 2;
        asm"""),
    )),
)  # fmt: skip
