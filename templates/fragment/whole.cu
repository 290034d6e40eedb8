/*# shared -> registers, for DEPTH values of k at once. #*/
//% macro fragment(x)
//% set mn, X, MN = x.mn, x.X, x.MN
//% if x.along_k
// This thread's T${ MN } values of ${ X } for each of DEPTH neighbouring k, which one read takes.
//% else
// This thread's T${ MN } values of ${ X } for each of DEPTH neighbouring k, F${ MN } to a read.
//% endif
__device__ __forceinline__ void read_${ x.x }(const Matrix${ X }& shared, int k, int ${ mn }, ${ T } (&fragment)[DEPTH][T${ MN }])
{
//% if x.along_k
    #pragma unroll
    for (int i = 0; i < T${ MN }; ++i) {
        const Vec<${ of.sums }DEPTH> part = load<DEPTH>(&shared[${ mn } + i * STEP_${ MN }][k]);
        #pragma unroll
        for (int d = 0; d < DEPTH; ++d) fragment[d][i] = part.at[d];
    }
//% else
    #pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
        #pragma unroll
        for (int i = 0; i < T${ MN }; i += F${ MN }) {
            const Vec<${ of.sums }F${ MN }> part = load<F${ MN }>(&shared[k + d][${ mn } + i / F${ MN } * STEP_${ MN }]);
            #pragma unroll
            for (int v = 0; v < F${ MN }; ++v) fragment[d][i + v] = part.at[v];
        }
    }
//% endif
}
//% endmacro
