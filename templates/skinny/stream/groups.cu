/*# A warp's lanes form groups, each at a k of its own, whose sums they add up. #*/
//% from "device/warp_sum.cu" import group_sum
//% macro store_sums(w, width)
${ group_sum() }
// Reduce the sums of a warp's groups, each over its own k, and store them to shared memory.
__device__ __forceinline__ void store_sums(${ T } (&acc)[S][T], ThreadOrigin thread, Sums* sums)
{
    ${ T } (&values)[S * T] = reinterpret_cast<${ T } (&)[S * T]>(acc);
    warp_sum<16>(values);
    const int warp = threadIdx.x / 32;
    const int first = threadIdx.x % 32 / LANES * (S * T);  // GROUPS times the number of this group's first sum
    if (first % GROUPS != 0) return;                       // a group before it has the same sum
    #pragma unroll
    for (int i = 0; i < (S * T + GROUPS - 1) / GROUPS; ++i) {
        const int value = first / GROUPS + i;
        sums[warp][value / T][thread.${ w.mn } + output(value % T)] = values[i];
    }
}
//% endmacro
