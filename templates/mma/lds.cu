/*# shared -> registers, an element each: ldmatrix moves pieces of 16 bits, and transposes those only. #*/
//% from "copy/swizzle.cu" import place
//% macro fragment(x)
//% set line, at = ("k", x.mn) if x.k_rows else (x.mn, "k")
//% set element = "shared[%s][%s]" | format(line, place(x, line, at))
//% set value = "tf32_from_float(%s)" | format(element) if x.rounds else element
//% if x.x == "a"
// This warp's fragments of A's tile at the K_STEP k from `k_step` on: 16 rows for each instruction, from `warp_m` on.
__device__ __forceinline__ void load_fragments_a(const TileA& shared, int warp_m, int k_step, ${ "unsigned" if x.rounds else TA } (&a)[MMAS_M][4])
{
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int m = warp_m + 16 * i + lane / 4 + r % 2 * 8, k = k_step + lane % 4 + r / 2 * 4;
            a[i][r] = ${ value };
        }
    }
}
//% else
// This warp's fragments of B's tile at the K_STEP k from `k_step` on: 8 columns for each instruction, from `warp_n` on.
__device__ __forceinline__ void load_fragments_b(const TileB& shared, int warp_n, int k_step, ${ "unsigned" if x.rounds else TB } (&b)[MMAS_N][2])
{
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int j = 0; j < MMAS_N; ++j) {
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int n = warp_n + 8 * j + lane / 4, k = k_step + lane % 4 + r * 4;
            b[j][r] = ${ value };
        }
    }
}
//% endif
//% endmacro
