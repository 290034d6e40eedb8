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
//% if operand == "B" and out.packed
    if (packed) return cudaSuccess;
//% endif
//% include "export/launcher/steps.cu"
}
