//% macro multiply(a, b)
// acc += A's tile * B's tile. k is outermost: TM + TN values feed TM * TN FMAs, an outer product per k.
__device__ __forceinline__ void multiply(const TileA& As, const TileB& Bs, Place place, ${ T } (&acc)[TM][TN])
{
    #pragma unroll
    for (int k = 0; k < BK; ++k) {
        ${ T } a[TM], b[TN];
        read_a(As, k, place.m, a);
        read_b(Bs, k, place.n, b);
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int j = 0; j < TN; ++j) acc[i][j] = ${ fma }(a[i], b[j], acc[i][j]);
        }
    }
}
//% endmacro
