//% macro dynamic_shared()
#ifdef __CUDACC__
// The shared memory that the launch asks for: beyond 48 KB there is no other kind.
__device__ __forceinline__ unsigned char* dynamic_shared()
{
    extern __shared__ __align__(128) unsigned char bytes[];
    return bytes;
}
#endif  // __CUDACC__
//% endmacro
