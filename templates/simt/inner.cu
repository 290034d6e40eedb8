//% from "layout.cu" import at
//% from "epilogue/sums.cu" import add_fragments, sum_parameters
//% macro mma(view, kernel)
// acc += A's tile * B's tile. k is innermost: each FMA reads its own two values from shared memory and
// waits for the FMA before it. k stays a loop: unrolled, the compiler would make it an outer product.
__device__ __forceinline__ void mma(const TileA& As, const TileB& Bs, ThreadOrigin thread, ${ T } (&acc)[TM][TN]${ sum_parameters(kernel) })
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = thread.m + i / FM * STEP_M + i % FM;
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int n = thread.n + j / FN * STEP_N + j % FN;
            #pragma unroll 4
            for (int k = 0; k < BK; ++k) {
                acc[i][j] = ${ fma }(As${ at(not view.a.k_rows, "m", "k") }, Bs${ at(not view.b.k_rows, "n", "k") }, acc[i][j]);
            }
        }
    }
//% if kernel.problem.epilogue.sums
//% set m, n = "thread.m + i / FM * STEP_M + i % FM", "thread.n + i / FN * STEP_N + i % FN"
    #pragma unroll 4
    for (int k = 0; k < BK; ++k) {
${ add_fragments(kernel, "As" ~ at(not view.a.k_rows, m, "k"), "Bs" ~ at(not view.b.k_rows, n, "k")) | indent(8, true) | trim("\n") }
    }
//% endif
}
//% endmacro
