/*# shared -> registers where the thread's elements are neighbours in a shared line: vector reads. #*/
//% macro fragment(x)
// This thread's T${ x.MN } values of ${ x.X } at one depth, the first of which lies at `from`, F${ x.MN } to a read.
__device__ __forceinline__ void read_${ x.x }(const ${ T }* from, ${ T } (&fragment)[T${ x.MN }])
{
    #pragma unroll
    for (int i = 0; i < T${ x.MN }; i += F${ x.MN }) {
        const Vec<${ of.sums }F${ x.MN }> part = load<F${ x.MN }>(from + i / F${ x.MN } * STEP_${ x.MN });
        #pragma unroll
        for (int v = 0; v < F${ x.MN }; ++v) fragment[i + v] = part.at[v];
    }
}
//% endmacro
