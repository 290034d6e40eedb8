/*# global -> shared with cp.async: no register and no thread waits for the data. #*/
//% from "copy/access.cu" import access, for_each_access, from, limits, shared_element
//% macro copy(x)
${ access(x) }
//% if x.at_edge
// Start this thread's copies of ${ x.X }'s tile to shared memory. Zeros stand for what lies outside ${ x.X }.
template <bool AT_EDGE>
__device__ __forceinline__ void start_${ x.x }(const ${ T }* tile, Shape s${ limits(x, "int ") }, Tile${ x.X }& shared)
{
//% call for_each_access(x, from(x))
        const int valid = AT_EDGE ? valid_${ x.x }(at${ limits(x) }) : V${ x.X };
        const int bytes = ${ "valid > 0 ? %d : 0" % size if x.width == 1 else "%smax(0, min(V%s, valid))" % (times[x.X], x.X) };
        cp_async<${ times[x.X] }V${ x.X }>(&${ shared_element(x) | trim }, from + offset_${ x.x }(step, s), bytes);
//% endcall
}

// Only tiles that cross an edge of ${ x.X } pay for predicates: the branch is uniform across the block.
__device__ __forceinline__ void copy_${ x.x }(const ${ T }* tile, Shape s${ limits(x, "int ") }, Tile${ x.X }& shared)
{
    const bool inside = ${ (["%s >= B%s" | format(x.extent, x.MN)] * x.mn_edge + ["depth >= BK"] * x.k_edge) | join(" && ") };
    if (inside) start_${ x.x }<false>(tile, s${ limits(x) }, shared);
    else start_${ x.x }<true>(tile, s${ limits(x) }, shared);
}
//% else
// Start this thread's copies of ${ x.X }'s tile to shared memory.
__device__ __forceinline__ void copy_${ x.x }(const ${ T }* tile, Shape s, Tile${ x.X }& shared)
{
//% call for_each_access(x, from(x))
        cp_async<${ times[x.X] }V${ x.X }>(&${ shared_element(x) | trim }, from + offset_${ x.x }(step, s), ${ times[x.X] }V${ x.X });
//% endcall
}
//% endif
//% endmacro
