"""Bugs of kernels whose A and B are more than two matrices: scales along K."""

from __future__ import annotations

from gemmgen.proof.bugs.base import READS, VALUE, Bug
from gemmgen.proof.bugs.subjects import NAIVE_S4, NAIVE_U4, NAIVE_U8_SCALED

INPUT_BUGS = (
    Bug("the halves of a byte swapped", "packed elements", NAIVE_U4, "(i % 2 ? 4 : 0) & 15", "(i % 2 ? 0 : 4) & 15",
        (VALUE,)),
    Bug("the sign of a nibble is lost", "packed elements", NAIVE_S4,
        "static_cast<signed char>(bytes[i / 2] << (i % 2 ? 0 : 4)) >> 4", "bytes[i / 2] >> (i % 2 ? 4 : 0) & 15",
        (VALUE,)),
    Bug("an element to a byte", "packed elements", NAIVE_U4, "bytes[i / 2]", "bytes[i]", (READS, VALUE)),
    Bug("the scale of the next group", "scales", NAIVE_U4, "Offset(k / 32)", "Offset(k / 32 + 1)", (READS, VALUE)),
    Bug("groups half as long", "scales", NAIVE_U4, "Offset(k / 32)", "Offset(k / 16)", (READS, VALUE)),
    Bug("scales of the whole groups alone", "scales", NAIVE_U4, "Offset(k / 32)",
        "Offset(min(k / 32, s.K / 32 - 1))", (READS, VALUE)),
    Bug("scales column by column", "scales", NAIVE_U8_SCALED, "Offset(k / 128) * s.N + n",
        "Offset(n) * ((s.K + 127) / 128) + k / 128", (VALUE, READS)),
    Bug("zero points are signed", "zero points", NAIVE_U8_SCALED, "- zeros_b[of_group]",
        "- static_cast<signed char>(zeros_b[of_group])", (VALUE,)),
    Bug("the zero point is one less", "zero points", NAIVE_U4, "- code(zeros_b, of_group)",
        "- (code(zeros_b, of_group) - 1)", (VALUE,)),
    Bug("products are scaled, not elements of B", "rounding", NAIVE_S4,
        "const float b = BF16(code_b * static_cast<float>(scales_b[of_group]));",
        "const float b = code_b * static_cast<float>(scales_b[of_group]);", (VALUE,)),
)  # fmt: skip
