/*# Shared tiles without padding, whose lines are read 16 bytes at a time. #*/
/*# Where element `at` of a line of x's shared tile lies. #*/
//% macro place(x, line, at)
${ "swizzled_%s(%s, %s)" | format(x.x, line, at) if x.swizzled else at }
//%- endmacro

//% macro swizzle(x, alike=false)
//% if alike
// The same in B's.
//% else
// Where element `at` of a line of ${ x.X }'s shared tile lies: its chunks trade places, by XOR with the line's
// number, so that the same chunk of lines that are read at once lies in banks of its own in each.
//% endif
__device__ __forceinline__ int swizzled_${ x.x }(int line, int at)
{
    return at ^ line / ${ x.X }_PHASE % ${ x.X }_SWIZZLED * CHUNK_${ x.X };
}
//% endmacro
