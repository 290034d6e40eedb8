"""Bugs of gated epilogues: the columns of B for further products, and the pairing of sums and gates."""

from __future__ import annotations

from gemmgen.proof.bugs.base import DEADLOCK, POISON, READS, UNWRITTEN, VALUE, WITHIN_CHUNK, WRITES, Bug
from gemmgen.proof.bugs.subjects import NAIVE_GATED, NAIVE_LSTM, NAIVE_LSTM_STATE, WGMMA_GATED, WGMMA_GATED_RR
from gemmgen.proof.bugs.wgmma import BYTES, PATTERN, UNDER_WAY

GATED_BUGS = (
    Bug("gate and value change places", "gated", WGMMA_GATED, "sums, sums2, e)", "sums2, sums, e)", (VALUE,)),
    Bug("the gate's sums twice", "gated", WGMMA_GATED, "BN / CN + piece, sums2", "piece, sums2", (VALUE,)),
    Bug("the value is activated, too", "gated", WGMMA_GATED, "return silu(acc) * acc2;",
        "return silu(acc) * silu(acc2);", (VALUE,)),
    Bug("gelu of f16 without its highest coefficient", "precision", WGMMA_GATED_RR, "p = 0.004707857f", "p = 0.0f",
        (VALUE,)),
    Bug("the value is not gated", "gated", WGMMA_GATED_RR, "return gelu(acc) * acc2;", "return gelu(acc) + acc2;",
        (VALUE,)),
    Bug("both boxes of the first matrix", "gated", WGMMA_GATED, "full, k, s.N + tile.n", "full, k, tile.n", (VALUE,)),
    Bug("the second box beside the first, not N further on", "gated", WGMMA_GATED, "full, k, s.N + tile.n",
        "full, k, BN + tile.n", (VALUE,)),
    Bug("the second box of the first tile", "gated", WGMMA_GATED, "s.N + tile.n", "s.N", (VALUE,)),
    Bug("the second box over the first", "gated", WGMMA_GATED, "shared.b[ring.stage] + BN * LINE_B, &map_b",
        "shared.b[ring.stage], &map_b", (VALUE, POISON, UNWRITTEN, UNDER_WAY)),
    Bug("boxes of the second matrix amid those of the first", "gated", WGMMA_GATED_RR,
        "shared.b[ring.stage] + BN * BK + at * BK", "shared.b[ring.stage] + BN + at * BK",
        (VALUE, POISON, UNWRITTEN, UNDER_WAY, PATTERN)),
    Bug("the second matrix's boxes begin within 16 bytes", "gated", WGMMA_GATED_RR, "s.N + tile.n", "s.N + 4 + tile.n",
        (WITHIN_CHUNK,)),
    Bug("the first matrix's boxes begin before it", "gated", WGMMA_GATED_RR, "full, tile.n", "full, tile.n - 1",
        (WITHIN_CHUNK,)),
    Bug("the bytes of one box of B", "gated", WGMMA_GATED_RR, "+ sizeof(shared.b[0]))", "+ sizeof(shared.b[0]) / 2)",
        (BYTES, UNDER_WAY, DEADLOCK)),
    Bug("the second matrix begins in the middle of a line", "gated", NAIVE_GATED, "s.ldb + s.N + n",
        "s.ldb + s.ldb / 2 + n", (VALUE, POISON, READS)),
    Bug("the first matrix twice", "gated", NAIVE_GATED, "fmaf(a, b2, acc2)", "fmaf(a, b, acc2)", (VALUE,)),
    Bug("the third sums of the second matrix", "gated", NAIVE_LSTM, "fmaf(a, b3, acc3)", "fmaf(a, b2, acc3)", (VALUE,)),
    Bug("the third matrix begins in the middle of a line", "gated", NAIVE_LSTM, "s.ldb + 2 * s.N + n",
        "s.ldb + s.ldb / 2 + n", (VALUE, POISON, READS)),
    Bug("the third matrix a line off", "gated", NAIVE_LSTM_STATE, "Offset(2 * s.N + n) * s.ldb",
        "Offset(2 * s.N + n + 1) * s.ldb", (VALUE, POISON, READS)),
    Bug("the fourth matrix where the third lies", "gated", NAIVE_LSTM, "3 * s.N + n", "2 * s.N + n", (VALUE,)),
    Bug("a column behind the last matrix", "gated", NAIVE_LSTM, "n >= s.N) return", "n > s.N) return",
        (READS, WRITES)),
    Bug("gates change places", "gated", NAIVE_LSTM, "m, n, acc, acc2, acc3, acc4", "m, n, acc2, acc, acc3, acc4",
        (VALUE,)),
)  # fmt: skip
