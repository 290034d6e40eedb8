/*# Pieces of C: 64 rows x CN columns, or CM rows x 64 columns, that a warpgroup stores at once. #*/
//% macro sums_of_piece(view, registers)
// This thread's sums of a piece by rows of C, and by columns in each${ "" if view.halves else ": other names for the same registers" }.
__device__ __forceinline__ void sums_of_piece(const ${ view.wgmma.c_type } (&acc)[${ registers }], int piece, ${ T } (&sums)[TM][TN])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j)
//% if view.halves
            sums[i][j] = float_from_f16(static_cast<unsigned short>(acc[piece * CN / 4 + j / 2 * 2 + i] >> 16 * (j % 2)));
//% else
            sums[i][j] = acc[${ "piece * CM / 2 + i / 2 * 4 + j * 2 + i % 2" if view.swapped else "piece * CN / 2 + j / 2 * 4 + i * 2 + j % 2" }];
//% endif
    }
}
//% endmacro
//% macro staged_at(view)
// Where an element of a piece lies in shared memory. TMA has chunks of 16 bytes trade places within a line, by XOR with the
// line's number: so the eight lines that a warp writes at once lie in banks of their own.${ " Boxes of\n// CM lines lie one behind the other." if view.swapped }
__device__ __forceinline__ int staged_at(int m, int n)
{
    constexpr int CHUNK = 16 / sizeof(${ TC }), CHUNKS = CN / CHUNK;  // elements of one; chunks of a line
//% if view.swapped
    return (n / CN * CM + m) * CN + ((n % CN / CHUNK) ^ (m / (8 / CHUNKS) % CHUNKS)) * CHUNK + n % CHUNK;
//% else
    return m * CN + ((n / CHUNK) ^ (m / (8 / CHUNKS) % CHUNKS)) * CHUNK + n % CHUNK;
//% endif
}
//% endmacro
