//% macro warp_sum(grouped=false)
//% if grouped
// Sums COUNT values over the GROUPS groups of a warp, each lane with those in its place of the other groups. Each step
// pairs groups that lie 16 lanes apart, then 8 and so on: one of a pair goes on with the first half of the values and the
// other with the second, until one is left, which both go on with.
// Group g ends with the sums of values g * COUNT / GROUPS and, where COUNT > GROUPS, of the next COUNT / GROUPS - 1.
//% else
// Sums COUNT values over the 32 lanes of a warp. Each of five steps pairs lanes 16, 8, 4, 2, 1 apart: one of a pair goes
// on with the first half of the values and the other with the second, until one is left, which both go on with.
// Lane l ends with the sums of values l * COUNT / 32 and, where COUNT > 32, of the next COUNT / 32 - 1.
//% endif
template <int COUNT>
__device__ __forceinline__ void warp_sum(float (&values)[COUNT])
{
    #pragma unroll
    for (int distance = 16; distance ${ ">= LANES" if grouped else "> 0" }; distance /= 2) {
        const bool second = threadIdx.x & distance;
        const int kept = max(1, COUNT * distance / 32);  // values after this step
        const bool halved = COUNT * distance >= 32;
        #pragma unroll
        for (int i = 0; i < kept; ++i) {
            const float mine = halved && second ? values[kept + i] : values[i];
            const float other = halved && !second ? values[kept + i] : values[i];
            values[i] = mine + __shfl_xor_sync(0xffffffffu, other, distance);
        }
    }
}
//% endmacro
