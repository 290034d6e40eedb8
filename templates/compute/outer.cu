/*# acc += A's tile * B's tile with k outermost: TM + TN values feed TM * TN independent FMAs. #*/
//% macro outer_product(view)
//% set outer, inner = ("i", "j") if view.runs_along_n else ("j", "i")
//% set OUTER, INNER = ("TM", "TN") if view.runs_along_n else ("TN", "TM")
// acc += a * b, an outer product, to and fro along the ${ "rows" if view.runs_along_n else "columns" }: each FMA shares a value with the one before it.
// Two register banks give an operand a cycle each, so an FMA that reads three registers anew takes two cycles.
__device__ __forceinline__ void add_product(const ${ T } (&a)[TM], const ${ T } (&b)[TN], ${ T } (&acc)[TM][TN])
{
    #pragma unroll
    for (int ${ outer } = ${ OUTER ~ " - 1" if view.last_first else 0 }; ${ outer } ${ ">= 0" if view.last_first else "< " ~ OUTER }; ${ "--" if view.last_first else "++" }${ outer }) {
        #pragma unroll
        for (int step = 0; step < ${ INNER }; ++step) {
            const int ${ inner } = ${ outer } % 2 ${ "== 0 " if view.from_far_end }? ${ INNER } - 1 - step : step;
            acc[i][j] = ${ fma }(a[i], b[j], acc[i][j]);
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
