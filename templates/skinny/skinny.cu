/*# One operand with few lines: the other one, the weights, is streamed from global memory straight to registers.
    `stream` says how threads divide the weights, by their storage order. #*/
//% from "header.cu" import header
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature
//% from "layout.cu" import beyond
//% from "device/vec.cu" import vec, load_edge
//% from "device/convert.cu" import add_to, dot, element_types
//% from "device/packed.cu" import access, packed
//% from "device/split.cu" import split_k
//% from "device/dependent_launch.cu" import dependent_launch, overlap
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from view.stream import stream
//% from view.small import small
//% from view.mainloop import sum_products
//% from "epilogue/result.cu" import narrowed, result
//% from "epilogue/tree.cu" import epilogue, applied_at, at_position, declare_outputs, inputs, raise_amaxes, store_matrices, warp_amax
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
${ packed(view) }
//% if view.dots
${ dot(x, w) }
//% endif
//% endif
// Where a thread starts: k and ${ w.extent[:-1] } ${ w.mn } of C.
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
//% if view.ring
using Ring = ${ access(w, "VW") }[UNROLL][LOADS][THREADS];  // of weights in shared memory: each thread's own

// Wait for the oldest step that is under way, and take this thread's weights of it.
__device__ __forceinline__ void take(const ${ access(w, "VW") } (&step)[LOADS][THREADS], ${ access(w, "VW") } (&weights)[LOADS])
{
    cp_async_wait<UNROLL - 1>();
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) weights[i] = step[i][threadIdx.x];
}

//% endif
${ small(x, w, view) }
//% if view.mma
//% from view.stream import products

${ products(x, w, view) }
//% endif
//% if kernel.launch.splits > 1
${ split_k(kernel, "STEP", ragged=true, whole=view.ring) }
//% endif
//% if kernel.epilogue
${ epilogue(kernel, early=true) }
//% if kernel.warp_amaxes
${ warp_amax() }
//% endif
//% set exists = ["(OUTPUTS * THREADS == BM * BN || element < BM * BN)", "m < s.M" if "M" in kernel.edges, "n < s.N" if "N" in kernel.edges] | select | join(" && ")
//% set ep = kernel.problem.epilogue
//% if ep.read
// What the epilogue reads for this thread's elements of C that exist: those at THREADS * i + threadIdx.x of the tile.
__device__ __forceinline__ void load_inputs(const Epilogue& e, Shape s, int tile_m, int tile_n, EpilogueInputs (&inputs)[OUTPUTS])
{
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        const int m = tile_m + element / BN, n = tile_n + element % BN;
        if (${ exists }) inputs[i] = load_inputs(e${ at_position(kernel.epilogue.inputs) });
    }
}

//% endif
// ${ "Those elements" if ep.read else "This thread's elements of C that exist: those at THREADS * i + threadIdx.x of the tile" }.
__device__ __forceinline__ void store_c(${ TC }* C, Shape s, int tile_m, int tile_n, const ${ T } (&sums)[OUTPUTS], const Epilogue& e${ ", const EpilogueInputs (&inputs)[OUTPUTS]" if ep.read })
//% else
// C = alpha * sums + beta * C for this thread's elements that exist: those at THREADS * i + threadIdx.x of the tile.
__device__ __forceinline__ void store_c(${ TC }* C, Shape s, int tile_m, int tile_n, const ${ T } (&sums)[OUTPUTS], ${ types.scalar.ctype } alpha, ${ types.scalar.ctype } beta)
//% endif
{
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        const int m = tile_m + element / BN, n = tile_n + element % BN;
//% if kernel.problem.epilogue.amaxes
        const bool exists = ${ exists };
${ declare_outputs(kernel.problem.epilogue) | indent(8, true) | trim("\n") }
        if (exists) {
            ${ TC }* const to = C + Offset(m) * s.ldc + n;
            *to = ${ narrowed(applied_at(kernel, "m", "n", "sums[i]", "*to", inputs="inputs[i]")) };
${ store_matrices(kernel.problem.epilogue, "m", "n") | indent(12, true) | trim("\n") }
        }
${ raise_amaxes(kernel) | indent(8, true) | trim("\n") }
//% else
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
//% if beyond(kernel.edges)
        if (${ beyond(kernel.edges) }) continue;
//% endif
        ${ TC }* const to = C + Offset(m) * s.ldc + n;
//% if kernel.epilogue
//% if kernel.outputs
${ declare_outputs(kernel.problem.epilogue) | indent(8, true) | trim("\n") }
//% endif
        *to = ${ narrowed(applied_at(kernel, "m", "n", "sums[i]", "*to", inputs="inputs[i]")) };
//% if kernel.outputs
${ store_matrices(kernel.problem.epilogue, "m", "n") | indent(8, true) | trim("\n") }
//% endif
//% else
        *to = ${ result("sums[i]", "*to") };  // beta = 0 leaves C unread
//% endif
//% endif
    }
}

}  // namespace

${ signature(kernel) }{
//% if kernel.dependent
${ overlap() | trim("\n") }
//% endif
//% if kernel.launch.shared_bytes
    ${ T }* const shared = reinterpret_cast<${ T }*>(dynamic_shared());
//% else
    __shared__ __align__(16) ${ T } shared[SHARED_WORDS];
//% endif
//% if view.ring
    Ring& ring = *reinterpret_cast<Ring*>(shared);
//% endif
//% set rest = "shared + RING_WORDS" if view.ring else "shared"
//% if not view.direct
    Chunk& chunk = *reinterpret_cast<Chunk*>(${ rest });
//% endif
    Sums* const block_sums = reinterpret_cast<Sums*>(${ rest });  // PARTIALS of each element${ ", after the last chunk" if not view.direct }

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

//% if kernel.epilogue
    const Epilogue e = ${ inputs(kernel) };
//% if kernel.problem.epilogue.read
    EpilogueInputs inputs[OUTPUTS] = {};  // under way while the products are summed
    load_inputs(e, s, tile_m, tile_n, inputs);
/*% endif %*/

//% endif
${ sum_products(x, w, view) }
    // Reduce the sums of threads at different k, in the order of these.
//% if not view.direct
    __syncthreads();  // no thread reads the last chunk any more
//% endif
    store_sums(acc, thread, block_sums);
    __syncthreads();
    ${ T } sums[OUTPUTS] = {};
//% set at = "[element / BN][element % BN]" if x.mn == "m" else "[element % BN][element / BN]"
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
    store_c(C, s, tile_m, tile_n, sums, ${ ("e, inputs" if kernel.problem.epilogue.read else "e") if kernel.epilogue else "alpha, beta" });
}
