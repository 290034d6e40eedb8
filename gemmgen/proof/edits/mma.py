"""Right edits of kernels on tensor cores, by mma or WMMA."""

from __future__ import annotations

from gemmgen.proof.bugs import tensor_subjects as on
from gemmgen.proof.edits.base import Edit

MMA_EDITS = (
    Edit("a shorter way for a beta of 1", on.MMA_RC, (
        ("            for (int i = 0; i < N; ++i) value.at[i] = fmaf(beta, old.at[i], value.at[i]);", """\
            for (int i = 0; i < N; ++i)
                value.at[i] = beta == 1.0f ? value.at[i] + old.at[i] : fmaf(beta, old.at[i], value.at[i]);"""),)),
    Edit("sums that a loop clears", on.MMA_RC, (("    Accumulators acc = {};\n", """\
    Accumulators acc;
    for (auto& row : acc)
        for (auto& sums : row)
            for (float& sum : sums) sum = 0.0f;
"""),)),
    Edit("a copy of what nobody has set and nobody uses", on.MMA_RC, (
        ("        Vec<BF16, N> stored;\n", "        Vec<BF16, N> stored, spare = stored;\n"),)),
    Edit("no instructions beyond K", on.MMA_RC, (
        ("            mma(a[step % 2], b[step % 2], acc);",
         "            if (k + step * K_STEP < s.K) mma(a[step % 2], b[step % 2], acc);"),)),
    Edit("zero points of 0 go a shorter way", on.MMA_EXCHANGE, (
        ("    const int zero_n = e.zero_n[n];\n", """\
    const int zero_n = e.zero_n[n];
    if (zero_m == 0 && zero_n == 0) return fmaf(e.beta, c, e.alpha * acc);
"""),)),
    Edit("columns of instructions outermost", on.MMA_RC, (("""\
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int step = 0; step < MMAS_N; ++step) {
            const int j = i % 2 ? MMAS_N - 1 - step : step;
""", """\
    for (int j = 0; j < MMAS_N; ++j) {
        #pragma unroll
        for (int i = 0; i < MMAS_M; ++i) {
"""),)),
    Edit("another swizzle: by the line's number itself", on.MMA_RC, (
        ("line / A_PHASE % A_SWIZZLED", "line % A_SWIZZLED"),)),
    Edit("copies before the next step's fragments", on.MMA_WHOLE, (("""\
            load_fragments_a(As[read], warp.m, (step + 1) % K_STEPS * K_STEP, a[next]);
            load_fragments_b(Bs[read], warp.n, (step + 1) % K_STEPS * K_STEP, b[next]);
            if (step == 0) {
""", """\
            if (step == 0) {
"""), ("""\
            mma(a[step % 2], b[step % 2], acc);
""", """\
            load_fragments_a(As[read], warp.m, (step + 1) % K_STEPS * K_STEP, a[next]);
            load_fragments_b(Bs[read], warp.n, (step + 1) % K_STEPS * K_STEP, b[next]);
            mma(a[step % 2], b[step % 2], acc);
"""))),
    Edit("a wait for all k tiles", on.MMA_SPLIT, (
        ("== K_STEPS) { cp_async_wait<STAGES - 2>();", "== K_STEPS) { cp_async_wait<0>();"),)),
    Edit("bits of a tap's row and column one by one", on.MMA_IMAGES, (
        ("(tile.inside[i] & tap) == tap",
         "(tile.inside[i] >> tap_row & tile.inside[i] >> (R + tap_column) & 1u) != 0"),)),
    Edit("a pixel's place found by subtraction", on.MMA_IMAGES, (
        ("const int row = place / Q % P * STRIDE_H - PAD_H, column = place % Q * STRIDE_W - PAD_W;",
         "const int within = place - place / (P * Q) * (P * Q), line = within / Q; "
         "const int row = line * STRIDE_H - PAD_H, column = (within - line * Q) * STRIDE_W - PAD_W;"),)),
    Edit("what a lane keeps is chosen first", on.MMA_EXCHANGE, (("""\
        const int got = __shfl_xor_sync(0xffffffffu, upper ? first : second, DISTANCE);
        (upper ? first : second) = got;
""", """\
        const int kept = upper ? second : first;
        const int got = __shfl_xor_sync(0xffffffffu, upper ? first : second, DISTANCE);
        first = upper ? got : kept;
        second = upper ? kept : got;
"""),)),
    Edit("lanes two apart exchange first", on.MMA_EXCHANGE, (
        ("    exchange_with<1>(row);\n    exchange_with<2>(row);",
            "    exchange_with<2>(row);\n    exchange_with<1>(row);"),)),
    Edit("all lanes get the lower k of pairs first", on.MMA_PAIRS, (
        ("(lane / 4 + lane / 8) % 2 * 2", "lane / 8 % 2 * 2"), ("threadIdx.x % 4 < 2 ? 0x6420 : 0x2064", "0x6420"))),
    Edit("pairs are unzipped by masks and shifts", on.MMA_PAIRS, (("""\
    const unsigned first = threadIdx.x % 4 < 2 ? 0x6420 : 0x2064;  // bytes of `two` are 0 to 3, of `others` 4 to 7
    return __byte_perm(two, others, second ? first + 0x1111 : first);
""", """\
    const bool lower_first = threadIdx.x % 4 < 2;
    const unsigned lower = (lower_first ? two : others) >> 8 * second & 0x00ff00ffu;
    const unsigned upper = (lower_first ? others : two) >> 8 * second & 0x00ff00ffu;
    return (lower & 0xffu) | lower >> 8 | (upper & 0xffu) << 16 | upper >> 16 << 24;
"""),)),
    Edit("even and odd k in another order, in A and in B", on.MMA_PAIRS_EXCHANGE, (
        ("threadIdx.x % 4 < 2 ? 0x6420 : 0x2064", "0x6420"),)),
    Edit("two barriers for a k tile", on.MMA_REGISTERS, (
        ("        stage ^= 1;\n", "        __syncthreads();\n        stage ^= 1;\n"),)),
)  # fmt: skip

WMMA_EDITS = (
    Edit("columns of fragments outermost", on.WMMA_RC, (("""\
            for (int i = 0; i < FRAGMENTS_M; ++i) {
                #pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) wmma_row_col_bf16""", """\
            for (int j = 0; j < FRAGMENTS_N; ++j) {
                #pragma unroll
                for (int i = 0; i < FRAGMENTS_M; ++i) wmma_row_col_bf16"""),)),
    Edit("the block's warps store their sums in step", on.WMMA_CR, (
        ("__syncwarp(); for (int element = lane;", "__syncthreads(); for (int element = lane;"),)),
    Edit("lines of A four banks further on", on.WMMA_CR, (("PITCH_A = BM + 8;", "PITCH_A = BM + 16;"),)),
)  # fmt: skip
