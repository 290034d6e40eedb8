/*# By cp.async: no register and no thread waits for the data. #*/
//% from "copy/access.cu" import limits
//% from "copy/chunks.cu" import for_each_access, shared_element, valid
//% macro copy(x)
// Start this thread's copies of ${ x.X }'s tile to shared memory: neighbouring threads along its contiguous dimension. Zeros stand for
// what lies outside ${ x.X }.
__device__ __forceinline__ void copy_${ x.x }(const ${ element[x.X] }* tile, Shape s${ limits(x, "int ") }, Tile${ x.X }& shared)
{
//% call for_each_access(x, reads=true)
//% if x.at_edge
        const int valid = ${ valid(x) };  // elements that exist
        cp_async<${ times[x.X] }V${ x.X }>(&${ shared_element(x) }, from + Offset(step) * s.${ x.ld }, ${ times[x.X] }max(0, min(V${ x.X }, valid)));
//% else
        cp_async<${ times[x.X] }V${ x.X }>(&${ shared_element(x) }, from + Offset(step) * s.${ x.ld }, ${ times[x.X] }V${ x.X });
//% endif
//% endcall
}
//% endmacro
