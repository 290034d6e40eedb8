/*# acc += A's tile * B's tile with k outermost: TM + TN values feed TM * TN independent FMAs. #*/
/*# Of a product: what it takes of x. #*/
//% macro factor(x)
//% if x.by_turn
const Vec<AHEAD> (&${ x.x })[T${ x.MN }]
//%- else
const ${ T } (&${ x.x })[T${ x.MN }]
//%- endif
//%- endmacro
//% macro outer_product(view)
//% set outer, inner = ("i", "j") if view.runs_along_n else ("j", "i")
//% set line, INNER = ("row", "TN") if view.runs_along_n else ("column", "TM")
// acc += a * b, an outer product, to and fro along the ${ line }s: each FMA shares a value with the one before it.
// Two register banks give an operand a cycle each, so an FMA that reads three registers anew takes two cycles.
//% if view.by_turn
// `${ view.by_turn.x }` holds the depths of a turn, of which this is the d-th.
//% endif
//% if view.last_first
// The last ${ line } comes first: so registers fall into other banks.
//% endif
//% if view.from_far_end
// Even ${ line }s start at their far end: so registers fall into other banks.
//% endif
//% if view.lead
template <int FIRST, int END>  // ${ line }s of the thread's tile
//% endif
__device__ __forceinline__ void add_product(${ factor(view.a) }, ${ factor(view.b) }, ${ T } (&acc)[TM][TN]${ ", int d" if view.by_turn })
{
//% set first, end = ("FIRST", "END") if view.lead else ("0", view.lines)
//% set count = "nth" if view.last_first else outer
    #pragma unroll
    for (int ${ count } = ${ first }; ${ count } < ${ end }; ++${ count }) {
//% if view.last_first
        const int ${ outer } = ${ view.lines } - 1 - ${ count };
//% endif
        #pragma unroll
        for (int step = 0; step < ${ INNER }; ++step) {
            const int ${ inner } = ${ outer } % 2 ${ "== 0 " if view.from_far_end }? ${ INNER } - 1 - step : step;
            acc[i][j] = ${ fma }(a[i]${ ".at[d]" if view.a.by_turn }, b[j]${ ".at[d]" if view.b.by_turn }, acc[i][j]);
        }
    }
}
//% endmacro

//% macro multiply(view)
${ outer_product(view) }
// acc += A's tile * B's tile. k is outermost: TM + TN values feed TM * TN FMAs, an outer product per k.
__device__ __forceinline__ void multiply(const TileA& As, const TileB& Bs, Place place, ${ T } (&acc)[TM][TN])
{
    #pragma unroll
    for (int k = 0; k < BK; ++k) {
        ${ T } a[TM], b[TN];
        read_a(&As${ "[k][place.m]" if view.a.k_rows else "[place.m][k]" }, a);
        read_b(&Bs${ "[k][place.n]" if view.b.k_rows else "[place.n][k]" }, b);
        add_product(a, b, acc);
    }
}
//% endmacro
