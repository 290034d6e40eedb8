/*# A or B holds images, and its rows are output pixels: TMA gathers the pixels under the filter tap by tap, in im2col mode. #*/
//% from "device/cluster.cu" import tma_im2col_multicast
//% from "device/tma.cu" import tma_im2col
//% macro functions(view)
//% set x = view.images
//% set row, along = ("m", "k") if x.along_k else ("k", "n")
${ tma_im2col_multicast() if x.shared else tma_im2col() }
// Where the filter begins for an output pixel: the pixel of an image under its first tap, which may lie in the padding.
struct Place { int column, row, image; };

//% if x.along_k
// Where it begins for row m of C, which is one.
//% else
// Where it begins for k, which is one.
//% endif
__device__ __forceinline__ Place place_of_row(int ${ row })
{
    return {${ row } % Q * STRIDE_W - PAD_W, ${ row } / Q % P * STRIDE_H - PAD_H, ${ row } / (P * Q)};
}

//% if x.along_k
// Start loading a box of A: elements k to k + LINE_A, which are channels of one tap, in rows from `place` on.
//% else
// Start loading a box of B: columns n to n + LINE_B, which are channels of one tap, in rows from `place` on.
//% endif
//% if x.chunks
// These are 16 bytes, which need no swizzle: the leading byte offset of ${ x.X }'s descriptors leads from one box to the next.
//% endif
__device__ __forceinline__ void load_pixels(${ factor[x.X] }* to, const TensorMap* map, unsigned long long* barrier, int ${ along }, Place place${ ", unsigned short blocks" if x.shared })
{
//% if view.cut_taps
    const int tap = min(${ along } / CHANNELS, R * S - 1);  // behind ${ along | upper }: channels that the last tap lacks, which TMA fills with zeros
    const int channel = ${ along } - tap * CHANNELS;
//% else
    const int tap = ${ along } / CHANNELS, channel = ${ along } % CHANNELS;
//% endif
//% if x.shared
    tma_load_multicast_im2col(to, map, barrier, channel, place.column, place.row, place.image, tap % S * DILATION_W, tap / S * DILATION_H, blocks);
//% else
    tma_load_im2col(to, map, barrier, channel, place.column, place.row, place.image, tap % S * DILATION_W, tap / S * DILATION_H);
//% endif
}

//% endmacro
/*# The place of row `first`, from which on a block brings rows of x, #*/
//% macro place(x, first)
const Place place = place_of_row(${ first }${ " + part" if x.shared });
//% endmacro
/*# and a box of them, from element `k` and column `mn` on, to so many elements `behind` the stage's beginning. #*/
//% macro box(x, behind, k, mn)
//% set channel = k if x.along_k else mn
//% if x.shared
load_pixels(shared.${ x.x }[ring.stage]${ behind } + part * LINE_${ x.X }, &map_${ x.x }, full, ${ channel }, place, (1 << CLUSTER) - 1);
//%- else
load_pixels(shared.${ x.x }[ring.stage]${ behind }, &map_${ x.x }, full, ${ channel }, place);
//%- endif
//%- endmacro
