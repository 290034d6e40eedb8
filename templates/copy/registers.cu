/*# global -> registers -> shared: the loads run during the FMAs of the k tile before. #*/
//% from "copy/access.cu" import access, for_each_access, from, limits, shared_element
//% macro copy(x)
${ access(x) }
// Global memory -> registers: this thread's accesses to ${ x.X }'s tile. Zeros stand for what lies outside ${ x.X }.
__device__ __forceinline__ void fetch_${ x.x }(const ${ element[x.X] }* tile, Shape s${ limits(x, "int ") }, Vec<${ of[x.X] }V${ x.X }> (&staged)[${ x.X }_ITERATIONS])
{
//% call for_each_access(x, from(x))
//% if x.at_edge
        staged[i] = load_edge<V${ x.X }>(from + offset_${ x.x }(step, s), valid_${ x.x }(at${ limits(x) }));
//% else
        staged[i] = load<V${ x.X }>(from + offset_${ x.x }(step, s));
//% endif
//% endcall
}

// Registers -> shared memory.
__device__ __forceinline__ void store_shared_${ x.x }(const Vec<${ of[x.X] }V${ x.X }> (&staged)[${ x.X }_ITERATIONS], Tile${ x.X }& shared)
{
//% call for_each_access(x)
//% if x.transposed or not types.uniform
        #pragma unroll
        for (int v = 0; v < V${ x.X }; ++v) {
            ${ shared_element(x, " + v") | trim } = staged[i].at[v];
        }
//% else
        store<V${ x.X }>(&${ shared_element(x) | trim }, staged[i]);
//% endif
//% endcall
}
//% endmacro
