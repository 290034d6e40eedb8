/*# Products of fragments on tensor cores. #*/
//% macro mma(view, kernel)
// acc += a * b: the products of one k step. In a serpentine: each instruction has a fragment of the one before it.
__device__ __forceinline__ void mma(const unsigned (&a)[MMAS_M][4], const unsigned (&b)[MMAS_N][2], Accumulators& acc)
{
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int step = 0; step < MMAS_N; ++step) {
            const int j = i % 2 ? MMAS_N - 1 - step : step;
            ${ view.mma.function }(acc[i][j], a[i], b[j]);
        }
    }
}

// The sums by the rows that this thread has of C, and by columns in each: other names for the same registers.
__device__ __forceinline__ void rows_of(const Accumulators& acc, ${ T } (&sums)[TM][TN])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] = acc[i / 2][j / 2][i % 2 * 2 + j % 2];
    }
}
//% endmacro
