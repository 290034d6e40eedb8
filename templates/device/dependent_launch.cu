/*# Kernels that start while the one before on the stream still ends (programmatic dependent launch, sm_90): their launch has the
    attribute programmatic_stream_serialization. Without it both functions do nothing. #*/
//% macro dependent_launch()
#ifdef __CUDACC__
// Wait until the kernel before on the stream has run, and all that it wrote is there: its launch and this one's start overlap.
// Whatever it reads or writes may be touched from here on.
__device__ __forceinline__ void grid_dependency_wait()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

// Let the next kernel on the stream start as soon as all blocks have come here, and SMs have room for it.
__device__ __forceinline__ void launch_dependents()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
#endif  // __CUDACC__
//% endmacro
