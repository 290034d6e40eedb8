//% macro mma(view)
// acc += A's tile * B's tile. k is innermost: each FMA reads its own two values from shared memory and
// waits for the FMA before it. k stays a loop: unrolled, the compiler would make it an outer product.
__device__ __forceinline__ void mma(const TileA& As, const TileB& Bs, ThreadOrigin thread, ${ T } (&acc)[TM][TN])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = thread.m + i / FM * STEP_M + i % FM;
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int n = thread.n + j / FN * STEP_N + j % FN;
            #pragma unroll 4
            for (int k = 0; k < BK; ++k) {
                acc[i][j] = ${ fma }(${ "As[k][m]" if view.a.k_rows else "As[m][k]" }, ${ "Bs[k][n]" if view.b.k_rows else "Bs[n][k]" }, acc[i][j]);
            }
        }
    }
}
//% endmacro
