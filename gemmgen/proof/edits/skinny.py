"""Right edits of kernels for a thin operand, with and without split-K."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.edits.base import Edit

PARTIAL_READ = "sums[i] += __ldcg(fixup.partials + peer * (BM * BN) + element);"
COUNT = "last = atomicInc(semaphore, count - 1) == count - 1;"

SPLIT_END = """\
    const Fixup fixup = split_k_fixup(partials, semaphores);
    if (!store_partial<OUTPUTS>(sums, fixup)) return;
    reduce_partials(fixup, 0, sums);
"""
# Each block waits for the one before it, takes its sums over and leaves its own: as CUTLASS's serial split-K does.
SERIAL_END = """\
    const Fixup fixup = split_k_fixup(partials, semaphores);
    if (threadIdx.x == 0) {
        while (atomicAdd(fixup.semaphore, 0u) != static_cast<unsigned>(fixup.rank)) __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        float* const so_far = fixup.partials + i * THREADS + threadIdx.x;
        if (fixup.rank > 0) sums[i] += __ldcg(so_far);
        if (fixup.rank < SPLIT - 1) *so_far = sums[i];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicExch(fixup.semaphore, static_cast<unsigned>((fixup.rank + 1) % SPLIT));
    }
    if (fixup.rank < SPLIT - 1) return;
"""
WAIT = """\
        while (atomicAdd(fixup.semaphore, 0u) != static_cast<unsigned>(fixup.rank)) __nanosleep(20);
        __threadfence();
"""
PASS_ON = "atomicExch(fixup.semaphore, static_cast<unsigned>((fixup.rank + 1) % SPLIT));"
ACQUIRING_END = SERIAL_END.replace(
    WAIT,
    """\
        unsigned turn;
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(turn) : "l"(fixup.semaphore) : "memory");
        while (turn != static_cast<unsigned>(fixup.rank));
""",
)
VOLATILE_END = SERIAL_END.replace(
    "atomicAdd(fixup.semaphore, 0u)", "*const_cast<volatile unsigned*>(fixup.semaphore)"
).replace(PASS_ON, "atomicInc(fixup.semaphore, SPLIT - 1);")

SKINNY_EDITS = (
    Edit("inputs of elements that do not exist are not set", on.SKINNY_SCALED, (
        ("EpilogueInputs inputs[OUTPUTS] = {};", "EpilogueInputs inputs[OUTPUTS];"),)),
    Edit("a reduction of lanes by __shfl_down_sync", on.ALONG_K, (("""\
    float (&values)[S * T] = reinterpret_cast<float (&)[S * T]>(acc);
    warp_sum<16>(values);
    const int first = threadIdx.x % 32 * (S * T);  // 32 times the number of this lane's first sum
    if (first % 32 != 0) return;                   // a lane before it has the same sum
    #pragma unroll
    for (int i = 0; i < (S * T + 31) / 32; ++i) {
        const int value = first / 32 + i;
        sums[0][value / T][thread.n + value % T] = values[i];
    }
""", """\
    #pragma unroll
    for (int i = 0; i < S; ++i) {
        #pragma unroll
        for (int t = 0; t < T; ++t) {
            float sum = acc[i][t];
            for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
            if (threadIdx.x % warpSize == 0) sums[0][i][thread.n + t] = sum;
        }
    }
"""),)),
    Edit("weights past the caches", on.ACROSS, (
        ("weights[i] = load_edge<VW>(B + Offset(k) * s.ldb + first, valid);",
         "weights[i].at[0] = valid > 0 ? __ldcs(B + Offset(k) * s.ldb + first) : 0.0f;"),)),
    Edit("a chunk staged by lines", on.ACROSS, (("""\
    #pragma unroll 8
    for (int i = threadIdx.x; i < S * BK; i += THREADS) {  // neighbouring threads read along A's lines
        const int line = i / BK, depth = i % BK;
        const bool exists = k + depth < end && m + line < s.M;
        const Offset at = Offset(m + line) * s.lda + k + depth;
        chunk[depth][line] = exists ? A[at] : 0.0f;
    }
""", """\
    for (int line = threadIdx.x / 32; line < S; line += WARPS) {
        const float* const from = A + Offset(m + line) * s.lda + k;
        const int exist = m + line < s.M ? end - k : 0;
        for (int depth = threadIdx.x % 32; depth < BK; depth += 32)
            chunk[depth][line] = depth < exist ? from[depth] : 0.0f;
    }
"""),)),
    Edit("sums of warps from the last to the first", on.ACROSS, (
        ("for (int p = 0; p < PARTIALS; ++p) sums[i] +=", "for (int p = PARTIALS - 1; p >= 0; --p) sums[i] +="),)),
    Edit("partial sums by plain loads", on.ACROSS_SPLIT, (
        (PARTIAL_READ, "sums[i] += fixup.partials[peer * (BM * BN) + element];"),)),
    Edit("a ticket that the last block puts back, thin", on.ACROSS_SPLIT, (
        (COUNT, "last = atomicAdd(semaphore, 1u) + 1 == static_cast<unsigned>(count);"),
        ("    __syncthreads();\n    return last;\n",
         "    __syncthreads();\n    if (last && threadIdx.x == 0) atomicExch(semaphore, 0u);\n    return last;\n"),
    )),
    Edit("blocks that add to C in their turn", on.ACROSS_SPLIT, ((SPLIT_END, SERIAL_END),)),
    Edit("blocks that add to C in their turn, which they acquire", on.ACROSS_SPLIT, ((SPLIT_END, ACQUIRING_END),)),
    Edit("blocks that add to C in their turn, by a volatile load, sampled", on.SPLIT_BIG, ((SPLIT_END, VOLATILE_END),)),
    Edit("a ticket by compare and swap", on.ACROSS_SPLIT, ((COUNT, """\
unsigned seen = 0, old;
        while ((old = atomicCAS(semaphore, seen, (seen + 1) % count)) != seen) seen = old;
        last = static_cast<int>(seen) == count - 1;"""),)),
    Edit("partial sums in an array of the kernel's own", on.ALONG_K_SPLIT, (
        ("__device__ __forceinline__ Fixup split_k_fixup(", """\
__device__ float scratch[((Shape::M + BM - 1) / BM) * ((Shape::N + BN - 1) / BN) * SPLIT * BM * BN];

__device__ __forceinline__ Fixup split_k_fixup("""),
        ("return {partials + tile * SPLIT * (BM * BN), SPLIT,", "return {scratch + tile * SPLIT * (BM * BN), SPLIT,"),
    )),
    Edit("streaming stores of partial sums", on.DIRECT, (
        ("partial[element] = sums[i];", "__stcg(partial + element, sums[i]);"),)),
    Edit("blocks that end before the sums are added", on.DIRECT, (
        ("    if (!store_partial<OUTPUTS>(sums, fixup)) return;\n    reduce_partials(fixup, 0, sums);\n", """\
    const bool last = store_partial<OUTPUTS>(sums, fixup);
    if (!last) return;
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        float (&sum)[1] = reinterpret_cast<float (&)[1]>(sums[i]);
        reduce_partials(fixup, i, sum);
    }
"""),)),
    Edit("a range of K by division of its steps", on.MIRRORED, (("""\
    const int extent = (K + SPLIT * STEP - 1) / (SPLIT * STEP) * STEP;
    return {min(K, split * extent), min(K, (split + 1) * extent)};
""", """\
    const int steps = (K + STEP - 1) / STEP;
    return {min(K, steps * split / SPLIT * STEP), min(K, steps * (split + 1) / SPLIT * STEP)};
"""),)),
    Edit("an element's place without a remainder", on.ACROSS, (
        ("const int m = tile_m + element / BN, n = tile_n + element % BN;",
         "const int row = element / BN, m = tile_m + row, n = tile_n + element - row * BN;"),)),
    Edit("a bfloat16 widened by its bits, thin", on.SKINNY_BF16, (
        ("return __uint_as_float(static_cast<unsigned>(bits) << 16);", "return __int_as_float(bits * 0x10000u);"),)),
)  # fmt: skip
