/*# A or B holds images, and a row of it is what a filter meets at one place: TMA gathers its lines tap by tap, in im2col mode. #*/
//% from "device/cluster.cu" import tma_im2col_multicast
//% from "device/tma.cu" import tma_im2col
//% macro functions(view)
//% set conv, x = view.conv, view.images
//% set row, along, cut = ("m", "k", view.cut_k) if x.along_k else ("k", "n", view.cut_n)
//% set (rows, columns), (r, s), channels = conv.places, conv.taps, conv.size[2]
${ tma_im2col_multicast() if x.shared else tma_im2col() }
// A place of the filter: the column and the row of an image, or of the zeros around it, where the filter begins.
struct Place { int column, row, image; };

//% if x.along_k
// That of a row of C.
//% else
// That of an element of K.
//% endif
__device__ __forceinline__ Place place_of_row(int ${ row })
{
    return {${ row } % ${ columns }${ start(conv.stride[1], conv.pad[1]) }, ${ row } / ${ columns } % ${ rows }${ start(conv.stride[0], conv.pad[0]) }, ${ row } / ${ rows * columns }};
}

//% if x.along_k
// Start loading a box of A: elements k to k + LINE_A, which are channels of one tap, of rows from `place` on.
//% else
// Start loading a box of B: columns n to n + LINE_B, which are channels of one tap, of rows from `place` on.
//% endif
//% if x.chunks
// These are 16 bytes, which have no swizzle: the leading distance of ${ x.X }'s descriptors goes from one box to the next.
//% endif
__device__ __forceinline__ void load_pixels(${ factor[x.X] }* to, const TensorMap* map, unsigned long long* barrier, int ${ along }, Place place${ ", unsigned short blocks" if x.shared })
{
//% if cut
    const int tap = min(${ along } / ${ channels }, ${ r * s - 1 });  // behind ${ along | upper }: channels that the last one lacks, which are zeros
    const int channel = ${ along } - tap * ${ channels };
//% else
    const int tap = ${ along } / ${ channels }, channel = ${ along } % ${ channels };
//% endif
    tma_load_${ "multicast_" if x.shared }im2col(to, map, barrier, channel, place.column, place.row, place.image, tap % ${ s }${ times(conv.dilation[1]) }, tap / ${ s }${ times(conv.dilation[0]) }${ ", blocks" if x.shared });
}

//% endmacro
//% macro start(stride, pad)
${ times(stride) }${ " - %d" | format(pad) if pad }
//%- endmacro
//% macro times(number)
${ " * %d" | format(number) if number > 1 }
//%- endmacro
/*# The place of row `first`, from which on a block brings rows of x, #*/
//% macro place(x, first)
const Place place = place_of_row(${ first }${ " + part" if x.shared });
//% endmacro
/*# and a box of them, from element `k` and column `mn` on, to so many elements `behind` the stage's beginning. #*/
//% macro box(x, behind, k, mn)
load_pixels(shared.${ x.x }[ring.stage]${ behind }${ " + part * LINE_%s" | format(x.X) if x.shared }, &map_${ x.x }, full, ${ k if x.along_k else mn }, place${ ", (1 << CLUSTER) - 1" if x.shared });
//%- endmacro
