/*# The launch of `blocks` blocks on `stream`. #*/
//% if out.shared_bytes
    // A device's limit, not a launch's: asked for each time, since the current device may have changed.
    const cudaError_t raised = cudaFuncSetAttribute(${ out.name }, cudaFuncAttributeMaxDynamicSharedMemorySize, ${ out.shared_bytes });
    if (raised != cudaSuccess)
        return refuse(raised == cudaErrorInvalidValue ? cudaErrorInvalidConfiguration : raised,
            "no block gets %d bytes of shared memory: %s", ${ out.shared_bytes }, cudaGetErrorName(raised));
//% endif
//% for name, elements in out.amaxes.items()
    const cudaError_t ${ name }_set = cudaMemsetAsync(${ name }, 0, sizeof(${ out.element[name] }) * ${ elements }, stream);
    if (${ name }_set != cudaSuccess) return ${ name }_set;
//% endfor
    cudaLaunchConfig_t config = {};
    config.gridDim = static_cast<unsigned>(blocks);
    config.blockDim = ${ out.threads };
//% if out.shared_bytes
    config.dynamicSmemBytes = ${ out.shared_bytes };
//% endif
    config.stream = stream;
//% if out.dependent
    cudaLaunchAttribute overlap = {};  // its start with the end of the kernel before: see grid_dependency_wait
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &overlap;
    config.numAttrs = 1;
//% endif
    // It returns this launch's error; cudaGetLastError would return one that an earlier call left, too.
    return cudaLaunchKernelEx(&config, ${ out.name }, ${ out.passed | join(", ") });
