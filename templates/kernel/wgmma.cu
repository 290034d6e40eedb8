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
//% from "wgmma/piece.cu" import sums_of_piece, staged_at
//% from "epilogue/linear.cu" import store_c as store_linear
//% from "epilogue/sums.cu" import load_sums, sums as sums_taken
//% from "epilogue/tree.cu" import inputs, store_c as store_tree
//% set store_c = store_tree if kernel.epilogue else store_linear
//% set e = kernel.problem.epilogue
//% set gated = view.b.beside > 1
//% set rank = 3 if view.batched else 2
//% set box_rank = 3 if view.pieces else rank
//% set loads_c = view.staged and e.reads_c
//% set matrix = ", matrix" if view.batched
//% set along = view.along if view.cluster > 1
//% set per, of_cluster = (" / CLUSTER", ", rank") if along else ("", "")
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
//% set registers = "BM / 2" if view.swapped else ("BN / 2" if view.halves else "BN") if gated else ("BN / 4" if view.halves else "BN / 2")
//% set mmas = "MMAS_N" if view.swapped else "MMAS_M"
// This thread's share of the sums: 64 x ${ "2 * " if gated }${ "BM" if view.swapped else "BN" } of each instruction, over the 128 threads of a warpgroup${ ", two halves a register" if view.halves }.${ " The first half\n// is of B's first matrix." if gated }
using Accumulators = ${ view.wgmma.c_type }[${ mmas }][${ registers }];

// The ring of k tiles${ ", pieces of C on their way out" if view.staged }, and the barriers. A swizzle repeats every 1024 bytes: tiles start at multiples.
struct Shared {
    alignas(1024) ${ factor["A"] } a[STAGES][BM * BK];  // ${ "boxes" if view.a.boxes > 1 else "a box" } of ${ "BM" if view.a.along_k else "BK" } lines of LINE_A elements${ ", one behind the other" if view.a.boxes > 1 }
    alignas(1024) ${ factor["B"] } b[STAGES][${ "2 * " if gated }BN * BK];  // ${ "of each of two matrices " if gated }${ "boxes" if view.b.boxes > 1 else "a box" } of ${ "BN" if view.b.along_k else "BK" } lines of LINE_B elements${ ", one behind the other" if view.b.boxes > 1 }
//% if view.staged
    alignas(1024) ${ TC } c[CONSUMERS][C_STAGES][64 * ${ "CM" if view.swapped else "CN" }];
//% endif
    unsigned long long full[STAGES];   // a stage's tiles have landed
    unsigned long long empty[STAGES];  // all consumers${ " of the cluster" if view.cluster > 1 } have done with them
//% if loads_c
    unsigned long long c_loaded[CONSUMERS];  // a piece of the old C has landed
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
};

//% if view.feeds
${ fragments(view, mmas) }
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
//% if view.staged
${ named_barriers(arrive=false) }
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
${ promote(view, registers) }
//% endif
${ sums_of_piece(view, registers) }
//% if view.staged
${ staged_at(view) }
//% endif
${ store_c(kernel) }
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
//% if view.cluster > 1
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
//% set piece = number ~ " / tiles * PIECES + " if view.batched
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
        for (int first = 0; first < s.K; first += INTERVAL) {
            for (int i = 0; i < PAIRS; ++i) {
                const Pair pair = pair_of(i);
                for (int k = first; k < ${ "first + INTERVAL" if view.whole_intervals else "min(first + INTERVAL, s.K)" }; k += BK, ring.advance()) {
                    mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // for the phase before; the ring begins empty
                    load_stage(shared, ring.stage, &map_a, &map_b, tile, k${ ", s" if gated }, ${ piece }pair.a, ${ piece }pair.b${ of_cluster });
                }
            }
        }
//% else
        for (int k = 0; k < s.K; k += BK, ring.advance()) {
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
//% if view.persistent
    for (int number = blockIdx.x${ per }; number < ${ every }; number += gridDim.x${ per }) {
//% endif
//% filter indent(depth, true)
    const TileOrigin tile = tile_of_block(s, ${ number }${ " % tiles" if view.batched }${ of_cluster });
//% if view.batched
    const int matrix = ${ number } / tiles;
//% endif
    Accumulators acc = {}${ ", totals = {}" if view.promoted };
//% if view.feeds
    Fragments fragments[2];  // of a step of k, and of the next one, which is loaded while the products of the first go on
//% endif
//% if view.in_flight
    int previous = 0;  // the stage whose products may still be under way
//% endif
//% if view.pieces
    for (int first = 0; first < s.K; first += INTERVAL) {
//% set tiles_of_pair = "INTERVAL / BK" if view.whole_intervals else "((min(INTERVAL, s.K - first) + BK - 1) / BK)"
        for (int i = 0; i < PAIRS * ${ tiles_of_pair }; ++i, ring.advance()) {
            mbarrier_wait(&shared.full[ring.stage], ring.parity);
            wgmma_fence();
            multiply_stage(shared, ring.stage, consumer * MMAS_M * 64, i > 0, acc);
            wgmma_commit();
//% if view.in_flight
            wgmma_wait<1>();  // for those of the k tile before
            if (i > 0) release_stage(shared, previous);
            previous = ring.stage;
        }
        wgmma_wait<0>();
        release_stage(shared, previous);
//% else
            wgmma_wait<0>();
            release_stage(shared, ring.stage);
        }
//% endif
        promote(acc, totals);
    }
//% else
    for (int k = 0; k < s.K; k += BK, ring.advance()) {
        mbarrier_wait(&shared.full[ring.stage], ring.parity);
//% if view.feeds
        #pragma unroll
        for (int step = 0; step < BK; step += K_STEP) {
            multiply_step(shared, ring.stage, consumer * ${ mmas } * 64, step, fragments[step / K_STEP % 2], acc);
            wgmma_wait<1>();  // for the step before, which reads the other fragments
//% if view.in_flight
            if (step == 0 && k > 0) release_stage(shared, previous);
//% endif
        }
//% else
        wgmma_fence();
        multiply_stage(shared, ring.stage, consumer * MMAS_M * 64, acc);
        wgmma_commit();
//% endif
//% if view.feeds and view.in_flight
        previous = ring.stage;
//% elif view.in_flight
        wgmma_wait<1>();  // for those of the k tile before
        if (k > 0) release_stage(shared, previous);
        previous = ring.stage;
//% else
        wgmma_wait<0>();
        release_stage(shared, ring.stage);
//% endif
//% if view.promoted
        promote(acc, totals);
//% endif
    }
//% endif
//% if view.in_flight and not view.pieces
    wgmma_wait<0>();
    ${ "if (s.K > 0) " if not kernel.problem.k }release_stage(shared, previous);
//% endif

    #pragma unroll
    for (int i = 0; i < ${ mmas }; ++i) {
        #pragma unroll
//% if view.swapped
        for (int piece = 0; piece < BM / CM; ++piece) {
            const int m = tile.m + piece * CM, n = tile.n + (consumer * MMAS_N + i) * 64;
//% else
        for (int piece = 0; piece < BN / CN; ++piece) {
            const int m = tile.m + (consumer * MMAS_M + i) * 64, n = tile.n + piece * CN;
//% endif
            ${ T } sums[TM][TN];
            sums_of_piece(${ "totals" if view.promoted else "acc" }[i], piece, sums);
//% if gated
            ${ T } sums2[TM][TN];
            sums_of_piece(${ "totals" if view.promoted else "acc" }[i], BN / CN + piece, sums2);
//% endif
//% if view.staged
            ${ TC }* const c = shared.c[consumer][(i * ${ "BM / CM" if view.swapped else "BN / CN" } + piece) % C_STAGES];
            if (leads) tma_store_wait_read<C_STAGES - 1>();  // what was there has left
            named_barrier_sync(1 + consumer, 128);
//% if loads_c
//% set needed = "beta != " ~ types.scalar.arithmetic.zero
            if (${ needed }) {  // else C is not read: what stands there may be NaN
                if (leads) {
                    mbarrier_arrive_expect_tx(&shared.c_loaded[consumer], ${ "CM * 64" if view.swapped else "64 * CN" } * sizeof(${ TC }));
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
//% else
            ${ TC }* const c = C + ${ "matrix * s.stride_c + " if view.batched }Offset(m) * s.ldc + n;
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
            store_c(c, s${ ", s.M - m" if "M" in kernel.edges }${ ", s.N - n" if "N" in kernel.edges }, thread, sums${ ", sums2" if gated }${ sums_taken(kernel) if e.sums }, ${ "e" if kernel.epilogue else "alpha, beta" });
//% if view.staged
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
//% endif
        }
    }
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
