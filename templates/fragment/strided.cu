/*# shared -> registers where shared lines run along k: one read a value, PITCH apart. #*/
//% macro fragment(x)
// This thread's T${ x.MN } values of ${ x.X } at one depth, the first of which lies at `from`, one read each.
__device__ __forceinline__ void read_${ x.x }(const ${ T }* from, ${ T } (&fragment)[T${ x.MN }])
{
    #pragma unroll
    for (int i = 0; i < T${ x.MN }; ++i) fragment[i] = from[i * STEP_${ x.MN } * PITCH_${ x.X }];
}
//% endmacro
