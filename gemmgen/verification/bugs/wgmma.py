"""Bugs of kernels that TMA feeds and warpgroups multiply: barriers, phases, descriptors, proxies, what is under way."""

from __future__ import annotations

from gemmgen.verification.bugs.base import OUT_OF_ARRAY, POISON, VALUE, Bug, Diagnosis
from gemmgen.verification.bugs.subjects import WGMMA_CR, WGMMA_PREPARED, WGMMA_PROMOTED, WGMMA_RC

UNDER_WAY = Diagnosis("race", "which may still be under way|by the async proxy|data race")
DEADLOCK = Diagnosis("crash", "deadlock")
TOO_MANY = Diagnosis("crash", "one arrival too many")
NO_GROUP = Diagnosis("crash", "waits for no wgmma")
IN_FLIGHT = Diagnosis("race", "registers in flight")
NOT_FENCED = Diagnosis("race", "no fence_mbarrier_init|initialis|no wgmma_fence")
STALE_STORE = Diagnosis("crash", "TMA store reads .* no thread has written")
STORED = Diagnosis("crash", "TMA store")
PATTERN = Diagnosis("crash", "inside a pattern|does not divide|outside|after the end")
BYTES = Diagnosis("crash", "bytes came")
TOO_SOON = Diagnosis("race", "before it has waited for the kernel ahead on the stream")
NOT_AWAITED = Diagnosis("crash", "TMA load that no thread has waited for")

COPIED = Diagnosis("race", "data race on prepared_")
TRANSPOSED = Diagnosis("race", "data race on shared memory.* of transposed")

WGMMA_BUGS = (
    # Barriers of the ring
    Bug("no barrier before the ring is used", "barrier", WGMMA_RC, "    __syncthreads();\n", "",
        (NOT_FENCED, UNDER_WAY)),
    Bug("no barrier before the ring is used, MN-major", "barrier", WGMMA_CR, "    __syncthreads();\n", "",
        (NOT_FENCED, UNDER_WAY)),
    Bug("no barrier before the ring is used, promoted", "barrier", WGMMA_PROMOTED, "    __syncthreads();\n", "",
        (NOT_FENCED, UNDER_WAY)),
    Bug("TMA does not see the barriers", "fence", WGMMA_RC, "        fence_mbarrier_init();\n    }", "    }",
        (NOT_FENCED,)),
    Bug("one consumer empties a stage for both", "arrivals", WGMMA_CR, "mbarrier_init(&shared.empty[stage], CONSUMERS)",
        "mbarrier_init(&shared.empty[stage], 1)", (TOO_MANY, UNDER_WAY)),
    Bug("all threads arrive", "arrivals", WGMMA_RC, "if (threadIdx.x % 128 == 0) mbarrier_arrive", "mbarrier_arrive",
        (TOO_MANY, UNDER_WAY)),
    Bug("a stage is released while its products are under way", "release", WGMMA_RC,
        "release_stage(shared, previous);\n            previous = ring.stage;",
        "release_stage(shared, previous = ring.stage);", (UNDER_WAY, TOO_MANY, DEADLOCK)),
    Bug("the last stage of a tile is not released", "release", WGMMA_RC,
        "        if (s.K > 0) release_stage(shared, previous);\n", "", (DEADLOCK, UNDER_WAY)),
    Bug("the producer waits for the phase that it fills", "phase", WGMMA_RC, "ring.parity ^ 1", "ring.parity",
        (DEADLOCK,)),
    Bug("the producer does not wait", "phase", WGMMA_CR,
        "mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);", "", (UNDER_WAY, TOO_MANY, BYTES)),
    Bug("the parity never changes", "phase", WGMMA_RC, "        parity ^= stage == 0;\n", "",
        (UNDER_WAY, TOO_MANY, DEADLOCK)),
    Bug("consumers do not wait for a stage", "phase", WGMMA_CR,
        "            mbarrier_wait(&shared.full[ring.stage], ring.parity);\n", "", (UNDER_WAY, TOO_MANY)),
    Bug("the bytes of A alone", "bytes", WGMMA_RC, "sizeof(shared.a[0]) + sizeof(shared.b[0])", "sizeof(shared.a[0])",
        (BYTES, UNDER_WAY)),
    Bug("the bytes of two tiles of A", "bytes", WGMMA_CR, "sizeof(shared.a[0]) + sizeof(shared.b[0])",
        "2 * sizeof(shared.a[0]) + sizeof(shared.b[0])", (DEADLOCK,)),
    Bug("a stage too many in the ring", "stage", WGMMA_RC, "stage + 1 < STAGES", "stage + 1 <= STAGES",
        (OUT_OF_ARRAY, NOT_FENCED, UNDER_WAY, TOO_MANY, DEADLOCK, BYTES)),
    # TMA
    Bug("coordinates in the order of a matrix", "swapped index", WGMMA_RC, "map_a, full, k, tile.m",
        "map_a, full, tile.m, k",
        (VALUE, POISON)),
    Bug("B's box where A's is", "swapped index", WGMMA_RC, "tma_load_2d(shared.b[stage], map_b, full, k, tile.n)",
        "tma_load_2d(shared.b[stage], map_b, full, k, tile.m)", (VALUE, POISON)),
    Bug("another matrix of the batch", "swapped index", WGMMA_PROMOTED, "map_b, full, k, tile.n, matrix",
        "map_b, full, k, tile.n, 0", (VALUE,)),
    Bug("boxes of A side by side, not one behind the other", "swapped index", WGMMA_CR, "shared.a[stage] + at * BK",
        "shared.a[stage] + at", (PATTERN, UNDER_WAY)),
    # Products
    Bug("no fence before the products", "fence", WGMMA_RC, "            wgmma_fence();\n", "", (NOT_FENCED,)),
    Bug("products without a group", "commit", WGMMA_RC, "            wgmma_commit();\n", "", (NO_GROUP,)),
    Bug("sums are read in flight", "wait count", WGMMA_RC, "        wgmma_wait<0>();\n", "", (IN_FLIGHT, UNDER_WAY)),
    Bug("sums are added up in flight", "wait count", WGMMA_PROMOTED, "        wgmma_wait<0>();\n", "",
        (IN_FLIGHT, UNDER_WAY)),
    Bug("a warpgroup multiplies the other's rows", "swapped index", WGMMA_CR, "consumer * MMAS_M * 64, acc",
        "(1 - consumer) * MMAS_M * 64, acc", (VALUE,)),
    Bug("the second k step is the first", "missing product", WGMMA_RC, "b + k * sizeof(BF16) / 16, true", "b, true",
        (VALUE,)),
    Bug("an MN-major step along the line", "swapped index", WGMMA_CR,
        "a + i * 64 * BK * sizeof(F16) / 16 + k * LINE_A *",
        "a + i * 64 * BK * sizeof(F16) / 16 + k *", (VALUE, PATTERN)),
    Bug("groups of 8 lines too close", "descriptor", WGMMA_RC, "shared.b[stage], 16, 8 * LINE_B",
        "shared.b[stage], 16, 4 * LINE_B",
        (VALUE, PATTERN)),
    Bug("a descriptor of narrower lines", "descriptor", WGMMA_RC, "make_descriptor<LINE_A * sizeof(BF16)>",
        "make_descriptor<LINE_A>", (VALUE, PATTERN)),
    Bug("sums are not added up", "missing product", WGMMA_PROMOTED, "totals[i][r] += acc[i][r]",
        "totals[i][r] = acc[i][r]",
        (VALUE,)),
    Bug("sums are added up again", "duplicated product", WGMMA_PROMOTED, ", k > 0)", ", true)",
        (VALUE,)),
    # C
    Bug("no proxy fence before C's store", "fence", WGMMA_RC, "                fence_proxy_async();\n", "",
        (UNDER_WAY,)),
    Bug("no barrier before C's store", "named barrier", WGMMA_RC,
        "                fence_proxy_async();\n                named_barrier_sync(1 + consumer, 128);\n",
        "                fence_proxy_async();\n", (UNDER_WAY,)),
    Bug("a piece of C is written over one that leaves", "named barrier", WGMMA_CR,
        "tma_store_wait_read<C_STAGES - 1>();", "tma_store_wait_read<C_STAGES>();", (UNDER_WAY, VALUE)),
    Bug("a barrier of both consumers", "named barrier", WGMMA_CR, "named_barrier_sync(1 + consumer, 128)",
        "named_barrier_sync(1, 128)", (UNDER_WAY, STORED, DEADLOCK), count=2),
    Bug("the block ends while C leaves", "wait count", WGMMA_RC,
        "    if (leads) tma_store_wait_read<0>();  // shared", "    // shared", (STORED,)),
    Bug("C's stores are not committed", "commit", WGMMA_CR, "                    tma_store_commit();\n", "",
        (STORED, UNDER_WAY)),
    Bug("pieces of C as if lines were not swizzled", "swizzle", WGMMA_RC,
        "((n / CHUNK) ^ (m / (8 / CHUNKS) % CHUNKS)) * CHUNK",
        "n / CHUNK * CHUNK", (VALUE, STALE_STORE)),
    Bug("old C is not awaited", "phase", WGMMA_RC,
        "                    mbarrier_wait(&shared.c_loaded[consumer], c_parity);\n",
        "", (UNDER_WAY, TOO_MANY)),
    Bug("old C's parity never changes", "phase", WGMMA_CR, "                    c_parity ^= 1;\n", "",
        (UNDER_WAY, DEADLOCK, TOO_MANY, NOT_AWAITED)),
    Bug("a piece's sums are those of the first", "swapped index", WGMMA_CR, "acc[piece * CN / 2 + j / 2 * 4",
        "acc[j / 2 * 4",
        (VALUE,)),
    Bug("rows beyond the edge of C, from registers", "guard", WGMMA_PROMOTED, "    if (m >= rows) return;\n", "",
        (Diagnosis("crash", "writes|reads"), Diagnosis("race", "data race on C"), VALUE)),
    # Launches that overlap
    Bug("A, B and C are touched while the kernel before may still run", "launch", WGMMA_RC,
        "    grid_dependency_wait();", "    ", (TOO_SOON,)),
    Bug("one thread waits for the kernel before, and nobody for it", "launch", WGMMA_PREPARED,
        "    grid_dependency_wait();", "    if (threadIdx.x == 0) grid_dependency_wait();", (TOO_SOON,)),
    # Copies of operands
    Bug("a copy without its lines' last chunks", "missing product", WGMMA_PREPARED,
        "chunk >= chunks) continue;\n        const", "chunk >= chunks - 1) continue;\n        const", (VALUE,)),
    Bug("lines of a copy as far apart as the operand's", "stride", WGMMA_PREPARED, "(line) * chunks + chunk]",
        "(line) * (lda / 16) + chunk]", (VALUE, COPIED, Diagnosis("crash", "prepared_a"))),
    Bug("a copy without its last line", "guard", WGMMA_PREPARED, "from < length && line < lines",
        "from < length && line < lines - 1", (VALUE,)),
    Bug("a copy past its last line", "guard", WGMMA_PREPARED, "if (line >= lines || chunk",
        "if (line > lines || chunk", (Diagnosis("crash", "prepared_a|of A|beside A"), COPIED)),
    Bug("a tile is read before it is transposed", "barrier", WGMMA_PREPARED,
        "        __syncthreads();  // the tile is whole\n", "", (TRANSPOSED,)),
    Bug("a tile is written while it is read", "barrier", WGMMA_PREPARED,
        "        __syncthreads();  // and may be overwritten\n", "", (TRANSPOSED,)),
    Bug("a chunk transposed at its line's start", "swapped index", WGMMA_PREPARED, "to * chunks + first / 16 + chunk",
        "to * chunks + chunk", (VALUE, COPIED)),
)  # fmt: skip
