/*# B of codes: its tile in shared memory holds packed chunks as they lie, of which threads dequantise fragments. #*/
//% from "copy/access.cu" import limits
//% from "device/codes.cu" import chunks_across, numbers, scales, words
//% macro copy(x)
${ chunks_across() }
// Start this thread's copies of a k tile of packed codes: the chunks of a tile's columns lie side by side.
//% if x.mn_edge
// Chunks beyond N are filled with zeros.
//% endif
__device__ __forceinline__ void copy_b(const int* tile, Shape s${ limits(x, "int ") }, TileB& shared)
{
    #pragma unroll
    for (int i = 0; i < B_ITERATIONS; ++i) {
        const int word = (threadIdx.x + i * THREADS) * VB, row = word / ROW_WORDS, at = word % ROW_WORDS;
        if (row >= BK / CHUNK_K) break;
        cp_async<4 * VB>(&shared[row][at], tile + Offset(row) * chunks_across(s) * CHUNK_WORDS + at, ${ "at / CHUNK_WORDS * 64 < columns ? 4 * VB : 0" if x.mn_edge else "4 * VB" });
    }
}
//% endmacro
//% macro fragment(x)
${ scales(x.codes) }
${ numbers(x.codes) }
${ words(x.codes) }
// This thread's codes and scales of 16 columns: of columns g and g + 8 (lane 4 g + t).
struct Columns {
    Codes codes;
    Scales scales;
};

// Make this warp's fragments of B's tile at the K_STEP k from `k_step` on: 8 columns each, from `warp_n` on. Codes of several steps are
// loaded at once, and scales once per chunk.
__device__ __forceinline__ void load_fragments_b(const TileB& shared, int warp_n, int k_step, unsigned (&b)[MMAS_N][2], Columns (&packed)[MMAS_N / 2])
{
    const int k = k_step % CHUNK_K, lane = threadIdx.x % 32;
    #pragma unroll
    for (int j = 0; j < MMAS_N / 2; ++j) {
        const int column = (warp_n + 16 * j) % 64;  // the first of the 16 in its chunk
        const unsigned* const chunk = shared[k_step / CHUNK_K] + (warp_n + 16 * j) / 64 * CHUNK_WORDS;
        if (k == 0) packed[j].scales = load_scales(chunk, column + lane / 4);
        if (k % ${ x.codes.span } == 0) packed[j].codes = reinterpret_cast<const Codes*>(chunk)[k / ${ x.codes.span } * 128 + column * 2 + lane];
        unsigned fragment[4];
        dequantise(packed[j].codes.at[k / 16 % ${ x.codes.steps }], packed[j].scales, fragment);
        #pragma unroll
        for (int r = 0; r < 4; ++r) b[2 * j + r % 2][r / 2] = fragment[r];
    }
}
//% endmacro
