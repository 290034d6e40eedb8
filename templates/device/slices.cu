/*# Sliced-K: groups of a block's warps compute the same tile of C, each over DEPTH k of every k tile. #*/
//% macro add_slices()
// Reduces the sums of the block's slices, in their order. Threads of the same rank in each slice have the same thread tile, of
// which each gets ROWS rows: those from slice * ROWS on. `shared` may hold tiles that other threads still read.
__device__ __forceinline__ void add_slices(const ${ T } (&acc)[TM][TN], ${ T } (&sums)[ROWS][TN], ${ T }* shared)
{
    constexpr int WIDTH = 16 / sizeof(${ T });  // of an access
    constexpr int PITCH = TN * SLICE_THREADS;  // elements of a row of thread tiles, interleaved by vectors
    constexpr int TAKEN = ROWS / ROUNDS;       // rows that a slice gets in a round
    const int slice = threadIdx.x / SLICE_THREADS, rank = threadIdx.x % SLICE_THREADS;
    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        __syncthreads();  // no thread reads what is there any more
        #pragma unroll
        for (int to = 0; to < SLICES; ++to) {
            #pragma unroll
            for (int i = 0; i < TAKEN; ++i) {
                ${ T }* const row = shared + ((slice * SLICES + to) * TAKEN + i) * PITCH + rank * WIDTH;
                #pragma unroll
                for (int j = 0; j < TN; j += WIDTH) {
                    Vec<WIDTH> vector;
                    #pragma unroll
                    for (int v = 0; v < WIDTH; ++v) vector.at[v] = acc[to * ROWS + round * TAKEN + i][j + v];
                    store<WIDTH>(row + j * SLICE_THREADS, vector);
                }
            }
        }
        __syncthreads();  // the sums of all slices are there
        #pragma unroll
        for (int i = 0; i < TAKEN; ++i) {
            #pragma unroll
            for (int j = 0; j < TN; ++j) sums[round * TAKEN + i][j] = ${ zero };
            #pragma unroll
            for (int from = 0; from < SLICES; ++from) {
                const ${ T }* const row = shared + ((from * SLICES + slice) * TAKEN + i) * PITCH + rank * WIDTH;
                #pragma unroll
                for (int j = 0; j < TN; j += WIDTH) {
                    const Vec<WIDTH> vector = load<WIDTH>(row + j * SLICE_THREADS);
                    #pragma unroll
                    for (int v = 0; v < WIDTH; ++v) sums[round * TAKEN + i][j + v] += vector.at[v];
                }
            }
        }
    }
}
//% endmacro
