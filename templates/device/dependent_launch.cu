/*# Kernels that start while the one before on the stream still ends (programmatic dependent launch, sm_90): their launch has the
    attribute programmatic_stream_serialization. Without it both functions do nothing. #*/
//% macro dependent_launch()
// Programmatic dependent launch, an attribute of launches: a kernel may start while the one before on the stream runs. Wait
// until that has ended and its writes are visible; and let the next one start once all blocks have come here.
__device__ __forceinline__ void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
//% endmacro

/*# A start that overlaps with the end of the launch before, and an end that overlaps with the start of the next one. #*/
//% macro overlap(note="  // this kernel's blocks are resident by the time the one before ends")
    grid_dependency_wait();${ note }
    launch_dependents();
//% endmacro
