/*# A stage of the ring: how a warpgroup multiplies what is there. #*/
//% from "wgmma/each.cu" import each_mma, of_mma, sums_of_mma
//% from "wgmma/fill.cu" import of_all
/*# For lines of a tile that no copy brings. #*/
//% macro clear()
template <class T, int N>
__device__ __forceinline__ void clear(T (&tile)[N])
{
    constexpr int CHUNK = 16 / sizeof(T);
    for (int i = threadIdx.x * CHUNK; i < N; i += THREADS * CHUNK) store<CHUNK>(&tile[i], Vec<${ "" if types.uniform else "T, " }CHUNK>{});
}
//% endmacro
/*# The descriptor of x's k tile in a stage. `divided`: from this consumer's first line on. #*/
//% macro descriptor(x, divided=false)
//% set line = "LINE_%s * sizeof(%s)" | format(x.X, factor[x.X])
make_descriptor<${ line }>(shared.${ x.x }[stage]${ " + first * %s" | format("LINE_" ~ x.X if x.along_k else "BK") if divided }, ${ "16" if x.along_k else "BK * " ~ line }, 8 * ${ line })
//%- endmacro
/*# What it gains, in chunks of 16 bytes, by k, #*/
//% macro by_k(x)
//% if not x.along_k
k * LINE_${ x.X } * sizeof(${ factor[x.X] }) / 16
//%- elif x.boxes > 1
(k / LINE_${ x.X } * LINE_${ x.X } * ${ of_all(x, "B" ~ x.MN) } + k % LINE_${ x.X }) * sizeof(${ factor[x.X] }) / 16
//%- else
k * sizeof(${ factor[x.X] }) / 16
//%- endif
//%- endmacro
/*# and by 64 lines. #*/
//% macro by_64_lines(x)
64 * ${ "LINE_" ~ x.X if x.along_k else "BK" } * sizeof(${ factor[x.X] }) / 16
//%- endmacro
/*# Where the first operand's fragments come from registers: its lines run across K. #*/
//% macro fragments(view)
//% set x = view.first
// Fragments of ${ x.X } that an instruction takes from this thread, for one step of k.
using Fragments = unsigned[${ view.mmas }][4];

//% set lines = "columns" if view.swapped else "rows"
// The first of the two neighbouring ${ lines } of ${ x.X } that this thread multiplies, of the 64 of an instruction. wgmma takes them as rows g and
// g + 8 of its warp's 16 (lane 4 g + t), but it does not matter which ${ lines } of ${ x.X } these are, as long as C's sums go to the same ones. This
// choice avoids bank conflicts: half a warp reads chunks of 16 bytes whose numbers differ in bits 0 and 2, so that neither loads of
// fragments, from four lines, nor stores of C, to every other one of eight lines, meet in a bank.
__device__ __forceinline__ int fragment_row()
{
    const int warp = threadIdx.x / 32 % 4, g = threadIdx.x % 32 / 4;
    const int chunk = (warp % 2 * 2 + g / 4) ^ (g / 2 % 2 * 5);
    return warp / 2 * 32 + chunk * 4 + g % 2 * 2;
}
//% endmacro
//% macro multiply_stage(view)
//% if view.feeds
//% set x = view.first
//% set E = factor[x.X]
// This thread's fragment of the 64 ${ "columns" if view.swapped else "rows" } of ${ x.X } from `first` on in a tile: in lane 4 g + t two neighbours at k + t, and both at k + t + 4.
__device__ __forceinline__ void load_fragment(const ${ E }* tile, int first, int k, unsigned (&fragment)[4])
{
    const int row = fragment_row(), t = threadIdx.x % 4;
    const ${ E }* const lines = tile + ((first + row) / LINE_${ x.X } * BK + k + t) * LINE_${ x.X };
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int line = 4 * half + t;  // of the eight, after which a swizzle repeats: it permutes chunks of four elements
        const Vec<${ of[x.X] }2> two = load<2>(lines + 4 * half * LINE_${ x.X } + ((row % LINE_${ x.X } / 4) ^ line) * 4 + row % 4);
        fragment[2 * half] = __float_as_uint(two.at[0]);
        fragment[2 * half + 1] = __float_as_uint(two.at[1]);
    }
}

// acc += A * B for one step of k in a stage, the K_STEP from `k` on, and the ${ view.mmas } * 64 ${ "columns" if view.swapped else "rows" } of ${ x.X } from `first` on:
// in flight until wgmma_wait, as is what the products read, `fragments` among it.
__device__ __forceinline__ void multiply_step(const Shared& shared, int stage, int first, int k, Fragments& fragments, Accumulators& acc)
{
    const unsigned long long tile = ${ descriptor(view.second) } + ${ by_k(view.second) };
    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i) load_fragment(shared.${ x.x }[stage], first + i * 64, k, fragments[i]);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i) ${ view.wgmma.function }(acc[i], fragments[i], tile);
    wgmma_commit();
}
//% else
// acc ${ "=" if view.promoted else "+=" } A * B for a stage's k tiles and the ${ view.mmas ~ " * " if view.mmas }64 ${ "columns of B" if view.swapped else "rows of A" }${ " from `first` on" if not view.pingpong }${ ", or += where it `adds`" if view.pieces }: in flight until wgmma_wait.
//% if view.swapped
// C^T = B^T A^T: columns of B are the rows of an instruction, whose a is B.
//% endif
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, ${ "int first, " if not view.pingpong }${ "bool adds, " if view.pieces }Accumulators& acc)
{
    const unsigned long long a = ${ descriptor(view.first, divided=not view.pingpong) };
    const unsigned long long b = ${ descriptor(view.second) };
    #pragma unroll
//% set adds = ", adds || k > 0" if view.pieces else ", k > 0" if view.promoted else ""
//% if view.mmas
    for (int k = 0; k < BK; k += K_STEP) {
        #pragma unroll
        for (int i = 0; i < ${ view.mmas }; ++i)
            ${ view.wgmma.function }(acc[i], a + i * ${ by_64_lines(view.first) } + ${ by_k(view.first) }, b + ${ by_k(view.second) }${ adds });
    }
//% else
    for (int k = 0; k < BK; k += K_STEP)
        ${ view.wgmma.function }(acc, a + ${ by_k(view.first) }, b + ${ by_k(view.second) }${ adds });
//% endif
}
//% endif
//% endmacro
//% macro release_stage(view)
//% if view.cluster > 1
// Tell the producers of all blocks of the cluster that this warpgroup has read a stage. A wgmma is the whole
// warpgroup's: one thread arrives for all, in each block.
//% else
// Tell the producer that this warpgroup has read a stage. A wgmma is the whole warpgroup's:
// one thread arrives for all.
//% endif
__device__ __forceinline__ void release_stage(Shared& shared, int stage)
{
//% if view.cluster > 1
    const unsigned rank = threadIdx.x % 128;  // of the block that this thread tells
    if (rank < CLUSTER) mbarrier_arrive_cluster(&shared.empty[stage], rank);
//% else
    if (threadIdx.x % 128 == 0) mbarrier_arrive(&shared.empty[stage]);
//% endif
}
//% endmacro
//% macro promote(view)
//% if view.pieces
// Add the sums of an interval to totals, in f32 with rounding: tensor cores truncate.
//% else
// Add the sums of a k tile to totals, in f32: tensor cores keep fewer bits of sums of these types.
//% endif
__device__ __forceinline__ void promote(const Accumulators& acc, Accumulators& totals)
{
//% call each_mma(view)
#pragma unroll
for (int r = 0; r < ${ sums_of_mma(view) }; ++r) totals${ of_mma(view) }[r] += acc${ of_mma(view) }[r];
//% endcall
}
//% endmacro
