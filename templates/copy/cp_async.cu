/*# global -> shared with cp.async: no register and no thread waits for the data. #*/
//% from "copy/access.cu" import access, for_each_access, from, shared_element
//% macro copy(x)
${ access(x) }
// Start this thread's share of ${ x.X }'s tile on its way to shared memory. Zeros stand for what lies outside ${ x.X }.
template <bool AT_EDGE>
__device__ __forceinline__ void start_${ x.x }(const ${ T }* tile, Shape s, int ${ x.extent }, int depth, Tile${ x.X }& shared)
{
//% call for_each_access(x, from(x))
        const int valid = AT_EDGE ? valid_${ x.x }(at, ${ x.extent }, depth) : V${ x.X };
        const int bytes = V${ x.X } == 1 ? (valid > 0 ? ${ size } : 0) : ${ size } * max(0, min(V${ x.X }, valid));
        cp_async<${ size } * V${ x.X }>(&${ shared_element(x) | trim }, from + offset_${ x.x }(step, s), bytes);
//% endcall
}

// The same for all threads: only a tile that crosses an edge of ${ x.X } pays for finding out what lies outside.
__device__ __forceinline__ void copy_${ x.x }(const ${ T }* tile, Shape s, int ${ x.extent }, int depth, Tile${ x.X }& shared)
{
    const bool inside = ${ "(!EDGE_%s || %s >= B%s) && (" % (x.MN, x.extent, x.MN) if not x.moves }!EDGE_K || depth >= BK${ ")" if not x.moves };
    if (inside) start_${ x.x }<false>(tile, s, ${ x.extent }, depth, shared);
    else start_${ x.x }<true>(tile, s, ${ x.extent }, depth, shared);
}
//% endmacro
