/*# A stage of the ring: how a warpgroup multiplies what is there. #*/
//% from "device/block_scales.cu" import pitches, scales_of_group
//% from "wgmma/layout.cu" import descriptor
//% from "wgmma/range.cu" import first_line, sums_of_mma
/*# For lines of a tile that no copy brings. #*/
//% macro clear()
template <class T, int N>
__device__ __forceinline__ void clear(T (&tile)[N])
{
    constexpr int CHUNK = 16 / sizeof(T);
    for (int i = threadIdx.x * CHUNK; i < N; i += THREADS * CHUNK) store<CHUNK>(&tile[i], Vec<${ "" if types.uniform else "T, " }CHUNK>{});
}
//% endmacro
/*# `adds`: whether an instruction adds to sums, as its last argument; it does unless told. #*/
//% macro multiply_stage(view, parameter="", adds="")
//% import view.each as mmas
//% import view.product as product
//% import view.tiles as tiles
// Sums the products of a stage's k tiles, for this warpgroup's ${ product.lines } of C: in flight until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, ${ tiles.first_parameter }${ parameter }Accumulators& acc)
{
    const unsigned long long a = ${ descriptor(view.first, divided=not view.pingpong) };
    const unsigned long long b = ${ descriptor(view.second) };
    #pragma unroll
${ mmas.multiply(view, adds) | indent(4, true) | trim("\n") }
}

//% endmacro
//% macro promote(view)
//% import view.each as mmas
//% if view.blocks_scaled
//% set pitch = pitches[view.padded]
//% set of_b = "scales.of_b"
//% if view.lines_scaled
//% set of_b = "scales.columns[r / 4 * 2 + r % 2]"
//% elif view.straddles
//% set of_b = "(r / 4 * 8 < scales.columns ? scales.of_b : scales.of_b_behind)"
//% endif
// Scales of a k tile for the sums of this thread (lane 4 g + t): of A's 1 x ${ view.block }, for two rows of each instruction, g and g + 8 of a
//% if view.lines_scaled
// warp's 16; of B's 1 x ${ view.block }, for columns 2 t and 2 t + 1 of each eight.
struct BlockScales {
    float rows${ mmas.of | replace("i", view.mmas) }[2], columns[BN / 4];
};
//% elif view.straddles
// warp's 16; of B's ${ view.block } x ${ view.block }, for the tile's first `columns` and for those behind, which lie in the next block.
struct BlockScales {
    float rows${ mmas.of | replace("i", view.mmas) }[2], of_b, of_b_behind;
    int columns;
};
//% else
// warp's 16; of B's ${ view.block } x ${ view.block }.
struct BlockScales {
    float rows${ mmas.of | replace("i", view.mmas) }[2], of_b;
};
/*% endif %*/

__device__ __forceinline__ void load_scales(const float* scales_a, const float* scales_b, Shape s, TileOrigin tile, int first, int k, BlockScales& scales)
{
    const int block = k / ${ view.block }, row = tile.m + first + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
//% if view.groups
    scales_b += ${ scales_of_group(view.inputs, "tile.group") };
//% endif
//% if view.lines_scaled
    #pragma unroll
    for (int j = 0; j < BN / 4; ++j) {
        const int n = tile.n + j / 2 * 8 + threadIdx.x % 4 * 2 + j % 2;
//% if view.cut_n
        scales.columns[j] = n < s.N ? scales_b[static_cast<long long>(block) * ${ pitch | format("N") } + n] : 0.0f;
//% else
        scales.columns[j] = scales_b[static_cast<long long>(block) * ${ pitch | format("N") } + n];
//% endif
    }
//% elif view.straddles
    const int blocks = (s.K + ${ view.block - 1 }) / ${ view.block }, first_of_b = tile.n / ${ view.block }, last_of_b = (s.N - 1) / ${ view.block };
    scales.of_b = scales_b[static_cast<long long>(${ "min(first_of_b, last_of_b)" if view.along == "n" else "first_of_b" }) * blocks + block];
    scales.of_b_behind = scales_b[static_cast<long long>(min(first_of_b + 1, last_of_b)) * blocks + block];
    scales.columns = ${ view.block } - tile.n % ${ view.block };
//% else
    scales.of_b = scales_b[static_cast<long long>(${ "min(tile.n, s.N - 1)" if view.along == "n" else "tile.n" } / ${ view.block }) * ((s.K + ${ view.block - 1 }) / ${ view.block }) + block];
//% endif
//% filter indent(4, true)
//% call mmas.each_mma(view)
#pragma unroll
for (int half = 0; half < 2; ++half) {
    const int m = row + ${ "i * 64 + " if mmas.of }half * 8;
    scales.rows${ mmas.of }[half] = m < s.M ? scales_a[static_cast<long long>(block) * ${ pitch | format("M") } + m] : 0.0f;
}
//% endcall
//% endfilter
}

// Add sums of a k tile, times the product of their scales, to totals.
__device__ __forceinline__ void promote(const Accumulators& acc, const BlockScales& scales, Accumulators& totals)
{
//% filter indent(4, true)
//% call mmas.each_mma(view)
#pragma unroll
for (int r = 0; r < ${ sums_of_mma(view) }; ++r) totals${ mmas.of }[r] = fmaf(scales.rows${ mmas.of }[r / 2 % 2] * ${ of_b }, acc${ mmas.of }[r], totals${ mmas.of }[r]);
//% endcall
//% endfilter
}
//% else
// Add sums of one k tile or some to totals, in f32 with rounding: tensor cores keep fewer bits.
__device__ __forceinline__ void promote(const Accumulators& acc, Accumulators& totals)
{
//% filter indent(4, true)
//% call mmas.each_mma(view)
#pragma unroll
for (int r = 0; r < ${ sums_of_mma(view) }; ++r) totals${ mmas.of }[r] += acc${ mmas.of }[r];
//% endcall
//% endfilter
}
//% endif
//% endmacro
/*# For scaled blocks: how the scales of a k tile are loaded, and what is passed of them. #*/
//% macro load_block_scales(view, k="k", which="")
load_scales(scales_a, scales_b, s, tile, ${ "0" if view.pingpong else first_line(view) }, ${ k }, scales${ which });
//%- endmacro
//% macro passed_scales(view, which="")
${ "scales%s, " | format(which) if view.blocks_scaled }
//%- endmacro
