/*# Through registers: the loads run while the k tile before is multiplied. #*/
//% from "copy/access.cu" import limits
//% from "copy/chunks.cu" import for_each_access, shared_element, valid
/*# What an access holds. #*/
//% macro staged(x)
Vec<${ "unsigned, V%s / 4" | format(x.X) if x.words else of[x.X] ~ "V" ~ x.X }>
//%- endmacro
//% macro copy(x)
// Global memory -> registers: this thread's accesses to ${ x.X }'s tile. Zeros stand for what lies outside ${ x.X }.
__device__ __forceinline__ void fetch_${ x.x }(const ${ element[x.X] }* tile, Shape s${ limits(x, "int ") }, ${ staged(x) } (&staged)[${ x.X }_ITERATIONS])
{
//% call for_each_access(x, reads=true, places=x.mn_edge if x.along_k else x.k_edge)
//% if x.at_edge
        staged[i] = load_edge${ "_words" if x.words }<V${ x.X }>(from + Offset(step) * s.${ x.ld }, ${ valid(x) });
//% else
        staged[i] = load${ "_words" if x.words }<V${ x.X }>(from + Offset(step) * s.${ x.ld });
//% endif
//% endcall
}

// Registers -> shared memory.
__device__ __forceinline__ void store_shared_${ x.x }(const ${ staged(x) } (&staged)[${ x.X }_ITERATIONS], Tile${ x.X }& shared)
{
//% call for_each_access(x)
//% if x.words
        store<V${ x.X } / 4>(reinterpret_cast<unsigned*>(&${ shared_element(x) }), staged[i]);
//% else
        store<V${ x.X }>(&${ shared_element(x) }, staged[i]);
//% endif
//% endcall
}
//% endmacro
