/*# shared -> registers where m or n is contiguous in shared memory: vector loads. #*/
//% macro fragment(x)
// This thread's fragment of ${ x.X } at one k, from `from` on: T${ x.MN } values, F${ x.MN } a load.
__device__ __forceinline__ void load_fragment_${ x.x }(const ${ T }* from, ${ T } (&fragment)[T${ x.MN }])
{
    #pragma unroll
    for (int i = 0; i < T${ x.MN }; i += F${ x.MN }) {
        const Vec<${ of.sums }F${ x.MN }> vector = load<F${ x.MN }>(from + i / F${ x.MN } * STEP_${ x.MN });
        #pragma unroll
        for (int v = 0; v < F${ x.MN }; ++v) fragment[i + v] = vector.at[v];
    }
}
//% endmacro
