/*# C is alpha * acc + beta * C: sums go to the staged piece in the order that device/wgmma.cu tells. #*/
//% from "epilogue/result.cu" import narrowed, scaled
//% import "wgmma/store/tma.cu" as tma
//% from "wgmma/range.cu" import kept_sums
//% set member, leave = tma.member, tma.leave
//% macro origin(view)
//%- endmacro
//% macro functions(kernel, view)
//% set S = types.scalar.ctype
${ tma.staged_at(view) }
// Write alpha * acc + beta * C to the staged piece, of the first or `second` of this thread's two rows, 8 apart, in pairs of
// columns 8 apart. If beta is not 0, the old C is there already; else it is not read: it may be uninitialised.
__device__ __forceinline__ void stage_row(${ TC }* c, int row, int column, int second, const ${ view.wgmma.c_type } (&acc)[${ kept_sums(view) }], int piece, ${ S } alpha, ${ S } beta)
{
    struct alignas(2 * sizeof(${ TC })) PairOfC { ${ TC } at[2]; };  // two neighbouring elements
    const int m = row + second * 8;
    #pragma unroll
    for (int j = 0; j < ${ view.piece } / 8; ++j) {
        const int n = column + j * 8, r = piece * ${ view.piece } / 2 + j * 4 + second * 2;
        ${ S } value[2] = {${ scaled("acc[r]") }, ${ scaled("acc[r + 1]") }};
        PairOfC& to = *reinterpret_cast<PairOfC*>(c + staged_at(m, n));
        if (beta != ${ types.scalar.arithmetic.zero }) {
            const PairOfC old = to;
            for (int v = 0; v < 2; ++v) value[v] = ${ types.scalar.arithmetic.fma }(beta, old.at[v], value[v]);
        }
        to = {${ narrowed("value[0]") }, ${ narrowed("value[1]") }};
    }
}
//% endmacro
//% macro places(view)
${ tma.leads(view) | trim("\n") }
const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
const int row = warp * 16 + lane / 4, column = lane % 4 * 2;  // of this thread's first sum, within a piece
${ tma.parity(view) | trim("\n") }
//% endmacro
//% macro store_piece(kernel, view, inputs)
//% import view.each as mmas
${ tma.take(view) | trim("\n") }
#pragma unroll
for (int second = 0; second < 2; ++second) stage_row(c, row, column, second, ${ view.kept }${ mmas.of }, piece, alpha, beta);
${ tma.send(view) | trim("\n") }
//% endmacro
