/*# The small operand as fragments beside those of packed codes, whose k lie as the instruction has them. #*/
//% import "skinny/small/direct.cu" as direct
//% set declare_chunk, free_chunk = direct.declare_chunk, direct.free_chunk
/*# A row that exists, by whether A may end within a tile. #*/
//% set row = {true: "min(m + 8 * i, s.M - 1)", false: "m + 8 * i"}
//% macro small(x, w, view)
// This thread's fragments of A: of row l / 4 in lane l, and of every 8th after it, the pairs at every 8th k from the first on.
//% if "M" in view.x_ends
// Rows beyond A's last are that one: their sums are not stored.
//% endif
struct Rows {
    const ${ TA }* at[S / 8];
};

__device__ __forceinline__ Rows first_rows(const ${ TA }* A, Shape s, int tile_m, int k)
{
    const int m = tile_m + threadIdx.x % 32 / 4;
    Rows rows;
    #pragma unroll
    for (int i = 0; i < S / 8; ++i) rows.at[i] = A + Offset(${ row["M" in view.x_ends] }) * s.lda + k;
    return rows;
}

// Start the loads of a step that lies `further` k on.
__device__ __forceinline__ void load_fragments(const Rows& rows, int further, Fragments& fragments)
{
    #pragma unroll
    for (int i = 0; i < S / 8; ++i) {
        #pragma unroll
        for (int pair = 0; pair < LANE_K / 2; ++pair)
            fragments[i][pair] = *reinterpret_cast<const unsigned*>(rows.at[i] + further + 8 * pair);
    }
}
//% endmacro
