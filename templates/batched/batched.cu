/*# Many small products: a block copies MB matrices A and B whole, multiplies them, and goes on to the next MB. #*/
//% from "header.cu" import header
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature
//% from "layout.cu" import at
//% from "device/convert.cu" import element_types
//% from "device/vec.cu" import vec
//% from "device/cp_async.cu" import cp_async
//% from "device/dependent_launch.cu" import dependent_launch, overlap
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "epilogue/linear.cu" import store_c as store_linear
//% from "epilogue/sums.cu" import add_fragments, declare_sums, sum_parameters, sums
//% from "epilogue/tree.cu" import inputs, store_c as store_tree
//% set store_c = store_tree if kernel.epilogue else store_linear
//% from "batched/copy.cu" import copy
//% from "batched/fragment.cu" import fragment
//% set A, B = ("A_array", "B_array") if kernel.problem.pointers else ("A", "B")
${ header(kernel) }
namespace {

${ element_types(reads_c=kernel.problem.epilogue.reads_c) }${ shape(kernel, unread=()) }
${ tiling(kernel, "MN") }
//% set edge = "batch" in kernel.edges
//% if not edge
static_assert(Shape::batch % (MB * BATCH_TILES) == 0, "batch tiles end where the batch does: no product is checked for that");

/*% endif %*/
${ vec() }
using MatrixA = ${ T }[SHARED_A / PITCH_A][PITCH_A];  // A in shared memory, line by line: ${ at(view.a.along_k, "m", "k") }
using MatrixB = ${ T }[SHARED_B / PITCH_B][PITCH_B];  // B in shared memory, line by line: ${ at(view.b.along_k, "n", "k") }

// The first element of a thread tile within its product. Thread tiles are FM x FN patches, STEP_M and STEP_N apart,
// so that neighbouring threads read neighbouring addresses of shared memory.
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin lane_origin(int lane)
{
    // PAIR neighbouring lanes have the same rows, lanes PAIR apart the same columns: a vector load of one address by
    // neighbouring lanes takes half the shared-memory wavefronts.
    const int lane_m = lane / PAIR % LANES_M;
    const int lane_n = lane / (PAIR * LANES_M) * PAIR + lane % PAIR;
    return {lane_m * FM, lane_n * FN};
}

//% if kernel.launch.shared_bytes
${ dynamic_shared() }
//% endif
//% if kernel.dependent
${ dependent_launch() }
//% endif
//% if view.asynchronous
${ cp_async() }
//% endif
${ copy(view.a, view.asynchronous, kernel.problem.pointers, edge) }
${ copy(view.b, view.asynchronous, kernel.problem.pointers, edge) }
${ fragment(view.a) }
${ fragment(view.b) }
// acc += A * B: for each k an outer product of this thread's TM values of A and TN of B.
__device__ __forceinline__ void mma(const MatrixA& As, const MatrixB& Bs, ThreadOrigin thread, ${ T } (&acc)[TM][TN]${ sum_parameters(kernel) })
{
    #pragma unroll UNROLL
    for (int k = 0; k < Shape::K; k += DEPTH) {
        ${ T } a[DEPTH][TM], b[DEPTH][TN];
        load_fragment_a(As, k, thread.m, a);
        load_fragment_b(Bs, k, thread.n, b);
        #pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] = ${ fma }(a[d][i], b[d][j], acc[i][j]);
            }
//% if kernel.problem.epilogue.sums
${ add_fragments(kernel, "a[d][i]", "b[d][i]") | indent(12, true) | trim("\n") }
//% endif
        }
    }
}

${ store_c(kernel) }
}  // namespace

${ signature(kernel) }{
//% if kernel.dependent
${ overlap() | trim("\n") }
//% endif
//% if kernel.launch.shared_bytes
    MatrixA* const As = reinterpret_cast<MatrixA*>(dynamic_shared());  // STAGES batch tiles of MB
    MatrixB* const Bs = reinterpret_cast<MatrixB*>(dynamic_shared() + BYTES_A);
//% else
    __shared__ __align__(16) MatrixA As[STAGES * MB];  // STAGES batch tiles of MB
    __shared__ __align__(16) MatrixB Bs[STAGES * MB];
//% endif
    const Shape s{${ kernel.problem.runtime_names | join(", ") }};
    const int first = blockIdx.x * (MB * BATCH_TILES);  // product of the block
    const int in_tile = threadIdx.x / LANES;            // this thread's product of each batch tile
    const ThreadOrigin thread = lane_origin(threadIdx.x % LANES);

    #pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
        copy_a(${ A }, s, first + stage * MB, &As[stage * MB]);
        copy_b(${ B }, s, first + stage * MB, &Bs[stage * MB]);
//% if view.asynchronous
        cp_async_commit();
//% endif
    }

    int stage = 0;
    for (int step = 0; step < BATCH_TILES; ++step) {
//% if view.asynchronous
        cp_async_wait<STAGES - 1>();  // this thread's copies of the batch tile have landed
        __syncthreads();              // and all other threads'
//% else
        __syncthreads();  // the batch tile is complete
//% endif
        const int product = first + step * MB + in_tile;
        ${ "if (product < s.batch) " if edge }{
//% if kernel.problem.pointers
            ${ TC }* const C = C_array[product];  // loaded while the products are summed
//% endif
            ${ T } acc[TM][TN] = {};
//% if kernel.problem.epilogue.sums
${ declare_sums(kernel) | indent(12, true) | trim("\n") }
//% endif
            mma(As[stage * MB + in_tile], Bs[stage * MB + in_tile], thread, acc${ sums(kernel) });
//% if kernel.epilogue
            const Epilogue e = ${ inputs(kernel, product="product") };
//% endif
            store_c(${ "C" if kernel.problem.pointers else "C + product * s.stride_c" }, s, thread, acc${ sums(kernel) }, ${ "e" if kernel.epilogue else "alpha, beta" });
        }
        const int next = step + STAGES;
        if (next < BATCH_TILES) {
            __syncthreads();  // no thread reads the stage any more
            copy_a(${ A }, s, first + next * MB, &As[stage * MB]);
            copy_b(${ B }, s, first + next * MB, &Bs[stage * MB]);
        }
//% if view.asynchronous
        cp_async_commit();  // an empty group too: the wait counts groups
//% endif
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
}
