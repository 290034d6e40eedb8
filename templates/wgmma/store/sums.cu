/*# Sums to pieces of C: 64 rows x CN or PN columns, or CM rows x 64 columns, that a warpgroup stores at once. #*/
//% from "wgmma/range.cu" import kept_sums
//% macro thread_origin(view)
//% import view.mainloop as mainloop
//% import view.product as product
// Row and column of this thread's first sum, of those that its warpgroup multiplies at once.
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin thread_origin()
{
${ mainloop.origin(product) | trim("\n") }
}

//% endmacro
//% macro sums_of_piece(view)
//% import view.product as product
// This thread's sums of a piece by rows of C, and by columns in each.
__device__ __forceinline__ void sums_of_piece(const ${ view.wgmma.c_type } (&acc)[${ kept_sums(view) }], int piece, ${ T } (&sums)[TM][TN])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j)
//% if view.halves
            sums[i][j] = float_from_f16(static_cast<unsigned short>(acc[piece * ${ view.piece } / 4 + j / 2 * 2 + i] >> 16 * (j % 2)));
//% else
            sums[i][j] = acc[piece * ${ view.piece } / 2 + ${ product.sum }];
//% endif
    }
}

//% endmacro
//% macro piece_of_sums(view)
//% import view.matrices as matrices
//% import view.each as mmas
${ T } sums[TM][TN];
sums_of_piece(${ view.kept }${ mmas.of }, piece, sums);
${ matrices.further_sums(view, mmas) | trim("\n") }
//% endmacro
