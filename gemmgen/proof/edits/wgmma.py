"""Right edits of kernels that TMA feeds."""

from __future__ import annotations

from gemmgen.proof.bugs import tensor_subjects as on
from gemmgen.proof.edits.base import Edit

WGMMA_EDITS = (
    Edit("a stage goes back as soon as its products have ended", on.WGMMA_RC, (
        ("""\
            wgmma_wait<1>();
            if (k > 0) release_stage(shared, previous);
            previous = ring.stage;
""", """\
            wgmma_wait<0>();
            release_stage(shared, ring.stage);
"""),
        ("        if (s.K > 0) release_stage(shared, previous);\n", ""),
    )),
    Edit("the proxy fence of the thread that stores, behind the barrier", on.WGMMA_RC, (
        ("                fence_proxy_async();\n                named_barrier_sync(1 + consumer, 128);\n", """\
                named_barrier_sync(1 + consumer, 128);
                if (leads) fence_proxy_async();
"""),)),
    Edit("no products in flight while the next stage is awaited", on.WGMMA_RC, (
        ("wgmma_wait<1>();", "wgmma_wait<0>();"),
        ("if (k > 0) release_stage(shared, previous);", "release_stage(shared, ring.stage);"),
        ("        if (s.K > 0) release_stage(shared, previous);\n", ""))),
    Edit("no products in flight while fragments are loaded", on.WGMMA_ROWS, (
        ("wgmma_wait<1>();", "wgmma_wait<0>();"),)),
    Edit("tiles of a group row by row", on.WGMMA_GROUPS, (
        ("from + (above + within % height) * BM, within / height * BN",
         "from + number / columns * BM, number % columns * BN"),)),
    Edit("a tile's group found by a loop over lanes", on.WGMMA_GROUPS_FEW, (
        ("const int lane = __ffs(__ballot_sync(0xffffffffu, tiles > number)) - 1;",
         "int lane = 0; while (of_lane(tiles, lane) <= number) ++lane;"),)),
    Edit("a box's channels by what is left of k", on.WGMMA_IMAGES, (
        ("channel = k % CHANNELS;", "channel = k - tap * CHANNELS;"),)),
    Edit("a place found by subtraction", on.WGMMA_IMAGES, (
        ("return {m % Q * STRIDE_W - PAD_W, m / Q % P * STRIDE_H - PAD_H, m / (P * Q)};",
         "const int image = m / (P * Q), within = m - image * (P * Q), p = within / Q; "
         "return {(within - p * Q) * STRIDE_W - PAD_W, p * STRIDE_H - PAD_H, image};"),)),
    Edit("boxes behind K of channels that no tap has", on.WGMMA_IMAGES_PAIR, (
        ("min(k / CHANNELS, R * S - 1)", "k / CHANNELS"),
        ("channel = k - tap * CHANNELS;", "channel = k < s_K ? k % CHANNELS : CHANNELS;"),
        ("const int tap", "constexpr int s_K = 144; const int tap"))),
    Edit("fragments of other columns", on.WGMMA_COLUMNS, (
        ("(warp % 2 * 2 + g / 4) ^ (g / 2 % 2 * 5)", "warp % 2 * 4 + g / 2"),)),
    Edit("another thread of the producer", on.WGMMA_CR, (
        ("if (threadIdx.x > CONSUMERS * 128) return;", "if (threadIdx.x != CONSUMERS * 128 + 37) return;"),)),
    Edit("every thread of a consumer arrives", on.WGMMA_PROMOTED, (
        ("mbarrier_init(&shared.empty[stage], CONSUMERS)", "mbarrier_init(&shared.empty[stage], 128 * CONSUMERS)"),
        ("if (threadIdx.x % 128 == 0) mbarrier_arrive", "mbarrier_arrive"))),
    Edit("a block's tiles side by side", on.WGMMA_TURNS, (
        ("    Ring ring;\n", """\
    Ring ring;
    const int each = (tiles + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
    const int own = static_cast<int>(blockIdx.x) * each, end = min(tiles, own + each);
"""),
        ("""\
        if (threadIdx.x > CONSUMERS * 128) return;
        for (int number = blockIdx.x; number < tiles; number += gridDim.x) {""", """\
        if (threadIdx.x > CONSUMERS * 128) return;
        for (int number = own; number < end; ++number) {"""),
        ("""\
    unsigned c_parity = 0;
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {""", """\
    unsigned c_parity = 0;
    for (int number = own; number < end; ++number) {"""))),
    Edit("sums of half a k tile are added up", on.WGMMA_PROMOTED, (
        ("int first, Accumulators& acc)\n", "int first, int half, Accumulators& acc)\n"),
        ("for (int k = 0; k < BK; k += K_STEP) {",
            "for (int k = half * BK / 2; k < (half + 1) * BK / 2; k += K_STEP) {"),
        ("k > 0);", "k > half * BK / 2);"),
        ("""\
        wgmma_fence();
        multiply_stage(shared, ring.stage, consumer * MMAS_M * 64, acc);
        wgmma_commit();
        wgmma_wait<0>();
""", """\
        for (int half = 0; half < 2; ++half) {
            wgmma_fence();
            multiply_stage(shared, ring.stage, consumer * MMAS_M * 64, half, acc);
            wgmma_commit();
            wgmma_wait<0>();
            promote(acc, totals);
        }
"""),
        ("ring.stage);\n        promote(acc, totals);\n", "ring.stage);\n"))),
    Edit("rows are staged side by side, at the price of bank conflicts", on.WGMMA_PROMOTED, (
        ("m % 8 * PITCH_C", "m % 8 * CN"),)),
    Edit("a lane's rows leave from the last to the first", on.WGMMA_PROMOTED, (
        ("for (int first = 0; first < CN; first += 32) {",
            "for (int first = (CN - 1) / 32 * 32; first >= 0; first -= 32) {"),)),
    Edit("A goes by a load to several blocks to one of them", on.WGMMA_PAIR, (
        ("tma_load_2d(shared.a[ring.stage], box_a, full, k, tile.m)",
            "tma_load_multicast_2d(shared.a[ring.stage], box_a, full, k, tile.m, 1 << rank)"),)),
    Edit("other lanes arrive at the blocks of a cluster", on.WGMMA_PAIR, (
        ("rank = threadIdx.x % 128;", "rank = threadIdx.x / 64 % 2;"),
        ("if (rank < CLUSTER)", "if (threadIdx.x % 64 == 63)"))),
    Edit("one lane arrives at both blocks", on.WGMMA_PAIR_CR, (
        ("if (rank < CLUSTER)", "for (unsigned to = 0; rank == 0 && to < CLUSTER; ++to)"),
        ("shared.empty[stage], rank)", "shared.empty[stage], to)"))),
    Edit("blocks of a cluster wait for each other before they store", on.WGMMA_SPLIT, (
        ("add_up(shared, rank, part); cluster_arrive();", "add_up(shared, rank, part); cluster_sync();"),
        ("} cluster_wait();", "}"))),
    Edit("a thread's sums lie side by side, at the price of bank conflicts", on.WGMMA_SPLIT_PIECES, (
        ("((i * (BN / 2) + r) / 4 * 128 * CONSUMERS + static_cast<int>(threadIdx.x)) * 4;",
            "static_cast<int>(threadIdx.x) * (MMAS_M * BN / 2) + i * (BN / 2) + r;"),)),
    Edit("a line's last lane stores its sum", on.WGMMA_ZERO_POINTS_BATCH, (
        ("lane == 0 && line < count) sums_a", "lane == 7 && line < count) sums_a"),)),
)  # fmt: skip
