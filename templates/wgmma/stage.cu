/*# A stage of the ring: how TMA fills it, and how a warpgroup multiplies what is there. #*/
/*# Of a tile's columns, where they are of several matrices. #*/
//% macro times(x)
${ "%d * " | format(x.beside) if x.beside > 1 }
//%- endmacro
/*# The boxes of an operand's k tile. #*/
//% macro boxes(x, view)
//% set block = "B" ~ x.MN
//% set load = "tma_load_%s%dd" | format("multicast_" if x.shared, view.box_rank)
//% set matrix = (", piece_" ~ x.x if view.pieces else ", origin_%s.near, origin_%s.far" | format(x.x, x.x) if view.pointers else ", matrix" if view.batched) ~ (", (1 << CLUSTER) - 1" if x.shared)
//% set across, lines = ("BK", times(x) ~ block) if x.along_k else (block, "BK")
//% set along, first = " + at" if x.boxes > 1, " + part" if x.shared
//% if x.shared
const int part = rank * PART_${ x.X };  // the first line that this block brings
//% endif
//% for second in [false, true][:x.beside]
//% set behind = " + %s * %s" | format(block, "LINE_" ~ x.X if x.along_k else "BK") if second
//% set to = "shared.%s[stage]" | format(x.x) ~ behind ~ (" + at * " ~ lines if x.boxes > 1) ~ (" + part * LINE_%s" | format(x.X) if x.shared)
//% set from = ("s.%s + " | format(x.MN) if second) ~ "tile." ~ x.mn
//% set start = "k%s, %s%s" | format(along, from, first) if x.along_k else "%s%s, k%s" | format(from, along, first)
//% if x.boxes > 1
#pragma unroll
for (int at = 0; at < ${ across }; at += LINE_${ x.X }) ${ load }(${ to }, map_${ x.x }, full, ${ start }${ matrix });
//% else
${ load }(${ to }, map_${ x.x }, full, ${ start }${ matrix });
//% endif
//% endfor
//% endmacro
/*# For lines of a tile that no copy brings. #*/
//% macro clear()
template <class T, int N>
__device__ __forceinline__ void clear(T (&tile)[N])
{
    constexpr int CHUNK = 16 / sizeof(T);
    for (int i = threadIdx.x * CHUNK; i < N; i += THREADS * CHUNK) store<CHUNK>(&tile[i], Vec<${ "" if types.uniform else "T, " }CHUNK>{});
}
//% endmacro
//% macro tile_bytes(x)
${ times(x) if x.limited }${ "LINES_%s * BK * sizeof(%s)" | format(x.X, factor[x.X]) if x.limited else "sizeof(shared.%s[0])" | format(x.x) }
//%- endmacro
//% macro load_stage(view)
//% if view.cluster > 1
//% set shared, own = (view.a, view.b) if view.a.shared else (view.b, view.a)
// Lets TMA bring the k tile of ${ own.X }, and this block's part of ${ shared.X }'s, which goes to all blocks of the cluster, from k on. The bytes of
// ${ own.X } and of all parts of ${ shared.X } count at the stage's barrier, and zeros for what lies outside of A and B.
//% else
// Lets TMA bring the k tiles of A and B from k on. Their bytes count at the stage's barrier, zeros for what lies outside
// of A and B among them.
//% endif
//% if view.b.beside > 1
// Of B the tile's columns of its first matrix, and behind them those of its second one, N further on.
//% endif
__device__ __forceinline__ void load_stage(Shared& shared, int stage, const TensorMap* map_a, const TensorMap* map_b,
                                           TileOrigin tile, int k${ ", Shape s" if view.b.beside > 1 }${ ", int piece_a, int piece_b" if view.pieces else ", MapOrigin origin_a, MapOrigin origin_b" if view.pointers else ", int matrix" if view.batched }${ ", int rank" if view.cluster > 1 })
{
    unsigned long long* const full = &shared.full[stage];
    mbarrier_arrive_expect_tx(full, ${ tile_bytes(view.a) } + ${ tile_bytes(view.b) });
${ boxes(view.a, view) | indent(4, true) | trim("\n") }
${ boxes(view.b, view) | indent(4, true) | trim("\n") }
}
//% endmacro
/*# The descriptor of an operand's tile, from row (or column) `first` on, and what it gains along k: it counts in 16 bytes. #*/
//% macro descriptor(x, first="")
//% set E, line = factor[x.X], "LINE_" ~ x.X
//% set from = (" + %s * %s" | format(first, line if x.along_k else "BK")) if first
//% set leading = "16" if x.along_k else "BK * %s * sizeof(%s)" | format(line, E)
make_descriptor<${ line } * sizeof(${ E })>(shared.${ x.x }[stage]${ from }, ${ leading }, 8 * ${ line } * sizeof(${ E }))
//%- endmacro
//% macro along_k(x)
//% set line, block = "LINE_" ~ x.X, times(x) ~ "B" ~ x.MN
//% set elements = "k * " ~ line if not x.along_k else "k" if x.boxes == 1 else "(k / %s * %s * %s + k %% %s)" | format(line, line, block, line)
${ elements } * sizeof(${ factor[x.X] }) / 16
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
//% set x, y = view.first, view.second
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

// acc += A * B for one step of k in a stage, the K_STEP from `k` on, and the ${ view.mmas } * 64 ${ "columns" if view.swapped else "rows" } of ${ x.X } from `first` on.
// The products are still under way as this returns: what they read, `fragments` among it, and what they sum up is the
// hardware's until wgmma_wait.
__device__ __forceinline__ void multiply_step(const Shared& shared, int stage, int first, int k, Fragments& fragments, Accumulators& acc)
{
    const unsigned long long ${ y.x } = ${ descriptor(y) } + ${ along_k(y) };
    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i) load_fragment(shared.${ x.x }[stage], first + i * 64, k, fragments[i]);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i) ${ view.wgmma.function }(acc[i], fragments[i], ${ y.x }, true);
    wgmma_commit();
}
//% else
// acc ${ "=" if view.promoted else "+=" } A * B for a stage's k tiles and the MMAS_M * 64 rows of A${ " from `first` on" if not view.pingpong }${ ", or += where it `adds`" if view.pieces }. The products are still
// under way as this returns: what they read and sum up is the hardware's until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, ${ "int first, " if not view.pingpong }${ "bool adds, " if view.pieces }Accumulators& acc)
{
    const unsigned long long a = ${ descriptor(view.a, "first" if not view.pingpong) };
    const unsigned long long b = ${ descriptor(view.b) };
    #pragma unroll
    for (int k = 0; k < BK; k += K_STEP) {
        #pragma unroll
        for (int i = 0; i < MMAS_M; ++i)
            ${ view.wgmma.function }(acc[i], a + i * 64 * ${ "LINE_A" if view.a.along_k else "BK" } * sizeof(${ factor["A"] }) / 16 + ${ along_k(view.a) }, b + ${ along_k(view.b) }, ${ "adds || k > 0" if view.pieces else "k > 0" if view.promoted else "true" });
    }
}
//% endif
//% endmacro
//% macro release_stage(view)
//% if view.cluster > 1
// Tells the producers of all blocks of the cluster that this warpgroup has done with a stage: its products end together, so
// that a thread for each block may tell.
//% else
// Tells the producer that this warpgroup has done with a stage: its products end together, so that one thread may tell.
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
// Adds the sums of an interval to those of all before, in f32: tensor cores do not round what they add, they cut it.
//% else
// Adds the sums of a k tile to those of all before, in f32: tensor cores keep fewer bits of sums of these types.
//% endif
__device__ __forceinline__ void promote(const Accumulators& acc, Accumulators& totals)
{
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int r = 0; r < ${ view.sums }; ++r) totals[i][r] += acc[i][r];
    }
}
//% endmacro
