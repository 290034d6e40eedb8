/*# shared -> registers, elements of 8 bits whose lines run along m or n: ldmatrix transposes pairs of them, which lanes unzip. #*/
//% from "copy/swizzle.cu" import place
//% macro unzip()
// Of 32 lines, one for each k, that which this lane names for ldmatrix_x4_trans. It transposes units of 2 bytes: of elements of 8 bits
// these are pairs, neighbours in m or n at one k. Lane 4 g + t shall get pair g of k = 4 t to 4 t + 3 in two registers, and of the k 16
// further on in two more. Lanes of t >= 2 get the upper two k first: then the eight lines that are read at once differ modulo 8, and
// the swizzle keeps them in banks of their own.
__device__ __forceinline__ int line_of_pairs()
{
    const int lane = threadIdx.x % 32;
    return lane / 16 * 16 + lane / 2 % 4 * 4 + (lane / 4 + lane / 8) % 2 * 2 + lane % 2;
}

// The first or the `second` elements of this lane's four pairs, of which two registers hold two each: as mma takes them, the first k in
// the lowest bits.
__device__ __forceinline__ unsigned unzip(unsigned two, unsigned others, bool second)
{
    const unsigned first = threadIdx.x % 4 < 2 ? 0x6420 : 0x2064;  // bytes of `two` are 0 to 3, of `others` 4 to 7
    return __byte_perm(two, others, second ? first + 0x1111 : first);
}
//% endmacro
//% macro fragment(x)
//% if x.x == "a"
// This warp's fragments of A's tile at the K_STEP k from `k_step` on: 16 rows for each instruction, from `warp_m` on. Even ones
// are the first 8 of an instruction, odd ones the last 8.
__device__ __forceinline__ void load_fragments_a(const TileA& shared, int warp_m, int k_step, unsigned (&a)[MMAS_M][4])
{
    const int k = k_step + line_of_pairs();
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        const int m = warp_m + 16 * i;
        unsigned pairs[4];
        ldmatrix_x4_trans(pairs, &shared[k][${ place(x, "k", "m") }]);
        #pragma unroll
        for (int r = 0; r < 4; ++r) a[i][r] = unzip(pairs[r / 2 * 2], pairs[r / 2 * 2 + 1], r % 2);
    }
}
//% else
// This warp's fragments of B's tile at the K_STEP k from `k_step` on: 16 columns for two instructions, from `warp_n` on. Even ones
// are the first instruction's, odd ones the second's.
__device__ __forceinline__ void load_fragments_b(const TileB& shared, int warp_n, int k_step, unsigned (&b)[MMAS_N][2])
{
    const int k = k_step + line_of_pairs();
    #pragma unroll
    for (int j = 0; j < MMAS_N; j += 2) {
        const int n = warp_n + 8 * j;
        unsigned pairs[4];
        ldmatrix_x4_trans(pairs, &shared[k][${ place(x, "k", "n") }]);
        #pragma unroll
        for (int r = 0; r < 4; ++r) b[j + r % 2][r / 2] = unzip(pairs[r / 2 * 2], pairs[r / 2 * 2 + 1], r % 2);
    }
}
//% endif
//% endmacro
