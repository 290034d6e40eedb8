/*# shared -> registers where shared lines run along k: one read a value, PITCH apart. #*/
//% macro fragment(x, view)
// This thread's T${ x.MN } values of ${ x.X } at depth k, one read each.
__device__ __forceinline__ void read_${ x.x }(const Tile${ x.X }& shared, int k, int ${ x.mn }, ${ T } (&fragment)[T${ x.MN }])
{
    #pragma unroll
    for (int i = 0; i < T${ x.MN }; ++i) fragment[i] = shared[${ x.mn } + i * STEP_${ x.MN }][k];
}
//% endmacro
