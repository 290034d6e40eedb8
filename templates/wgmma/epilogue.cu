/*# Sums to C, by pieces: 64 rows x CN or PN columns, or CM rows x 64 columns, that a warpgroup stores at once. #*/
//% from "wgmma/staged.cu" import store_staged, take_stage
//% from "wgmma/rows.cu" import store_by_rows
//% from "wgmma/each.cu" import kept_sums, of_mma
//% from "epilogue/tree.cu" import inputs
//% macro sums_of_piece(view)
// This thread's sums of a piece by rows of C, and by columns in each${ "" if view.halves else ": other names for the same registers" }.
__device__ __forceinline__ void sums_of_piece(const ${ view.wgmma.c_type } (&acc)[${ kept_sums(view) }], int piece, ${ T } (&sums)[TM][TN])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j)
//% if view.halves
            sums[i][j] = float_from_f16(static_cast<unsigned short>(acc[piece * ${ view.piece } / 4 + j / 2 * 2 + i] >> 16 * (j % 2)));
//% else
            sums[i][j] = acc[piece * ${ view.piece } / 2 + ${ "i / 2 * 4 + j * 2 + i % 2" if view.swapped else "j / 2 * 4 + i * 2 + j % 2" }];
//% endif
    }
}
//% endmacro
//% macro store_pieces(kernel, view)
//% if view.mmas
#pragma unroll
for (int i = 0; i < ${ view.mmas }; ++i) {
${ store_pieces_of_mma(kernel, view) | indent(4, true) | trim("\n") }
}
//% else
${ store_pieces_of_mma(kernel, view) | trim("\n") }
//% endif
//% endmacro
//% macro store_pieces_of_mma(kernel, view)
//% set one = "i" if view.pingpong else "(consumer * %s + i)" | format(view.mmas) if view.mmas else "consumer"
//% set from = "" if view.pingpong and not view.mmas else " + %s * 64" | format(one)
#pragma unroll
//% if view.swapped
for (int piece = 0; piece < ${ view.stored } / CM; ++piece) {
    const int m = tile.m + ${ "rank * PART_M + " if view.split }piece * CM, n = tile.n${ from };
//% else
for (int piece = 0; piece < ${ view.stored } / ${ view.piece }; ++piece) {
    const int m = tile.m${ from }, n = tile.n + ${ "rank * PART_N + " if view.split }piece * ${ view.piece };
//% endif
//% if not view.direct
    ${ T } sums[TM][TN];
    sums_of_piece(${ view.kept }${ of_mma(view) }, piece, sums);
//% endif
//% if view.gated
    ${ T } sums2[TM][TN];
    sums_of_piece(${ view.kept }${ of_mma(view) }, ${ view.stored } / ${ view.piece } + piece, sums2);
//% endif
//% if view.staged
${ take_stage(view) | indent(4, true) | trim("\n") }
//% endif
//% if kernel.epilogue
    const Epilogue e = ${ inputs(kernel, "m", "n", "matrix" if view.batched else "") };
//% endif
/*% for name in kernel.problem.epilogue.sums %*/
${ sums_of_lines(kernel, view, name) | indent(4, true) | trim("\n") }
/*% endfor %*/
//% if view.staged
${ store_staged(kernel, view) | indent(4, true) | trim("\n") }
//% else
${ store_by_rows(kernel, view) | indent(4, true) | trim("\n") }
//% endif
}
//% endmacro
/*# The sums of A's rows, or B's columns, in a piece. #*/
//% macro sums_of_lines(kernel, view, name)
//% set row = name == "row_sum"
//% set at, count, X = ("m", "s.M", "a") if row else ("n", "s.N", "b")
${ T } ${ name }s[${ "TM" if row else "TN" }];
load_${ name }s(sums_${ X } + ${ "static_cast<long long>(matrix) * %s + " | format(count) if view.batched }${ at }${ ", %s - %s" | format(count, at) if count[-1] in kernel.edges }, thread, ${ name }s);
//% endmacro
