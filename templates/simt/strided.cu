/*# shared -> registers where k is contiguous in shared memory: scalar loads, PITCH apart. #*/
//% macro fragment(x)
// This thread's fragment of ${ x.X } at one k, from `from` on: T${ x.MN } scalar loads.
__device__ __forceinline__ void load_fragment_${ x.x }(const ${ T }* from, ${ T } (&fragment)[T${ x.MN }])
{
    #pragma unroll
    for (int i = 0; i < T${ x.MN }; ++i) fragment[i] = from[i * STEP_${ x.MN } * PITCH_${ x.X }];
}
//% endmacro
