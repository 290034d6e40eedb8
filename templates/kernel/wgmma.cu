/*# A ring of k tiles between one warpgroup, which fills it by TMA, and those that multiply them by wgmma. #*/
//% from "header.cu" import header
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature
//% from "device/convert.cu" import element_types
//% from "device/vec.cu" import vec, load_edge
//% from "device/raster.cu" import raster, tile_rows, tile_columns
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "device/mbarrier.cu" import mbarrier
//% from "device/cluster.cu" import cluster, mbarrier_arrive_cluster, tma_multicast
//% from "device/dependent_launch.cu" import dependent_launch
//% from "device/tma.cu" import tma, tensor_map, fence_proxy_async
//% from "device/warpgroup.cu" import named_barriers, setmaxnreg
//% from "device/wgmma.cu" import wgmma
//% from "prepare/prepare.cu" import prepare
//% from "prepare/split.cu" import pieces, pair_of
//% from "wgmma/stage.cu" import clear, fragments, load_stage, multiply_stage, promote, release_stage
//% from "wgmma/multiply.cu" import multiply_k_tiles, multiply_pairs
//% from "wgmma/piece.cu" import load_rows, staged_at, staged_row_at, store_rows, sums_of_piece
//% from "wgmma/split.cu" import split_k
//% from "epilogue/linear.cu" import store_c as store_linear
//% from "epilogue/sums.cu" import load_sums, sums as sums_taken
//% from "epilogue/tree.cu" import inputs, store_c as store_tree
//% set store_c = store_tree if kernel.epilogue else store_linear
//% set e = kernel.problem.epilogue
//% set gated = view.b.beside > 1
//% set rank = 3 if view.batched else 2
//% set box_rank = 3 if view.pieces else rank
//% set loads_c = view.staged and e.reads_c
//% set needed = "beta != " ~ types.scalar.arithmetic.zero
//% set matrix = ", matrix" if view.batched
//% set along = view.along if view.cluster > 1
//% set split = kernel.launch.splits > 1
//% set begin, end = ("begin", "end") if split else ("0", "s.K")
//% set per, of_cluster = (" / CLUSTER", ", rank") if along else (" / SPLIT" if split else "", "")
//% set rows, columns = "CLUSTER_M" if along == "m" else "BM", "CLUSTER_N" if along == "n" else "BN"
${ header(kernel) }
namespace {

${ element_types(converts=false, reads_c=e.reads_c, halves=view.halves, adds=kernel.adds_integers, pieces=view.pieces) }${ tensor_map() }
${ shape(kernel, view.unread) }
${ tiling(kernel, "MN") }
${ vec() }
//% if kernel.copies | selectattr("reads_edge") | list
${ load_edge() }
//% endif
// This thread's share of the sums: 64 x ${ "2 * " if gated }${ "BM" if view.swapped else "BN" } of each instruction, over the 128 threads of a warpgroup${ ", two halves a register" if view.halves }.${ " The first half\n// is of B's first matrix." if gated }
using Accumulators = ${ view.wgmma.c_type }[${ view.mmas }][${ view.sums }];

// The ring of k tiles, ${ "pieces" if view.staged else "rows" } of C on their way out, and the barriers. A swizzle repeats every 1024 bytes: tiles start at multiples.
struct Shared {
    alignas(1024) ${ factor["A"] } a[STAGES][BM * BK];  // ${ "boxes" if view.a.boxes > 1 else "a box" } of ${ "BM" if view.a.along_k else "BK" } lines of LINE_A elements${ ", one behind the other" if view.a.boxes > 1 }
    alignas(1024) ${ factor["B"] } b[STAGES][${ "2 * " if gated }BN * BK];  // ${ "of each of two matrices " if gated }${ "boxes" if view.b.boxes > 1 else "a box" } of ${ "BN" if view.b.along_k else "BK" } lines of LINE_B elements${ ", one behind the other" if view.b.boxes > 1 }
//% if view.staged
    alignas(1024) ${ TC } c[CONSUMERS][C_STAGES][64 * ${ "CM" if view.swapped else "CN" }];
//% else
    alignas(16) ${ TC } c[CONSUMERS * 4][8 * PITCH_C];  // eight rows of each warp
//% endif
    unsigned long long full[STAGES];   // a stage's tiles have landed
//% if view.pingpong
    unsigned long long empty[STAGES];  // ${ "the consumers that read them, one in each block, have" if view.cluster > 1 else "the consumer that reads them has" } done so
//% else
    unsigned long long empty[STAGES];  // all consumers${ " of the cluster" if view.cluster > 1 } have done with them
//% endif
//% if loads_c
    unsigned long long c_loaded[CONSUMERS];  // a piece of the old C has landed
//% endif
//% if split
    int last;  // whether this block is the last of its tile's to arrive
//% endif
};
static_assert(sizeof(Shared) == ${ kernel.launch.shared_bytes }, "the launch asks for as much shared memory");

// A stage of the ring, and the parity (even or odd) of the phase that its barriers are in: it flips as the ring starts again.
struct Ring {
    int stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance()
    {
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= stage == 0;
    }
//% if view.pingpong

    // Past so many k tiles at once: those of the other consumers.
    __device__ __forceinline__ void advance(int stages)
    {
        parity ^= (stage + stages) / STAGES % 2;
        stage = (stage + stages) % STAGES;
    }
//% endif
};

//% if view.feeds
${ fragments(view) }
//% endif
// Row and column of this thread's first sum, of the ${ "BM x 64" if view.swapped else "64 x 2 * BN" if gated else "64 x BN" } that its warpgroup multiplies at once.
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin thread_origin()
{
//% if view.feeds
//% set row, column = "fragment_row()", "static_cast<int>(threadIdx.x) % 4 * 2"
    return {${ column if view.swapped else row }, ${ row if view.swapped else column }};
//% else
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    return {warp * 16 + lane / 4, lane % 4 * 2};
//% endif
}

${ raster(view.group, along) }
${ dynamic_shared(1024) }
${ mbarrier(arrives=view.cluster == 1) }
//% if view.cluster > 1
${ mbarrier_arrive_cluster() }
${ cluster(split=false) }
//% endif
${ dependent_launch() }
${ tma((box_rank, rank) | unique if loads_c else (box_rank,), (rank,) if view.staged else (), written=false) }
//% if view.cluster > 1
${ tma_multicast((box_rank,)) }
//% endif
//% set limited = [view.a, view.b] | selectattr("limited") | list
//% if view.staged or limited
${ fence_proxy_async() }
//% endif
//% if view.staged or view.pingpong or split
${ named_barriers(arrive=view.pingpong) }
//% endif
//% if view.donates
${ setmaxnreg() }
//% endif
${ wgmma([view.wgmma]) }
//% if limited
${ clear() }
//% endif
//% if view.pieces
${ pieces(view) }
${ pair_of(view) }
//% endif
${ load_stage(view) }
${ multiply_stage(view) }
${ release_stage(view) }
//% if view.promoted
${ promote(view) }
//% endif
//% if split
${ split_k(view) }
//% endif
${ sums_of_piece(view) }
//% if view.staged
${ staged_at(view) }
${ store_c(kernel, staged=true) }
//% else
${ staged_row_at() }
${ store_c(kernel, shared=true, staged=true, whole=not kernel.epilogue) }
//% if e.reads_c
${ load_rows(kernel) }
//% endif
${ store_rows(kernel, view.row_access) }
//% endif
//% if e.sums
${ load_sums(kernel) | trim("\n") }
//% endif
}  // namespace

//% if kernel.copies or kernel.sums
${ prepare(kernel.copies, kernel.sums) | trim("\n") }

//% endif
${ signature(kernel) }{
    Shared& shared = *reinterpret_cast<Shared*>(dynamic_shared());
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
//% if view.pingpong
            mbarrier_init(&shared.full[stage], 1);   // the producer, and the bytes that it announces
            mbarrier_init(&shared.empty[stage], ${ "CLUSTER" if view.cluster > 1 else "1" });  // one thread of the consumer that reads the k tile${ ", in each block" if view.cluster > 1 }
//% elif view.cluster > 1
            mbarrier_init(&shared.full[stage], 1);                     // the producer, and the bytes that it announces
            mbarrier_init(&shared.empty[stage], CLUSTER * CONSUMERS);  // one thread of each
//% else
            mbarrier_init(&shared.full[stage], 1);           // the producer, and the bytes that it announces
            mbarrier_init(&shared.empty[stage], CONSUMERS);  // one thread of each
//% endif
        }
//% if loads_c
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) mbarrier_init(&shared.c_loaded[consumer], 1);
//% endif
        fence_mbarrier_init();
    }
//% for x in limited
    for (int stage = 0; stage < STAGES; ++stage) clear(shared.${ x.x }[stage]);  // products read lines that ${ x.X } does not have, too
//% endfor
//% if limited
    fence_proxy_async();
//% endif
//% if view.cluster > 1
    cluster_sync();  // other blocks arrive at these barriers, too
//% else
    __syncthreads();
//% endif
    grid_dependency_wait();  // the barriers are set up while the kernel before still runs
    launch_dependents();

    const Shape s{${ kernel.problem.runtime_names | join(", ") }};
//% if kernel.drops_alpha
    if (s.K == 0) alpha = ${ types.scalar.arithmetic.zero };  // nothing to scale, be alpha infinite or NaN
//% endif
//% set number = "number" if view.persistent else "static_cast<int>(blockIdx.x%s)" | format(per)
//% if view.cluster > 1
    const int rank = static_cast<int>(cluster_rank());  // the blocks of a cluster compute tiles ${ "below" if view.along == "m" else "beside" } each other
//% endif
//% if view.persistent or view.batched
    const int tiles = (${ tile_rows | replace("BM", rows) }) * (${ tile_columns | replace("BN", columns) });${ "  // of a matrix of the batch" if view.batched }
//% endif
//% set every = "tiles * " ~ (kernel.sizes.batch or "batch") if view.batched else "tiles"
//% set depth = 4 if view.persistent else 0
//% if split
    const int range = static_cast<int>(blockIdx.x % SPLIT);  // of K, which this block sums
    const auto [begin, end] = split_k_range(s.K, range);
//% endif
//% set piece = number ~ " / tiles * PIECES + " if view.batched
//% if view.pingpong
    const int k_tiles = ${ "PAIRS * ((s.K + BK - 1) / BK)" if view.pieces else "(s.K + BK - 1) / BK" };  // of a tile of C
//% endif
    Ring ring;
    if (threadIdx.x >= CONSUMERS * 128) {  // the producer: one thread starts all copies; no barrier of the block follows
//% if view.donates
        setmaxnreg_dec<PRODUCER_REGISTERS>();
//% endif
        if (threadIdx.x > CONSUMERS * 128) return;
//% if view.persistent
        for (int number = blockIdx.x${ per }; number < ${ every }; number += gridDim.x${ per }) {
//% endif
//% filter indent(depth, true)
        const TileOrigin tile = tile_of_block(s, ${ number }${ " % tiles" if view.batched }${ of_cluster });
//% if view.pieces
        for (int first = ${ begin }; first < ${ end }; first += INTERVAL) {
            for (int i = 0; i < PAIRS; ++i) {
                const Pair pair = pair_of(i);
                for (int k = first; k < ${ "first + INTERVAL" if view.whole_intervals else "min(first + INTERVAL, %s)" | format(end) }; k += BK, ring.advance()) {
                    mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // for the phase before; the ring begins empty
                    load_stage(shared, ring.stage, &map_a, &map_b, tile, k${ ", s" if gated }, ${ piece }pair.a, ${ piece }pair.b${ of_cluster });
                }
            }
        }
//% else
        for (int k = ${ begin }; k < ${ end }; k += BK, ring.advance()) {
            mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // for the phase before; the ring begins empty
            load_stage(shared, ring.stage, &map_a, &map_b, tile, k${ ", s" if gated }${ ", %s / tiles" | format(number) if view.batched }${ of_cluster });
        }
//% endif
//% endfilter
//% if view.persistent
        }
//% endif
        return;
    }

//% if view.donates
    setmaxnreg_inc<CONSUMER_REGISTERS>();
//% endif
    const int consumer = threadIdx.x / 128;
//% if view.staged
    const bool leads = threadIdx.x % 128 == 0;  // the one thread of its warpgroup that stores
//% endif
    const ThreadOrigin thread = thread_origin();
//% if loads_c
    unsigned c_parity = 0;  // of the phase of shared.c_loaded
//% endif
//% if view.pingpong
    const int begin = blockIdx.x${ per }, step = gridDim.x${ per };  // of the block's tiles
    ring.advance(consumer * k_tiles);
    for (int number = begin + consumer * step; number < ${ every }; number += CONSUMERS * step) {
        // Consumers multiply in turns. Out of turn one could wait for a phase two later than the barrier's, and parity does not tell
        // these apart.
        if (number != begin) named_barrier_sync(1 + CONSUMERS + consumer, 256);
//% elif view.persistent
    for (int number = blockIdx.x${ per }; number < ${ every }; number += gridDim.x${ per }) {
//% endif
//% filter indent(depth, true)
    const TileOrigin tile = tile_of_block(s, ${ number }${ " % tiles" if view.batched }${ of_cluster });
//% if view.batched
    const int matrix = ${ number } / tiles;
//% endif
    Accumulators acc${ "[2]" if view.alternates } = {}${ ", totals = {}" if view.promoted };
//% if view.feeds
    Fragments fragments[2];  // of a step of k, and of the next one, which is loaded while the products of the first go on
//% endif
//% if view.in_flight and not view.alternates
    int previous = 0;  // the stage that products under way may still read
//% endif
//% set may_be_empty = "begin < end" if split else "s.K > 0" if not kernel.problem.k
//% set begins = may_be_empty if view.in_flight and not (view.pieces or view.persistent)
//% set how = "" if view.pingpong else "consumer * %s * 64, " | format(view.mmas)
//% if view.pieces
//% set k_tiles = "INTERVAL / BK" if view.whole_intervals else "((min(INTERVAL, %s - first) + BK - 1) / BK)" | format(end)
    for (int first = ${ begin }; first < ${ end }; first += INTERVAL) {
${ multiply_k_tiles(view, "int i = 0; i < PAIRS * %s; ++i" | format(k_tiles), "i > 0", how ~ "i > 0, ") | indent(8, true) | trim("\n") }
//% if view.in_flight
        wgmma_wait<0>();
        release_stage(shared, previous);
//% endif
        promote(acc, totals);
    }
//% elif view.alternates
${ multiply_pairs(view, how, view.odd, begin, end, begins) | indent(4, true) | trim("\n") }
//% else
//% set indented = 8 if begins else 4
//% if begins
    if (${ begins }) {  // with the wait in it: were that behind, sums would be zeros or under way there, and ptxas would serialise all wgmmas
//% endif
${ multiply_k_tiles(view, "int k = %s; k < %s; k += BK" | format(begin, end), "k > %s" | format(begin), how) | indent(indented, true) | trim("\n") }
//% if begins
        wgmma_wait<0>();
        release_stage(shared, previous);
    }
//% endif
//% endif
//% if view.pingpong
    if (number < ${ every } - step) named_barrier_arrive(1 + CONSUMERS + (consumer + 1) % CONSUMERS, 256);  // it is the next one's turn
//% endif
//% if view.in_flight and not view.pieces and not begins
    wgmma_wait<0>();
    ${ "if (previous >= 0) " if view.alternates else "if (%s) " | format(may_be_empty) if may_be_empty }release_stage(shared, previous);
//% endif
//% if view.alternates and not begins
    promote(acc[1], totals);
//% endif
//% if split

//% set summed = "totals" if view.promoted else "acc"
    ${ T }* const tile_partials = partials + static_cast<long long>(${ number }) * (SPLIT * PARTIAL);
    store_partial(${ summed }, tile_partials + range * PARTIAL);
    if (!last_to_arrive(shared, semaphores + ${ number })) return;
    reduce_partials(tile_partials, ${ summed });
//% endif

    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i) {
        #pragma unroll
//% if view.swapped
        for (int piece = 0; piece < BM / CM; ++piece) {
            const int m = tile.m + piece * CM, n = tile.n + (consumer * MMAS_N + i) * 64;
//% else
        for (int piece = 0; piece < BN / CN; ++piece) {
            const int m = tile.m + ${ "i" if view.pingpong else "(consumer * MMAS_M + i)" } * 64, n = tile.n + piece * CN;
//% endif
            ${ T } sums[TM][TN];
            sums_of_piece(${ "totals" if view.promoted else "acc" }[i], piece, sums);
//% if gated
            ${ T } sums2[TM][TN];
            sums_of_piece(${ "totals" if view.promoted else "acc" }[i], BN / CN + piece, sums2);
//% endif
//% if view.staged
            ${ TC }* const c = shared.c[consumer][(i * ${ "BM / CM" if view.swapped else "BN / CN" } + piece) % C_STAGES];
            if (leads) tma_store_wait_read<C_STAGES - 1>();  // TMA has read what was there
            named_barrier_sync(1 + consumer, 128);
//% if loads_c
            if (${ needed }) {  // else C is not read: what stands there may be NaN
                if (leads) {
                    mbarrier_arrive_expect_tx(&shared.c_loaded[consumer], 64 * ${ "CM" if view.swapped else "CN" } * sizeof(${ TC }));
//% if view.swapped
                    for (int at = 0; at < 64; at += CN) tma_load_${ rank }d(c + at * CM, &map_c, &shared.c_loaded[consumer], n + at, m${ matrix });
//% else
                    tma_load_${ rank }d(c, &map_c, &shared.c_loaded[consumer], n, m${ matrix });
//% endif
                }
                mbarrier_wait(&shared.c_loaded[consumer], c_parity);
                c_parity ^= 1;
            }
//% endif
//% endif
//% if kernel.epilogue
            const Epilogue e = ${ inputs(kernel, "m", "n", "matrix" if view.batched else "") };
//% endif
//% if e.sums
//% for name in e.sums
//% set at, count = ("m", "s.M") if name == "row_sum" else ("n", "s.N")
            ${ T } ${ name }s[${ "TM" if name == "row_sum" else "TN" }];
            load_${ name }s(${ "sums_a" if name == "row_sum" else "sums_b" } + ${ "static_cast<long long>(matrix) * %s + " | format(count) if view.batched }${ at }${ ", %s - %s" | format(count, at) if count[-1] in kernel.edges }, thread, ${ name }s);
//% endfor
//% endif
//% set factors = "e" if kernel.epilogue else "alpha, beta"
//% if view.staged
            store_c(c, s${ ", s.M - m" if "M" in kernel.edges }${ ", s.N - n" if "N" in kernel.edges }, thread, sums${ ", sums2" if gated }${ sums_taken(kernel) if e.sums }, ${ factors });
            fence_proxy_async();
            named_barrier_sync(1 + consumer, 128);
            if (leads) {
//% if view.swapped
                for (int at = 0; at < 64; at += CN) tma_store_${ rank }d(&map_c, c + at * CM, n + at, m${ matrix });
//% else
                tma_store_${ rank }d(&map_c, c, n, m${ matrix });
//% endif
                tma_store_commit();
            }
//% else
//% set column_amax = "column_amax" in kernel.outputs
//% set rows, columns = (", s.M - m" if "M" in kernel.edges) ~ "", (", s.N - n" if "N" in kernel.edges) ~ ""
//% set rows_left = ", s.M - row" if "M" in kernel.edges
            ${ TC }* const c = shared.c[threadIdx.x / 32];
//% if column_amax
            Magnitude column_amaxs[TN] = {};
//% endif
            #pragma unroll
            for (int j = 0; j < TM; ++j) {  // eight rows of each warp
                const int row = m + threadIdx.x / 32 % 4 * 16 + j * STEP_M;
                ${ TC }* const to = C + ${ "matrix * s.stride_c + " if view.batched }Offset(row) * s.ldc + n;
                __syncwarp();  // all lanes have read the rows before
//% if e.reads_c
                if (${ needed }) {  // else C is not read: what stands there may be NaN
                    load_rows(to, s${ rows_left }${ columns }, c);
                    __syncwarp();
                }
//% endif
                store_row(c, s${ (rows ~ columns) if kernel.epilogue }, thread, j, sums[j]${ ", sums2[j]" if gated }${ sums_taken(kernel) | replace("row_sums", "row_sums[j]") if e.sums }, ${ factors }${ ", column_amaxs" if column_amax });
                __syncwarp();
                store_rows(to, s${ rows_left }${ columns }, c);
            }
//% if column_amax
            raise_column_amaxs(e${ columns }, thread, column_amaxs);
//% endif
//% endif
        }
    }
//% if view.pingpong
    ring.advance((CONSUMERS - 1) * k_tiles);
//% endif
//% endfilter
//% if view.persistent
    }
//% endif
//% if view.cluster > 1
    cluster_sync();  // no block exits while another may arrive at its barriers
//% endif
//% if view.staged
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast the reads; what is written is there when the kernel ends
//% endif
}
