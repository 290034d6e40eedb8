/*# shared -> registers, for DEPTH k at once. #*/
//% macro fragment(x)
//% set mn, X, MN = x.mn, x.X, x.MN
//% if x.along_k
// This thread's fragments of ${ X } at DEPTH neighbouring k: T${ MN } loads of DEPTH values along k.
//% else
// This thread's fragments of ${ X } at DEPTH neighbouring k: T${ MN } values each, F${ MN } a load.
//% endif
__device__ __forceinline__ void load_fragment_${ x.x }(const Matrix${ X }& shared, int k, int ${ mn }, ${ T } (&fragment)[DEPTH][T${ MN }])
{
//% if x.along_k
    #pragma unroll
    for (int i = 0; i < T${ MN }; ++i) {
        const Vec<${ of.sums }DEPTH> vector = load<DEPTH>(&shared[${ mn } + i * STEP_${ MN }][k]);
        #pragma unroll
        for (int d = 0; d < DEPTH; ++d) fragment[d][i] = vector.at[d];
    }
//% else
    #pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
        #pragma unroll
        for (int i = 0; i < T${ MN }; i += F${ MN }) {
            const Vec<${ of.sums }F${ MN }> vector = load<F${ MN }>(&shared[k + d][${ mn } + i / F${ MN } * STEP_${ MN }]);
            #pragma unroll
            for (int v = 0; v < F${ MN }; ++v) fragment[d][i + v] = vector.at[v];
        }
    }
//% endif
}
//% endmacro
