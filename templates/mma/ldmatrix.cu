/*# shared -> registers by ldmatrix, which brings four matrices of 8 lines of 16 bytes: each lane names a line, and gets of each
    matrix what mma.sync wants of it. Where shared lines run along m or n, it transposes. #*/
//% from "copy/swizzle.cu" import place
//% macro fragment(x)
//% set function = "ldmatrix_x4_trans" if x.k_rows else "ldmatrix_x4"
//% set first = x.mn ~ " + 16 * i"
/*# The four matrices: two along the lines' direction, two across. A wants those across it first, B those along k. #*/
//% set lines_first = (x.x == "a") == x.along_k
//% set across, along = ("lane % 16", "lane / 16") if lines_first else ("lane / 16 * 8 + lane % 8", "lane / 8 % 2")
//% set mn, k = (across, along ~ " * CHUNK_" ~ x.X) if x.along_k else (along ~ " * CHUNK_" ~ x.X, across)
//% set line, at = ("k", x.mn) if x.k_rows else (x.mn, "k")
//% if x.x == "a"
// This warp's fragments of A's tile at the K_STEP k from `k_step` on: 16 rows each, from `warp_m` on.
__device__ __forceinline__ void load_fragments_a(const TileA& shared, int warp_m, int k_step, unsigned (&a)[MMAS_M][4])
{
    const int lane = threadIdx.x % 32;
    const int k = k_step + ${ k };
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        const int m = warp_m + 16 * i + ${ mn };
        ${ function }(a[i], &shared[${ line }][${ place(x, line, at) }]);
//% if x.rounds
        #pragma unroll
        for (int r = 0; r < 4; ++r) a[i][r] = tf32_from_float(__uint_as_float(a[i][r]));
//% endif
    }
}
//% else
// This warp's fragments of B's tile at the K_STEP k from `k_step` on: 8 columns each, from `warp_n` on. One
// ldmatrix brings two.
__device__ __forceinline__ void load_fragments_b(const TileB& shared, int warp_n, int k_step, unsigned (&b)[MMAS_N][2])
{
    const int lane = threadIdx.x % 32;
    const int k = k_step + ${ k };
    #pragma unroll
    for (int j = 0; j < MMAS_N; j += 2) {
        const int n = warp_n + 8 * j + ${ mn };
        unsigned pair[4];
        ${ function }(pair, &shared[${ line }][${ place(x, line, at) }]);
        #pragma unroll
        for (int r = 0; r < 4; ++r) b[j + r / 2][r % 2] = ${ "tf32_from_float(__uint_as_float(pair[r]))" if x.rounds else "pair[r]" };
    }
}
//% endif
//% endmacro
