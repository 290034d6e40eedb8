/*# shared -> registers where k is contiguous in shared memory: vectors of the K_UNROLL k of an unrolled iteration. #*/
//% macro fragment(x)
// This thread's fragments of ${ x.X } at K_UNROLL k, from `from` on: T${ x.MN } loads of K_UNROLL values along k.
//% if x.in_parts and x.last_first
// The last values are the first to be hoisted, as in the product.
//% endif
//% if x.in_parts
template <int FIRST, int END>  // values
//% endif
__device__ __forceinline__ void load_fragment_${ x.x }(const ${ T }* from, Vec<K_UNROLL> (&fragment)[T${ x.MN }])
{
//% set first, end = ("0", "T" ~ x.MN) if not x.in_parts else ("T%s - END" % x.MN, "T%s - FIRST" % x.MN) if x.last_first else ("FIRST", "END")
    #pragma unroll
    for (int i = ${ first }; i < ${ end }; ++i) fragment[i] = load<K_UNROLL>(from + i * STEP_${ x.MN } * PITCH_${ x.X });
}
//% endmacro
