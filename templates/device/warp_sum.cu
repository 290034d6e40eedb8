/*# Sums over lanes of a warp: of all of them, #*/
//% macro warp_sum()
// Sums COUNT values over the 32 lanes of a warp. Each of five steps pairs lanes 16, 8, 4, 2, 1 apart: one of a pair keeps
// the first half of the values and the other the second, until one is left, which both keep.
// Lane l ends with the sums of values l * COUNT / 32 and, where COUNT > 32, of the next COUNT / 32 - 1.
${ steps("1") }
//%- endmacro
/*# or of those of equal rank in each group. #*/
//% macro group_sum()
// Sums COUNT values over the GROUPS groups of a warp, over lanes of the same rank. Each step pairs groups 16 lanes
// apart, then 8 and so on: one of a pair keeps the first half of the values and the other the second, until one is left,
// which both keep.
// Group g ends with the sums of values g * COUNT / GROUPS and, where COUNT > GROUPS, of the next COUNT / GROUPS - 1.
${ steps("LANES") }
//%- endmacro
//% macro steps(last)
// Steps are template arguments so that every index is a constant early: in a loop over them values went to local memory.
template <int DISTANCE, int COUNT>
__device__ __forceinline__ void warp_sum(${ T } (&values)[COUNT])
{
    constexpr bool HALVED = COUNT * DISTANCE >= 32;
    constexpr int KEPT = HALVED ? COUNT * DISTANCE / 32 : 1;  // values after this step
    #pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        const bool second = threadIdx.x & DISTANCE;
        const ${ T } first = values[i], last = values[HALVED ? KEPT + i : i];
        const ${ T } kept = second ? last : first, sent = second ? first : last;
//% if types.accumulator.is_integer
        values[i] = multiply_add(1, kept, __shfl_xor_sync(0xffffffffu, sent, DISTANCE));
//% else
        values[i] = kept + __shfl_xor_sync(0xffffffffu, sent, DISTANCE);
//% endif
    }
    if constexpr (DISTANCE > ${ last }) warp_sum<DISTANCE / 2>(values);
}

//% endmacro
