/*# One operand with few lines: the other one, the weights, is streamed from global memory straight to registers.

    What varies is chosen by path: how threads divide the weights, by their storage order (stream/), what they pass through on their
    way (weights/), how the small operand comes to them (small/) and where it ends (edge/), the loop (mainloop/) and how C is
    stored (store/). #*/
//% from "header.cu" import header
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature
//% from "device/vec.cu" import vec, load_edge
//% from "device/convert.cu" import add_to, dot, element_types
//% from "device/packed.cu" import packed
//% from "device/split.cu" import split_k
//% from "device/dependent_launch.cu" import dependent_launch, overlap
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "prepare/prepare.cu" import prepare
//% from view.stream import products, stream
//% from view.mainloop import sum_products
//% import view.small as small
//% import view.store as store
//% import view.weights as weights
//% set x, w = view.x, view.w
${ header(kernel) }
namespace {

${ element_types(packed=true, reads_c=kernel.problem.epilogue.reads_c) }${ shape(kernel) }
${ tiling(kernel, "MN") }
//% if types.uniform
${ vec(view.stores) }
${ load_edge() }
//% else
//% if view.sum_vectors
${ vec(view.stores) }
//% endif
//% if not view.codes
${ packed(view) }
//% endif
//% if view.dots
${ dot(x, w) }
//% endif
//% endif
// Where a thread starts: k and ${ {"m": "row m", "n": "column n"}[w.mn] } of C.
struct ThreadOrigin {
    int k, ${ w.mn };
};

using Sums = ${ T }[S][SUMS_PITCH];  // one of each element of a block's tile: [${ x.mn }][${ w.mn }]

//% if kernel.launch.shared_bytes
${ dynamic_shared() }
//% endif
//% if kernel.dependent
${ dependent_launch() }
//% endif
${ stream(x, w, view) }
${ weights.functions(w) }
${ small.small(x, w, view) }

${ products(x, w, view) }
//% if kernel.launch.splits > 1
${ split_k(kernel, "STEP", ragged=true, whole=view.ring) }
//% endif
${ store.functions(kernel) }
}  // namespace

//% if kernel.copies
${ prepare(kernel.copies) }
//% endif
${ signature(kernel) }{
//% if kernel.dependent
${ overlap() | trim("\n") }
//% endif
//% if kernel.launch.shared_bytes
    ${ T }* const shared = reinterpret_cast<${ T }*>(dynamic_shared());
//% else
    __shared__ __align__(16) ${ T } shared[SHARED_WORDS];
//% endif
${ weights.declare_ring() }${ small.declare_chunk(weights.rest) }    Sums* const block_sums = reinterpret_cast<Sums*>(${ weights.rest });  // PARTIALS of each element, at the end

    const Shape s{${ kernel.problem.runtime_names | join(", ") }};
//% if kernel.drops_alpha
    if (s.K == 0) alpha = ${ types.scalar.arithmetic.zero };  // nothing to scale, be alpha infinite or NaN
//% endif
//% if kernel.launch.splits > 1
    const int tile = blockIdx.x / SPLIT;
    const auto [begin, end] = split_k_range(s.K, blockIdx.x % SPLIT);
//% else
    const int tile = blockIdx.x;
    const int begin = 0, end = s.K;
//% endif
    const int tiles_along = (s.${ x.MN } + B${ x.MN } - 1) / B${ x.MN };  // along ${ x.MN }: they read the same weights, so they run together
    const int tile_${ x.mn } = tile % tiles_along * B${ x.MN }, tile_${ w.mn } = tile / tiles_along * B${ w.MN };
    const ThreadOrigin thread = thread_origin();
    const int ${ w.mn } = tile_${ w.mn } + thread.${ w.mn };

${ store.declare(kernel) }${ sum_products(x, w, view) }
    // Reduce the sums of threads at different k, in the order of these.
${ small.free_chunk() }    store_sums(acc, thread, block_sums);
    __syncthreads();
    ${ T } sums[OUTPUTS] = {};
//% set at = {"m": "[element / BN][element % BN]", "n": "[element % BN][element / BN]"}[x.mn]
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
        #pragma unroll
        for (int p = 0; p < PARTIALS; ++p) ${ add_to("sums[i]", "block_sums[p]" ~ at) }
    }
//% if kernel.launch.splits > 1
    const Fixup fixup = split_k_fixup(partials, semaphores);
    if (!store_partial<OUTPUTS>(sums, fixup)) return;
    reduce_partials(fixup, 0, sums);
//% endif
    store_c(C, s, tile_m, tile_n, sums, ${ store.given(kernel.problem.epilogue) });
}
