"""Right edits of tiled kernels."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.bugs.base import Subject
from gemmgen.proof.edits.base import Edit

ONE_WARP = Subject("single, one warp", on.SINGLE.problem, (("STAGES", 1), ("BM", 16), ("BN", 32)))
SHARED_TILES = "    __shared__ __align__(16) TileA As[STAGES];\n    __shared__ __align__(16) TileB Bs[STAGES];\n"
LOAD = "template <int N>\n__device__ __forceinline__ void store(float* to,"
SERPENTINE = "const int i = j % 2 ? TM - 1 - step : step;"
ATOMIC_TICKET = "last = atomicInc(semaphore, count - 1) == count - 1;"

SIMT_EDITS = (
    Edit("warp barriers in a block of one warp", ONE_WARP, (
        ("__syncthreads(); mma(", "__syncwarp(); mma("), ("__syncthreads();", "__syncwarp();"),
    )),
    Edit("wider padding of shared lines", on.SINGLE, (("constexpr int PAD = 4; ", "constexpr int PAD = 12;"),)),
    Edit("dynamic in place of static shared memory", on.SINGLE, ((SHARED_TILES, """\
    extern __shared__ __align__(16) float tiles[];
    TileA* const As = reinterpret_cast<TileA*>(tiles);
    TileB* const Bs = reinterpret_cast<TileB*>(tiles + STAGES * SHARED_A);
"""),), dynamic_shared=3200),
    Edit("a struct of both tiles", on.DOUBLE, ((SHARED_TILES, """\
    struct Stage {
        TileA a;
        TileB b;
    };
    __shared__ __align__(16) Stage stages[STAGES];
"""),
        ("store_shared_a(a_staged, As[0]);", "store_shared_a(a_staged, stages[0].a);"),
        ("store_shared_b(b_staged, Bs[0]);", "store_shared_b(b_staged, stages[0].b);"),
        ("mma(As[stage], Bs[stage], thread, acc);", "mma(stages[stage].a, stages[stage].b, thread, acc);"),
        ("store_shared_a(a_staged, As[stage]);", "store_shared_a(a_staged, stages[stage].a);"),
        ("store_shared_b(b_staged, Bs[stage]);", "store_shared_b(b_staged, stages[stage].b);"),
    )),
    Edit("stages that change places by their pointers", on.DOUBLE, (
        ("    int stage = 0;\n",
         "    TileA *a_read = As, *a_write = As + 1;\n    TileB *b_read = Bs, *b_write = Bs + 1;\n"),
        ("mma(As[stage], Bs[stage], thread, acc);\n        stage ^= 1;\n", "mma(*a_read, *b_read, thread, acc);\n"),
        ("store_shared_a(a_staged, As[stage]);", "store_shared_a(a_staged, *a_write);"),
        ("store_shared_b(b_staged, Bs[stage]);", "store_shared_b(b_staged, *b_write);"),
        ("__syncthreads(); }", """\
__syncthreads();
        TileA* const a_done = a_read;
        TileB* const b_done = b_read;
        a_read = a_write;
        b_read = b_write;
        a_write = a_done;
        b_write = b_done;
    }"""),
    )),
    Edit("no barrier behind the last tile", on.DOUBLE, (
        ("__syncthreads(); }", "if (depth <= 0) break; __syncthreads(); }"),)),
    Edit("a barrier that counts", on.SINGLE, (
        ("__syncthreads(); mma(", "__syncthreads_count(1); mma("),)),
    Edit("a warp's number from its first lane", on.SINGLE, (
        ("const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;",
         "const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x & 31;"),)),
    Edit("k outermost in place of innermost", on.SINGLE_INNER, (("""\
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = thread.m + i / FM * STEP_M + i % FM;
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int n = thread.n + j / FN * STEP_N + j % FN;
            #pragma unroll 4
            for (int k = 0; k < BK; ++k) {
                acc[i][j] = fmaf(As[k][m], Bs[k][n], acc[i][j]);
            }
        }
    }
""", """\
    for (int k = 0; k < BK; ++k) {
        float b[TN];
        #pragma unroll
        for (int j = 0; j < TN; ++j) b[j] = Bs[k][thread.n + j / FN * STEP_N + j % FN];
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            const float a = As[k][thread.m + i / FM * STEP_M + i % FM];
            #pragma unroll
            for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(a, b[j], acc[i][j]);
        }
    }
"""),)),
    Edit("FMAs in plain order", on.DOUBLE, ((SERPENTINE, "const int i = step;"),)),
    Edit("an outer product of any size", on.DOUBLE, (
        ("__device__ __forceinline__ void outer_product("
         "const float (&a)[TM], const float (&b)[TN], float (&acc)[TM][TN])",
         "template <int ROWS, int COLUMNS>\n"
         "__device__ __forceinline__ void outer_product(const float (&a)[ROWS], const float (&b)[COLUMNS],\n"
         "                                              float (&acc)[ROWS][COLUMNS])"),
        ("""\
    for (int j = 0; j < TN; ++j) {
        #pragma unroll
        for (int step = 0; step < TM; ++step) {""", """\
    for (int j = 0; j < COLUMNS; ++j) {
        #pragma unroll
        for (int step = 0; step < ROWS; ++step) {"""),
        (SERPENTINE, "const int i = j % 2 ? ROWS - 1 - step : step;"),
    )),
    Edit("vectors read as float4", on.DOUBLE_VECTORS, ((LOAD, """\
template <>
__device__ __forceinline__ Vec<4> load<4>(const float* from)
{
    const float4 four = *reinterpret_cast<const float4*>(from);
    return {{four.x, four.y, four.z, four.w}};
}

""" + LOAD),)),
    Edit("vectors read as two halves", on.DOUBLE_VECTORS, ((LOAD, """\
template <>
__device__ __forceinline__ Vec<4> load<4>(const float* from)
{
    const float2 low = reinterpret_cast<const float2*>(from)[0], high = reinterpret_cast<const float2*>(from)[1];
    return {{low.x, low.y, high.x, high.y}};
}

""" + LOAD),)),
    Edit("blocks in rows of tiles", on.SINGLE, (
        ("const TileOrigin tile = tile_of_block(s, blockIdx.x);",
         "const TileOrigin tile = {int(blockIdx.x) / ((s.N + BN - 1) / BN) * BM,\n"
         "                             int(blockIdx.x) % ((s.N + BN - 1) / BN) * BN};"),)),
    Edit("remainders by multiplication", on.DOUBLE, (
        ("const int within = number % (GROUP * columns);", "const int within = number - group * (GROUP * columns);"),
        ("return {(first + within % height) * BM, within / height * BN};",
         "const int column = within / height;\n    return {(first + within - column * height) * BM, column * BN};"),
    )),
    Edit("a wait for all copies", on.ASYNC, (
        ("cp_async_wait<STAGES - 2>();", "cp_async_wait<0>();"),)),
    Edit("stages counted modulo their number", on.ASYNC, (
        ("read = read + 1 < STAGES ? read + 1 : 0;", "read = (read + 1) % STAGES;"),
        ("write = write + 1 < STAGES ? write + 1 : 0;", "write = (write + 1) % STAGES;"),
    )),
    Edit("a plain array of dynamic shared memory", on.ASYNC_DYNAMIC, (
        ("    TileA* const As = reinterpret_cast<TileA*>(dynamic_shared());\n",
         "    extern __shared__ float4 memory[];\n    TileA* const As = reinterpret_cast<TileA*>(memory);\n"),)),
    Edit("a mainloop that the compiler may unroll", on.PREFETCHED, (
        ("            #pragma unroll\n            for (int d = 0; d < K_UNROLL; ++d) {\n                if (d",
         "            for (int d = 0; d < K_UNROLL; ++d) {\n                if (d"),)),
    Edit("fewer registers a thread", on.PREFETCHED, (
        ("__launch_bounds__(THREADS, MINB)", "__launch_bounds__(THREADS, 2 * MINB)"),)),
    Edit("a product and a sum that the compiler contracts, tiled", on.DOUBLE_F64, (
        ("acc[i][j] = fma(a[i], b[j], acc[i][j]);", "acc[i][j] += a[i] * b[j];"),)),
    Edit("a tile moved back by a comparison", on.MOVED, (
        ("min(nominal.m, s.M - BM)", "nominal.m + BM <= s.M ? nominal.m : s.M - BM"),)),
    Edit("rows of C stored from the last", on.DOUBLE_EPILOGUE, (
        ("for (int i = 0; i < TM; ++i) store_row(tile, s, rows, columns, thread, i, sums[i], e);",
         "for (int i = TM - 1; i >= 0; --i) store_row(tile, s, rows, columns, thread, i, sums[i], e);"),)),
    Edit("an epilogue's terms summed in another order", on.DOUBLE_EPILOGUE, (
        ("fmaf(e.alpha, acc, e.beta == 0.0f ? bias_n : fmaf(e.beta, c, bias_n))",
         "fmaf(e.beta, c, e.alpha * acc) + bias_n"),)),
    Edit("clamped before it is rounded", on.DOUBLE_TO_S8, (
        ("max(-128, min(127, __float2int_rn(value)))", "rintf(fminf(fmaxf(value, -128.0f), 127.0f))"),)),
    Edit("a ticket that the last block puts back", on.SPLIT_EPILOGUE, (
        (ATOMIC_TICKET, "last = atomicAdd(semaphore, 1u) == static_cast<unsigned>(count - 1);"),
        ("__threadfence(); }", "__threadfence(); if (last) *semaphore = 0; }"),
    )),
    Edit("parts of a streamed tile read past L1 as vectors of their own", on.STREAM, (
        ("sums[i] += __ldcg(fixup.partials + peer * (BM * BN) + element);", """\
const float* const part = fixup.partials + peer * (BM * BN);
            sums[i] = sums[i] + __ldcg(&part[element]);"""),)),
)  # fmt: skip
