/*# Kernels that start while the one before on the stream still ends (programmatic dependent launch, sm_90): their launch has the
    attribute programmatic_stream_serialization. Without it both functions do nothing. #*/
//% macro dependent_launch()
#ifdef __CUDACC__
// This kernel may start while the one before on the stream still runs. Wait until that has ended, and all that it wrote is
// there; and let the next one start as soon as all blocks have come here, and SMs have room for it.
__device__ __forceinline__ void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
#endif  // __CUDACC__
//% endmacro
