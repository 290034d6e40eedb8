/*# global -> shared with cp.async: no register and no thread waits for the data. #*/
//% from "copy/access.cu" import access, for_each_access, from, shared_element
//% macro copy(x)
${ access(x) }
// Start this thread's share of ${ x.X }'s tile on its way to shared memory. Zeros stand for what lies outside ${ x.X }.
__device__ __forceinline__ void copy_${ x.x }(const ${ T }* tile, Shape s, int ${ x.extent }, int depth, Tile${ x.X }& shared)
{
//% call for_each_access(x, from(x))
        const int valid = max(0, min(V${ x.X }, valid_${ x.x }(at, ${ x.extent }, depth)));
        cp_async<${ size } * V${ x.X }>(&${ shared_element(x) | trim }, from + offset_${ x.x }(step, s), ${ size } * valid);
//% endcall
}
//% endmacro
