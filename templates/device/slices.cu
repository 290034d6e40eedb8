/*# Sliced K: groups of a block's warps share its tile of C, each sums a part of every step's depth. #*/
//% macro add_slices()
// Adds up what the block's slices summed, in their order. The threads with the same number in each slice have the same tile,
// of which each gets ROWS rows: those from slice * ROWS on. `shared` may hold tiles that other threads still read.
__device__ __forceinline__ void add_slices(const ${ T } (&acc)[TM][TN], ${ T } (&sums)[ROWS][TN], ${ T }* shared)
{
    constexpr int WIDTH = 16 / sizeof(${ T });  // of an access
    constexpr int LINE = TN * SLICE_THREADS;   // elements of one row of all the slice's threads, the threads' vectors in turns
    constexpr int TAKEN = ROWS / ROUNDS;       // rows that a slice gets in a round
    const int slice = threadIdx.x / SLICE_THREADS, thread = threadIdx.x % SLICE_THREADS;
    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        __syncthreads();  // nobody reads what stands there any more
        #pragma unroll
        for (int to = 0; to < SLICES; ++to) {
            #pragma unroll
            for (int i = 0; i < TAKEN; ++i) {
                ${ T }* const line = shared + ((slice * SLICES + to) * TAKEN + i) * LINE + thread * WIDTH;
                #pragma unroll
                for (int j = 0; j < TN; j += WIDTH) {
                    Vec<WIDTH> part;
                    #pragma unroll
                    for (int v = 0; v < WIDTH; ++v) part.at[v] = acc[to * ROWS + round * TAKEN + i][j + v];
                    store<WIDTH>(line + j * SLICE_THREADS, part);
                }
            }
        }
        __syncthreads();  // the sums of all slices stand there
        #pragma unroll
        for (int i = 0; i < TAKEN; ++i) {
            #pragma unroll
            for (int j = 0; j < TN; ++j) sums[round * TAKEN + i][j] = ${ zero };
            #pragma unroll
            for (int from = 0; from < SLICES; ++from) {
                const ${ T }* const line = shared + ((from * SLICES + slice) * TAKEN + i) * LINE + thread * WIDTH;
                #pragma unroll
                for (int j = 0; j < TN; j += WIDTH) {
                    const Vec<WIDTH> part = load<WIDTH>(line + j * SLICE_THREADS);
                    #pragma unroll
                    for (int v = 0; v < WIDTH; ++v) sums[round * TAKEN + i][j + v] += part.at[v];
                }
            }
        }
    }
}
//% endmacro
