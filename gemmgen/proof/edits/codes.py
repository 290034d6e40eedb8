"""Right edits of kernels that multiply codes of 4 bits."""

from __future__ import annotations

from gemmgen.proof.bugs.subjects import WGMMA_CODES, WGMMA_CODES_CUT
from gemmgen.proof.edits.base import Edit

CODES_EDITS = (
    Edit("codes added to the number that they end", WGMMA_CODES, (
        ("& 0x000f000fu) | 0x43004300u", "& 0x000f000fu) + 0x43004300u"),
    )),
    Edit("twice a number by a product", WGMMA_CODES, (
        ("return number | number << 16;", "return number * 0x10001u;"),
    )),
    Edit("the distance times the scale in one instruction, minus nothing", WGMMA_CODES_CUT, (
        ('"mul.rn.f16x2 %0, distance, %3; }"', '"fma.rn.f16x2 %0, distance, %3, %4; }"'),
        ('"r"(of.scale[r % 2]));', '"r"(of.scale[r % 2]), "r"(0x80008000u));'),
    )),
    Edit("numbers of both columns in turns", WGMMA_CODES, (("""\
    for (int r = 0; r < 4; ++r) {
        const unsigned code""", """\
    for (int i = 0; i < 4; ++i) {
        const int r = i / 2 + i % 2 * 2;
        const unsigned code"""),
    )),
)  # fmt: skip
