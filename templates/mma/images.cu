/*# A holds images, and its rows are output pixels: threads copy the pixels under the filter by cp.async, tap by tap. #*/
//% from "copy/access.cu" import limits
//% from "copy/chunks.cu" import for_each_access, shared_element
//% macro copy(x)
//% set of_rows, of_columns = x.conv.crosses
// The rows of A's tile that a thread copies, each an output pixel, and the tile's first k.
struct Pixels {
    const ${ element.A }* first[A_ITERATIONS];  // the pixel under the filter's first tap, an address that may lie in the padding
//% if of_rows and of_columns
    unsigned inside[A_ITERATIONS];  // bit r: the image has the r-th row of taps; bit R + s: the s-th column
//% elif of_rows
    unsigned inside[A_ITERATIONS];  // bit r: the image has the r-th row of taps
//% elif of_columns
    unsigned inside[A_ITERATIONS];  // bit R + s: the image has the s-th column of taps
//% endif
    int k;
};

// The pixels of the tile that begins at row m of C and at k. Divisions are done here, once per row.
__device__ __forceinline__ Pixels pixels_of_tile(const ${ element.A }* A, Shape s, int m, int k)
{
    Pixels tile;
    tile.k = k;
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const int place = m + threadIdx.x / A_LANES + i * (THREADS / A_LANES);  // the output pixel, among those of all images
        const int row = place / Q % P * STRIDE_H - PAD_H, column = place % Q * STRIDE_W - PAD_W;
        tile.first[i] = A + ((Offset(place / (P * Q)) * H + row) * W + column) * s.lda;
//% if of_rows or of_columns
        tile.inside[i] = 0;
//% endif
//% if of_rows
        for (int tap = 0; tap < R; ++tap) {
            const int at = row + tap * DILATION_H;
            tile.inside[i] |= unsigned(at >= 0 && at < H) << tap;
        }
//% endif
//% if of_columns
        for (int tap = 0; tap < S; ++tap) {
            const int at = column + tap * DILATION_W;
            tile.inside[i] |= unsigned(at >= 0 && at < W) << (R + tap);
        }
//% endif
    }
    return tile;
}

//% set exists = (["m < rows"] if x.mn_edge else []) + (["k < depth"] if x.k_edge else [])
//% set exists = exists + (["(tile.inside[i] & tap) == tap"] if of_rows or of_columns else [])
// Start this thread's copies of A's tile to shared memory: for each of its rows, channels of the pixel under one tap.
//% if exists
// Zeros stand for padding and for what lies outside A.
//% endif
__device__ __forceinline__ void copy_a(const Pixels& tile, Shape s${ limits(x, "int ") }, TileA& shared)
{
//% set find_tap
//% if x.one_tap
    const int distance = tile.k + k;  // a channel of the only tap
//% else
    const int element = tile.k + k;  // (r, s, c) as one number
//% if x.k_edge and of_rows
    const int tap_row = min(element / (S * CHANNELS), R - 1);  // behind K the last row, as `tap` has no bits for more
//% else
    const int tap_row = element / (S * CHANNELS);
//% endif
    const int tap_column = element / CHANNELS % S, channel = element % CHANNELS;
    const Offset distance = (Offset(tap_row) * (DILATION_H * W) + tap_column * DILATION_W) * s.lda + channel;  // from the pixel under the first tap
//% endif
//% if of_rows and of_columns
    const unsigned tap = 1u << tap_row | 1u << (R + tap_column);
//% elif of_rows
    const unsigned tap = 1u << tap_row;
//% elif of_columns
    const unsigned tap = 1u << (R + tap_column);
//% endif
//% endset
//% call for_each_access(x, before=find_tap)
//% if exists
        const bool exists = ${ exists | join(" && ") };
        cp_async<${ times.A }VA>(&${ shared_element(x) }, tile.first[i] + distance, exists ? ${ times.A }VA : 0);
//% else
        cp_async<${ times.A }VA>(&${ shared_element(x) }, tile.first[i] + distance, ${ times.A }VA);
//% endif
//% endcall
}
//% endmacro
