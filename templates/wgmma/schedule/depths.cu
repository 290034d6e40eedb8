/*# Tiles of groups along K, each of which has a C of its own: the device alone knows a group's range of K. #*/
//% from "device/tma.cu" import bound
//% import "wgmma/schedule/grid.cu" as grid
//% set ends, count, tile, leave_idle, one_of_warp, skip = grid.ends, grid.count, grid.tile, grid.leave_idle, grid.one_of_warp, grid.skip
//% macro functions(view)
${ grid.functions(view) }
${ bound(view) }
// The number of k in a group: 0 if it is empty.
__device__ __forceinline__ int depth_of(const int* offs, int group)
{
    return offs[group] - (group > 0 ? offs[group - 1] : 0);
}

//% if view.pingpong
// K tiles of a group: 0 behind the last group.
__device__ __forceinline__ int k_tiles_of(const int* offs, int group)
{
    return group < ${ view.batch } ? (depth_of(offs, group) + BK - 1) / BK : 0;
}

//% endif
//%- endmacro
/*# The range of K of a tile's group, #*/
//% macro range_of_group(view)
const int depth = depth_of(offs, matrix);  // k of the group
//% endmacro
/*# and where that ends. #*/
//% macro end_of_range(view)
const int end = offs[matrix];
//% endmacro
/*# Without any k alpha has nothing to scale, be it infinite or NaN. #*/
//% macro drop_alpha(kernel)
    const ${ types.scalar.ctype } given_alpha = alpha;
//% endmacro
//% macro drop_alpha_of_group(kernel)
//% if kernel.drops_alpha
alpha = depth > 0 ? given_alpha : ${ types.scalar.arithmetic.zero };  // an empty group has A * B = 0, which even an infinite alpha leaves 0
//% endif
//% endmacro
