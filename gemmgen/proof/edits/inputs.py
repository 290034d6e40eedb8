"""Right edits of kernels whose A and B are more than two matrices: see `gemmgen.problem.inputs`."""

from __future__ import annotations

from gemmgen.proof.bugs.subjects import (
    NAIVE_ALONG_K,
    NAIVE_BLOCKS,
    NAIVE_CONV,
    NAIVE_GATHERED,
    NAIVE_GROUPS,
    NAIVE_MASKED,
    NAIVE_SCATTERED,
    NAIVE_U4,
)
from gemmgen.proof.edits.base import Edit

SEARCH = """\
    int group = 0;
    while (group < 5 && m >= offs[group]) ++group;
"""

INPUT_EDITS = (
    Edit("scale and zero point read once for each group", NAIVE_U4, (
        ("""\
    for (int k = 0; k < s.K; ++k) {
""", """\
    for (int first = 0; first < s.K; first += 32) {
        const Offset of_group = Offset(first / 32) * s.N + n;
        const float scale = scales_b[of_group];
        const int zero = code(zeros_b, of_group);
        for (int k = first; k < min(first + 32, s.K); ++k) {
"""),
        ("""\
        const Offset of_group = Offset(k / 32) * s.N + n;
""", ""),
        ("code(B, Offset(k) * s.ldb + n) - code(zeros_b, of_group)", "code(B, Offset(k) * s.ldb + n) - zero"),
        ("static_cast<float>(scales_b[of_group])", "scale"),
        ("        acc = fmaf(a, b, acc);\n", "        acc = fmaf(a, b, acc);\n        }\n"),
    )),
    Edit("a group's number counted", NAIVE_GROUPS, ((SEARCH, """\
    int group = 0;
    for (int other = 0; other < 5; ++other) group += m >= offs[other];
"""),)),
    Edit("a group by bisection", NAIVE_GROUPS, ((SEARCH, """\
    int group = 0, end = 5;  // the first whose end lies behind m is from group on and before end, or is end
    while (group < end) {
        const int middle = (group + end) / 2;
        if (m >= offs[middle]) group = middle + 1;
        else end = middle;
    }
"""),)),
    Edit("tiles without a row that counts end at once", NAIVE_MASKED, (
        ("    A += matrix * s.stride_a;\n", """\
    if (blockIdx.x / columns % rows * BM >= group_rows[matrix]) return;
    A += matrix * s.stride_a;
"""),)),
    Edit("a group's k from its last to its first", NAIVE_ALONG_K, (
        ("for (int k = begin; k < end; ++k)", "for (int k = end - 1; k >= begin; --k)"),)),
    Edit("A and B of a group begin at its first k", NAIVE_ALONG_K, (
        ("    if (begin == end) alpha = 0.0f;", """\
    A += Offset(begin) * s.lda;
    B += Offset(begin) * s.ldb;
    if (begin == end) alpha = 0.0f;"""),
        ("for (int k = begin; k < end; ++k)", "for (int k = 0; k < end - begin; ++k)"),
    )),
    Edit("a pointer to the gathered row", NAIVE_GATHERED, (
        ("const int row_a = index_a[m];", "const float* const row_a = A + Offset(index_a[m]) * s.lda;"),
        ("A[Offset(row_a) * s.lda + k]", "row_a[k]"),
    )),
    Edit("a row's place is read before its products", NAIVE_SCATTERED, (
        ("    float acc = 0.0f;\n", """\
    float* const row_c = C + Offset(index_c[m]) * s.ldc;
    float acc = 0.0f;
"""),
        ("C + Offset(index_c[m]) * s.ldc + n;", "row_c + n;"),
    )),
    Edit("scales read before the block's products", NAIVE_BLOCKS, (
        ("        float sum = 0.0f;\n", """\
        const float scale_a = scales_a[Offset(block / 128) * s.M + m];
        const float scale = scale_a * scales_b[Offset(n / 128) * ((s.K + 127) / 128) + block / 128];
        float sum = 0.0f;
"""),
        ("""\
        const float scale_a = scales_a[Offset(block / 128) * s.M + m];
        const float scale_b = scales_b[Offset(n / 128) * ((s.K + 127) / 128) + block / 128];
""", ""),
        ("fmaf(scale_a * scale_b, sum, acc)", "fmaf(scale, sum, acc)"),
    )),
    Edit("a block's products from its last to its first", NAIVE_BLOCKS, (
        ("for (int k = block; k < min(block + 128, s.K); ++k)",
            "for (int k = min(block + 128, s.K) - 1; k >= block; --k)"),
    )),
    Edit("coordinates compared as unsigned numbers", NAIVE_CONV, (
        ("y >= 0 && y < H && x >= 0 && x < W",
         "static_cast<unsigned>(y) < unsigned(H) && static_cast<unsigned>(x) < unsigned(W)"),
    )),
)  # fmt: skip
