/*# NAME_prepare_a and NAME_prepare_b, for `operand`. #*/
//% set steps = out.prepared | selectattr("operand", "eq", operand) | list
//% set zeroes = operand == "B" and out.adds_up
extern "C" cudaError_t ${ out.name }_prepare_${ operand | lower }(const ${ out.name }_plan* plan, cudaStream_t${ " stream" if steps or zeroes })
{
//% if steps or zeroes
//% include "export/launcher/unfold.cu"
//% else
    return begin(plan);  // ${ operand } is read as it lies
//% endif
//% if zeroes and steps
    const cudaError_t zeroed = cudaMemsetAsync(semaphores, 0, ${ out.parts[-2].bytes }, stream);  // once: each launch leaves them zero
    if (zeroed != cudaSuccess) return zeroed;
//% elif zeroes
    return cudaMemsetAsync(semaphores, 0, ${ out.parts[-2].bytes }, stream);  // once: each launch leaves them zero
//% endif
//% for step in steps
    /*% if not loop.last %*/const std::size_t ${ step.part }_tiles =/*% else %*/const std::size_t tiles =/*% endif %*/
//%- for size, tile in step.grid
 ${ "* " if not loop.first }tiles_of(${ size }, ${ tile })
//%- endfor
;
//% if loop.last
//% if loop.first
    if (tiles == 0) return cudaSuccess;  // K = 0: ${ operand } has no elements
//% endif
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
}
