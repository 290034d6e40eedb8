/*# The launches `steps` that prepare `operand`, as the end of a function. #*/
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
    return cudaLaunchKernelEx(&config, ${ step.entry },
        ${ step.passed | join(", ") });
//% else
    if (${ step.part }_tiles > 0) {  // with K = 0 ${ operand } has no elements, and its lines sums of 0
        cudaLaunchConfig_t copying = {};
        copying.gridDim = static_cast<unsigned>(${ step.part }_tiles);
        copying.blockDim = ${ step.threads };
        copying.stream = stream;
        const cudaError_t copied = cudaLaunchKernelEx(&copying, ${ step.entry },
            ${ step.passed | join(", ") });
        if (copied != cudaSuccess) return copied;
    }
//% endif
//% endfor
