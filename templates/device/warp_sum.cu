//% macro warp_sum()
// Sums COUNT values over the 32 lanes of a warp. Each of five steps pairs lanes 16, 8, 4, 2, 1 apart: one of a pair goes
// on with the first half of the values and the other with the second, until one is left, which both go on with.
// Lane l ends with the sums of values l * COUNT / 32 and, where COUNT > 32, of the next COUNT / 32 - 1.
template <int COUNT>
__device__ __forceinline__ void warp_sum(float (&values)[COUNT])
{
    #pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
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
