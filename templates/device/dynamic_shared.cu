/*# `alignment` in bytes: 1024 where wgmma reads what TMA writes swizzled by 128. #*/
//% macro dynamic_shared(alignment=128)
// The shared memory that the launch asks for: beyond 48 KB there is no other kind.
__device__ __forceinline__ unsigned char* dynamic_shared()
{
    extern __shared__ __align__(${ alignment }) unsigned char bytes[];
    return bytes;
}
//% endmacro
