/*# shared -> registers where shared lines run along k: a read takes the depths of a turn. #*/
//% macro fragment(x)
// This thread's T${ x.MN } values of ${ x.X } at the depths of a turn, the first of which lies at `from`, AHEAD to a read.
//% if x.in_parts and x.last_first
// In parts, the last values first, as products take them.
//% endif
//% if x.in_parts
template <int FIRST, int END>  // values
//% endif
__device__ __forceinline__ void read_${ x.x }(const ${ T }* from, Vec<${ of.sums }AHEAD> (&fragment)[T${ x.MN }])
{
//% set first, end = ("0", "T" ~ x.MN) if not x.in_parts else ("T%s - END" % x.MN, "T%s - FIRST" % x.MN) if x.last_first else ("FIRST", "END")
    #pragma unroll
    for (int i = ${ first }; i < ${ end }; ++i) fragment[i] = load<AHEAD>(from + i * STEP_${ x.MN } * PITCH_${ x.X });
}
//% endmacro
