/*# The same where products are those of C's transpose: what lies side by side in C is in eight lanes, and stmatrix transposes it. #*/
//% from "device/ldmatrix.cu" import ldmatrix
//% from "epilogue/result.cu" import narrowed, scaled
//% import "wgmma/store/tma.cu" as tma
//% from "wgmma/range.cu" import kept_sums
//% set member, leave = tma.member, tma.leave
//% macro origin(view)
//%- endmacro
/*# The first of `lane`'s rows of C, among those that a warp stores at once, by the number of matrices. #*/
//% set row_of_lane = {2: "lane % 8", 4: "lane / 16 * 8 + lane % 8"}
//% macro functions(kernel, view)
//% set S = types.scalar.ctype
${ tma.staged_at(view) }
${ ldmatrix([(view.matrices_at_once, true)], [(view.matrices_at_once, true)]) }
// Write alpha * acc + beta * C to the staged piece: stmatrix transposes matrices of 8 x 8, of which a warp has two side by side
// for each eight rows of C. If beta is not 0, the old C is there already; else it is not read: it may be uninitialised.
__device__ __forceinline__ void stage_transposed(${ TC }* c, int row, int column, const ${ view.wgmma.c_type } (&acc)[${ kept_sums(view) }], int piece, ${ S } alpha, ${ S } beta)
{
    union Pair { unsigned bits; ${ TC } at[2]; };  // elements of two neighbouring rows
    #pragma unroll
    for (int m = 0; m < CM; m += ${ view.matrices_at_once * 4 }) {
        ${ TC }* const to = c + staged_at(m + row, column);
        unsigned old[${ view.matrices_at_once }] = {}, stored[${ view.matrices_at_once }];
        if (beta != ${ types.scalar.arithmetic.zero }) ldmatrix_x${ view.matrices_at_once }_trans(old, to);
        #pragma unroll
        for (int i = 0; i < ${ view.matrices_at_once }; ++i) {
            const int r = piece * CM / 2 + m / 2 + i * 2;
            ${ S } value[2] = {${ scaled("acc[r]") }, ${ scaled("acc[r + 1]") }};
            Pair pair{old[i]};
            if (beta != ${ types.scalar.arithmetic.zero })
                for (int v = 0; v < 2; ++v) value[v] = ${ types.scalar.arithmetic.fma }(beta, pair.at[v], value[v]);
            for (int v = 0; v < 2; ++v) pair.at[v] = ${ narrowed("value[v]") };
            stored[i] = pair.bits;
        }
        stmatrix_x${ view.matrices_at_once }_trans(to, stored);
    }
}
//% endmacro
//% macro places(view)
${ tma.leads(view) | trim("\n") }
const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
const int row = ${ row_of_lane[view.matrices_at_once] }, column = warp * 16 + lane / 8 % 2 * 8;  // of the eight elements of C that this lane names for stmatrix, within a piece
${ tma.parity(view) | trim("\n") }
//% endmacro
//% macro store_piece(kernel, view, inputs)
//% import view.each as mmas
${ tma.take(view) | trim("\n") }
stage_transposed(c, row, column, ${ view.kept }${ mmas.of }, piece, alpha, beta);
${ tma.send(view) | trim("\n") }
//% endmacro
