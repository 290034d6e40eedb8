/*# shared -> registers where the thread's elements are neighbours in a shared line: vector reads. #*/
//% macro fragment(x, view)
// This thread's T${ x.MN } values of ${ x.X } at depth k, F${ x.MN } to a read.
__device__ __forceinline__ void read_${ x.x }(const ${ "%s (*shared)[PITCH_%s]" % (T, x.X) if view.ahead else "Tile%s& shared" % x.X }, int k, int ${ x.mn }, ${ T } (&fragment)[T${ x.MN }])
{
    #pragma unroll
    for (int i = 0; i < T${ x.MN }; i += F${ x.MN }) {
        const Vec<F${ x.MN }> part = load<F${ x.MN }>(&shared[k][${ x.mn } + i / F${ x.MN } * STEP_${ x.MN }]);
        #pragma unroll
        for (int v = 0; v < F${ x.MN }; ++v) fragment[i + v] = part.at[v];
    }
}
//% endmacro
