"""Bugs of kernels whose A and B are more than two matrices: scales along K, groups of rows."""

from __future__ import annotations

from gemmgen.proof.bugs.base import BEHIND, POISON, READS, VALUE, Bug
from gemmgen.proof.bugs.subjects import NAIVE_GROUPS, NAIVE_S4, NAIVE_U4, NAIVE_U8_SCALED

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
    Bug("a group begins a row late", "groups", NAIVE_GROUPS, "m >= offs[group]", "m > offs[group]", (VALUE, BEHIND)),
    Bug("the next group's B", "groups", NAIVE_GROUPS, "B += group *", "B += (group + 1) *", (READS, VALUE)),
    Bug("rows behind the last end go with the last group", "groups", NAIVE_GROUPS, "if (group == 5) return;",
        "if (group == 5) group = 4;", (BEHIND,)),
    Bug("behind an empty group one is left out", "groups", NAIVE_GROUPS, "++group;",
        "group += 1 + (group > 0 && offs[group] == offs[group - 1]);", (READS, VALUE, POISON, BEHIND)),
    Bug("a tile has the group of its first row", "groups", NAIVE_GROUPS, "m >= offs[group]",
        "tile_m * BM >= offs[group]", (VALUE, BEHIND)),
    Bug("ends are taken for sizes", "groups", NAIVE_GROUPS, "m >= offs[group]", "m >= (end += offs[group])",
        (READS, VALUE, POISON), also=("int group = 0;", "int group = 0, end = 0;")),
    Bug("a line of B to a group", "groups", NAIVE_GROUPS, "group * s.stride_b", "group * s.ldb", (VALUE, READS)),
)  # fmt: skip
