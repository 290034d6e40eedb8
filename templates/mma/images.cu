/*# A holds images, and a row of it is what a filter meets at one place: threads copy its pixels by cp.async, tap by tap. #*/
//% from "copy/access.cu" import limits
//% from "copy/chunks.cu" import for_each_access, shared_element
//% macro copy(x)
//% set conv = x.conv
//% set (height, width, channels), (down, across), (r, s) = conv.size, conv.places, conv.taps
//% set of_rows, of_columns = conv.crosses
// A's tile, as this thread copies it: where the filter lies for each of its rows, and the first k.
struct Pixels {
    const ${ element.A }* first[A_ITERATIONS];  // the pixel under the first tap, or where it would lie
//% if of_rows and of_columns
    unsigned inside[A_ITERATIONS];  // a bit for each row, then for each column of taps: whether the image has it there
//% elif of_rows
    unsigned inside[A_ITERATIONS];  // a bit for each row of taps: whether the image has it there
//% elif of_columns
    unsigned inside[A_ITERATIONS];  // a bit for each column of taps: whether the image has it there
//% endif
    int k;
};

// That of rows of C from `m` on, from k on. Each row's place in its image is found here, once.
__device__ __forceinline__ Pixels pixels_of_tile(const ${ element.A }* A, Shape s, int m, int k)
{
    Pixels tile;
    tile.k = k;
    #pragma unroll
    for (int i = 0; i < A_ITERATIONS; ++i) {
        const int place = m + threadIdx.x / A_LANES + i * (THREADS / A_LANES);
        const int row = place / ${ across } % ${ down }${ start(conv.stride[0], conv.pad[0]) }, column = place % ${ across }${ start(conv.stride[1], conv.pad[1]) };
        tile.first[i] = A + ((Offset(place / ${ down * across }) * ${ height } + row) * ${ width } + column) * s.lda;
//% if of_rows or of_columns
        tile.inside[i] = 0;
//% endif
//% if of_rows
${ bits("row", r, conv.dilation[0], height, 0) | trim("\n") }
//% endif
//% if of_columns
${ bits("column", s, conv.dilation[1], width, r if of_rows else 0) | trim("\n") }
//% endif
    }
    return tile;
}

// Start this thread's copies of A's tile to shared memory: channels of the pixel under a tap, for each of its rows.
//% if (of_rows or of_columns) and x.at_edge
// Zeros stand for pixels around the image and for what lies outside A.
//% elif of_rows or of_columns
// Zeros stand for pixels around the image.
//% elif x.at_edge
// Zeros stand for what lies outside A.
//% endif
__device__ __forceinline__ void copy_a(const Pixels& tile, Shape s${ limits(x, "int ") }, TileA& shared)
{
//% set exists = (["m < rows"] if x.mn_edge else []) + (["k < depth"] if x.k_edge else [])
//% set exists = exists + (["(tile.inside[i] & tap) == tap"] if of_rows or of_columns else [])
//% call for_each_access(x, before=tap_at(x))
//% if exists
        const bool exists = ${ exists | join(" && ") };
        cp_async<${ times.A }VA>(&${ shared_element(x) }, tile.first[i] + distance, exists ? ${ times.A }VA : 0);
//% else
        cp_async<${ times.A }VA>(&${ shared_element(x) }, tile.first[i] + distance, ${ times.A }VA);
//% endif
//% endcall
}
//% endmacro

/*# Which rows or columns of taps lie inside an image of so many, as bits from number `first` on. #*/
//% macro bits(line, taps, dilation, pixels, first)
        for (int tap = 0; tap < ${ taps }; ++tap) {
            const int at = ${ line } + tap${ scaled(dilation) };
            tile.inside[i] |= unsigned(at >= 0 && at < ${ pixels }) << ${ "(%d + tap)" | format(first) if first else "tap" };
        }
//% endmacro

/*# The tap of this thread's k: bits of its row and column, and how far it and its channel lie from the first ones. #*/
//% macro tap_at(x)
//% set (width, channels), (r, s), (of_rows, of_columns) = x.conv.size[1:], x.conv.taps, x.conv.crosses
//% if r * s == 1 and not (of_rows or of_columns)
    const int distance = tile.k + k;  // a channel of the only tap
//% else
    const int element = tile.k + k;  // of a filter
//% if x.k_edge and of_rows
    const int tap_row = min(element / ${ s * channels }, ${ r - 1 });  // the last one behind K, too
//% else
    const int tap_row = element / ${ s * channels };
//% endif
    const int tap_column = ${ "element / %d %% %d" | format(channels, s) if s > 1 else "0" }, channel = element % ${ channels };
    const Offset distance = (Offset(tap_row) * ${ x.conv.dilation[0] * width } + tap_column${ scaled(x.conv.dilation[1]) }) * s.lda + channel;
//% endif
//% if of_rows and of_columns
    const unsigned tap = 1u << tap_row | 1u << (${ r } + tap_column);
//% elif of_rows or of_columns
    const unsigned tap = 1u << ${ "tap_row" if of_rows else "tap_column" };
//% endif
//% endmacro
//% macro start(stride, pad)
${ scaled(stride) }${ " - %d" | format(pad) if pad }
//%- endmacro
//% macro scaled(number)
${ " * %d" | format(number) if number > 1 }
//%- endmacro
