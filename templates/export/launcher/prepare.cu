/*# NAME_prepare_a and NAME_prepare_b, for `operand`. #*/
//% set copy = out.copied.get(operand)
//% set zeroes = operand == "B" and out.adds_up
//% if not copy and not zeroes
cudaError_t ${ out.name }_prepare_${ operand | lower }(const Plan* plan, cudaStream_t) { return begin(plan); }  // ${ operand } is read as it lies
//% else
cudaError_t ${ out.name }_prepare_${ operand | lower }(const Plan* plan, cudaStream_t stream)
{
//% include "export/launcher/unfold.cu"
//% if zeroes and copy
    const cudaError_t zeroed = cudaMemsetAsync(semaphores, 0, ${ out.parts[-2].bytes }, stream);  // once: each launch leaves them zero
    if (zeroed != cudaSuccess) return zeroed;
//% elif zeroes
    return cudaMemsetAsync(semaphores, 0, ${ out.parts[-2].bytes }, stream);  // once: each launch leaves them zero
//% endif
//% if copy
    const std::size_t tiles =
//%- for size, tile in copy.grid
 ${ "* " if not loop.first }tiles_of(${ size }, ${ tile })
//%- endfor
;
    if (tiles == 0) return cudaSuccess;  // K = 0: ${ operand } has no elements
    cudaLaunchConfig_t config = {};
    config.gridDim = static_cast<unsigned>(tiles);
    config.blockDim = ${ copy.threads };
    config.stream = stream;
    return cudaLaunchKernelEx(&config, ${ copy.entry },
        ${ copy.passed | join(", ") });
//% endif
}
//% endif
