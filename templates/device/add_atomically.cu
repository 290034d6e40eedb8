//% macro add_atomically()
#ifdef __CUDACC__
// Adds to a sum in global memory that other blocks add to, too. atomicAdd would wait for the old value before a fence.
__device__ __forceinline__ void add_atomically(${ T }* sum, ${ T } value)
{
    asm volatile("red.global.add.f${ 8 * size } [%0], %1;" ::"l"(__cvta_generic_to_global(sum)), "${ "f" if size == 4 else "d" }"(value) : "memory");
}
#endif  // __CUDACC__
//% endmacro
