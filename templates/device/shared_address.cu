/*# How the other files name shared memory in PTX. #*/
//% macro shared_address()
// The address of what lies in shared memory, as PTX takes it.
__device__ __forceinline__ unsigned shared_address(const void* shared)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}
//% endmacro
