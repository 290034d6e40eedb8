/*# The launches `steps` that prepare `operand`, as the end of a function. #*/
//% macro overlap(config)
//% if out.overlapped
    cudaLaunchAttribute ${ config }_overlap = {};  // of its start with the end of the kernel before: see grid_dependency_wait
    ${ config }_overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    ${ config }_overlap.val.programmaticStreamSerializationAllowed = 1;
    ${ config }.attrs = &${ config }_overlap;
    ${ config }.numAttrs = 1;
//% endif
//% endmacro
//% for step in steps
    const std::size_t ${ "tiles" if loop.last else step.part ~ "_tiles" } =
//%- for size, tile in step.grid
 ${ "* " if not loop.first }tiles_of(${ size }, ${ tile })
//%- endfor
;
//% if loop.last
    if (tiles == 0) return cudaSuccess;  // ${ "K = 0: %s has no elements" | format(operand) if loop.first else "there are no lines" }
    cudaLaunchConfig_t config = {};
    config.gridDim = static_cast<unsigned>(tiles);
    config.blockDim = ${ step.threads };
    config.stream = stream;
${ overlap("config") }    return cudaLaunchKernelEx(&config, ${ step.entry },
        ${ step.passed | join(", ") });
//% else
    if (${ step.part }_tiles > 0) {  // with K = 0 ${ operand } has no elements, and its lines sums of 0
        cudaLaunchConfig_t copying = {};
        copying.gridDim = static_cast<unsigned>(${ step.part }_tiles);
        copying.blockDim = ${ step.threads };
        copying.stream = stream;
${ overlap("copying") | indent(4, true) }        const cudaError_t copied = cudaLaunchKernelEx(&copying, ${ step.entry },
            ${ step.passed | join(", ") });
        if (copied != cudaSuccess) return copied;
    }
//% endif
//% endfor
