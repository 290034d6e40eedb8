/*# acc += A's tile * B's tile with k outermost: TM + TN values feed TM * TN independent FMAs. #*/
/*# Of a product: what it takes of x. #*/
//% macro factor(x)
const ${ "Vec<K_UNROLL>" if x.k_vector else T } (&${ x.x })[T${ x.MN }]
//%- endmacro
//% macro outer_product(view)
//% set outer, inner = ("i", "j") if view.runs_along_n else ("j", "i")
//% set line, INNER = ("row", "TN") if view.runs_along_n else ("column", "TM")
// acc += a * b, an outer product, in a serpentine along the ${ line }s: each FMA reuses an operand of the one before it.
// There are two register banks, so an FMA that reads three new registers takes two cycles.
//% if view.k_vector
// `${ view.k_vector.x }` holds K_UNROLL k, of which this is the d-th.
//% endif
//% if view.last_first
// The last ${ line } comes first: another register allocation, with fewer bank conflicts here.
//% endif
//% if view.from_far_end
// Even ${ line }s start at their far end: another register allocation, with fewer bank conflicts here.
//% endif
//% if view.hoist
template <int FIRST, int END>  // ${ line }s of the thread tile
//% endif
__device__ __forceinline__ void outer_product(${ factor(view.a) }, ${ factor(view.b) }, ${ T } (&acc)[TM][TN]${ ", int d" if view.k_vector })
{
//% set first, end = ("FIRST", "END") if view.hoist else ("0", view.lines)
//% set count = "nth" if view.last_first else outer
    #pragma unroll
    for (int ${ count } = ${ first }; ${ count } < ${ end }; ++${ count }) {
//% if view.last_first
        const int ${ outer } = ${ view.lines } - 1 - ${ count };
//% endif
        #pragma unroll
        for (int step = 0; step < ${ INNER }; ++step) {
            const int ${ inner } = ${ outer } % 2 ${ "== 0 " if view.from_far_end }? ${ INNER } - 1 - step : step;
            acc[i][j] = ${ fma }(a[i]${ ".at[d]" if view.a.k_vector }, b[j]${ ".at[d]" if view.b.k_vector }, acc[i][j]);
        }
    }
}
//% endmacro

//% from "layout.cu" import at
//% from "epilogue/sums.cu" import add_fragments, sum_parameters
//% macro mma(view, kernel)
${ outer_product(view) }
// acc += A's tile * B's tile. k is outermost: TM + TN values feed TM * TN FMAs, an outer product per k.
__device__ __forceinline__ void mma(const TileA& As, const TileB& Bs, ThreadOrigin thread, ${ T } (&acc)[TM][TN]${ sum_parameters(kernel) })
{
    #pragma unroll
    for (int k = 0; k < BK; ++k) {
        ${ T } a[TM], b[TN];
        load_fragment_a(&As${ at(not view.a.k_rows, "thread.m", "k") }, a);
        load_fragment_b(&Bs${ at(not view.b.k_rows, "thread.n", "k") }, b);
        outer_product(a, b, acc);
//% if kernel.problem.epilogue.sums
${ add_fragments(kernel, "a[i]", "b[i]") | indent(8, true) | trim("\n") }
//% endif
    }
}
//% endmacro
