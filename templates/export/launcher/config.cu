/*# How a kernel is launched, with the start of one that may start `early` overlapping the end of the kernel before. #*/
/*% macro configuration(blocks, threads, shared_bytes, early) %*/
    cudaLaunchConfig_t config = {};
    config.gridDim = static_cast<unsigned>(${ blocks });
    config.blockDim = ${ threads };
//% if out.launch.shared_bytes
    config.dynamicSmemBytes = ${ shared_bytes };
//% endif
    config.stream = stream;
//% if out.starts_early
    cudaLaunchAttribute overlap = {};  // of its start with the end of the kernel before: see grid_dependency_wait
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &overlap;
    config.numAttrs = ${ early };
//% endif
    // It returns this launch's error; cudaGetLastError would return one that an earlier call left, too.
/*%- endmacro %*/
/*# The call of `start` for one of several kernels. #*/
//% macro start(entry, blocks, threads, shared_bytes, early, passed)
start(${ entry }, ${ blocks }, ${ threads }${ ", %d" | format(shared_bytes) if out.launch.shared_bytes }${ ", %s" | format(early | lower) if out.starts_early }, stream, ${ passed | join(", ") })
//%- endmacro
