"""Bugs of kernels whose operands have scales: codes of 4 bits, and blocks of fp8."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.bugs.base import DEADLOCK, POISON, READS, VALUE, Bug, Diagnosis
from gemmgen.proof.bugs.wgmma import BYTES, IN_FLIGHT, TOO_MANY, UNDER_WAY

OFF = (VALUE, POISON)
COPIED = Diagnosis("race", "data race on prepared_")
BESIDE = Diagnosis("crash", "of prepared_|beside|outside|of B|of scales_b|of zeros_b")

BESIDE_SCALES = Diagnosis("crash", "of scales_")

CODES_BUGS: tuple[Bug, ...] = (
    # Packing
    Bug("the halves of a byte swapped", "packed elements", on.WGMMA_CODES, "B[from / 2] >> (from % 2 ? 4 : 0)",
        "B[from / 2] >> (from % 2 ? 0 : 4)", OFF),
    Bug("codes in the order of k, not of fragments", "packed elements", on.WGMMA_CODES, "v / 2 + v % 2 * 4", "v", OFF),
    Bug("columns g and g + 8 in each other's place", "swapped index", on.WGMMA_CODES, "n + v / 2 % 2 * 8",
        "n + (1 - v / 2 % 2) * 8", OFF),
    Bug("the second four of k where columns are", "swapped index", on.WGMMA_CODES, "k + v / 4 * 8 + v % 2",
        "k + v / 2 % 2 * 8 + v % 2", OFF),
    Bug("a warp's columns follow each other by fours", "swapped index", on.WGMMA_CODES,
        "thread / 32 * 16 + thread % 32 / 4", "thread / 4", OFF),
    Bug("steps of a thread behind each other, not threads", "swapped index", on.WGMMA_CODES,
        "thread = i / 4 % 128, step = i / 512 * 4 + i % 4", "thread = i / 8, step = i % 8", OFF),
    Bug("chunks go down K first", "swapped index", on.WGMMA_CODES,
        "first_n = tile % across * 64, first_k = tile / across * 128",
        "first_n = tile / 2 * 64, first_k = tile % 2 * 128", (*OFF, BESIDE)),
    Bug("codes keep their sign", "packed elements", on.WGMMA_CODES_CUT, "& 15) ^ 8", "& 15)", OFF),
    Bug("no end of the codes along N", "guard", on.WGMMA_CODES_CUT, "column >= 72 || at >= 208", "at >= 208",
        (READS, BESIDE, VALUE)),
    Bug("no end of the scales", "guard", on.WGMMA_CODES_CUT, "inside ? scales_b[from].bits : 0", "scales_b[from].bits",
        (READS, BESIDE)),
    Bug("scales of the next group", "scale", on.WGMMA_CODES_CUT, "(first_k / 64) * 72", "(first_k / 64 + 1) * 72",
        (READS, *OFF, BESIDE)),
    Bug("scales as if groups were twice as long", "scale", on.WGMMA_CODES_CUT, "(first_k / 64) * 72",
        "(first_k / 128) * 72", OFF),
    Bug("zero points by columns of K", "zero point", on.WGMMA_CODES, "zeros_b[from / 2] >> (from % 2 ? 4 : 0)",
        "zeros_b[from / 2] >> (from % 2 ? 0 : 4)", OFF),
    Bug("zero points off by one", "zero point", on.WGMMA_CODES, "0x4300 | zero", "0x4300 | (zero + 1 & 15)", OFF),
    # Numbers
    Bug("a signed code's middle is 7", "zero point", on.WGMMA_CODES_CUT, "twice(0x6400 + 8)", "twice(0x6400 + 7)", OFF),
    Bug("both columns with the first one's scale", "scale", on.WGMMA_CODES, "twice(scales[8 * i])", "twice(scales[0])",
        OFF),
    Bug("the scale of a neighbouring column", "scale", on.WGMMA_CODES, "twice(scales[8 * i])", "twice(scales[i])", OFF),
    Bug("scales where zero points are", "scale", on.WGMMA_CODES, "twice(scales[64 + 8 * i])", "twice(scales[8 * i])",
        OFF),
    Bug("columns' scales in turns by pairs", "scale", on.WGMMA_CODES, "of.scale[r % 2]", "of.scale[r / 2]", OFF),
    Bug("zero points in turns by pairs", "zero point", on.WGMMA_CODES, "of.zero[r % 2]", "of.zero[r / 2]", OFF),
    Bug("the first four codes again", "packed elements", on.WGMMA_CODES, "codes >> 4 * r", "codes >> 4 * (r % 2)", OFF),
    Bug("five bits of a code", "packed elements", on.WGMMA_CODES, '"mov.b32 %0, 0x000f000f;"',
        '"mov.b32 %0, 0x001f001f;"', OFF),
    Bug("the zero point is not scaled", "zero point", on.WGMMA_CODES, '"sub.rn.bf16x2 distance, code, %3;\\n"',
        '"mul.rn.bf16x2 distance, code, %4;\\n"', OFF,
        also=('"mul.rn.bf16x2 %0, distance, %4; }"', '"sub.rn.bf16x2 %0, distance, %3; }"')),
    Bug("the codes of the other half of a chunk", "stage", on.WGMMA_CODES, "codes[step / 64]", "codes[1 - step / 64]",
        OFF),
    Bug("another consumer's columns", "swapped index", on.WGMMA_CODES, "[at / CHUNK_K][consumer], codes",
        "[at / CHUNK_K][1 - consumer], codes", (*OFF, UNDER_WAY)),
    Bug("zeros beyond K times a scale", "K tail", on.WGMMA_CODES_CUT, "if (k + at + step >= s.K) fragment[r] = 0;", "",
        OFF),
    # What is in flight
    Bug("the step before is not awaited", "wait count", on.WGMMA_CODES, "wgmma_wait<1>();", "", (IN_FLIGHT, UNDER_WAY)),
    Bug("a stage is released as its own products begin", "phase", on.WGMMA_CODES,
        "release_stage(shared, previous);\n            }", "release_stage(shared, ring.stage);\n            }",
        (UNDER_WAY, TOO_MANY, DEADLOCK, BYTES)),
    Bug("a box begins a chunk early", "swapped index", on.WGMMA_CODES, "tile.n / 64) * CHUNK_LINES",
        "tile.n / 64 - 1) * CHUNK_LINES", (*OFF, UNDER_WAY)),
    Bug("chunks as far apart as those without zero points", "stride", on.WGMMA_CODES, "tile.n / 64) * CHUNK_LINES",
        "tile.n / 64) * (CHUNK_LINES - 1)", OFF),
)  # fmt: skip

BLOCKS_BUGS: tuple[Bug, ...] = (
    Bug("the scale of the next block", "scale", on.WGMMA_BLOCKS, "block = k / 128", "block = k / 128 + 1",
        (*OFF, READS, BESIDE_SCALES)),
    Bug("the scale of the k tile that is multiplied meanwhile", "scale", on.WGMMA_BLOCKS,
        "promote(acc[1 - i], scales[1 - i], totals)", "promote(acc[1 - i], scales[i], totals)", OFF),
    Bug("the last k tile by the scale before it", "scale", on.WGMMA_BLOCKS, "promote(acc[1], scales[1], totals);",
        "promote(acc[1], scales[0], totals);", OFF),
    Bug("both rows by the first one's scale", "scale", on.WGMMA_BLOCKS, "scales[i][r / 2 % 2], acc[i][r]",
        "scales[i][0], acc[i][r]", OFF),
    Bug("rows' scales in turns by columns", "scale", on.WGMMA_BLOCKS, "scales[i][r / 2 % 2], acc[i][r]",
        "scales[i][r % 2], acc[i][r]", OFF),
    Bug("A's scales by rows", "scale", on.WGMMA_BLOCKS, "scales_a[static_cast<long long>(block) * s.M + m]",
        "scales_a[static_cast<long long>(m) * 5 + block]", (*OFF, READS)),
    Bug("B's scales by columns", "scale", on.WGMMA_BLOCKS, "(tile.n / 128) * ((s.K + 127) / 128) + block",
        "(block) * ((s.N + 127) / 128) + tile.n / 128", OFF),
    Bug("scales of A's rows beyond the last", "guard", on.WGMMA_BLOCKS, "m < s.M ? scales_a", "true ? scales_a",
        (READS, BESIDE_SCALES)),
    Bug("all consumers with the first one's rows", "scale", on.WGMMA_BLOCKS, "row = tile.m + first +", "row = tile.m +",
        OFF),
    Bug("a row of the next eight", "scale", on.WGMMA_BLOCKS, "half * 8", "half * 16", (*OFF, READS)),
    Bug("scales of A alone", "scale", on.WGMMA_BLOCKS, "+ m] * of_b :", "+ m] :", OFF),
    Bug("sums without their scale", "promotion", on.WGMMA_BLOCKS, "fmaf(scales[i][r / 2 % 2], acc[i][r], totals[i][r])",
        "totals[i][r] + acc[i][r]", OFF),
    Bug("the scale of all before, too", "promotion", on.WGMMA_BLOCKS,
        "fmaf(scales[i][r / 2 % 2], acc[i][r], totals[i][r])", "scales[i][r / 2 % 2] * (acc[i][r] + totals[i][r])",
        OFF),
    Bug("an odd k tile without its scale", "scale", on.WGMMA_BLOCKS,
        "load_scales(scales_a, scales_b, s, tile, consumer * MMAS_M * 64, k, scales[0]);", "", OFF),
)  # fmt: skip
