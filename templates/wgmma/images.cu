/*# A holds images, and a row of it is what a filter meets at one place: TMA gathers its lines tap by tap, in im2col mode. #*/
//% from "device/cluster.cu" import tma_im2col_multicast
//% from "device/tma.cu" import tma_im2col
//% macro functions(view)
//% set conv = view.conv
//% set (rows, columns), (r, s), channels = conv.places, conv.taps, conv.size[2]
${ tma_im2col_multicast() if view.a.shared else tma_im2col() }
// A place of the filter: the column and the row of an image, or of the zeros around it, where the filter begins.
struct Place { int column, row, image; };

// That of a row of C.
__device__ __forceinline__ Place place_of_row(int m)
{
    return {m % ${ columns }${ start(conv.stride[1], conv.pad[1]) }, m / ${ columns } % ${ rows }${ start(conv.stride[0], conv.pad[0]) }, m / ${ rows * columns }};
}

// Start loading a box of A: elements k to k + LINE_A, which are channels of one tap, of rows from `place` on.
//% if view.a.chunks
// These are 16 bytes, which have no swizzle: the leading distance of A's descriptors goes from one box to the next.
//% endif
__device__ __forceinline__ void load_pixels(${ factor["A"] }* to, const TensorMap* map, unsigned long long* barrier, int k, Place place${ ", unsigned short blocks" if view.a.shared })
{
//% if view.cut_k
    const int tap = min(k / ${ channels }, ${ r * s - 1 });  // behind K: channels that the last one lacks, which are zeros
    const int channel = k - tap * ${ channels };
//% else
    const int tap = k / ${ channels }, channel = k % ${ channels };
//% endif
    tma_load_${ "multicast_" if view.a.shared }im2col(to, map, barrier, channel, place.column, place.row, place.image, tap % ${ s }${ times(conv.dilation[1]) }, tap / ${ s }${ times(conv.dilation[0]) }${ ", blocks" if view.a.shared });
}

//% endmacro
//% macro start(stride, pad)
${ times(stride) }${ " - %d" | format(pad) if pad }
//%- endmacro
//% macro times(number)
${ " * %d" | format(number) if number > 1 }
//%- endmacro
/*# The place of the first row that a block brings, #*/
//% macro place(view)
const Place place = place_of_row(tile.m${ " + part" if view.a.shared });
//% endmacro
/*# and a box, from element `k` on, to so many elements `behind` the stage's beginning. #*/
//% macro box(x, behind, k)
load_pixels(shared.a[ring.stage]${ behind }${ " + part * LINE_A" if x.shared }, &map_a, full, ${ k }, place${ ", (1 << CLUSTER) - 1" if x.shared });
//%- endmacro
