/*# Pieces of C: 64 rows x CN columns, or CM rows x 64 columns, that a warpgroup stores at once. #*/
//% macro sums_of_piece(view)
// This thread's sums of a piece by rows of C, and by columns in each${ "" if view.halves else ": other names for the same registers" }.
__device__ __forceinline__ void sums_of_piece(const ${ view.wgmma.c_type } (&acc)[${ view.sums }], int piece, ${ T } (&sums)[TM][TN])
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
/*# The same where TMA cannot store C: a warp stages eight of its rows at a time. #*/
//% macro staged_row_at()
// Where an element of a piece lies among the eight rows that its warp has in shared memory. They begin 8 elements further apart
// than a piece is wide: so the eight that a warp writes at once lie in banks of their own.
__device__ __forceinline__ int staged_at(int m, int n)
{
    return m % 8 * PITCH_C + n;
}
//% endmacro
/*# Those rows between shared memory and C. #*/
//% macro row_extent(kernel)
${ ", int rows" if "M" in kernel.edges }${ ", int columns" if "N" in kernel.edges }
//%- endmacro
//% macro row_width(kernel)
//% set width = "max(0, min(CN, columns))" if "N" in kernel.edges else "CN"
${ "m < rows ? %s : 0" | format(width) if "M" in kernel.edges else width }
//%- endmacro
//% macro rows_words(kernel)
//% set extent = (["`rows` of them"] if "M" in kernel.edges else []) + (["`columns` of each"] if "N" in kernel.edges else [])
${ ": %s exist" | format(extent | join(" and ")) if extent }
//%- endmacro
//% macro load_rows(kernel)
// Brings eight rows of the old C, which begin at `c`, to where a warp stages them${ rows_words(kernel) }${ ". The others become zeros" if "M" in kernel.edges or "N" in kernel.edges }.
__device__ __forceinline__ void load_rows(const ${ TC }* c, Shape s${ row_extent(kernel) }, ${ TC }* staged)
{
    #pragma unroll
    for (int m = 0; m < 8; ++m) {
        const int width = ${ row_width(kernel) };
//% set zero_of_c = "static_cast<%s>(0)" | format(TC) if " " in TC else TC ~ "{}"
        for (int n = threadIdx.x % 32; n < CN; n += 32) staged[staged_at(m, n)] = ${ "n < width ? c[Offset(m) * s.ldc + n] : %s" | format(zero_of_c) if "M" in kernel.edges or "N" in kernel.edges else "c[Offset(m) * s.ldc + n]" };
    }
}
//% endmacro
//% macro store_rows(kernel, width)
//% set edge, access = "M" in kernel.edges or "N" in kernel.edges, " * %d" | format(width) if width > 1
// Stores the eight rows that a warp has staged to C, where they begin at `c`${ rows_words(kernel) }. Neighbouring lanes write
// neighbouring elements${ ", %d each" | format(width) if width > 1 }, for whole sectors of C's lines wherever these begin.
__device__ __forceinline__ void store_rows(${ TC }* c, Shape s${ row_extent(kernel) }, const ${ TC }* staged)
{
    #pragma unroll
    for (int m = 0; m < 8; ++m) {
        const int width = ${ row_width(kernel) };
        #pragma unroll
        for (int first = 0; first < CN; first += 32${ access }) {
            const int n = first + static_cast<int>(threadIdx.x) % 32${ access };
//% if width > 1
            if (n < width) store<${ width }>(c + Offset(m) * s.ldc + n, load<${ width }>(staged + staged_at(m, n)));
//% else
            if (n < width) c[Offset(m) * s.ldc + n] = staged[staged_at(m, n)];
//% endif
        }
    }
}
//% endmacro
