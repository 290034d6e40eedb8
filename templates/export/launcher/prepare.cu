/*# NAME_prepare_a and NAME_prepare_b, for `operand`. #*/
//% set steps = out.prepared | selectattr("operand", "eq", operand) | list
//% set zeroes = operand == "B" and out.launch.leaves_partials
//% if not steps and not zeroes
cudaError_t ${ out.name }_prepare_${ operand | lower }(const Plan* plan, cudaStream_t) { return begin(plan); }  // ${ operand } is read as it lies
//% else
cudaError_t ${ out.name }_prepare_${ operand | lower }(const Plan* plan, cudaStream_t stream)
{
//% include "export/launcher/unfold.cu"
//% if zeroes and steps
    const cudaError_t zeroed = cudaMemsetAsync(semaphores, 0, ${ out.parts[-2].bytes }, stream);  // once: each launch leaves them zero
    if (zeroed != cudaSuccess) return zeroed;
//% elif zeroes
    return cudaMemsetAsync(semaphores, 0, ${ out.parts[-2].bytes }, stream);  // once: each launch leaves them zero
//% endif
//% if operand == "B" and out.packed
    if (packed) return cudaSuccess;
//% endif
//% include "export/launcher/steps.cu"
}
//% endif
