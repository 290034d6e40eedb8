/*# Sliced K: groups of a block's warps share its tile of C, each sums a part of every step's depth. #*/
//% macro add_slices()
// Adds up what the block's slices summed, half of them to the other half, until the first has all. Returns true in the
// first slice, with the whole sums; the others are done. `shared` may hold tiles that other threads still read.
__device__ __forceinline__ bool add_slices(${ T } (&sums)[TM * TN], ${ T }* shared)
{
    constexpr int WIDTH = 16 / sizeof(${ T });  // of an access
    const int slice = threadIdx.x / SLICE_THREADS, thread = threadIdx.x % SLICE_THREADS;
    #pragma unroll
    for (int half = SLICES / 2; half > 0; half /= 2) {
        ${ T }* const from = shared + slice % half * (BM * BN) + thread * WIDTH;
        __syncthreads();  // nobody reads what stands there any more
        if (slice / half == 1) {
            #pragma unroll
            for (int i = 0; i < TM * TN; i += WIDTH) {
                Vec<WIDTH> part;
                #pragma unroll
                for (int v = 0; v < WIDTH; ++v) part.at[v] = sums[i + v];
                store<WIDTH>(from + i * SLICE_THREADS, part);
            }
        }
        __syncthreads();  // the sums of half the slices stand there
        if (slice < half) {
            #pragma unroll
            for (int i = 0; i < TM * TN; i += WIDTH) {
                const Vec<WIDTH> part = load<WIDTH>(from + i * SLICE_THREADS);
                #pragma unroll
                for (int v = 0; v < WIDTH; ++v) sums[i + v] += part.at[v];
            }
        }
    }
    return slice == 0;
}
//% endmacro
